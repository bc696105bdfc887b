"""The observable state of a partition, and of the logs of coordinators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from conformance.adapters.brokers.kafka.admin import ActiveProducer, TopicPartition
from conformance.adapters.brokers.reading import (
    CONSUMER_OFFSETS,
    Fetched,
    ObservedBatch,
    OffsetRecord,
    ReadIsolation,
    TransactionRecord,
    committed_values,
    describe_producers,
    fetch,
    list_latest,
    offset_records,
    see,
    transaction_records,
)
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.wire import CoordinatorConnection


@dataclass(frozen=True, slots=True)
class ObservedPartition:
    """A log, and the producer states of its leader.

    `batches` is the log as read_uncommitted; `committed` has the records that a read_committed
    consumer returns; `aborted` has the (producer id, first offset) pairs that the leader gives to
    such a consumer.
    """

    high_watermark: int
    last_stable_offset: int
    batches: tuple[ObservedBatch, ...]
    committed: tuple[str, ...]
    aborted: tuple[tuple[int, int], ...]
    producers: Mapping[int, ActiveProducer]


def see_partition(testbed: KafkaTestbed, partition: TopicPartition) -> ObservedPartition:
    """The state of a partition at its leader."""
    wire = testbed.leader(partition)
    all_of_it = wire.ask(fetch(partition, 0, ReadIsolation.READ_UNCOMMITTED))
    decided = wire.ask(fetch(partition, 0, ReadIsolation.READ_COMMITTED))
    producers = wire.ask(describe_producers(partition))
    return ObservedPartition(
        wire.ask(list_latest(partition, ReadIsolation.READ_UNCOMMITTED)),
        wire.ask(list_latest(partition, ReadIsolation.READ_COMMITTED)),
        tuple(map(see, all_of_it.batches)),
        committed_values(decided),
        decided.aborted,
        producers,
    )


def see_log(
    testbed: KafkaTestbed, ids: Iterable[str], starts: Mapping[TopicPartition, int] | None = None
) -> tuple[TransactionRecord, ...]:
    """The records of `__transaction_state` for some ids, in order, each partition from an offset
    on."""
    wanted = set(ids)
    return tuple(
        row
        for partition in testbed.transaction_logs()
        for fetched in _pieces(testbed.coordinator(), partition, (starts or {}).get(partition, 0))
        for row in transaction_records(fetched)
        if row.transactional_id in wanted
    )


def see_offset_log(
    testbed: KafkaTestbed, groups: Iterable[str]
) -> tuple[OffsetRecord | ObservedBatch, ...]:
    """The records of `__consumer_offsets` for some groups, with the markers of their producers."""
    wanted = set(groups)
    rows = [
        row
        for fetched in _pieces(testbed.group_coordinator(), CONSUMER_OFFSETS, 0)
        for row in offset_records(fetched)
        if isinstance(row, ObservedBatch) or row.group_id in wanted
    ]
    producers = {row.producer_id for row in rows if isinstance(row, OffsetRecord)}
    return tuple(row for row in rows if row.producer_id in producers)


def _pieces(
    wire: CoordinatorConnection, partition: TopicPartition, offset: int
) -> Iterator[Fetched]:
    """The pieces of a log from `offset` to its end."""
    while (got := wire.ask(fetch(partition, offset, ReadIsolation.READ_UNCOMMITTED))).batches:
        yield got
        offset = got.batches[-1].last_offset + 1
