"""All producers that one replica of a partition remembers, and the snapshots that outlive it.

Five rules:

1. Memory is `entries`; `map_end_offset` is the offset up to which the log is in it.
2. A snapshot is taken only at an offset that is later than the last one's.
3. A reload begins with nothing: the newest whole snapshot inside the log, then what is replayed.
4. A corrupt snapshot is deleted, told in `corrupt_snapshots`, and the next older one is tried.
5. Records that are deleted at the head of the log leave memory as it is (2.4 and later,
   KAFKA-7190). Disk forgets with the segment: after a restart such a producer is unknown.

Theory of operation: a log calls `replay` for what another leader accepted, `take_snapshot` where a
segment begins and where a log is closed, `truncate_and_reload` after everything that changes the
end of the log. Snapshots are a mapping from offset to the bytes of the file: a dict in memory, or a
`SnapshotDirectory`. Source: `ProducerStateManager` of 4.3.1, without transactions.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NamedTuple

from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from impl.partition.errors import TransactionsNotServed
from impl.partition.producer_state import (
    UNKNOWN_PRODUCER,
    BatchMetadata,
    ProducerStateEntry,
    from_snapshot,
    is_expired,
    to_snapshot,
    with_batch,
)
from impl.partition.stored_batch import StoredBatch
from impl.protocol.errors import CorruptSnapshot
from impl.protocol.record_batch import (
    CONTROL,
    INVALID_OFFSET,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    last_sequence,
)


class SkippedSnapshot(NamedTuple):
    """A snapshot that could not be loaded and was deleted: the offset in its name, and why."""

    offset: int
    error: CorruptSnapshot


def entry_after(entry: ProducerStateEntry, stored: StoredBatch) -> ProducerStateEntry:
    """`entry` with one more data batch. `ProducerAppendInfo.appendDataBatch`."""
    delta = stored.last_offset_delta
    metadata = BatchMetadata(
        last_sequence(stored.base_sequence, delta),
        stored.base_offset + delta,
        delta,
        stored.max_timestamp,
    )
    return with_batch(entry, stored.producer_epoch, metadata)


class ProducerStates:
    """The producers of one replica: see the rules above.

    To be read: `entries` (producer id to entry), `map_end_offset`, `last_snapshot_offset`,
    `snapshots`, `corrupt_snapshots` (of the last reload).
    """

    __slots__ = (
        "_expiration_ms",
        "corrupt_snapshots",
        "entries",
        "last_snapshot_offset",
        "map_end_offset",
        "snapshots",
    )

    def __init__(
        self, snapshots: MutableMapping[int, bytes], log_start_offset: int, expiration_ms: int
    ) -> None:
        self._expiration_ms = expiration_ms
        self.snapshots = snapshots
        self.entries: dict[int, ProducerStateEntry] = {}
        self.map_end_offset = log_start_offset
        self.last_snapshot_offset = max(snapshots, default=log_start_offset)
        self.corrupt_snapshots: tuple[SkippedSnapshot, ...] = ()

    def replay(self, stored: StoredBatch) -> None:
        """Take in a batch unchecked (origin REPLICATION). Raises `TransactionsNotServed`."""
        if stored.attributes & CONTROL:
            raise TransactionsNotServed(f"a control batch at offset {stored.base_offset}")
        if stored.producer_id <= NO_PRODUCER_ID:
            return
        if stored.attributes & TRANSACTIONAL:
            raise TransactionsNotServed(f"a transaction at offset {stored.base_offset}")
        entry = self.entries.get(stored.producer_id, UNKNOWN_PRODUCER)
        self.entries[stored.producer_id] = entry_after(entry, stored)

    def remove_expired(self, now_ms: int) -> None:
        """Forget idle producers. `ProducerStateManager.removeExpiredProducers`."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if is_expired(entry, now_ms, self._expiration_ms)
        ]
        for producer_id in expired:
            del self.entries[producer_id]

    def encode(self) -> bytes:
        """The bytes of a snapshot of now."""
        return encode_snapshot(to_snapshot(*item) for item in self.entries.items())

    def take_snapshot(self) -> None:
        """Store a snapshot at `map_end_offset`, unless there is one that late already."""
        if self.map_end_offset > self.last_snapshot_offset:
            self.snapshots[self.map_end_offset] = self.encode()
            self.last_snapshot_offset = self.map_end_offset

    def forget(self) -> None:
        """As if nothing had been read yet; snapshots stay."""
        self.entries.clear()
        self.map_end_offset = 0
        self.last_snapshot_offset = max(self.snapshots, default=0)

    def truncate_and_reload(self, log_start: int, log_end: int, now_ms: int) -> None:
        """Forget what is not true of a log with these ends; `map_end_offset` says what is left.

        Expired producers are not loaded. Raises `TransactionsNotServed`.
        """
        self.corrupt_snapshots = ()
        for offset in list(self.snapshots):
            if not log_start < offset <= log_end:
                del self.snapshots[offset]
        if log_end == self.map_end_offset:
            self.log_start_advanced(log_start)
        else:
            self.entries.clear()
            self._load_newest(log_start, now_ms)

    def _load_newest(self, log_start: int, now_ms: int) -> None:
        self.last_snapshot_offset = self.map_end_offset = log_start
        for offset in sorted(self.snapshots, reverse=True):
            try:
                rows = decode_snapshot(self.snapshots[offset])
            except CorruptSnapshot as error:
                self.corrupt_snapshots += (SkippedSnapshot(offset, error),)
                del self.snapshots[offset]
                continue
            self._load(rows, offset, now_ms)
            self.last_snapshot_offset = self.map_end_offset = offset
            return

    def _load(self, rows: list[SnapshotEntry], offset: int, now_ms: int) -> None:
        for row in rows:
            entry = from_snapshot(row)
            if entry.current_txn_first_offset != INVALID_OFFSET:
                raise TransactionsNotServed(f"snapshot {offset} has an open transaction")
            if not is_expired(entry, now_ms, self._expiration_ms):
                self.entries[row.producer_id] = entry

    def log_start_advanced(self, log_start: int) -> None:
        """Records before `log_start` are gone. `onLogStartOffsetIncremented`."""
        self.map_end_offset = max(self.map_end_offset, log_start)
        self.last_snapshot_offset = max(self.snapshots, default=log_start)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """An empty log that begins at `offset`: no producer, no snapshot."""
        self.entries.clear()
        self.snapshots.clear()
        self.map_end_offset = self.last_snapshot_offset = offset

    def remove_stray_snapshots(self, segments: list[int]) -> None:
        """Delete what belongs to no segment, but for the latest one if it is behind them all.

        That one was taken when the log was closed. `ProducerStateManager.removeStraySnapshots`.
        """
        strays = sorted(offset for offset in self.snapshots if offset not in segments)
        if strays and strays[-1] >= max(segments):
            strays.pop()
        for offset in strays:
            del self.snapshots[offset]
