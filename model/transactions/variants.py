"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`."""

from __future__ import annotations

from model.releases import Requests
from model.transactions.configuration import Variant
from model.variant_syntax import Grammar, UnknownVariant

__all__ = ["ALIASES", "RELEASES", "RULES", "UnknownVariant", "parse"]

GRAMMAR = Grammar("transactions", Variant)
RELEASES, RULES, ALIASES = GRAMMAR.releases, GRAMMAR.rules, GRAMMAR.aliases


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    variant = GRAMMAR.parse(text)
    if variant.level == 0 and variant.requests == Requests.V2:
        raise UnknownVariant(
            f"{text!r}: at level 0 the log cannot hold what requests of V2 begin; choose level 1"
            " or 2, or requests=v1"
        )
    return variant
