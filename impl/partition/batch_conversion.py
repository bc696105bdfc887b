"""Batches that a broker writes anew: with some of their records (`cleaner`), or with the topic's
codec.

Source: `LogValidator.buildRecordsAndAssignOffsets`.
"""

from __future__ import annotations

from collections.abc import Sequence

from impl.protocol.record_batch import (
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    assemble_batch,
    encode_record,
    scan_records,
)
from impl.protocol.records import RawRecord


def encode_raw_record(offset_delta: int, timestamp_delta: int, row: RawRecord) -> bytes:
    """A record with other deltas. As in Kafka, what is no UTF-8 in header keys is replaced."""
    _, _, key, value, headers = row
    names = [(name.decode(errors="replace"), content) for name, content in headers]
    return encode_record(offset_delta, timestamp_delta, key, value, names)


def timestamps_of(header: BatchHeader, rows: Sequence[RawRecord]) -> list[int]:
    """The times of a batch's records as a consumer sees them."""
    if header.attributes & LOG_APPEND_TIME:
        return [header.max_timestamp] * len(rows)
    return [timestamp for _, timestamp, *_ in rows]


def convert_batch(data: bytes, header: BatchHeader, codec: int, level: int | None) -> bytes:
    """A client's batch with another codec; its records count from 0, its times are CreateTime.

    Raises `InvalidRecord`, `CompressionNotInstalled`.
    """
    rows = scan_records(data, header)
    timestamps = timestamps_of(header, rows)
    base_timestamp = timestamps[0]
    records = [
        encode_raw_record(delta, timestamp - base_timestamp, row)
        for delta, (row, timestamp) in enumerate(zip(rows, timestamps, strict=True))
    ]
    return assemble_batch(
        records,
        base_timestamp=base_timestamp,
        max_timestamp=max(NO_TIMESTAMP, *timestamps),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        attributes=codec | header.attributes & TRANSACTIONAL,
        level=level,
    )
