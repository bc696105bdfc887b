"""Decodes fetched bytes into the records that a consumer delivers.

1. Records that are not delivered, markers and aborted ones, still move the position.
2. Fetched bytes may begin before the requested offset. They may end inside a batch, even inside its
   header: a broker cuts them by size alone.
3. With LogAppendTime all records of a batch have the batch's timestamp.

`impl.partition.consuming` filters aborted batches.
Source: `CompletedFetch`, `DefaultRecord.readFrom` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from impl.partition.consuming import committed_batches
from impl.protocol.record_batch import (
    LOG_APPEND_TIME,
    Header,
    Record,
    RecordBatch,
    decode_whole_batches,
)


class ConsumerRecord(NamedTuple):
    """A delivered record; the timestamp in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class FetchedRecords(NamedTuple):
    """The records to deliver, with their offsets, and the offset to fetch next."""

    records: list[tuple[int, Record]]
    next_offset: int


def decode_records(
    data: bytes, fetch_offset: int, aborted: Iterable[tuple[int, int]]
) -> FetchedRecords:
    """The records to deliver from fetched bytes.

    `aborted` has (producer id, first offset) of the answer's aborted transactions; it is empty for
    read_uncommitted. Raises `DecodeError`.
    """
    batches = list(decode_whole_batches(data))
    records = [
        (offset, record)
        for batch in committed_batches(batches, aborted)
        for offset, record in _with_offsets(batch)
        if offset >= fetch_offset
    ]
    end_offset = batches[-1].last_offset + 1 if batches else fetch_offset
    return FetchedRecords(records, max(fetch_offset, end_offset))


def _with_offsets(batch: RecordBatch) -> Iterator[tuple[int, Record]]:
    is_log_append_time = batch.attributes & LOG_APPEND_TIME
    for record in batch.records:
        if is_log_append_time:
            record = record._replace(timestamp=batch.max_timestamp)
        yield batch.base_offset + record.offset_delta, record
