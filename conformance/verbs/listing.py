"""`list`: all names that verbs take: those of the model, and what there is to judge, by what, and
where."""

from __future__ import annotations

import argparse
from typing import Final

from conformance.backends import BACKENDS
from conformance.mutants import MUTANTS
from conformance.plan import SOURCES
from conformance.verbs.systems import SYSTEMS
from proofs.run import one_of
from proofs.verbs import listing

KINDS: Final = (*listing.KINDS, "systems", "sources", "backends", "planted_bugs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """As `list` of proofs, with more kinds."""
    listing.add_arguments(parser, KINDS)


def execute(options: argparse.Namespace) -> int:
    """Print all names, each kind under its heading. Raises BadUse."""
    if options.kind is not None:
        one_of("KIND", options.kind, KINDS)
    return listing.print_kinds(
        options, {**listing.listing(with_branches=options.branches), **own_kinds()}
    )


def names_of(kind: str) -> list[str]:
    """The names of one of KINDS."""
    kinds = {**listing.listing(with_branches=False), **own_kinds()}
    return [row["name"] for row in kinds[kind]]


def own_kinds() -> listing.Kinds:
    """What systems, and runs of them, have names for."""
    return {
        "systems": [{"name": name, "says": s.summary} for name, s in SYSTEMS.items()],
        "sources": [{"name": source} for source in SOURCES],
        "backends": [{"name": backend} for backend in BACKENDS],
        "planted_bugs": [{"name": m.name, "says": m.what} for m in MUTANTS.values()],
    }
