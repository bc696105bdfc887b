"""What a read_committed consumer makes of the batches that it fetched.

Three rules:

1. Control batches are never delivered, but the position moves past them.
2. A transaction is left out from its first batch here to its ABORT marker.
3. A COMMIT marker changes nothing: what is not aborted was never left out.

Theory of operation: the answer names aborted transactions by producer id and first offset. They are
taken up in that order as the batches pass them; a producer is aborted until its ABORT marker comes.
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
    """The batches to deliver; the position is then behind the last batch that was fetched.

    `aborted_transactions` has (producer id, first offset), in any order. What lies before the
    offset that was asked for is the caller's to skip. Raises `InvalidRecord`.
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
