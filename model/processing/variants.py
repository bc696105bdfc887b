"""Variants by name: `RELEASE[/RULE=VALUE...]`."""

from __future__ import annotations

from enum import IntEnum

from model.processing.configuration import (
    GenerationCheck,
    OffsetReads,
    Processing,
    TransactionalIds,
    Variant,
)
from model.variant_syntax import Grammar, UnknownVariant, by_release, older

__all__ = ["ALIASES", "DEFAULT_VARIANT", "RELEASES", "RULES", "UnknownVariant", "parse"]

DEFAULT_VARIANT = "4.3.1"

NEWEST = Variant(name=DEFAULT_VARIANT, release="4.3.1")
V2_4_1 = older(
    NEWEST,
    "2.4.1",
    transactional_ids=TransactionalIds.OF_PARTITION,
    generation_check=GenerationCheck.ABSENT,
    offset_reads=OffsetReads.UNSTABLE,
)

RELEASES: dict[str, Variant] = by_release({}, (NEWEST, V2_4_1))

ALIASES: dict[str, str] = {"4.3.1/level=2/requests=v2": DEFAULT_VARIANT}

RULES: dict[str, type[IntEnum]] = {
    "processing": Processing,
    "transactional_ids": TransactionalIds,
    "generation_check": GenerationCheck,
    "offset_reads": OffsetReads,
}

GRAMMAR = Grammar(RELEASES, RULES, ALIASES, DEFAULT_VARIANT)


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    return GRAMMAR.parse(text)
