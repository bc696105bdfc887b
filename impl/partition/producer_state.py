"""What a partition remembers of one producer id, and what it lets that producer append.

Four rules:

1. An entry is a value: an append makes a new one, so a refused append cannot have changed it.
2. The last five batches are remembered, by last sequence and length; a sixth drops the oldest.
3. A batch equal to a remembered one is acknowledged and not appended; duplicates are checked first,
   within one epoch. A batch that overlaps without being equal is out of order.
4. A new epoch drops all batches: its first batch has sequence 0. An unknown producer id may start
   with any sequence (2.5 and later, KIP-360).

Theory of operation: the leader calls `find_duplicate`, then `check_producer_epoch`, then
`check_sequence`, and on success stores `with_batch`. Replication, failover and restart only call
`with_batch`: batches that a leader accepted are not checked again.
Sources: `ProducerStateEntry`, `ProducerAppendInfo`, release 4.3.1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.log.snapshot import SnapshotEntry
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    decrement_sequence,
    is_next_sequence,
)

_NONE: Final = ErrorCode.NONE
_new: Final = tuple.__new__
BATCHES_REMEMBERED: Final = 5
"""`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`; equal to a producer's limit of requests in flight."""

NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    """One remembered batch. `timestamp` is the batch's maximum, in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record; `decrement_sequence` handles the wrap (KAFKA-7692)."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry(NamedTuple):
    """One producer id in one partition. `batches` is oldest first; -1 stands for none."""

    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int = INVALID_OFFSET
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest remembered record, NO_SEQUENCE if no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


UNKNOWN_PRODUCER: Final = ProducerStateEntry()
"""The entry of a producer id that the partition does not know."""


def find_duplicate(
    entry: ProducerStateEntry, producer_epoch: int, last_sequence: int, last_offset_delta: int
) -> BatchMetadata | None:
    """The remembered batch of the same epoch, first and last sequence, or None.

    Equal last sequence and length imply equal first sequence.
    `ProducerStateEntry.findDuplicateBatch`.
    """
    if producer_epoch == entry.producer_epoch:
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.offset_delta == last_offset_delta:
                return batch
    return None


def check_producer_epoch(entry: ProducerStateEntry, producer_epoch: int) -> ErrorCode:
    """Refuse the epoch of a zombie. `ProducerAppendInfo.checkProducerEpoch`, KIP-98."""
    if producer_epoch < entry.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return _NONE


def check_sequence(entry: ProducerStateEntry, producer_epoch: int, base_sequence: int) -> ErrorCode:
    """Accept the next sequence, 0 in a new epoch, any from an unknown producer.

    `ProducerAppendInfo.checkSequence`.
    """
    if entry.producer_epoch == NO_PRODUCER_EPOCH:
        return _NONE
    last = entry.last_sequence if producer_epoch == entry.producer_epoch else NO_SEQUENCE
    if is_next_sequence(last, base_sequence):
        return _NONE
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def with_batch(
    entry: ProducerStateEntry, producer_epoch: int, batch: BatchMetadata
) -> ProducerStateEntry:
    """The entry after one data batch. `ProducerStateEntry.addBatch`."""
    kept = entry.batches if producer_epoch == entry.producer_epoch else ()
    if len(kept) == BATCHES_REMEMBERED:
        kept = kept[1:]
    return _new(
        ProducerStateEntry,
        (
            producer_epoch,
            entry.coordinator_epoch,
            batch.timestamp,
            entry.current_txn_first_offset,
            (*kept, batch),
        ),
    )


def is_expired(entry: ProducerStateEntry, now_ms: int, expiration_ms: int) -> bool:
    """Whether a producer was idle for `expiration_ms`, and has no open transaction.

    Idle by the timestamps of its records. `ProducerStateManager.isProducerExpired`.
    """
    is_idle = now_ms - entry.last_timestamp >= expiration_ms
    return is_idle and entry.current_txn_first_offset == INVALID_OFFSET


def to_snapshot(producer_id: int, entry: ProducerStateEntry) -> SnapshotEntry:
    """The snapshot row, with only the last batch. `ProducerStateManager.writeSnapshot`."""
    last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, INVALID_OFFSET, 0, -1)
    return SnapshotEntry(
        producer_id,
        entry.producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def from_snapshot(row: SnapshotEntry) -> ProducerStateEntry:
    """The entry of a snapshot row. `ProducerStateManager.readSnapshot`."""
    batch = BatchMetadata(row.last_sequence, row.last_offset, row.offset_delta, row.timestamp)
    return ProducerStateEntry(
        row.producer_epoch,
        row.coordinator_epoch,
        row.timestamp,
        row.current_txn_first_offset,
        (batch,) if row.last_offset >= 0 else (),
    )
