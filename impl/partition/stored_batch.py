"""A batch in a log: where its bytes are, and the header fields that replaying it needs.

The batches of a log in memory are there. On a disk those of the last segment are in memory once
they are appended; those that a restart found, and those of older segments, are in their files, and
are read when somebody wants them.
"""

from __future__ import annotations

from mmap import mmap
from typing import NamedTuple, Protocol

from impl.protocol.record_batch import BatchHeader


class SegmentFile(Protocol):
    """The file of a segment. Both may raise `StorageError`."""

    def map(self) -> bytes | mmap:
        """Its content, to be looked through before the file is changed."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """A part of it."""


class InFile(NamedTuple):
    """Where a batch begins in a file."""

    file: SegmentFile
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
    partition_leader_epoch: int
    size_bytes: int
    place: bytes | InFile

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def data(self) -> bytes:
        """The bytes. Raises `StorageError` if they cannot be read."""
        place = self.place
        if isinstance(place, bytes):
            return place
        return place.file.read(place.position, self.size_bytes)


def store_batch(header: BatchHeader, place: bytes | InFile) -> StoredBatch:
    """The batch with this header, whose bytes are at `place`."""
    return StoredBatch(
        header.base_offset,
        header.last_offset_delta,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.max_timestamp,
        header.attributes,
        header.partition_leader_epoch,
        header.size_bytes,
        place,
    )
