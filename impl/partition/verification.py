"""Verification entries: a leader's memory of the question whether a batch has its transaction.

Three rules:

1. A producer has one entry at most. It lives until its transaction has a batch or a marker here, or
   until it is too old; it is never written down and never replicated.
2. Its guard is a number that is used once: who asked before a marker came has another guard than
   who asked after it (KAFKA-14884).
3. It keeps the lowest sequence of the epoch, so that no later batch overtakes one that is asked for
   again (KAFKA-14359).

Source: `VerificationStateEntry`, `VerificationGuard`; KIP-890.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.protocol.errors import ErrorCode

NO_GUARD: Final = 0
"""The guard that verifies nothing. `VerificationGuard.SENTINEL`."""


class VerificationEntry(NamedTuple):
    """One producer's. `supports_epoch_bump`: its requests are V2."""

    created_ms: int
    guard: int
    lowest_sequence: int
    producer_epoch: int
    supports_epoch_bump: bool


class BegunVerification(NamedTuple):
    """What `begin_verification` answers; `guard` is NO_GUARD where nothing is to be verified."""

    error: ErrorCode
    guard: int = NO_GUARD


def with_attempt(
    entry: VerificationEntry, base_sequence: int, producer_epoch: int
) -> VerificationEntry:
    """The entry after one more batch asked. `maybeUpdateLowestSequenceAndEpoch`."""
    if producer_epoch > entry.producer_epoch:
        return entry._replace(producer_epoch=producer_epoch, lowest_sequence=base_sequence)
    if producer_epoch == entry.producer_epoch and base_sequence < entry.lowest_sequence:
        return entry._replace(lowest_sequence=base_sequence)
    return entry


def is_verified(entry: VerificationEntry | None, guard: int) -> bool:
    """Whether this guard is the one that was given out. `VerificationGuard.verify`."""
    return entry is not None and entry.guard == guard
