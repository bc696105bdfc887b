"""The log of one replica of a partition: batches, segments, and producer state.

Seven rules:

1. Producer and transaction state follow from the log: whatever changes the log updates them.
2. A new segment begins when a batch does not fit; a snapshot is taken at its start.
3. Records are deleted at the head (`advance_log_start`) or at the end (`truncate_to`). At the head
   producer state stays; at the end it is rebuilt from the newest snapshot and later batches.
4. A batch that is partly before the start of the log stays; one that is wholly before it is gone.
5. The cleaner replaces inactive segments by one with some of their records; offsets stay.
6. The high watermark never passes the end of the log, and moves back only with it.
7. The last stable offset is the first unstable one, or the high watermark if that is lower.

Theory of operation: a leader calls `append` after its checks; a follower calls `append_as_follower`
for what its leader accepted. `batches` is the log, `segments` are base offsets of files, `aborted`
is the content of their transaction indexes. No clock or file is read here: times are arguments,
logs and snapshots are bytes; what is appended, rolled and deleted goes through `storage` first.
`log_loader` fills a log from its files. Sources: `UnifiedLog`, `LocalLog`, `LogSegment` of 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, MutableMapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from impl.log.transaction_index import (
    AbortedTransaction,
    encode_transaction_index,
)
from impl.partition.errors import (
    BatchTooLarge,
    HighWatermarkOutOfRange,
    InvalidOffset,
    OffsetsNotContiguous,
)
from impl.partition.leader_epochs import find_leader_epochs
from impl.partition.log_config import DEFAULT_CONFIG, DELETE, LogConfig
from impl.partition.log_segments import (
    MAX_OFFSET,
    Segment,
    count_old_segments,
    index_of,
    split_files,
)
from impl.partition.log_storage import IN_MEMORY, CleanedSegment, LogStorage
from impl.partition.producer_state import ProducerStateEntry
from impl.partition.producer_states import ProducerStates, SkippedSnapshot
from impl.partition.stored_batch import InFile, StoredBatch, store_batch
from impl.partition.transactions import CompletedTransaction
from impl.partition.validation import BatchLimits
from impl.protocol.errors import DecodeError
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    check_crc,
    read_headers,
)

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
"""A segment's index stores offsets relative to its base offset, in 4 bytes."""


class LogRecovery(NamedTuple):
    """What a restart deleted: corrupt snapshots, and the last `cut_bytes` because of `damage`."""

    corrupt_snapshots: tuple[SkippedSnapshot, ...] = ()
    cut_bytes: int = 0
    damage: DecodeError | OffsetsNotContiguous | None = None


