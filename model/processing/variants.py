"""Variants by name: `RELEASE[/RULE=VALUE...]`."""

from __future__ import annotations

from model.processing.configuration import Variant
from model.variant_syntax import Grammar, UnknownVariant

__all__ = ["ALIASES", "RELEASES", "RULES", "UnknownVariant", "parse"]

GRAMMAR = Grammar("processing", Variant)
RELEASES, RULES, ALIASES = GRAMMAR.releases, GRAMMAR.rules, GRAMMAR.aliases


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    return GRAMMAR.parse(text)
