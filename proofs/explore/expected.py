"""What each scope counts under the default variant. A changed number is a changed protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expected:
    """Distinct states, transitions (self-loops included), and depth from 0."""

    distinct: int
    transitions: int
    depth: int


EXPECTED: dict[str, Expected] = {
    "idempotent-tiny": Expected(1_352, 3_331, 21),
    "idempotent-default": Expected(10_484, 30_880, 27),
    "idempotent-small": Expected(103_293, 409_134, 39),
    "idempotent-medium": Expected(8_905_373, 42_334_034, 51),
    "idempotent-large": Expected(116_065_338, 620_507_492, 62),
    "idempotent-restart": Expected(203, 404, 17),
    "idempotent-wrap": Expected(450, 1_151, 15),
    "idempotent-wrap-across": Expected(450, 1_151, 15),
    "idempotent-failover": Expected(8_151, 24_022, 29),
    "idempotent-partitions": Expected(32_634, 109_200, 29),
}

BY_NAME_ONLY = frozenset({"idempotent-large"})
"""Scopes that are too long for `explore --all` and for the tests.

idempotent-large by the C engine, two workers on two shared cores: 141 seconds, 13,382 MiB.
"""
