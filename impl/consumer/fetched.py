"""Fetched bytes as the records that a consumer sees.

1. What is not delivered, markers and what was aborted, still moves the position.
2. What was fetched may begin before the offset that was asked for, and may end inside a batch.
3. Where the broker's time counts, all records of a batch have that of their batch.

Which batches are delivered is decided in `impl.partition.consuming`.
Source: `CompletedFetch`, `DefaultRecord.readFrom` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from impl.partition.consuming import committed_batches
from impl.protocol.record_batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Header,
    Record,
    RecordBatch,
    decode_batch,
    read_header,
)


class ConsumerRecord(NamedTuple):
    """One record as the application gets it; the timestamp in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Seen(NamedTuple):
    """The records that are seen, with their offsets, and the offset to fetch next."""

    records: list[tuple[int, Record]]
    next_offset: int


def seen(data: bytes, fetch_offset: int, aborted: Iterable[tuple[int, int]]) -> Seen:
    """What is seen of fetched bytes.

    `aborted` has (producer id, first offset) of the aborted transactions that the answer names; it
    is empty for read_uncommitted. Raises `DecodeError`.
    """
    batches = list(_whole_batches(data))
    records = [
        (offset, record)
        for batch in committed_batches(batches, aborted)
        for offset, record in _with_offsets(batch)
        if offset >= fetch_offset
    ]
    end_offset = batches[-1].last_offset + 1 if batches else fetch_offset
    return Seen(records, max(fetch_offset, end_offset))


def _whole_batches(data: bytes) -> Iterator[RecordBatch]:
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        if at + header.size_bytes > len(data):
            return
        yield decode_batch(data, at)
        at += header.size_bytes


def _with_offsets(batch: RecordBatch) -> Iterator[tuple[int, Record]]:
    is_log_append_time = batch.attributes & LOG_APPEND_TIME
    for record in batch.records:
        seen_as = record._replace(timestamp=batch.max_timestamp) if is_log_append_time else record
        yield batch.base_offset + record.offset_delta, seen_as
