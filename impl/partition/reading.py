"""Reads from a leader's log: batches from an offset on, and offsets by time.

Four rules:

1. A consumer reads below the high watermark; a read_committed one below the last stable offset.
2. Bytes are returned from one segment. They begin with the batch that holds the offset, and may end
   inside a batch, even inside its header; the first batch is never cut.
3. An offset before the log's start, or after its end, is OFFSET_OUT_OF_RANGE; one between the high
   watermark and the end is not.
4. Aborted data is returned, with a list of the aborted transactions that overlap it. The consumer
   filters it (`impl.partition.consuming`).

Theory of operation: pure functions of a `ReplicaLog`. Kafka's list of aborted transactions extends
to the next entry of the offset index, so it may name more of them; to a consumer that is the same.
Sources: `LocalLog.read`, `UnifiedLog.fetchOffsetByTimestamp`, `Partition.fetchOffsetForTimestamp`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from impl.log.disk import StorageError
from impl.log.transaction_index import AbortedTransaction, find_overlapping
from impl.partition.leader_epochs import with_leader
from impl.partition.replica_log import ReplicaLog
from impl.partition.stored_batch import StoredBatch
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation, Timestamp
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    LOG_APPEND_TIME,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    read_header,
    scan_records,
)

_NONE: Final = ErrorCode.NONE
_READ_COMMITTED: Final = int(Isolation.READ_COMMITTED)
_new: Final = tuple.__new__


class Read(NamedTuple):
    """Batches, the last one perhaps cut, and their aborted transactions in the order of markers."""

    error: ErrorCode
    records: bytes
    aborted_transactions: tuple[AbortedTransaction, ...] = ()


def fetch_bound(log: ReplicaLog, isolation: int) -> int:
    """The first offset that a consumer may not read; also the answer for the latest offset."""
    is_committed = isolation == _READ_COMMITTED
    return log.last_stable_offset if is_committed else log.high_watermark


def read(
    log: ReplicaLog,
    offset: int,
    max_bytes: int,
    *,
    at_least_one: bool,
    isolation: int = Isolation.READ_UNCOMMITTED,
) -> Read:
    """At most `max_bytes` of the batches from the one that holds `offset` on.

    Nothing is returned if the first batch is larger; with `at_least_one`, all of it (KIP-74). Only
    a read_committed reader gets aborted transactions. QUIRK: to read less than nothing is an error
    of the server where there is something to read. `LogSegment.read`.
    """
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return Read(ErrorCode.OFFSET_OUT_OF_RANGE, b"")
    chosen: list[StoredBatch] = []
    size_bytes = 0
    upper_bound = fetch_bound(log, isolation)
    if max_bytes < 0 and offset < upper_bound:
        return Read(ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    batches = log.batches
    for index in _rest_of_segment(log, offset):
        stored = batches[index]
        if stored.last_offset >= upper_bound or (chosen and size_bytes >= max_bytes):
            break
        size_bytes += stored.size_bytes
        if not chosen and size_bytes > max_bytes:
            if not at_least_one:
                break
            max_bytes = size_bytes
        chosen.append(stored)
    aborted: list[AbortedTransaction] = []
    if chosen and isolation == _READ_COMMITTED:
        aborted = find_overlapping(log.aborted, offset, chosen[-1].last_offset + 1)
    try:
        records = b"".join(stored.data for stored in chosen)
    except StorageError:
        return Read(ErrorCode.KAFKA_STORAGE_ERROR, b"")
    return _new(Read, (_NONE, records[:max_bytes], tuple(aborted)))


def _rest_of_segment(log: ReplicaLog, offset: int) -> range:
    """Indexes from the batch that holds `offset` on, or the next one, to the end of its file."""
    first = log.index_at(offset)
    end = len(log.batches)
    if first < end:
        number = bisect_right(log.segments, log.batches[first].base_offset)
        if number < len(log.segments):
            end = log.index_at(log.segments[number])
    return range(first, end)


class FoundOffset(NamedTuple):
    """An offset, the time of its record and the leader epoch of its batch; -1 where unknown."""

    timestamp: int
    offset: int
    leader_epoch: int


NOT_FOUND: Final = FoundOffset(NO_TIMESTAMP, INVALID_OFFSET, NO_PARTITION_LEADER_EPOCH)


def find_offset(
    log: ReplicaLog, timestamp: int, upper_bound: int, leader_epoch: int
) -> FoundOffset:
    """The first offset with a record at or after `timestamp`, or the one that a `Timestamp` names.

    `upper_bound` is the first offset that the reader may not read (a consumer's is `fetch_bound`);
    `leader_epoch` is the leader's. A log without remote storage has no tiered offsets.
    """
    if timestamp == Timestamp.LATEST:
        return FoundOffset(NO_TIMESTAMP, upper_bound, leader_epoch)
    if timestamp in (Timestamp.EARLIEST, Timestamp.EARLIEST_LOCAL):
        [epoch, at] = next(iter(_led_epochs(log, leader_epoch).items()))
        known = epoch if at <= log.log_start_offset else NO_PARTITION_LEADER_EPOCH
        return FoundOffset(NO_TIMESTAMP, log.log_start_offset, known)
    if timestamp == Timestamp.MAX:
        found = _latest(log)
    elif timestamp >= 0:
        found = _first_in_segment(log, timestamp)
    else:
        found = NOT_FOUND
    return found if found.offset < upper_bound else NOT_FOUND


def _latest(log: ReplicaLog) -> FoundOffset:
    """QUIRK: records before the start of the log count while their file exists."""
    files = log.deleted + log.batches
    latest = max((stored.max_timestamp for stored in files), default=NO_TIMESTAMP)
    return NOT_FOUND if latest == NO_TIMESTAMP else _first_at(files, latest, 0)


def _first_in_segment(log: ReplicaLog, timestamp: int) -> FoundOffset:
    """QUIRK: in the first segment with a batch so new, even if compaction took its records.

    `UnifiedLog.fetchOffsetByTimestamp`.
    """
    for segment in log.list_segments():
        if segment.largest_timestamp >= timestamp:
            return _first_at(segment.batches, timestamp, log.log_start_offset)
    return NOT_FOUND


def _first_at(batches: Sequence[StoredBatch], timestamp: int, log_start: int) -> FoundOffset:
    for stored in batches:
        if stored.max_timestamp >= timestamp:
            found = _first_in(stored, timestamp, log_start)
            if found is not None:
                return found
    return NOT_FOUND


def _first_in(stored: StoredBatch, timestamp: int, log_start: int) -> FoundOffset | None:
    header = read_header(stored.data)
    for offset_delta, written, *_ in scan_records(stored.data, header):
        offset = stored.base_offset + offset_delta
        # With LogAppendTime all records of a batch have the batch's timestamp.
        at = stored.max_timestamp if stored.attributes & LOG_APPEND_TIME else written
        if at >= timestamp and offset >= log_start:
            return FoundOffset(at, offset, header.partition_leader_epoch)
    return None


class EndOfEpoch(NamedTuple):
    """Where the records of a leader epoch end: the offset after the last one, -1 for unknown."""

    leader_epoch: int
    end_offset: int


def find_end_of_epoch(log: ReplicaLog, epoch: int, leader_epoch: int) -> EndOfEpoch:
    """The end of the greatest epoch up to `epoch` in a log.

    An epoch before all others ends where they begin. `LeaderEpochFileCache.endOffsetFor`.
    """
    if epoch == NO_PARTITION_LEADER_EPOCH or epoch > leader_epoch:
        return EndOfEpoch(NO_PARTITION_LEADER_EPOCH, INVALID_OFFSET)
    if epoch == leader_epoch:
        return EndOfEpoch(epoch, log.log_end_offset)
    starts = _led_epochs(log, leader_epoch)
    following = next(each for each in starts if each > epoch)
    known = max((each for each in starts if each <= epoch), default=epoch)
    return EndOfEpoch(known, starts[following])


def _led_epochs(log: ReplicaLog, leader_epoch: int) -> dict[int, int]:
    return with_leader(log.leader_epochs(), leader_epoch, log.log_start_offset, log.log_end_offset)
