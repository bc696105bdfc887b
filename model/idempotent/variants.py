"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`."""

from __future__ import annotations

from model.idempotent.configuration import Variant
from model.releases import NEWEST
from model.variant_syntax import Grammar, UnknownVariant

__all__ = ["ALIASES", "DEFAULT_VARIANT", "RELEASES", "RULES", "UnknownVariant", "parse"]

GRAMMAR = Grammar(
    "idempotent",
    Variant,
    {
        "at-most-once": f"{NEWEST}/retries=none/acks=none/idempotence=disabled",
        "at-least-once": f"{NEWEST}/idempotence=disabled",
        "exactly-once": NEWEST,
    },
)
"""The grammar. Three of its names stand for delivery guarantees, each with the producer's
configuration that gives it."""

DEFAULT_VARIANT = GRAMMAR.default
RELEASES, RULES, ALIASES = GRAMMAR.releases, GRAMMAR.rules, GRAMMAR.aliases


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    return GRAMMAR.parse(text)
