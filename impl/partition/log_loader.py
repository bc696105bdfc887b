"""A log is loaded from its files: what is damaged is cut off, what may be missing is replayed.

Four rules:

1. A log that was closed cleanly is trusted. Otherwise it is checked from its recovery point on, and
   cut off at the first damage; damage before it is an error.
2. The segments that may not be flushed are replayed: each gets its transaction index and a
   snapshot.
3. Transaction indexes of flushed segments are read; those that are missing or corrupt are rebuilt.
4. Producer state follows from the newest snapshot and the batches after it.

Theory of operation: `load_log` fills an empty log, file by file. Files are bytes, or are mapped and
read when somebody wants their batches. Source: `LogLoader` of 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from impl.log.transaction_index import (
    AbortedTransaction,
    CorruptTransactionIndex,
    decode_transaction_index,
)
from impl.partition.errors import InvalidOffset, OffsetsNotContiguous, PartitionError
from impl.partition.log_segments import MAX_OFFSET
from impl.partition.producer_states import ProducerStates
from impl.partition.replica_log import (
    MAX_RELATIVE_OFFSET,
    LogRecovery,
    ReplicaLog,
    list_aborted,
)
from impl.partition.stored_batch import InFile, SegmentFile, store_batch
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import TRANSACTIONAL, LogFile, check_crc, read_header


def load_log(
    log: ReplicaLog,
    files: Sequence[bytes | SegmentFile],
    *,
    now_ms: int,
    segments: Sequence[int] = (),
    had_clean_shutdown: bool = False,
    recovery_point: int | None = None,
    transaction_indexes: Mapping[int, bytes] | None = None,
) -> None:
    """Fill an empty log with its files, and producer state from its snapshots.

    Batches of a `SegmentFile` stay there, and are read when somebody wants them. `segments` are
    the base offsets of the files; without any, there is one file, and snapshots at any offset
    are valid.
    `had_clean_shutdown`: a log without snapshots had no producers. `recovery_point`: the
    process was killed, and later data may be missing on disk. `transaction_indexes` are files
    by base offset; those missing, corrupt or not flushed are rebuilt from the log. `log.recovery`
    says what was lost. Raises `DecodeError` (damage before the recovery point),
    `PartitionError`, `StorageError`. `LogLoader.load`.
    """
    if had_clean_shutdown and recovery_point is not None:
        raise PartitionError("a log that had a clean shutdown has no recovery point")
    states = log.producer_states
    states.forget()
    log.log_end_offset = min([log.log_end_offset, *segments])
    contents = [each if isinstance(each, bytes) else each.map() for each in files]
    damage = _read_files(log, files, contents, recovery_point)
    cut_bytes = sum(map(len, contents)) - log.size_bytes
    _set_segments(log, segments, is_cut=damage is not None)
    flushed = _count_flushed(log, recovery_point)
    _load_transaction_indexes(log, transaction_indexes or {}, flushed)
    log_start = max(log.log_start_offset, log.segments[0])
    if recovery_point is not None:
        _recover_segments(log, flushed, now_ms)
    if segments:
        states.remove_stray_snapshots(log.segments)
    if log.log_end_offset < log_start:
        log.truncate_fully_and_start_at(log_start)
        states.forget()
    log.log_start_offset = log.high_watermark = log_start
    log.retain(log.index_at(log_start), len(log.batches))
    log.rebuild_producer_state(log.log_end_offset, now_ms, had_clean_shutdown=had_clean_shutdown)
    log.recovery = LogRecovery(states.corrupt_snapshots, cut_bytes, damage)


# ---- batches


def _read_files(
    log: ReplicaLog,
    files: Sequence[bytes | SegmentFile],
    contents: Sequence[LogFile],
    recovery_point: int | None,
) -> DecodeError | OffsetsNotContiguous | None:
    """Store all batches before the first damage, which must be after the recovery point."""
    try:
        for file, content in zip(files, contents, strict=True):
            _read_file(log, None if isinstance(file, bytes) else file, content)
    except (DecodeError, OffsetsNotContiguous) as damage:
        if recovery_point is None or log.log_end_offset < recovery_point:
            raise
        return damage
    return None


def _read_file(log: ReplicaLog, file: SegmentFile | None, content: LogFile) -> None:
    position, end = 0, len(content)
    while position < end:
        header = read_header(content, position)
        check_crc(content, header, position)
        if not log.batches:
            log.begin_at(header.base_offset)
        _skip_to(log, header.base_offset)
        following = position + header.size_bytes
        place = content[position:following] if file is None else InFile(file, position)
        log.store(store_batch(header, place))
        position = following


def _skip_to(log: ReplicaLog, offset: int) -> None:
    """Skip a gap, which truncation inside a batch leaves."""
    if 0 <= offset - log.log_end_offset <= MAX_RELATIVE_OFFSET:
        log.log_end_offset = offset


# ---- segments


def _set_segments(log: ReplicaLog, segments: Sequence[int], *, is_cut: bool) -> None:
    """Set the base offsets of the files, without those after the cut."""
    first = log.batches[0].base_offset if log.batches else log.log_start_offset
    if any(a >= b for a, b in pairwise(segments)) or (segments and segments[0] > first):
        raise InvalidOffset(f"segments {list(segments)} of a log that begins at {first}")
    end = log.log_end_offset if is_cut else MAX_OFFSET
    found = [base for base in segments if base <= end] or [first]
    log.log_end_offset = max(log.log_end_offset, found[-1])
    log.segments = found


def _count_flushed(log: ReplicaLog, recovery_point: int | None) -> int:
    """How many of the first segments were flushed whole; the one that is written to never is.

    Without a recovery point, all.
    """
    if recovery_point is None:
        return len(log.segments)
    return max(bisect_right(log.segments, recovery_point) - 1, 0)


def _recover_segments(log: ReplicaLog, flushed: int, now_ms: int) -> None:
    """Replay each segment that may not be flushed, rebuild its index, and take a snapshot.

    So a restart after a kill also remembers only a producer's last batch. QUIRK: deleted
    records at the head of such a segment are replayed as well. `LogLoader.recoverSegment`.
    """
    states = log.producer_states
    log.rebuild_producer_state(log.segments[flushed], now_ms)
    for base, following in pairwise([*log.segments[flushed:], log.log_end_offset]):
        for stored in log.batches[log.index_at(base) : log.index_at(following)]:
            log.index_transaction(states.replay(stored))
        states.map_end_offset = following
        states.take_snapshot()
    states.forget()


# ---- transaction indexes


def _load_transaction_indexes(log: ReplicaLog, indexes: Mapping[int, bytes], count: int) -> None:
    """Load the valid transaction indexes of the first segments; rebuild the others.

    For a transaction whose head was deleted, the log has all that a reader can reach.
    """
    log.aborted = []
    of_log: list[AbortedTransaction] | None = None
    for base, following in list(pairwise([*log.segments, MAX_OFFSET]))[:count]:
        try:
            log.aborted += decode_transaction_index(indexes[base], base)
        except (KeyError, CorruptTransactionIndex):
            of_log = _find_aborted(log) if of_log is None else of_log
            log.aborted += [e for e in of_log if base <= e.last_offset < following]


def _find_aborted(log: ReplicaLog) -> list[AbortedTransaction]:
    """All aborted transactions of the log."""
    found: list[AbortedTransaction] = []
    states = ProducerStates({}, 0, log.config)
    for stored in log.batches:
        if stored.attributes & TRANSACTIONAL:
            found += list_aborted(states, states.replay(stored))
    return found
