"""What a consumer sees of the batches that it fetched.

1. Control batches are never seen; they, and what was aborted, still move the position.
2. An aborted transaction begins at its first offset and ends at its ABORT marker; what the same
   producer writes behind that is another transaction.
3. Records before the offset that was asked for come along in a batch, and are not seen either.

Theory of operation: the answer to a read_committed Fetch lists the aborted transactions that touch
it. A heap of their first offsets and a set of the producers that are aborted at this point decide
each batch. Source: `CompletedFetch.consumedOffset`, `containsAbortMarker` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from typing import NamedTuple

from impl.protocol.control_records import ControlType, control_type
from impl.protocol.record_batch import (
    HEADER_BYTES,
    Header,
    Record,
    RecordBatch,
    decode_batch,
    read_header,
)


class AbortedTransaction(NamedTuple):
    """A row of the Fetch answer."""

    first_offset: int
    producer_id: int


class Seen(NamedTuple):
    """The records that are seen, with their offsets, and the offset to fetch next."""

    records: list[tuple[int, Record]]
    next_offset: int


def seen(data: bytes, fetch_offset: int, aborted: Iterable[AbortedTransaction]) -> Seen:
    """What is seen of fetched bytes; `aborted` is empty for read_uncommitted.

    Raises `DecodeError`.
    """
    heap = list(aborted)
    heapify(heap)
    aborted_now: set[int] = set()
    records: list[tuple[int, Record]] = []
    next_offset = fetch_offset
    for batch in _whole_batches(data):
        while heap and heap[0].first_offset <= batch.last_offset:
            aborted_now.add(heappop(heap).producer_id)
        if batch.is_control:
            if _is_abort(batch):
                aborted_now.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted_now):
            records.extend(_records_from(batch, fetch_offset))
        next_offset = max(next_offset, batch.last_offset + 1)
    return Seen(records, next_offset)


def _whole_batches(data: bytes) -> Iterator[RecordBatch]:
    """What was fetched may end inside a batch."""
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        if at + header.size_bytes > len(data):
            return
        yield decode_batch(data, at)
        at += header.size_bytes


def _is_abort(batch: RecordBatch) -> bool:
    return bool(batch.records) and control_type(batch.records[0]) == ControlType.ABORT


def _records_from(batch: RecordBatch, fetch_offset: int) -> Iterable[tuple[int, Record]]:
    for record in batch.records:
        offset = batch.base_offset + record.offset_delta
        if offset >= fetch_offset:
            yield offset, record


class ConsumerRecord(NamedTuple):
    """One record as the application gets it; the timestamp in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
