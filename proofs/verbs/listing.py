"""`list`: the names that the other verbs take."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType
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


KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "scopes": "sizes of a model, for most verbs",
        "variants": "releases, and the rules that can be set by hand",
        "changes": "what releases did otherwise than the newest",
        "engines": "what can explore a scope",
        "guarantees": "what must hold in every state",
        "assumed_properties": "what users believe, and no release promises",
        "witnesses": "what must happen in some state",
        "mutants": "defects that shipped once, to plant",
        "risks": "what released Kafka does not promise",
        "theorems": "what `prove` proves for every size",
        "rules": "functions of the model, which coverage counts",
        "events": "what can happen in the model",
        "error_codes": "Kafka's errors that the model answers",
        "branches": "points inside of rules, for `witness`",
    }
)
"""The kinds of names, each with a description."""


def add_arguments(parser: argparse.ArgumentParser, kinds: Iterable[str] = KINDS) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "kind", nargs="?", metavar="KIND", help=f"{', '.join(kinds)}; without, how many of each"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the names as JSON")


def execute(arguments: argparse.Namespace) -> int:
    """Print the names of a kind, or how many names each kind has. Raises BadUse."""
    if arguments.kind is not None:
        one_of("KIND", arguments.kind, KINDS)
    return print_kinds(arguments, listing(), KINDS)


def print_kinds(
    arguments: argparse.Namespace, content: Kinds, descriptions: Mapping[str, str]
) -> int:
    """Print the names of one kind or, without one, the kinds with how many names each has. Returns
    0."""
    kind = arguments.kind
    if kind is not None:
        content = {kind: content[kind]}
        say(f"{kind}:")
        print_table(content[kind])
    else:
        print_table(
            [
                {"kind": name, "names": len(rows), "which are": descriptions[name]}
                for name, rows in content.items()
            ]
        )
        say("`kafka-eos list KIND` prints the names of a kind: `kafka-eos list scopes`")
    write_json(arguments.json, {"schema_version": 1, **content})
    return HOLDS


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows under the names of their columns."""
    if not rows:
        return
    lines = [tuple(rows[0]), *(tuple(map(written, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say(f"  {'  '.join(cells)}".rstrip())


def written(value: object) -> str:
    """Return a cell."""
    return "-" if value is None else str(value)


def listing() -> Kinds:
    """Return all names, by kind."""
    models = tuple(map(load_model, COMPOSITIONS))
    return {
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
        "branches": [
            {"name": point.name, "line": point.line, "says": point.says}
            for each in models
            for point in points(each).values()
            if "#" in point.name
        ],
    }


def first_line(thing: Any) -> str:
    """Return the first line of a docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]


def named(sentence: Any) -> dict[str, str]:
    """Return the row of a guarantee, an assumed property or a witness."""
    return {"name": sentence.name, "says": first_line(sentence.check)}


def rules(model: Model) -> Iterator[dict[str, str]]:
    """Yield the rules of a world."""
    for name, rule in model.rules.items():
        yield {"name": name, "says": first_line(rule)}


def scopes(model: Any) -> Iterator[dict[str, Any]]:
    """Yield scopes with their counts under the default variant."""
    for name, scope in model.scopes.SCOPES.items():
        counts = asdict(EXPECTED[name]) if name in EXPECTED else NOT_COUNTED
        yield {"name": name, **counts, "why": scope.why}


def variants(model: Model) -> Iterator[dict[str, str]]:
    """Yield releases, other names, and the rules that can be set by hand, each with its folder."""
    composition = model.files["world"].removesuffix("/world.py")
    for variant in model.variants.RELEASES.values():
        yield {"name": variant.name, "of": composition, "means": "a release"}
    for alias, text in model.variants.ALIASES.items():
        yield {"name": alias, "of": composition, "means": text}
    for rule, values in model.variants.RULES.items():
        means = " or ".join(value.name.lower() for value in values)
        yield {"name": rule, "of": composition, "means": means}


def changes(name: str) -> Iterator[dict[str, str]]:
    """Yield what releases did otherwise than the newest, with the source of this knowledge."""
    for change in CHANGES[name]:
        told = {"rule": f"{change.rule}={change.value}", "of": name, "until": change.until}
        yield {**told, "reference": change.reference, "observed": change.observed or "-"}


def risk_row(risk: Risk) -> dict[str, str]:
    """Return the row of a risk, with the releases that have it."""
    return {"name": risk.name, "releases": ", ".join(risk.releases()) or "-", "says": risk.happens}


def error_codes(models: Sequence[Model]) -> Iterator[dict[str, Any]]:
    """Yield Kafka's codes that some model answers, each once, in their order."""
    codes = {int(e): e.name for each in models for e in errors_of(each)}
    for code, name in sorted(codes.items()):
        yield {"name": name, "code": code}


def theorems() -> Iterator[dict[str, str]]:
    """Yield the theorems that `prove` proves; nothing if the solvers are not installed."""
    try:
        from proofs.prove.run.all_theorems import THEOREMS, part_of
    except ModuleNotFoundError:
        return
    for theorem in THEOREMS:
        part = ", ".join(part_of(theorem))
        says = f"{theorem.says} (Part of {part}.)" if part else theorem.says
        yield {"name": theorem.name, "says": says}
