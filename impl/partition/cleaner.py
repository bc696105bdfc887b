"""Log compaction: of the records with one key the latest stays, in the part of a log that is full.

Eight rules:

1. Cleaned are whole segments: neither the active one, nor any that reaches the last stable offset,
   or has records younger than `min.compaction.lag.ms`.
2. They are cleaned when the dirty ones have more than `min.cleanable.dirty.ratio` of the bytes, or
   a record older than `max.compaction.lag.ms`.
3. Of the dirty part the latest offset of each key is noted; records with that key and a smaller
   offset go, in the clean part, too. Aborted records go, and are not noted.
4. A tombstone, or a marker whose data is gone, goes `delete.retention.ms` after the cleaning that
   first met it so. This time is the delete horizon, the base timestamp of its batch (KIP-534).
5. A batch keeps its offsets and sequences, whatever records it loses. A batch without any goes,
   unless it is the last of its producer, whose sequence it carries, or the last that is cleaned.
6. Of a producer without data the last marker stays, which carries its epoch.
7. Segments that fit into one become one. They are replaced group by group; a crash between two
   leaves a log that is partly cleaned, and cleaned again.
8. A log that cannot be read is not cleaned any more.

Theory of operation: `clean` finds what is due and replaces it by `ReplicaLog.replace_segments`. No
clock is read here: the time is an argument. Kafka's map of keys has a limit, and holds hashes; this
one holds the keys of a log that is in memory anyway.
Sources: `LogCleaner`, `LogCleanerManager`, `Cleaner`, `MemoryRecords.filterTo` of 4.3.1; KIP-58,
KIP-98, KIP-354, KIP-534.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from impl.log.transaction_index import AbortedTransaction, find_overlapping
from impl.partition.batch_conversion import encode_raw_record, timestamps_of
from impl.partition.log_segments import Segment
from impl.partition.log_storage import CleanedSegment
from impl.partition.open_transactions import OpenTransactions
from impl.partition.producer_state import ProducerStateEntry
from impl.partition.replica_log import MAX_RELATIVE_OFFSET, ReplicaLog
from impl.partition.stored_batch import StoredBatch, store_batch
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    assemble_batch,
    read_header,
    scan_records,
)
from impl.protocol.records import RawRecord

_log = logging.getLogger(__name__)


class Cleanable(NamedTuple):
    """What is due: the dirty part of a log, between two offsets, and all inactive segments."""

    first_dirty_offset: int
    end_offset: int
    segments: Sequence[Segment]


def clean(log: ReplicaLog, now_ms: int) -> None:
    """Clean a log if that is due. Raises `StorageError`: what is not cleaned is left as it was."""
    if not log.is_cleanable:
        return
    try:
        due = find_cleanable(log, now_ms)
        if due is not None:
            _Cleaner(log, due, now_ms).run()
    except DecodeError as error:
        log.is_cleanable = False
        _log.warning("a log is not compacted any more, because it cannot be read: %s", error)


# ---- what is due


def find_cleanable(log: ReplicaLog, now_ms: int) -> Cleanable | None:
    """What is to be cleaned now. `LogCleanerManager.grabFilthiestCompactedLog`."""
    if not log.config.is_compacted or len(log.segments) == 1:
        return None
    segments = log.list_segments()[:-1]
    first_dirty = first_dirty_offset(log)
    end = _first_uncleanable_offset(log, segments, first_dirty, now_ms)
    clean_bytes = sum(each.size_bytes for each in segments if each.base_offset < first_dirty)
    dirty_bytes = sum(each.size_bytes for each in _between(segments, first_dirty, end))
    if not dirty_bytes:
        return None
    dirty_ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    is_overdue = _is_overdue(log, _between(segments, first_dirty, log.segments[-1]), now_ms)
    if not is_overdue and dirty_ratio <= log.config.min_cleanable_dirty_ratio:
        return None
    return Cleanable(first_dirty, end, segments)


def first_dirty_offset(log: ReplicaLog) -> int:
    """Where the last cleaning ended, if the log has that offset; else its start."""
    cleaned = log.cleaned_offset
    if cleaned is None or not log.log_start_offset <= cleaned <= log.log_end_offset:
        return log.log_start_offset
    return cleaned


def _between(segments: Sequence[Segment], start: int, end: int) -> Sequence[Segment]:
    """The segments with offsets from `start` on that begin before `end`. `LogSegments.values`."""
    if start >= end:
        return ()
    bases = [each.base_offset for each in segments]
    return segments[max(bisect_right(bases, start) - 1, 0) : bisect_left(bases, end)]


def _first_uncleanable_offset(
    log: ReplicaLog, segments: Sequence[Segment], first_dirty: int, now_ms: int
) -> int:
    """The base offset of a segment. `LogCleanerManager.cleanableOffsets`."""
    active = log.segments[-1]
    limits = [log.last_stable_offset, active]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms:
        limits += [
            each.base_offset
            for each in _between(segments, first_dirty, active)
            if each.largest_timestamp > now_ms - lag_ms
        ]
    left = _between(segments, max(first_dirty, min(limits)), active)
    return left[0].base_offset if left else active


def _is_overdue(log: ReplicaLog, dirty: Sequence[Segment], now_ms: int) -> bool:
    """Whether a segment began longer ago than a record may stay. KIP-354."""
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    begun = (each.batches[0].max_timestamp for each in dirty if each.batches)
    return any(0 < timestamp < oldest_ms for timestamp in begun)


def group_segments(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Segments that fit into one file, by size and by offset. `Cleaner.groupSegmentsBySize`.

    Kafka looks at the sizes of indexes, too; with the settings of this broker they always fit.
    """
    groups: list[list[Segment]] = []
    free_bytes = 0
    for each in segments:
        size_bytes = each.size_bytes
        is_near = groups and each.next_offset - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        if is_near and size_bytes <= free_bytes:
            groups[-1].append(each)
            free_bytes -= size_bytes
        else:
            groups.append([each])
            free_bytes = segment_bytes - size_bytes
    return groups


