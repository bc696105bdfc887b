"""The transaction index: the aborted transactions of a segment.

Three rules:

1. The bytes are Kafka's, 34 an entry, in the order of the markers.
2. An entry is in the segment of its ABORT marker, wherever the transaction began.
3. A file loads completely or not at all (`CorruptTransactionIndex`).

Theory of operation: version, producer id, first offset (of the transaction), last offset (of the
marker), last stable offset after the marker. No later entry begins before that last stable offset,
so a search for transactions that overlap a range ends at the first entry whose last stable offset
is at or after the range's end. Source: `TransactionIndex`, `AbortedTxn`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from impl.protocol.errors import DecodeError

INDEX_VERSION: Final = 0

_ENTRY: Final = Struct(">hqqqq")


class CorruptTransactionIndex(DecodeError):
    """A transaction index that cannot be loaded. `TransactionIndex.sanityCheck`."""

    advice = "delete the file and let the segment be recovered"


class AbortedTransaction(NamedTuple):
    """One aborted transaction; `last_offset` is that of its marker. `AbortedTxn`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transaction_index(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The file's bytes."""
    return b"".join(_ENTRY.pack(INDEX_VERSION, *entry) for entry in aborted)


def decode_transaction_index(data: bytes, base_offset: int = 0) -> list[AbortedTransaction]:
    """The entries of the index of the segment that begins at `base_offset`.

    Raises `CorruptTransactionIndex`.
    """
    if len(data) % _ENTRY.size:
        raise CorruptTransactionIndex(f"an entry has {_ENTRY.size} bytes", len(data))
    rows = list(_ENTRY.iter_unpack(data))
    for number, row in enumerate(rows):
        if row[0] > INDEX_VERSION:
            raise CorruptTransactionIndex(f"an entry has version {row[0]}", number * _ENTRY.size)
    entries = [AbortedTransaction._make(row[1:]) for row in rows]
    offsets = [base_offset - 1, *(entry.last_offset for entry in entries)]
    for number, (before, after) in enumerate(pairwise(offsets)):
        if before >= after:
            problem = f"last offset {after} follows {before}"
            raise CorruptTransactionIndex(problem, number * _ENTRY.size)
    return entries


def find_overlapping(
    aborted: Sequence[AbortedTransaction], fetch_offset: int, upper_bound: int
) -> list[AbortedTransaction]:
    """The entries (by last offset) that overlap `fetch_offset` ... `upper_bound` - 1.

    `TransactionIndex.collectAbortedTxns`.
    """
    found = []
    for entry in aborted[bisect_left(aborted, fetch_offset, key=_last_offset) :]:
        if entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            break
    return found


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset
