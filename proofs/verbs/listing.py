"""`list`: the names that the other verbs take."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proofs.explore.engines import ENGINES
from proofs.explore.expected import EXPECTED
from proofs.explore.goals import goals
from proofs.lift.build import lift
from proofs.lift.text import plain
from proofs.mutants.table import MUTANTS
from proofs.say import say
from proofs.trace.replay import setting_of
from proofs.verbs import HOLDS
from proofs.verbs.output import pretty, write_whole

GOAL_SCOPES = ("idempotent-default", "idempotent-failover")
"""Scopes whose rules, between them, are all rules."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument("--branches", action="store_true", help="branches for `witness` too")
    parser.add_argument("--json", type=Path, metavar="FILE")


def run(arguments: argparse.Namespace) -> int:
    """Print all names, each kind under its heading."""
    content = listing(with_branches=arguments.branches)
    for kind, rows in content.items():
        say(f"{kind}:")
        for row in rows:
            name, *rest = (str(value) for value in row.values())
            say(f"  {name:<28} {'  '.join(rest)}".rstrip())
    if arguments.json:
        write_whole(arguments.json, pretty({"schema_version": 1, **content}))
    return HOLDS


def listing(*, with_branches: bool) -> dict[str, list[dict[str, Any]]]:
    """All names, by kind."""
    model = plain()
    found: dict[str, list[dict[str, Any]]] = {
        "scopes": list(scopes(model)),
        "variants": list(variants(model)),
        "engines": [{"name": name} for name in ENGINES],
        "promises": [named(promise) for promise in model.promises.PROMISES],
        "witnesses": [named(witness) for witness in model.promises.WITNESSES],
        "mutants": [
            {"name": m.name, "kind": m.kind, "reference": m.reference, "property": m.property}
            for m in MUTANTS
        ],
        "theorems": list(theorems()),
        "rules": [{"name": name, "says": first_line(rule)} for name, rule in model.rules.items()],
        "error_codes": [{"name": error.name, "code": int(error)} for error in model.messages.Error],
    }
    if with_branches:
        found["branches"] = [{"name": name} for name in branches(model)]
    return found


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]


def named(sentence: Any) -> dict[str, str]:
    """A promise or a witness."""
    return {"name": sentence.name, "says": first_line(sentence.check)}


def scopes(model: Any) -> Iterator[dict[str, Any]]:
    """Scopes with their counts under the default variant."""
    for name, scope in model.scopes.SCOPES.items():
        counts = EXPECTED[name]
        yield {
            "name": name,
            "distinct": counts.distinct,
            "transitions": counts.transitions,
            "depth": counts.depth,
            "why": scope.why,
        }


def variants(model: Any) -> Iterator[dict[str, str]]:
    """Releases, aliases, and the rules that can be set by hand."""
    for variant in model.variants.RELEASES.values():
        yield {"name": variant.name, "means": "a release"}
    for alias, text in model.variants.ALIASES.items():
        yield {"name": alias, "means": text}
    for rule, values in model.variants.RULES.items():
        yield {"name": rule, "means": " or ".join(value.name.lower() for value in values)}


def theorems() -> Iterator[dict[str, str]]:
    """What `prove` proves; nothing where the solvers are not installed."""
    try:
        from proofs.prove.theorems import THEOREMS
    except ModuleNotFoundError:
        return
    for theorem in THEOREMS:
        yield {"name": theorem.name, "says": theorem.says}


def branches(model: Any) -> list[str]:
    """All branches of the model that some scope's rules have."""
    found: dict[str, None] = {}
    for scope in GOAL_SCOPES:
        k = setting_of(model, scope, "4.3.1")
        lifted = lift(model, k, scope, promises=False)
        found.update(dict.fromkeys(name for name in goals(model, k, lifted) if "#" in name))
    return sorted(found)
