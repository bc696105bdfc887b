"""`list`: all names that verbs take: the model's, and those of systems, criteria and places."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from conformance.backends.by_name import BACKENDS
from conformance.campaigns.mutants import MUTANTS
from conformance.judging.plan import SOURCES
from conformance.verbs.systems import SYSTEMS
from proofs.run import one_of
from proofs.verbs import listing

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **listing.KINDS,
        "systems": "what `run` judges",
        "sources": "where the traces of a run come from",
        "backends": "what plays traces",
        "planted_bugs": "bugs of `impl`, which `mutants` plants",
    }
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `list` of proofs, with more kinds."""
    listing.add_arguments(parser, KINDS)


def execute(options: argparse.Namespace) -> int:
    """Print the names of a kind, or the number of names of each kind. Raises BadUse."""
    if options.kind is not None:
        one_of("KIND", options.kind, KINDS)
    return listing.print_kinds(options, {**listing.listing(), **own_kinds()}, KINDS)


def names_of(kind: str) -> list[str]:
    """The names of one of KINDS."""
    kinds = {**listing.listing(), **own_kinds()}
    return [next(iter(row.values())) for row in kinds[kind]]


def own_kinds() -> listing.Kinds:
    """The kinds of names that belong to systems and their runs."""
    return {
        "systems": [{"name": name, "says": s.summary} for name, s in SYSTEMS.items()],
        "sources": [{"name": source} for source in SOURCES],
        "backends": [{"name": backend} for backend in BACKENDS],
        "planted_bugs": [{"name": m.name, "says": m.what} for m in MUTANTS.values()],
    }
