"""The log of one partition as frozen values: for tests that look at what was written."""

from __future__ import annotations

from typing import NamedTuple

from impl.broker.topics import Topic
from impl.partition.producer_state import ProducerStateEntry
from impl.partition.stored_batch import StoredBatch
from impl.protocol.control_records import ControlType, control_type
from impl.protocol.record_batch import Record, decode_batch


class BatchView(NamedTuple):
    """One batch. Producer id, epoch and sequence are -1 where it has none.

    `control` is COMMIT or ABORT for a transaction's marker, None for data.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    control: str | None
    records: tuple[Record, ...]


class ProducerView(NamedTuple):
    """What the partition remembers of a producer id. `last_sequence` is -1 after a marker."""

    producer_id: int
    producer_epoch: int
    last_sequence: int


class OpenTransaction(NamedTuple):
    """A transaction without its marker in this partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class LogView(NamedTuple):
    """A partition's log, and what its leader knows."""

    leader_id: int
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    batches: tuple[BatchView, ...]
    producers: tuple[ProducerView, ...]
    open_transactions: tuple[OpenTransaction, ...]

    @property
    def values(self) -> list[bytes | None]:
        """The values of all records but markers, committed or not."""
        data = (batch for batch in self.batches if batch.control is None)
        return [record.value for batch in data for record in batch.records]


def view_log(topic: Topic, partition: int) -> LogView:
    """The log of a partition that the topic has. Raises `DecodeError` if it is damaged."""
    leader = topic.partitions[partition]
    view = leader.view()
    return LogView(
        topic.placements[partition].leader_id,
        leader.leader_epoch,
        leader.log_start_offset,
        leader.log_end_offset,
        leader.high_watermark,
        leader.last_stable_offset,
        tuple(map(_view_batch, leader.batches)),
        tuple(_view_producer(*row) for row in view.producers),
        tuple(
            OpenTransaction(producer_id, leader.producers[producer_id].producer_epoch, offset)
            for offset, producer_id in view.ongoing
        ),
    )


def _view_producer(producer_id: int, entry: ProducerStateEntry) -> ProducerView:
    return ProducerView(producer_id, entry.producer_epoch, entry.last_sequence)


def _view_batch(stored: StoredBatch) -> BatchView:
    batch = decode_batch(stored.data)
    kind = ControlType(control_type(batch.records[0])).name if batch.is_control else None
    return BatchView(
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        kind,
        batch.records,
    )
