"""Variants by name: `RELEASE[/RULE=VALUE...]`."""

from __future__ import annotations

from model.producer_ids.configuration import Variant
from model.variant_syntax import Grammar, UnknownVariant

__all__ = ["ALIASES", "RELEASES", "RULES", "UnknownVariant", "parse"]

GRAMMAR = Grammar("producer_ids", Variant)
RELEASES, RULES, ALIASES = GRAMMAR.releases, GRAMMAR.rules, GRAMMAR.aliases


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    return GRAMMAR.parse(text)
