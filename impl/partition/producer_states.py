"""All producers that a replica of a partition remembers, and their snapshots.

Six rules:

1. `entries` is the state of the log up to `map_end_offset`.
2. A snapshot is taken only at an offset beyond the last one's.
3. A reload starts from nothing: the newest valid snapshot inside the log, then replayed batches.
4. A corrupt snapshot is deleted and listed in `corrupt_snapshots`; the next older one is tried.
5. Deleting records at the head of the log keeps memory (2.4 and later, KAFKA-7190), but deletes
   snapshots with their segments: after a restart such a producer is unknown.
6. A transaction is `ongoing` until its marker is written, and `unreplicated` until the marker is
   below the high watermark: the lowest first offset of both is the first unstable offset.

Theory of operation: a log calls `update` for batches that its leader accepted, `replay` for those
of another leader, `take_snapshot` when a segment begins and when it closes, `truncate_and_reload`
after any change of the end of the log. Snapshots map offsets to the bytes of files: a dict in
memory, or a `SnapshotDirectory`. Source: `ProducerStateManager` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final, NamedTuple

from impl.log.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from impl.partition.errors import PlainBatchInTransaction, TransactionNotOngoing
from impl.partition.log_config import LogConfig
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
from impl.partition.transactions import (
    CompletedTransaction,
    check_open,
    is_open,
    parse_marker,
    with_marker,
)
from impl.partition.verification import VerificationEntry, update_lowest_sequence
from impl.protocol.control_records import ControlType
from impl.protocol.errors import CorruptSnapshot
from impl.protocol.record_batch import (
    CONTROL,
    INVALID_OFFSET,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    last_sequence,
)

_new: Final = tuple.__new__


class SkippedSnapshot(NamedTuple):
    """A corrupt snapshot, which was deleted: the offset in its name, and its error."""

    offset: int
    error: CorruptSnapshot


def apply_data_batch(entry: ProducerStateEntry, stored: StoredBatch) -> ProducerStateEntry:
    """The entry after one more data batch, which may begin a transaction.

    `ProducerAppendInfo.appendDataBatch`.
    """
    delta = stored.last_offset_delta
    metadata = _new(
        BatchMetadata,
        (
            last_sequence(stored.base_sequence, delta),
            stored.base_offset + delta,
            delta,
            stored.max_timestamp,
        ),
    )
    after = with_batch(entry, stored.producer_epoch, metadata)
    if stored.attributes & TRANSACTIONAL and not is_open(after):
        return after._replace(current_txn_first_offset=stored.base_offset)
    return after


class ProducerStates:
    """The producers of one replica: see the rules above.

    Read-only: `entries` and `verifications` (by producer id), `ongoing` (first offset to producer
    id, ascending), `unreplicated` (first offset to that of the marker), `map_end_offset`,
    `last_snapshot_offset`, `snapshots`, `corrupt_snapshots` (of the last reload).
    """

    __slots__ = (
        "_expiration_ms",
        "_last_guard",
        "_rules",
        "corrupt_snapshots",
        "entries",
        "last_snapshot_offset",
        "map_end_offset",
        "ongoing",
        "snapshots",
        "unreplicated",
        "verifications",
    )

    def __init__(
        self, snapshots: MutableMapping[int, bytes], log_start_offset: int, config: LogConfig
    ) -> None:
        self._expiration_ms = config.producer_id_expiration_ms
        self._last_guard = 0
        self._rules = config.rules
        self.snapshots = snapshots
        self.entries: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        self.unreplicated: dict[int, int] = {}
        self.verifications: dict[int, VerificationEntry] = {}
        self.map_end_offset = log_start_offset
        self.last_snapshot_offset = max(snapshots, default=log_start_offset)
        self.corrupt_snapshots: tuple[SkippedSnapshot, ...] = ()

    # ---- batches

    def replay(self, stored: StoredBatch) -> CompletedTransaction | None:
        """Apply a batch without checks (origin REPLICATION); the transaction that its marker ends.

        Raises `InvalidRecord`, `PlainBatchInTransaction`, `TransactionNotOngoing`.
        """
        if stored.producer_id <= NO_PRODUCER_ID:
            return None
        entry = self.entries.get(stored.producer_id, UNKNOWN_PRODUCER)
        if not stored.attributes & CONTROL:
            if check_open(entry, bool(stored.attributes & TRANSACTIONAL)):
                raise PlainBatchInTransaction(f"at offset {stored.base_offset}")
            self.update(stored, apply_data_batch(entry, stored))
            return None
        marker = parse_marker(stored.data)
        if marker is None:
            return None
        after = with_marker(
            entry, stored.producer_epoch, marker.coordinator_epoch, stored.max_timestamp
        )
        return self.end(stored, after, is_aborted=marker.control_type == ControlType.ABORT)

    def update(self, stored: StoredBatch, entry: ProducerStateEntry) -> None:
        """Apply a data batch in the log; `entry` is its producer's new one."""
        producer_id = stored.producer_id
        self.entries[producer_id] = entry
        if stored.attributes & TRANSACTIONAL:
            self.verifications.pop(producer_id, None)
            if entry.current_txn_first_offset == stored.base_offset:
                self.ongoing[stored.base_offset] = producer_id

    def end(
        self, stored: StoredBatch, entry: ProducerStateEntry, *, is_aborted: bool
    ) -> CompletedTransaction | None:
        """Apply a marker in the log; `entry` is its producer's new one. None if nothing was open.

        Raises `TransactionNotOngoing`. `ProducerStateManager.completeTxn`.
        """
        producer_id = stored.producer_id
        before = self.entries.get(producer_id, UNKNOWN_PRODUCER)
        self.entries[producer_id] = entry
        if not self._keeps_verification(stored):
            self.verifications.pop(producer_id, None)
        if not is_open(before):
            return None
        first_offset = before.current_txn_first_offset
        if self.ongoing.pop(first_offset, None) is None:
            raise TransactionNotOngoing(f"of producer {producer_id} from offset {first_offset} on")
        self.unreplicated[first_offset] = stored.base_offset
        return CompletedTransaction(producer_id, first_offset, stored.base_offset, is_aborted)

    def _keeps_verification(self, stored: StoredBatch) -> bool:
        """Whether the next transaction has begun verification already, in the marker's epoch."""
        entry = self.verifications.get(stored.producer_id)
        return (
            entry is not None
            and entry.supports_epoch_bump
            and entry.producer_epoch == stored.producer_epoch
            and self._rules.marker_keeps_verification
        )

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> VerificationEntry:
        """The producer's entry, created if it has none. `maybeCreateVerificationStateEntry`."""
        entry = self.verifications.get(producer_id)
        if entry is None:
            self._last_guard += 1
            entry = VerificationEntry(
                now_ms, self._last_guard, base_sequence, producer_epoch, supports_epoch_bump
            )
        entry = update_lowest_sequence(entry, base_sequence, producer_epoch)
        self.verifications[producer_id] = entry
        return entry

    # ---- transactions

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of all transactions without a replicated marker, or INVALID_OFFSET."""
        first = next(iter(self.ongoing), INVALID_OFFSET)
        if not self.unreplicated:
            return first
        ended = min(self.unreplicated)
        return ended if first == INVALID_OFFSET else min(first, ended)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """The last stable offset right after this transaction. `ProducerStateManager`."""
        return next(iter(self.ongoing), completed.last_offset + 1)

    def remove_replicated_transactions(self, offset: int) -> None:
        """Forget transactions whose marker is below `offset`. `removeUnreplicatedTransactions`."""
        for first_offset, last_offset in list(self.unreplicated.items()):
            if last_offset < offset:
                del self.unreplicated[first_offset]

    # ---- expiry and snapshots

    def remove_expired(self, now_ms: int) -> None:
        """Forget idle producers, and old verifications.

        `ProducerStateManager.removeExpiredProducers`.
        """
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if is_expired(entry, now_ms, self._expiration_ms)
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        for producer_id, verification in list(self.verifications.items()):
            if now_ms - verification.created_ms >= self._expiration_ms:
                del self.verifications[producer_id]

    def encode(self) -> bytes:
        """The bytes of a snapshot."""
        return encode_snapshot(to_snapshot(*item) for item in self.entries.items())

    def take_snapshot(self) -> None:
        """Store a snapshot at `map_end_offset`, unless the last one is as new."""
        if self.map_end_offset > self.last_snapshot_offset:
            self.snapshots[self.map_end_offset] = self.encode()
            self.last_snapshot_offset = self.map_end_offset

    def forget(self) -> None:
        """Clear memory; snapshots stay."""
        self._clear()
        self.map_end_offset = 0
        self.last_snapshot_offset = max(self.snapshots, default=0)

    def truncate_and_reload(self, log_start: int, log_end: int, now_ms: int) -> None:
        """Restore the state of a log with these ends, up to `map_end_offset`.

        Expired producers are not loaded.
        """
        self.corrupt_snapshots = ()
        for offset in list(self.snapshots):
            if not log_start < offset <= log_end:
                del self.snapshots[offset]
        if log_end == self.map_end_offset:
            self.on_log_start_incremented(log_start)
        else:
            self._clear()
            self._load_newest(log_start, now_ms)

    def _clear(self) -> None:
        self.entries.clear()
        self.ongoing.clear()
        self.unreplicated.clear()

    def _load_newest(self, log_start: int, now_ms: int) -> None:
        self.last_snapshot_offset = self.map_end_offset = log_start
        for offset in sorted(self.snapshots, reverse=True):
            try:
                rows = decode_snapshot(self.snapshots[offset])
            except CorruptSnapshot as error:
                self.corrupt_snapshots += (SkippedSnapshot(offset, error),)
                del self.snapshots[offset]
                continue
            self._load(rows, now_ms)
            self.last_snapshot_offset = self.map_end_offset = offset
            return

    def _load(self, rows: list[SnapshotEntry], now_ms: int) -> None:
        for row in rows:
            entry = from_snapshot(row)
            if not is_expired(entry, now_ms, self._expiration_ms):
                self.entries[row.producer_id] = entry
        opened = (item for item in self.entries.items() if is_open(item[1]))
        self.ongoing.update(
            sorted((entry.current_txn_first_offset, producer_id) for producer_id, entry in opened)
        )

    def on_log_start_incremented(self, log_start: int) -> None:
        """Records before `log_start` were deleted. `onLogStartOffsetIncremented`."""
        self.remove_replicated_transactions(log_start)
        self.map_end_offset = max(self.map_end_offset, log_start)
        self.last_snapshot_offset = max(self.snapshots, default=log_start)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Clear memory and snapshots, for an empty log that begins at `offset`."""
        self._clear()
        self.snapshots.clear()
        self.map_end_offset = self.last_snapshot_offset = offset

    def remove_stray_snapshots(self, segments: list[int]) -> None:
        """Delete snapshots that are not at a segment's start, except the last one if it is newest.

        That one was taken when the log was closed. `ProducerStateManager.removeStraySnapshots`.
        """
        strays = sorted(offset for offset in self.snapshots if offset not in segments)
        if strays and strays[-1] >= max(segments):
            strays.pop()
        for offset in strays:
            del self.snapshots[offset]
