"""`list`: the names that the other verbs take."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from model.releases import CHANGES
from proofs.coverage.events import events_of
from proofs.coverage.points import errors_of, points
from proofs.explore.engines import ENGINES
from proofs.explore.expected import EXPECTED, Expected
from proofs.lift.source import COMPOSITIONS, Model, assumed_properties_of, load_model
from proofs.mutants.table import MUTANTS
from proofs.risks import Risk, risks
from proofs.run import HOLDS, one_of
from proofs.run.files import write_json
from proofs.say import say

Kinds = dict[str, list[dict[str, Any]]]
"""The names of each kind, as rows whose first column is the name."""

NOT_COUNTED = dict.fromkeys((field.name for field in fields(Expected)), None)


KINDS: Final = (
    "scopes",
    "variants",
    "changes",
    "engines",
    "guarantees",
    "assumed_properties",
    "witnesses",
    "mutants",
    "risks",
    "theorems",
    "rules",
    "events",
    "error_codes",
)


def add_arguments(parser: argparse.ArgumentParser, kinds: Sequence[str] = KINDS) -> None:
    """The verb's options."""
    parser.add_argument(
        "kind", nargs="?", metavar="KIND", help=f"one of {', '.join(kinds)} (default: all)"
    )
    parser.add_argument("--branches", action="store_true", help="points for `witness` too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the names as JSON")


def execute(arguments: argparse.Namespace) -> int:
    """Print all names, each kind under its heading. Raises BadUse."""
    if arguments.kind is not None:
        one_of("KIND", arguments.kind, KINDS)
    return print_kinds(arguments, listing(with_branches=arguments.branches))


def print_kinds(arguments: argparse.Namespace, content: Kinds) -> int:
    """Print the names of one kind, or of all; 0."""
    if arguments.kind is not None:
        content = {name: content[name] for name in (arguments.kind,)}
    for kind, rows in content.items():
        say(f"{kind}:")
        for row in rows:
            name, *rest = ("-" if value is None else str(value) for value in row.values())
            say(f"  {name:<28} {'  '.join(rest)}".rstrip())
    write_json(arguments.json, {"schema_version": 1, **content})
    return HOLDS


def listing(*, with_branches: bool) -> Kinds:
    """All names, by kind."""
    models = tuple(map(load_model, COMPOSITIONS))
    found: Kinds = {
        "scopes": [row for each in models for row in scopes(each)],
        "variants": [row for each in models for row in variants(each)],
        "changes": [row for each in CHANGES for row in changes(each)],
        "engines": [{"name": name} for name in ENGINES],
        "guarantees": [named(p) for each in models for p in each.guarantees.GUARANTEES],
        "assumed_properties": [named(b) for each in models for b in assumed_properties_of(each)],
        "witnesses": [named(w) for each in models for w in each.guarantees.WITNESSES],
        "mutants": [
            {"name": m.name, "kind": m.kind, "reference": m.reference, "property": m.property}
            for m in MUTANTS
        ],
        "risks": list(map(risk_row, risks().values())),
        "theorems": list(theorems()),
        "rules": [row for each in models for row in rules(each)],
        "events": [
            {"name": event.name, "rule": event.rule} for each in models for event in events_of(each)
        ],
        "error_codes": list(error_codes(models)),
    }
    if with_branches:
        found["branches"] = [
            {"name": point.name, "line": point.line, "says": point.says}
            for each in models
            for point in points(each).values()
            if "#" in point.name
        ]
    return found


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]


def named(sentence: Any) -> dict[str, str]:
    """A guarantee, a assumed property or a witness."""
    return {"name": sentence.name, "says": first_line(sentence.check)}


def rules(model: Model) -> Iterator[dict[str, str]]:
    """The rules of a world."""
    for name, rule in model.rules.items():
        yield {"name": name, "says": first_line(rule)}


def scopes(model: Any) -> Iterator[dict[str, Any]]:
    """Scopes with their counts under the default variant."""
    for name, scope in model.scopes.SCOPES.items():
        counts = asdict(EXPECTED[name]) if name in EXPECTED else NOT_COUNTED
        yield {"name": name, **counts, "why": scope.why}


def variants(model: Model) -> Iterator[dict[str, str]]:
    """Releases, other names, and the rules that can be set by hand, each with its folder."""
    composition = model.files["world"].removesuffix("/world.py")
    for variant in model.variants.RELEASES.values():
        yield {"name": variant.name, "of": composition, "means": "a release"}
    for alias, text in model.variants.ALIASES.items():
        yield {"name": alias, "of": composition, "means": text}
    for rule, values in model.variants.RULES.items():
        means = " or ".join(value.name.lower() for value in values)
        yield {"name": rule, "of": composition, "means": means}


def changes(name: str) -> Iterator[dict[str, str]]:
    """What releases did otherwise than the newest, with where it is known from."""
    for change in CHANGES[name]:
        told = {"rule": f"{change.rule}={change.value}", "of": name, "until": change.until}
        yield {**told, "reference": change.reference, "observed": change.observed or "-"}


def risk_row(risk: Risk) -> dict[str, str]:
    """What is not promised, with the releases that have it."""
    return {"name": risk.name, "releases": ", ".join(risk.releases()) or "-", "says": risk.happens}


def error_codes(models: Sequence[Model]) -> Iterator[dict[str, Any]]:
    """Kafka's codes that some model answers, each once, in their order."""
    codes = {int(e): e.name for each in models for e in errors_of(each)}
    for code, name in sorted(codes.items()):
        yield {"name": name, "code": code}


def theorems() -> Iterator[dict[str, str]]:
    """What `prove` proves; nothing where the solvers are not installed."""
    try:
        from proofs.prove.run.all_theorems import THEOREMS, part_of
    except ModuleNotFoundError:
        return
    for theorem in THEOREMS:
        part = ", ".join(part_of(theorem))
        says = f"{theorem.says} (Part of {part}.)" if part else theorem.says
        yield {"name": theorem.name, "says": says}
