"""The counts of each scope under the default variant. A changed number is a changed protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expected:
    """The counts of a scope: distinct states, transitions (self-loops included), and depth from
    0."""

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
    "idempotent-wrap": Expected(493, 1_221, 16),
    "idempotent-wrap-across": Expected(493, 1_221, 16),
    "idempotent-failover": Expected(8_151, 24_022, 29),
    "idempotent-partitions": Expected(32_634, 109_200, 29),
    "idempotent-partitions-replicas": Expected(1_818, 4_950, 23),
    "idempotent-expiry": Expected(173, 304, 16),
    "idempotent-deletion": Expected(3_926, 13_103, 22),
    "idempotent-crash": Expected(1_489, 5_154, 25),
    "idempotent-loss": Expected(554, 1_586, 17),
    "idempotent-late-error": Expected(379, 829, 15),
    "idempotent-rejection": Expected(4_301, 8_810, 21),
    "idempotent-timeout": Expected(26_912, 71_576, 25),
    "idempotent-split": Expected(5_269, 14_830, 30),
    "idempotent-exhaustion": Expected(2_129, 5_429, 30),
    "idempotent-too-large": Expected(90, 135, 12),
    "idempotent-unresolved": Expected(3_692, 7_938, 19),
    "idempotent-forgotten": Expected(970, 1_838, 22),
    "idempotent-forgotten-split": Expected(3_534, 6_827, 29),
    "idempotent-five-in-flight": Expected(1_314, 2_909, 24),
    "idempotent-five-forgotten": Expected(1_160, 1_718, 28),
    "idempotent-six-in-flight": Expected(1_510, 3_316, 25),
    "idempotent-producers": Expected(111, 232, 8),
    "idempotent-shared-id": Expected(103, 220, 8),
    "idempotent-trouble": Expected(10_792, 43_067, 19),
    "idempotent-replicas": Expected(94_653, 487_571, 27),
    "idempotent-exhausted": Expected(8_921, 40_164, 30),
    "idempotent-unlucky": Expected(110_064, 296_076, 30),
    "delivery": Expected(475, 1_043, 18),
    "delivery-one-in-flight": Expected(141, 267, 12),
    "producer-ids": Expected(2_584, 6_604, 15),
    "producer-ids-alone": Expected(472, 744, 20),
    "transactions-tiny": Expected(184, 262, 12),
    "transactions-default": Expected(11_228, 27_421, 22),
    "transactions-small": Expected(374_972, 1_091_816, 26),
    "transactions-medium": Expected(9_284_346, 32_896_260, 29),
    "transactions-large": Expected(143_992_855, 536_860_198, 31),
    "transactions-exhausted": Expected(283_735, 820_332, 22),
    "transactions-forgotten": Expected(425_519, 1_194_895, 22),
    "transactions-log": Expected(708_272, 2_321_771, 34),
    "transactions-markers": Expected(76_311, 217_319, 25),
    "transactions-late-marker": Expected(1_702, 3_259, 19),
    "transactions-late-batch": Expected(208_634, 566_430, 22),
    "transactions-late-writes": Expected(2_604, 4_800, 20),
    "transactions-guards": Expected(85_703, 236_187, 22),
    "transactions-offsets": Expected(63_350, 154_693, 24),
    "transactions-readers": Expected(76_539, 194_716, 20),
    "transactions-writes": Expected(4_839, 13_545, 18),
    "transactions-window": Expected(680, 1_158, 20),
    "transactions-adopted": Expected(7_432, 20_569, 20),
    "transactions-guards-partitions": Expected(603, 1_097, 14),
    "transactions-offsets-log": Expected(3_360, 7_999, 20),
    "transactions-log-again": Expected(214, 356, 23),
    "transactions-two-errors": Expected(2_838, 5_880, 14),
    "transactions-offsets-again": Expected(4_512, 9_073, 18),
    "transactions-two-expirations": Expected(1_877, 3_716, 14),
    "transactions-moves": Expected(61_447, 199_659, 26),
    "transactions-leaderless": Expected(7_040, 17_714, 22),
    "transactions-in-flight": Expected(692, 1_252, 13),
    "transactions-in-flight-again": Expected(2_822, 5_828, 21),
    "transactions-in-flight-moves": Expected(729, 1_792, 16),
    "transactions-in-flight-leaves": Expected(124, 204, 12),
    "transactions-in-flight-three": Expected(344, 624, 15),
    "transactions-rejection": Expected(584, 893, 15),
    "transactions-in-flight-rejection": Expected(6_281, 12_510, 22),
    "transactions-in-flight-partitions": Expected(4_417, 9_808, 16),
    "transactions-in-flight-offsets": Expected(476, 683, 16),
    "transactions-others": Expected(7_138, 15_509, 18),
    "transactions-between": Expected(2_499, 4_831, 14),
    "transactions-trouble": Expected(130, 193, 11),
    "transactions-trouble-log": Expected(313, 670, 17),
    "processing": Expected(38_842, 94_590, 26),
    "processing-three": Expected(108_286, 350_538, 23),
}

BY_NAME_ONLY = frozenset({"idempotent-large", "transactions-medium", "transactions-large"})
"""Scopes that take too long for `explore --all` and for the tests.

idempotent-large by the C engine, one worker, on a busy machine: 105 seconds of processor time,
2,339 MiB.
"""
