"""A batch in a log: its bytes, and the header fields that replaying it needs."""

from __future__ import annotations

from typing import NamedTuple

from impl.protocol.record_batch import BatchHeader


class StoredBatch(NamedTuple):
    """A batch in the log."""

    base_offset: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    attributes: int
    data: bytes

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta


def store_batch(header: BatchHeader, data: bytes) -> StoredBatch:
    """The batch with this header, whose bytes are `data`."""
    return StoredBatch(
        header.base_offset,
        header.last_offset_delta,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.max_timestamp,
        header.attributes,
        data,
    )
