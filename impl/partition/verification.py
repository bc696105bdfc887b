"""Verification entries: a leader remembers which batches wait for their transaction's coordinator.

Three rules:

1. A producer has at most one entry. It lives until its transaction has a batch or a marker in the
   partition, or until it expires; it is neither persisted nor replicated.
2. Its guard is a number that is used once: a verification that began before a marker cannot admit a
   batch after it (KAFKA-14884).
3. It keeps the lowest sequence of the epoch, so that no later batch overtakes one that is verified
   again (KAFKA-14359).

Source: `VerificationStateEntry`, `VerificationGuard`; KIP-890.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.protocol.errors import ErrorCode

NO_GUARD: Final = 0
"""The guard that verifies nothing. `VerificationGuard.SENTINEL`."""


class VerificationEntry(NamedTuple):
    """One producer's entry. `supports_epoch_bump`: its requests are V2."""

    created_ms: int
    guard: int
    lowest_sequence: int
    producer_epoch: int
    supports_epoch_bump: bool


class VerificationStart(NamedTuple):
    """The result of `begin_verification`; `guard` is NO_GUARD if no verification is needed."""

    error: ErrorCode
    guard: int = NO_GUARD


def update_lowest_sequence(
    entry: VerificationEntry, base_sequence: int, producer_epoch: int
) -> VerificationEntry:
    """The entry after a batch with this sequence and epoch. `maybeUpdateLowestSequenceAndEpoch`."""
    if producer_epoch > entry.producer_epoch:
        return entry._replace(producer_epoch=producer_epoch, lowest_sequence=base_sequence)
    if producer_epoch == entry.producer_epoch and base_sequence < entry.lowest_sequence:
        return entry._replace(lowest_sequence=base_sequence)
    return entry


def is_verified(entry: VerificationEntry | None, guard: int) -> bool:
    """Whether this is the entry's guard. `VerificationGuard.verify`."""
    return entry is not None and entry.guard == guard
