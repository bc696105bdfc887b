"""`list`: what there is to judge, by what, and where."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from conformance.backends import BACKENDS
from conformance.mutants import MUTANTS
from conformance.plan import SOURCES
from conformance.verbs.systems import SYSTEMS
from model.idempotent.guarantees import GUARANTEES
from model.idempotent.scopes import SCOPES
from model.idempotent.variants import ALIASES, RELEASES, RULES
from proofs.say import say

Row = tuple[str, str]


def sections() -> dict[str, Iterable[Row]]:
    """What is listed: (name, what it is) under each heading."""
    values = {name: ", ".join(v.name.lower() for v in rule) for name, rule in RULES.items()}
    return {
        "systems": [(name, system.summary) for name, system in SYSTEMS.items()],
        "scopes": [(scope.name, scope.why) for scope in SCOPES.values()],
        "releases": [(release, variant.name) for release, variant in RELEASES.items()],
        "short names of variants": list(ALIASES.items()),
        "rules of variants (/RULE=VALUE)": list(values.items()),
        "guarantees": [(p.name, first_paragraph(p.check.__doc__)) for p in GUARANTEES],
        "traces from": [(source, "") for source in SOURCES],
        "backends": [(backend, "") for backend in BACKENDS],
        "bugs planted in impl": [(m.name, m.what) for m in MUTANTS.values()],
    }


def first_paragraph(doc: str | None) -> str:
    """The beginning of a docstring, on one line."""
    return " ".join((doc or "").partition("\n\n")[0].split())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing."""


def execute(options: argparse.Namespace) -> int:
    """Print all sections."""
    for heading, rows in sections().items():
        say(f"{heading}:")
        for name, what in rows:
            say(f"  {name:<32} {what}".rstrip())
        say()
    return 0
