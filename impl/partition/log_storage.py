"""Where a log is kept besides memory: nowhere, or in files.

A log tells its storage before it changes itself, so that what it answers is stored. If that raises
`StorageError`, the log stays as it was. `impl.storage.partition_files` has the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from impl.log.transaction_index import AbortedTransaction
from impl.partition.stored_batch import SegmentFile, StoredBatch


class CleanedSegment(NamedTuple):
    """What is left of some segments: one segment, and its aborted transactions."""

    base_offset: int
    batches: Sequence[StoredBatch]
    aborted: Sequence[AbortedTransaction]


class LogStorage(Protocol):
    """See above. All of it may raise `StorageError`."""

    def append(self, stored: StoredBatch, flush_messages: int) -> None:
        """Store the next batch, and flush if so many messages are not flushed yet."""

    def roll(self, base_offset: int, transaction_index: bytes) -> None:
        """Begin a segment. The one before it has this transaction index."""

    def advance_start(self, log_start_offset: int, removed: Sequence[int]) -> None:
        """The log begins here now; remove the segments with these base offsets."""

    def replace(self, cleaned: CleanedSegment, replaced: Sequence[int]) -> None:
        """Put a segment in the place of those with these base offsets, all or nothing."""

    def note_cleaned(self, end_offset: int) -> None:
        """The log is cleaned up to here."""

    def file_of(self, base_offset: int) -> SegmentFile | None:
        """The file of a segment, None if there is none."""


class _Memory:
    """Nothing is stored."""

    def append(self, stored: StoredBatch, flush_messages: int) -> None:
        """Nothing to do."""

    def roll(self, base_offset: int, transaction_index: bytes) -> None:
        """Nothing to do."""

    def advance_start(self, log_start_offset: int, removed: Sequence[int]) -> None:
        """Nothing to do."""

    def replace(self, cleaned: CleanedSegment, replaced: Sequence[int]) -> None:
        """Nothing to do."""

    def note_cleaned(self, end_offset: int) -> None:
        """Nothing to do."""

    def file_of(self, base_offset: int) -> SegmentFile | None:
        """None."""
        return None


IN_MEMORY: Final = _Memory()
