"""The segments of a log, as its files have them, and which of them retention deletes.

Two rules:

1. A segment's age is that of its newest record.
2. A segment that the cleaner emptied keeps none after it from being deleted; an empty one at the
   end of the log is kept.

Sources: `LogSegments`, `UnifiedLog.deleteRetentionMsBreachedSegments`,
`UnifiedLog.deleteRetentionSizeBreachedSegments`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from impl.partition.log_config import LogConfig
from impl.partition.stored_batch import StoredBatch
from impl.protocol.record_batch import NO_TIMESTAMP

MAX_OFFSET: Final = 2**63 - 1


class Segment(NamedTuple):
    """A file: its base offset, and its batches, also those before the start of the log."""

    base_offset: int
    batches: Sequence[StoredBatch]

    @property
    def size_bytes(self) -> int:
        """Of the file."""
        return sum(stored.size_bytes for stored in self.batches)

    @property
    def next_offset(self) -> int:
        """After its last batch."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset

    @property
    def largest_timestamp(self) -> int:
        """Of its records, NO_TIMESTAMP without any; Kafka then takes the time of the file."""
        return max((stored.max_timestamp for stored in self.batches), default=NO_TIMESTAMP)


def split_files(base_offsets: Sequence[int], files: Sequence[StoredBatch]) -> list[Segment]:
    """The batches of all files by segment, oldest first; the last one is active."""
    return [
        Segment(base, files[index_of(files, base) : index_of(files, following)])
        for base, following in pairwise([*base_offsets, MAX_OFFSET])
    ]


def index_of(files: Sequence[StoredBatch], offset: int) -> int:
    """The index of the first batch that begins at or after an offset."""
    return bisect_left(files, offset, key=_base_offset)


def _base_offset(stored: StoredBatch) -> int:
    return stored.base_offset


def count_old_segments(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    """The number of oldest segments beyond the retention time or size."""
    if segments and not segments[-1].batches:
        segments = segments[:-1]
    return max(_count_oversized(segments, config), _count_expired(segments, config, now_ms))


def _count_expired(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    if config.retention_ms < 0:
        return 0
    for number, segment in enumerate(segments):
        youngest = segment.largest_timestamp
        is_kept = youngest < 0 or now_ms - youngest <= config.retention_ms
        if is_kept and segment.batches:
            return number
    return len(segments)


def _count_oversized(segments: Sequence[Segment], config: LogConfig) -> int:
    if config.retention_bytes < 0:
        return 0
    spare_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    for number, segment in enumerate(segments):
        spare_bytes -= segment.size_bytes
        if spare_bytes < 0:
            return number
    return len(segments)
