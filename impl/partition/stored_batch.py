"""A batch in a log: where its bytes are, and the header fields that replaying it needs.

Batches that were appended are in memory. Those that a restart found are in their files, and are
read when somebody wants them: a restart copies no log.
"""

from __future__ import annotations

from mmap import mmap
from typing import NamedTuple

from impl.protocol.record_batch import BatchHeader


class InFile(NamedTuple):
    """Bytes of a mapped file that stay as they are."""

    file: mmap
    position: int


class StoredBatch(NamedTuple):
    """A batch in the log."""

    base_offset: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    attributes: int
    size_bytes: int
    place: bytes | InFile

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def data(self) -> bytes:
        """The bytes."""
        place = self.place
        if isinstance(place, bytes):
            return place
        return place.file[place.position : place.position + self.size_bytes]


def store_batch(header: BatchHeader, place: bytes | InFile) -> StoredBatch:
    """The batch with this header, whose bytes are there."""
    return StoredBatch(
        header.base_offset,
        header.last_offset_delta,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.max_timestamp,
        header.attributes,
        header.size_bytes,
        place,
    )
