"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`."""

from __future__ import annotations

from enum import IntEnum

from model.idempotent.configuration import (
    Acks,
    Expiry,
    FirstSequence,
    HeadTruncation,
    Idempotence,
    Recovery,
    RestartWindow,
    Retries,
    SequenceOrder,
    Validation,
    Variant,
)
from model.variant_syntax import Grammar, UnknownVariant, by_release, conversation, older

__all__ = ["ALIASES", "DEFAULT_VARIANT", "RELEASES", "RULES", "UnknownVariant", "parse"]

DEFAULT_VARIANT = "4.3.1/level=2/requests=v2"

DELIVERY: dict[str, str] = {
    "at-most-once": f"{DEFAULT_VARIANT}/retries=none/acks=none/idempotence=disabled",
    "at-least-once": f"{DEFAULT_VARIANT}/idempotence=disabled",
    "exactly-once": DEFAULT_VARIANT,
}
"""Three configurations of one producer, named after what each guarantees."""

ALIASES = {"v2": DEFAULT_VARIANT, "v1": "4.3.1/level=2/requests=v1", **DELIVERY}

NEWEST = Variant(name=DEFAULT_VARIANT, release="4.3.1", level=2, requests=2)


V4_2_1 = older(NEWEST, "4.2.1")
V4_1_2 = older(V4_2_1, "4.1.2")
V4_0_2 = older(V4_1_2, "4.0.2")
V3_9_2 = older(V4_0_2, "3.9.2", level=0, requests=1)
V3_3_2 = older(V3_9_2, "3.3.2")
V2_8_2 = older(V3_3_2, "2.8.2")
V2_4_1 = older(
    V2_8_2,
    "2.4.1",
    first_sequence=FirstSequence.UNKNOWN_PRODUCER_ID,
    recovery=Recovery.RESET_2_3,
)
V2_0_0 = older(
    V2_4_1,
    "2.0.0",
    head_truncation=HeadTruncation.EVICTS,
    recovery=Recovery.RESET_2_0,
    expiry=Expiry.QUEUED_ONLY,
)

SAID = conversation(1, 2)

RELEASES: dict[str, Variant] = by_release(
    SAID, (NEWEST, V4_2_1, V4_1_2, V4_0_2, V3_9_2, V3_3_2, V2_8_2, V2_4_1, V2_0_0)
)

RULES: dict[str, type[IntEnum]] = {
    "first_sequence": FirstSequence,
    "restart_window": RestartWindow,
    "head_truncation": HeadTruncation,
    "validation": Validation,
    "recovery": Recovery,
    "expiry": Expiry,
    "retries": Retries,
    "acks": Acks,
    "idempotence": Idempotence,
    "sequence_order": SequenceOrder,
}

GRAMMAR = Grammar(RELEASES, RULES, ALIASES, DEFAULT_VARIANT, SAID)


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    return GRAMMAR.parse(text)
