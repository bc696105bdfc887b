"""Which of two sequences is the later one, also across the wrap from 2147483647 to 0.

1. Sequences are compared as serial numbers (RFC 1982): the later one is less than half the range
   ahead of the other.
2. NO_SEQUENCE comes before every sequence.

Kafka's client compares the raw integers where batches are queued for a retry and where the last
acknowledged sequence is kept. Until the wrap that is the same; across it batches that wait for a
retry would change places and block each other until they expire, and the last acknowledged
sequence would stay at its maximum for ever. This client departs from Kafka's here, and only here.
"""

from __future__ import annotations

from typing import Final

from impl.protocol.record_batch import NO_SEQUENCE, decrement_sequence

_HALF: Final = 1 << 30


def precedes(sequence: int, other: int) -> bool:
    """Whether `sequence` comes before `other`; neither is NO_SEQUENCE."""
    return sequence != other and decrement_sequence(other, sequence) < _HALF


def later_sequence(sequence: int, other: int) -> int:
    """The later one of two, of which the first may be NO_SEQUENCE."""
    return other if sequence == NO_SEQUENCE or precedes(sequence, other) else sequence
