"""How releases differ in their checks of transactions, one field a difference.

Source: the releases themselves (3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1), KIP-890, KIP-1228.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from impl.settings import Settings


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TransactionRules(Settings):
    """A release's rules; the defaults are those of 4.3.1."""

    verifies: bool = True
    """A transaction's first batch needs a guard: 3.6 and later, unless
    transaction.partition.verification.enable is false."""

    ongoing_needs_epoch: bool = True
    """An open transaction only admits batches of its own epoch (4.0, KAFKA-18575)."""

    checks_epoch_before_guard: bool = True
    """The epoch is checked before the guard (KAFKA-19690; in 4.0.2 and 4.1.2)."""

    checks_epoch_at_begin: bool = True
    """The epoch is checked before verification begins (in 4.1.2, not in 4.0.2)."""

    marker_keeps_verification: bool = True
    """In V2 a marker keeps the verification of the epoch that it bumps to: the next transaction's
    first batch may arrive before the marker (4.0, KAFKA-18575)."""

    first_sequence_is_zero: bool = True
    """In V2 a producer without remembered batches starts with sequence 0 (4.1, KAFKA-18202)."""

    strict_marker_epoch: bool = True
    """A marker of transaction version 2 needs a greater epoch than the producer's (4.2, KIP-1228),
    or must be a retry: an equal epoch with no open transaction (KAFKA-19999)."""

    accepts_last_epoch: bool = True
    """... or the last epoch, which cannot be bumped (4.3, KAFKA-20090)."""


DEFAULT_RULES: Final = TransactionRules()

_BEFORE_4_3: Final = replace(DEFAULT_RULES, accepts_last_epoch=False)
_BEFORE_4_2: Final = replace(_BEFORE_4_3, strict_marker_epoch=False)
_BEFORE_4_1: Final = replace(_BEFORE_4_2, first_sequence_is_zero=False, checks_epoch_at_begin=False)
_BEFORE_4_0: Final = replace(
    _BEFORE_4_1,
    ongoing_needs_epoch=False,
    checks_epoch_before_guard=False,
    marker_keeps_verification=False,
)

RULES: Final[Mapping[str, TransactionRules]] = MappingProxyType(
    {
        "4.3": DEFAULT_RULES,
        "4.2": _BEFORE_4_3,
        "4.1": _BEFORE_4_2,
        "4.0": _BEFORE_4_1,
        "3.6": _BEFORE_4_0,
        "2.8": replace(_BEFORE_4_0, verifies=False),
    }
)
"""The rules of the last patch of each release that changed them."""
