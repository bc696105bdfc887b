"""All that a server shows at one moment, as one frozen record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from conformance.kafka.admin import ActiveProducer, TopicPartition
from conformance.transactions.reading import (
    CONSUMER_OFFSETS,
    BatchSeen,
    Fetched,
    Isolation,
    OffsetRecord,
    OffsetSeen,
    TransactionRecord,
    TransactionSeen,
    committed_values,
    describe_producers,
    describe_transactions,
    fetch,
    fetch_offsets,
    list_latest,
    offset_records,
    see,
    transaction_records,
)
from conformance.transactions.testbed import KafkaTestbed
from conformance.transactions.wire import Wire


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """A log and its leader's memory.

    `batches` is the log as read_uncommitted; `committed` what a read_committed consumer hands on;
    `aborted` the (producer id, first offset) that the leader tells such a consumer.
    """

    high_watermark: int
    last_stable_offset: int
    batches: tuple[BatchSeen, ...]
    committed: tuple[str, ...]
    aborted: tuple[tuple[int, int], ...]
    producers: Mapping[int, ActiveProducer]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look at: transactional ids, partitions, and the groups' offsets of partitions."""

    ids: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    offsets: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """A server's state: by transactional id, by partition, by group and partition.

    `stable` are the groups' offsets as a read_committed consumer asks for them. `log` are the
    records of `__transaction_state` that belong to the ids that were asked about; `offset_log`
    those of `__consumer_offsets` that belong to the groups, with their transactions' markers.
    """

    transactions: Mapping[str, TransactionSeen]
    partitions: Mapping[TopicPartition, PartitionSeen]
    offsets: Mapping[tuple[str, TopicPartition], OffsetSeen]
    stable: Mapping[tuple[str, TopicPartition], OffsetSeen]
    log: tuple[TransactionRecord, ...]
    offset_log: tuple[OffsetRecord | BatchSeen, ...]


def observe(testbed: KafkaTestbed, asked: Asked) -> Observed:
    """Look at all that was asked. Raises what a `Wire` raises, RequestRefused."""
    transactions = testbed.coordinator().ask(describe_transactions(asked.ids))
    return Observed(
        transactions,
        {partition: see_partition(testbed, partition) for partition in asked.partitions},
        _offsets(testbed, asked, require_stable=False),
        _offsets(testbed, asked, require_stable=True),
        see_log(testbed, asked.ids),
        see_offset_log(testbed, asked.offsets) if asked.offsets else (),
    )


def see_partition(testbed: KafkaTestbed, partition: TopicPartition) -> PartitionSeen:
    """A partition at its leader."""
    wire = testbed.leader(partition)
    all_of_it = wire.ask(fetch(partition, 0, Isolation.READ_UNCOMMITTED))
    decided = wire.ask(fetch(partition, 0, Isolation.READ_COMMITTED))
    producers = wire.ask(describe_producers(partition))
    return PartitionSeen(
        wire.ask(list_latest(partition, Isolation.READ_UNCOMMITTED)),
        wire.ask(list_latest(partition, Isolation.READ_COMMITTED)),
        tuple(map(see, all_of_it.batches)),
        committed_values(decided),
        decided.aborted,
        producers,
    )


def see_log(
    testbed: KafkaTestbed, ids: Iterable[str], starts: Mapping[TopicPartition, int] | None = None
) -> tuple[TransactionRecord, ...]:
    """The records of `__transaction_state` about some ids, in order, each partition from an offset
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
) -> tuple[OffsetRecord | BatchSeen, ...]:
    """The records of `__consumer_offsets` about some groups, with their producers' markers."""
    wanted = set(groups)
    rows = [
        row
        for fetched in _pieces(testbed.group_coordinator(), CONSUMER_OFFSETS, 0)
        for row in offset_records(fetched)
        if isinstance(row, BatchSeen) or row.group_id in wanted
    ]
    producers = {row.producer_id for row in rows if isinstance(row, OffsetRecord)}
    return tuple(row for row in rows if row.producer_id in producers)


def _pieces(wire: Wire, partition: TopicPartition, offset: int) -> Iterator[Fetched]:
    """A log from `offset` to its end."""
    while (got := wire.ask(fetch(partition, offset, Isolation.READ_UNCOMMITTED))).batches:
        yield got
        offset = got.batches[-1].last_offset + 1


def _offsets(
    testbed: KafkaTestbed, asked: Asked, *, require_stable: bool
) -> dict[tuple[str, TopicPartition], OffsetSeen]:
    return {
        (group, partition): seen
        for group, partitions in asked.offsets.items()
        for partition, seen in testbed.group_coordinator()
        .ask(fetch_offsets(group, partitions, require_stable=require_stable))
        .items()
    }
