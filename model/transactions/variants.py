"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`."""

from __future__ import annotations

from enum import IntEnum

from model.transactions.configuration import (
    Bump,
    Fence,
    FirstSequence,
    GroupMemory,
    IdMemory,
    LateBump,
    LeaderlessMarker,
    MarkerEpoch,
    OlderEpoch,
    Ongoing,
    Pending,
    PreviousId,
    Requests,
    Rotation,
    Variant,
    Verification,
)
from model.variant_syntax import Grammar, UnknownVariant, by_release, conversation, older

__all__ = ["ALIASES", "DEFAULT_VARIANT", "RELEASES", "RULES", "UnknownVariant", "parse"]

DEFAULT_VARIANT = "4.3.1/level=2/requests=v2"
ALIASES = {"v2": DEFAULT_VARIANT, "v1": "4.3.1/level=2/requests=v1"}

NEWEST = Variant(name=DEFAULT_VARIANT, release="4.3.1", level=2, requests=Requests.V2)


V4_2_1 = older(
    NEWEST,
    "4.2.1",
    rotation=Rotation.CLIENTS,
    id_memory=IdMemory.IN_MEMORY,
    leaderless_marker=LeaderlessMarker.WAITS,
)
V4_1_2 = older(V4_2_1, "4.1.2", marker_epoch=MarkerEpoch.NOT_OLDER)
V4_0_2 = older(
    V4_1_2,
    "4.0.2",
    first_sequence=FirstSequence.ANY,
    older_epoch=OlderEpoch.ASKED,
    previous_id=PreviousId.KEPT,
)
V3_9_2 = older(
    V4_0_2,
    "3.9.2",
    level=0,
    requests=Requests.V1,
    pending=Pending.AFTER_PRODUCER,
    ongoing=Ongoing.OF_PRODUCER_ID,
)
V3_3_2 = older(V3_9_2, "3.3.2", verification=Verification.NONE)

SAID = conversation(Requests.V1, Requests.V2)

RELEASES: dict[str, Variant] = by_release(SAID, (NEWEST, V4_2_1, V4_1_2, V4_0_2, V3_9_2, V3_3_2))

RULES: dict[str, type[IntEnum]] = {
    "verification": Verification,
    "older_epoch": OlderEpoch,
    "ongoing": Ongoing,
    "marker_epoch": MarkerEpoch,
    "first_sequence": FirstSequence,
    "fence": Fence,
    "pending": Pending,
    "rotation": Rotation,
    "id_memory": IdMemory,
    "previous_id": PreviousId,
    "bump": Bump,
    "late_bump": LateBump,
    "group_memory": GroupMemory,
    "leaderless_marker": LeaderlessMarker,
}

GRAMMAR = Grammar(RELEASES, RULES, ALIASES, DEFAULT_VARIANT, SAID)


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    variant = GRAMMAR.parse(text)
    if variant.level == 0 and variant.requests == Requests.V2:
        raise UnknownVariant(
            f"{text!r}: at level 0 the log cannot hold what requests of V2 begin; choose level 1"
            " or 2, or requests=v1"
        )
    return variant