class ReplicaLog:
    """One replica's log: see the rules above.

    Read-only: `log_start_offset`, `log_end_offset`, `high_watermark` (offsets), `batches`,
    `segments` (base offsets), `deleted` (before the start of the log, in the first segment's file),
    `aborted` (by the offset of the marker), `size_bytes` (of the files), `producer_states`,
    `recovery`, `config` and its `limits`, `rules`, `cleaned_offset` (where the next cleaning
    begins, None before the first). Public state: `storage` and `known_epochs` (first offsets of
    leader epochs that batches may not tell any more), which are set when the log has been loaded;
    nodes have no followers, so a log on disk is never truncated; `is_cleanable`.
    """

    __slots__ = (
        "_active_bytes",
        "_active_timestamp",
        "aborted",
        "batches",
        "cleaned_offset",
        "config",
        "deleted",
        "high_watermark",
        "is_cleanable",
        "known_epochs",
        "limits",
        "log_end_offset",
        "log_start_offset",
        "producer_states",
        "recovery",
        "rules",
        "segments",
        "size_bytes",
        "storage",
    )

    def __init__(
        self,
        *,
        log_start_offset: int = 0,
        config: LogConfig = DEFAULT_CONFIG,
        snapshots: MutableMapping[int, bytes] | None = None,
    ) -> None:
        """An empty log, with its snapshots in `snapshots`, by default a dict."""
        kept = {} if snapshots is None else snapshots
        self.configure(config)
        self.rules = config.rules
        self.producer_states = ProducerStates(kept, log_start_offset, config)
        self.recovery = LogRecovery()
        self.storage: LogStorage = IN_MEMORY
        self.is_cleanable = True
        self._start_at(log_start_offset)

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.batches: list[StoredBatch] = []
        self.deleted: list[StoredBatch] = []
        self.aborted: list[AbortedTransaction] = []
        self.known_epochs: dict[int, int] = {}
        self.cleaned_offset: int | None = None
        self.segments = [offset]
        self.size_bytes = 0
        self._active_bytes = 0
        self._active_timestamp = -1

    def configure(self, config: LogConfig) -> None:
        """Take these settings; rules and producers' expiration stay."""
        self.config = config
        self.limits = BatchLimits(config)

    # ---- appending

    def append(self, stored: StoredBatch, entry: ProducerStateEntry | None) -> None:
        """Store a batch that the leader accepted; `entry` is its producer's new one.

        Raises `StorageError`, and changes nothing then.
        """
        self.store(stored)
        if entry is not None:
            self.producer_states.update(stored, entry)
        self.producer_states.map_end_offset = self.log_end_offset

    def append_marker(
        self, stored: StoredBatch, entry: ProducerStateEntry, *, is_aborted: bool
    ) -> None:
        """As `append`, for a marker, which completes a transaction."""
        self.store(stored)
        self.index_transaction(self.producer_states.end(stored, entry, is_aborted=is_aborted))
        self.producer_states.map_end_offset = self.log_end_offset

    def index_transaction(self, completed: CompletedTransaction | None) -> None:
        """Note a transaction that was aborted. `LogSegment.updateTxnIndex`."""
        self.aborted += list_aborted(self.producer_states, completed)

    def append_as_follower(self, records: bytes, leader_epoch: int) -> None:
        """Append the batches of a fetch answer unchanged (origin REPLICATION).

        Stops at the first batch with a later epoch than the leader's (KAFKA-18723). Raises
        `DecodeError`, `PartitionError`, and appends nothing then, except batches before one that
        contradicts its transaction.
        `UnifiedLog.appendAsFollower`.
        """
        fetched = []
        following = self.log_end_offset
        for offset, header in read_headers(records):
            if header.partition_leader_epoch > leader_epoch:
                break
            check_crc(records, header, offset)
            if header.base_offset != following:
                raise OffsetsNotContiguous(f"offset {header.base_offset} follows {following}")
            if header.size_bytes > self.config.segment_bytes:
                raise BatchTooLarge(f"a batch of {header.size_bytes} bytes at offset {following}")
            following = header.last_offset + 1
            fetched.append(store_batch(header, records[offset : offset + header.size_bytes]))
        for stored in fetched:
            self.roll_if_full(stored.size_bytes, stored.last_offset, stored.max_timestamp)
            self.index_transaction(self.producer_states.replay(stored))
            self.append(stored, None)

    def replicate(self, batches: Iterable[StoredBatch]) -> None:
        """Fill this empty log as a follower; batches before its start only update producer state.

        Raises `PartitionError`.
        """
        log_start = self.log_start_offset
        for stored in batches:
            if not self.batches:
                self.begin_at(stored.base_offset)
            self.index_transaction(self.producer_states.replay(stored))
            self.append(stored, None)
        if self.log_end_offset < log_start:
            raise OffsetsNotContiguous(f"the log ends at {self.log_end_offset}, before {log_start}")
        self.retain(self.index_at(log_start), len(self.batches))

    def begin_at(self, offset: int) -> None:
        """The first batch may lie before the start of the log, in part or as a whole."""
        self.log_end_offset = self.segments[0] = min(self.log_end_offset, offset)

    def store(self, stored: StoredBatch) -> None:
        """Store a batch; producer state stays. Raises `OffsetsNotContiguous`, `StorageError`."""
        if stored.base_offset != self.log_end_offset:
            raise OffsetsNotContiguous(f"offset {stored.base_offset} follows {self.log_end_offset}")
        self.storage.append(stored, self.config.flush_messages)
        self.batches.append(stored)
        self.log_end_offset = stored.base_offset + stored.last_offset_delta + 1
        size_bytes = stored.size_bytes
        self.size_bytes += size_bytes
        if not self._active_bytes:
            self._active_timestamp = stored.max_timestamp
        self._active_bytes += size_bytes

    def roll_if_full(self, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Begin a segment if the batch does not fit into the last one, by size, offset or age.

        This precedes the checks of producer state, so even a refused batch can begin a segment.
        `LogSegment.shouldRoll`, `UnifiedLog.roll`.
        """
        first_timestamp = self._active_timestamp
        limits = self.limits
        is_full = self._active_bytes > limits.segment_bytes - size_bytes
        is_far = last_offset - self.segments[-1] > MAX_RELATIVE_OFFSET
        age_ms = max_timestamp - first_timestamp
        is_old = first_timestamp >= 0 and age_ms > limits.max_segment_ms
        if is_full or is_far or is_old:
            self._roll()

    def _roll(self) -> None:
        index = self.transaction_index(self.segments[-1])
        self.storage.roll(self.log_end_offset, index)
        self._leave_in_file(self.segments[-1], self.log_end_offset)
        self.segments.append(self.log_end_offset)
        self._active_bytes = 0
        self._active_timestamp = -1
        self.producer_states.map_end_offset = self.log_end_offset
        self.producer_states.take_snapshot()

    def _leave_in_file(self, base_offset: int, end_offset: int) -> None:
        """Forget the bytes of a segment's batches, if it has a file."""
        file = self.storage.file_of(base_offset)
        if file is None:
            return
        position = 0
        for batches in (self.deleted, self.batches):
            for index in range(index_of(batches, base_offset), index_of(batches, end_offset)):
                stored = batches[index]
                batches[index] = stored._replace(place=InFile(file, position))
                position += stored.size_bytes

    def advance_high_watermark(self, offset: int) -> None:
        """All replicas have everything below `offset`. Raises `HighWatermarkOutOfRange`."""
        if not self.high_watermark <= offset <= self.log_end_offset:
            raise HighWatermarkOutOfRange(
                f"offset {offset} is not in {self.high_watermark} ... {self.log_end_offset}"
            )
        self.high_watermark = offset
        self.producer_states.remove_replicated_transactions(offset)

    # ---- transactions

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of an undecided transaction; INVALID_OFFSET if there is none.

        QUIRK: if its first records were deleted, it is the base offset of the first batch left,
        even if that is before the start of the log. `UnifiedLog.maybeIncrementFirstUnstableOffset`.
        """
        first = self.producer_states.first_unstable_offset
        if first == INVALID_OFFSET or first >= self.log_start_offset:
            return first
        return self.batches[0].base_offset if self.batches else self.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """All records below are decided and replicated. `UnifiedLog.lastStableOffset`."""
        first = self.first_unstable_offset
        return self.high_watermark if first == INVALID_OFFSET else min(first, self.high_watermark)

    def list_segments(self) -> list[Segment]:
        """All segments with their batches, oldest first; the last one is active."""
        return split_files(self.segments, self.deleted + self.batches)

    def leader_epochs(self) -> dict[int, int]:
        """The first offset of each leader epoch, ascending."""
        return find_leader_epochs(self.batches, self.known_epochs, self.log_start_offset)

    def transaction_index(self, base_offset: int) -> bytes:
        """The bytes of a segment's transaction index. Raises `InvalidOffset`."""
        if base_offset not in self.segments:
            raise InvalidOffset(f"no segment begins at {base_offset}")
        following = [*self.segments, MAX_OFFSET][self.segments.index(base_offset) + 1]
        return encode_transaction_index(
            entry for entry in self.aborted if base_offset <= entry.last_offset < following
        )

    # ---- deleting at the head

    def advance_log_start(self, offset: int) -> None:
        """Delete the records before `offset`, at most the high watermark.

        Whole segments before it are deleted at once, with their snapshots.
        Raises `HighWatermarkOutOfRange`, `StorageError`. `UnifiedLog.maybeIncrementLogStartOffset`.
        """
        if offset > self.high_watermark:
            raise HighWatermarkOutOfRange(f"offset {offset} is beyond {self.high_watermark}")
        if offset <= self.log_start_offset:
            return
        count = max(bisect_right(self.segments, offset) - 1, 0)
        removed = self.segments[:count]
        self.storage.advance_start(offset, removed)
        self.segments = self.segments[count:]
        self.log_start_offset = offset
        states = self.producer_states
        for base in removed:
            states.snapshots.pop(base, None)
        self.retain(self.index_at(offset), len(self.batches))
        states.on_log_start_incremented(offset)

    def delete_old_segments(self, now_ms: int) -> None:
        """Delete the oldest segments beyond the retention time or size, if they are replicated.

        Nothing unless the policy is to delete. If all are deleted, an empty one is added.
        `UnifiedLog.deleteOldSegments`.
        """
        if DELETE not in self.config.cleanup_policy:
            return
        count = count_old_segments(self.list_segments(), self.config, now_ms)
        bounds = [*self.segments[1:], self.log_end_offset]
        while count and bounds[count - 1] > self.high_watermark:
            count -= 1
        if count == len(self.segments) and self._active_bytes:
            self._roll()
        if count:
            self.advance_log_start(bounds[count - 1])

    def index_at(self, offset: int) -> int:
        """The index of the batch that holds `offset`, or of the first one after it."""
        batches = self.batches
        first, end = 0, len(batches)
        while first < end:
            middle = (first + end) // 2
            stored = batches[middle]
            if stored.base_offset + stored.last_offset_delta < offset:
                first = middle + 1
            else:
                end = middle
        return first

    def retain(self, first: int, end: int) -> None:
        """Retain `batches[first:end]`; earlier ones stay in their segment's file."""
        before = self.deleted + self.batches[:first]
        oldest = self.segments[0]
        self.deleted = [stored for stored in before if stored.base_offset >= oldest]
        self.aborted = [entry for entry in self.aborted if entry.last_offset >= oldest]
        self.batches = self.batches[first:end]
        self._measure()

    def _measure(self) -> None:
        """Recompute the sizes of files. `LogSegment.size`, `LogSegments.sizeInBytes`."""
        files = self.deleted + self.batches
        active = [stored for stored in files if stored.base_offset >= self.segments[-1]]
        self.size_bytes = sum(stored.size_bytes for stored in files)
        self._active_bytes = sum(stored.size_bytes for stored in active)
        self._active_timestamp = active[0].max_timestamp if active else -1

    # ---- compaction

    def replace_segments(self, cleaned: CleanedSegment, replaced: Sequence[int]) -> None:
        """Put a cleaned segment in the place of inactive ones, in this order.

        Producer state stays. Raises `StorageError`. `UnifiedLog.replaceSegments`.
        """
        base = replaced[0]
        following = self.segments[self.segments.index(replaced[-1]) + 1]
        self.storage.replace(cleaned, replaced)
        self.known_epochs = self.leader_epochs()
        files = self.deleted + self.batches
        files[index_of(files, base) : index_of(files, following)] = cleaned.batches
        self.segments = [each for each in self.segments if each not in replaced[1:]]
        around = (e for e in self.aborted if not base <= e.last_offset < following)
        self.aborted = sorted([*around, *cleaned.aborted], key=_marker_offset)
        for offset in replaced[1:]:
            self.producer_states.snapshots.pop(offset, None)
        self.batches, self.deleted = files, []
        self.retain(self.index_at(self.log_start_offset), len(files))
        self._leave_in_file(base, following)

    def note_cleaned(self, end_offset: int) -> None:
        """The log is cleaned up to this offset. Raises `StorageError`."""
        self.storage.note_cleaned(end_offset)
        self.cleaned_offset = end_offset

    # ---- truncating at the end

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Remove all from `offset` on and rebuild producer state; False if nothing lies there.

        A batch that holds `offset` goes as a whole. Raises `InvalidOffset`.
        `UnifiedLog.truncateTo`.
        """
        if offset < 0:
            raise InvalidOffset(f"a log has no offset {offset}")
        if offset >= self.log_end_offset:
            return False
        if self.segments[0] > offset:
            self.truncate_fully_and_start_at(offset)
            return True
        while self.segments[-1] > offset:
            self.segments.pop()
        self.deleted = [stored for stored in self.deleted if stored.last_offset < offset]
        self.aborted = [entry for entry in self.aborted if entry.last_offset < offset]
        self.retain(0, self.index_at(offset))
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.rebuild_producer_state(offset, now_ms)
        self.high_watermark = min(self.high_watermark, offset)
        self.producer_states.remove_replicated_transactions(self.high_watermark)
        self.known_epochs = {e: at for e, at in self.known_epochs.items() if at < offset}
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empty the log: the next batch has this offset. Producers and snapshots are forgotten.

        `UnifiedLog.truncateFullyAndStartAt`.
        """
        self._start_at(offset)
        self.producer_states.truncate_fully_and_start_at(offset)

    # ---- producer state

    def close(self) -> None:
        """Take a snapshot at the end of the log. `UnifiedLog.close`."""
        self.producer_states.take_snapshot()

    def rebuild_producer_state(
        self, end: int, now_ms: int, *, had_clean_shutdown: bool = False
    ) -> None:
        """Rebuild producer state from the log up to `end`.

        `UnifiedLog.rebuildProducerState`.
        """
        states = self.producer_states
        marks = [*self.segments[-2:], end]
        if had_clean_shutdown and not states.snapshots:
            for offset in marks:
                states.map_end_offset = offset
                states.take_snapshot()
            return
        # QUIRK: when a log without producers is truncated, nothing is replayed.
        is_empty = not states.entries and not states.unreplicated
        was_empty = is_empty and states.map_end_offset >= end
        states.truncate_and_reload(self.log_start_offset, end, now_ms)
        if states.map_end_offset < end and not was_empty:
            self._replay(marks, end)
        states.map_end_offset = end
        states.take_snapshot()

    def _replay(self, marks: Sequence[int], end: int) -> None:
        """Replay the batches after the snapshot, with snapshots at the last segments' starts."""
        states = self.producer_states
        begun = [base for base in self.segments if base < end]
        for base, following in pairwise([*begun, end]):
            if following <= states.map_end_offset:
                continue
            start = max(base, states.map_end_offset)
            states.map_end_offset = start
            if base in marks:
                states.take_snapshot()
            for stored in self.batches[self.index_at(start) : self.index_at(following)]:
                states.replay(stored)


def list_aborted(
    states: ProducerStates, completed: CompletedTransaction | None
) -> list[AbortedTransaction]:
    """The transaction's entry in the index, if it was aborted."""
    if completed is None or not completed.is_aborted:
        return []
    last_stable_offset = states.last_stable_offset(completed)
    return [AbortedTransaction(*completed[:3], last_stable_offset)]


def _marker_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset
