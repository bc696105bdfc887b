"""Filters the batches that a read_committed consumer fetched.

Three rules:

1. Control batches are never delivered, but the position moves past them.
2. An aborted transaction is skipped from its first batch to its ABORT marker.
3. COMMIT markers change nothing: only aborted transactions are skipped.

Theory of operation: the answer lists aborted transactions by producer id and first offset. Each is
activated when the batches reach its first offset, and deactivated by its ABORT marker.
Source: `CompletedFetch.nextFetchedRecord`, `containsAbortMarker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop
from typing import Protocol, TypeVar

from impl.protocol.control_records import ControlType, control_type
from impl.protocol.record_batch import Record


class Batch(Protocol):
    """What decides about a batch: its header, and its records only if they may end an abort."""

    @property
    def base_offset(self) -> int:
        """For errors."""

    @property
    def last_offset(self) -> int:
        """Of its last record."""

    @property
    def producer_id(self) -> int:
        """-1 without one."""

    @property
    def is_transactional(self) -> bool:
        """Bit 4 of the attributes."""

    @property
    def is_control(self) -> bool:
        """Bit 5 of the attributes."""

    @property
    def records(self) -> Sequence[Record]:
        """Decoded. Raises `InvalidRecord`."""


BatchT = TypeVar("BatchT", bound=Batch)


def committed_batches(
    batches: Iterable[BatchT], aborted_transactions: Iterable[tuple[int, int]]
) -> Iterator[BatchT]:
    """The batches to deliver; the next position is after the last fetched batch.

    `aborted_transactions` has (producer id, first offset), in any order. The caller skips records
    before the requested offset. Raises `InvalidRecord`.
    """
    ahead = [(first_offset, producer_id) for producer_id, first_offset in aborted_transactions]
    heapify(ahead)
    aborted: set[int] = set()
    for batch in batches:
        while ahead and ahead[0][0] <= batch.last_offset:
            aborted.add(heappop(ahead)[1])
        if aborted and batch.producer_id in aborted:
            if _is_abort_marker(batch):
                aborted.discard(batch.producer_id)
            elif batch.is_transactional:
                continue
        if not batch.is_control:
            yield batch


def _is_abort_marker(batch: Batch) -> bool:
    if not batch.is_control or not batch.records:
        return False
    return control_type(batch.records[0], batch.base_offset) == ControlType.ABORT