# ---- cleaning


class _Cleaner:
    """One round over one log. `Cleaner.doClean`."""

    __slots__ = ("_due", "_horizon_ms", "_latest", "_log", "_now_ms", "_producers", "_transactions")

    def __init__(self, log: ReplicaLog, due: Cleanable, now_ms: int) -> None:
        self._log = log
        self._due = due
        self._now_ms = now_ms
        self._horizon_ms = now_ms + log.config.delete_retention_ms
        self._producers: Mapping[int, ProducerStateEntry] = log.producer_states.entries
        self._latest = self._find_latest()
        self._transactions = OpenTransactions()

    def _find_latest(self) -> dict[bytes, int]:
        """The latest offset of each key in the dirty part. `Cleaner.buildOffsetMap`."""
        start, end = self._due.first_dirty_offset, self._due.end_offset
        dirty = _between(self._due.segments, start, end)
        transactions = OpenTransactions()
        transactions.announce(self._find_aborted(dirty[0].base_offset, end))
        latest: dict[bytes, int] = {}
        for stored in (stored for each in dirty for stored in each.batches):
            if stored.attributes & CONTROL:
                transactions.meet_marker(stored)
            elif not transactions.meet(stored):
                for delta, _, key, *_ in scan_records(stored.data, read_header(stored.data)):
                    if key is not None and stored.base_offset + delta >= start:
                        latest[key] = stored.base_offset + delta
        return latest

    def _find_aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions of the segment at `start`, and later ones that begin before
        `end`. `UnifiedLog.collectAbortedTransactions`."""
        return find_overlapping(self._log.aborted, max(start, self._log.log_start_offset), end)

    def run(self) -> None:
        """Raises `StorageError`, `DecodeError`."""
        segments = _between(self._due.segments, 0, self._due.end_offset)
        for group in group_segments(segments, self._log.config.segment_bytes):
            cleaned = self._clean_group(group)
            self._log.replace_segments(cleaned, [each.base_offset for each in group])
        self._log.note_cleaned(self._due.end_offset)

    def _clean_group(self, group: Sequence[Segment]) -> CleanedSegment:
        """`Cleaner.cleanSegments`."""
        ends = [*(each.base_offset for each in group[1:]), group[-1].next_offset]
        kept: list[StoredBatch] = []
        indexed: list[AbortedTransaction] = []
        for each, end in zip(group, ends, strict=True):
            self._transactions.announce(self._find_aborted(each.base_offset, end))
            for stored in each.batches:
                cleaned = self._clean_batch(stored, indexed)
                if cleaned is not None:
                    kept.append(cleaned)
        return CleanedSegment(group[0].base_offset, kept, indexed)

    def _clean_batch(
        self, stored: StoredBatch, indexed: list[AbortedTransaction]
    ) -> StoredBatch | None:
        """What is left of a batch, None for nothing. `Cleaner.cleanInto`."""
        header = read_header(stored.data)
        horizon_ms = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        is_past = horizon_ms is not None and horizon_ms <= self._now_ms
        if is_marker := bool(header.attributes & CONTROL):
            met = self._transactions.meet_marker(stored)
            indexed += () if met.indexed is None else (met.indexed,)
            may_go = met.may_go
        else:
            may_go = self._transactions.meet(stored)
        if may_go and (is_past or not is_marker):
            rows = []
        else:
            rows = scan_records(stored.data, header)
            if not is_marker:
                rows = [row for row in rows if self._stays(stored, row, is_past)]
        if not rows:
            return empty_batch(header) if self._must_stay(stored) else None
        if horizon_ms is None and ((is_marker and may_go) or any(row[3] is None for row in rows)):
            horizon_ms = self._horizon_ms
        elif len(rows) == header.records_count:
            return stored
        return batch_of(header, rows, horizon_ms)

    def _stays(self, stored: StoredBatch, row: RawRecord, is_past: bool) -> bool:
        """Whether a record is the latest of its key, or may be. `Cleaner.shouldRetainRecord`."""
        delta, _, key, value, _ = row
        if key is None or (value is None and is_past):
            return False
        return stored.base_offset + delta >= self._latest.get(key, -1)

    def _must_stay(self, stored: StoredBatch) -> bool:
        """Whether a batch stays without records: rules 5 and 6."""
        if stored.last_offset + 1 == self._due.end_offset:
            return True
        entry = self._producers.get(stored.producer_id)
        if entry is None or stored.producer_id <= NO_PRODUCER_ID:
            return False
        if entry.batches:
            return stored.last_offset == entry.batches[-1].last_offset
        is_marker = bool(stored.attributes & CONTROL)
        return is_marker and stored.producer_epoch == entry.producer_epoch


def empty_batch(header: BatchHeader) -> StoredBatch:
    """The batch without its records. `DefaultRecordBatch.writeEmptyHeader`."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    return _assemble(header, [], attributes, NO_TIMESTAMP, header.max_timestamp)


def batch_of(header: BatchHeader, rows: Sequence[RawRecord], horizon_ms: int | None) -> StoredBatch:
    """The batch with some of its records, and a delete horizon or not.

    `MemoryRecords.buildRetainedRecordsInto`.
    """
    attributes = header.attributes
    timestamps = timestamps_of(header, rows)
    base_timestamp = timestamps[0]
    if horizon_ms is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon_ms
    records = [
        encode_raw_record(row[0], timestamp - base_timestamp, row)
        for row, timestamp in zip(rows, timestamps, strict=True)
    ]
    return _assemble(header, records, attributes, base_timestamp, max(timestamps))


def _assemble(
    header: BatchHeader,
    records: Sequence[bytes],
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
) -> StoredBatch:
    data = assemble_batch(
        records,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        attributes=attributes,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        last_offset_delta=header.last_offset_delta,
    )
    return store_batch(read_header(data), data)
