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

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop

from impl.protocol.control_records import ControlType, control_type
from impl.protocol.record_batch import NO_PRODUCER_ID, RecordBatch


def committed_batches(
    batches: Iterable[RecordBatch], aborted_transactions: Iterable[tuple[int, int]]
) -> Iterator[RecordBatch]:
    """The batches to deliver; the next position is after the last fetched batch.

    `aborted_transactions` has (producer id, first offset), in any order. The caller skips records
    before the requested offset. Raises `InvalidRecord`.
    """
    ahead = [(first_offset, producer_id) for producer_id, first_offset in aborted_transactions]
    heapify(ahead)
    aborted: set[int] = set()
    for batch in batches:
        if batch.producer_id > NO_PRODUCER_ID:
            while ahead and ahead[0][0] <= batch.last_offset:
                aborted.add(heappop(ahead)[1])
            if _is_abort_marker(batch):
                aborted.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in aborted:
                continue
        if not batch.is_control:
            yield batch


def _is_abort_marker(batch: RecordBatch) -> bool:
    if not batch.is_control or not batch.records:
        return False
    return control_type(batch.records[0], batch.base_offset) == ControlType.ABORT
