"""A consume-transform-produce program: read records, write a result for each, commit offsets.

1. In a transaction, results and offsets are atomic: a read_committed reader finds each result once.
   Without one, a crash between the two duplicates or loses results.
2. Producers and consumers are passed in, with a simulated network or with sockets.

Theory of operation: `Job.write_input` comes first; `work` is one worker, run as often as needed;
`Job.read` reads the output, and `Job.compare` checks it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.consumer.consumer import Consumer
from impl.producer.producer import Producer
from impl.protocol.fields import TopicPartition

FETCH_MS: Final = 200

Records = dict[TopicPartition, list[bytes | None]]
"""The values that a reader received, in order."""


class Order(Enum):
    """In which order a round writes results and commits offsets."""

    TRANSACTION = "transaction"
    PRODUCE_THEN_COMMIT = "produce-then-commit"
    COMMIT_THEN_PRODUCE = "commit-then-produce"


class Comparison(NamedTuple):
    """The `lost` and the `duplicated` results; `out_of_order` counts partitions."""

    lost: tuple[str, ...]
    duplicated: tuple[str, ...]
    out_of_order: int


class Job(NamedTuple):
    """The size of the job and its names. A round processes `records_a_round`."""

    input_topic: str = "input"
    output_topic: str = "output"
    group_id: str = "workers"
    partitions: int = 2
    records_a_partition: int = 6
    records_a_round: int = 4

    @property
    def input(self) -> list[TopicPartition]:
        """The input partitions."""
        return [(self.input_topic, partition) for partition in range(self.partitions)]

    @property
    def output(self) -> list[TopicPartition]:
        """The output partitions; a result has the partition of its record."""
        return [(self.output_topic, partition) for partition in range(self.partitions)]

    async def write_input(self, producer: Producer) -> None:
        """Write the input. Raises as `Producer.send_and_wait`."""
        for number in range(self.records_a_partition):
            for partition in range(self.partitions):
                value = b"%d.%d" % (partition, number)
                await producer.send_and_wait(self.input_topic, value, partition=partition)

    async def read(self, consumer: Consumer) -> Records:
        """Read the output to its end with this consumer. Raises as `Consumer.getmany`."""
        read: Records = {place: [] for place in self.output}
        consumer.assign(self.output)
        ends = await consumer.end_offsets(self.output)
        while [place for place in ends if await consumer.position(place) < ends[place]]:
            for place, records in (await consumer.getmany(timeout_ms=FETCH_MS)).items():
                read[place].extend(record.value for record in records)
        return read

    def compare(self, records: Records) -> Comparison:
        """Compare the output with what is expected: each result once, in the order of the input."""
        lost: list[str] = []
        duplicated: list[str] = []
        out_of_order = 0
        for place in self.output:
            wanted = [f"result of {place[1]}.{n}" for n in range(self.records_a_partition)]
            counted = Counter((value or b"").decode() for value in records.get(place, []))
            lost += [value for value in wanted if value not in counted]
            duplicated += list((counted - Counter(wanted)).elements())
            out_of_order += list(counted) != [value for value in wanted if value in counted]
        return Comparison(tuple(lost), tuple(duplicated), out_of_order)


async def work(job: Job, order: Order, producer: Producer, consumer: Consumer) -> None:
    """Process rounds until no input is left. Raises as producer and consumer do."""
    consumer.assign(job.input)
    ends = await consumer.end_offsets(job.input)
    while [place for place in ends if await consumer.position(place) < ends[place]]:
        fetched = await consumer.getmany(timeout_ms=FETCH_MS, max_records=job.records_a_round)
        results = [
            (partition, b"result of " + (record.value or b""))
            for (_, partition), records in fetched.items()
            for record in records
        ]
        offsets = {place: await consumer.position(place) for place in fetched}
        if results:
            await ROUNDS[order](job, producer, consumer, results, offsets)


Results = list[tuple[int, bytes]]
Offsets = Mapping[TopicPartition, int]
Round = Callable[[Job, Producer, Consumer, Results, Offsets], Awaitable[None]]


async def _transaction(
    job: Job, producer: Producer, consumer: Consumer, results: Results, offsets: Offsets
) -> None:
    async with producer.transaction():
        for partition, value in results:
            await producer.send(job.output_topic, value, partition=partition)
        await producer.send_offsets_to_transaction(offsets, job.group_id)


async def _produce_then_commit(
    job: Job, producer: Producer, consumer: Consumer, results: Results, offsets: Offsets
) -> None:
    await _produce(job, producer, results)
    await consumer.commit(offsets)


async def _commit_then_produce(
    job: Job, producer: Producer, consumer: Consumer, results: Results, offsets: Offsets
) -> None:
    await consumer.commit(offsets)
    await _produce(job, producer, results)


async def _produce(job: Job, producer: Producer, results: Results) -> None:
    outcomes = [
        await producer.send(job.output_topic, value, partition=partition)
        for partition, value in results
    ]
    await asyncio.gather(*outcomes)


ROUNDS: Final[Mapping[Order, Round]] = MappingProxyType(
    {
        Order.TRANSACTION: _transaction,
        Order.PRODUCE_THEN_COMMIT: _produce_then_commit,
        Order.COMMIT_THEN_PRODUCE: _commit_then_produce,
    }
)
