"""The program that transactions are for: read records, write a result for each, remember how far.

1. In a transaction, results and offsets are one: a reader of committed records sees each result
   once. Without one, what is done first may be done twice, or what is left may never be done.
2. Nothing here knows where the brokers are: producers and consumers come from outside, with the
   network of a simulated world or with sockets.

Theory of operation: `Job.write_input` comes first, `work` is one life of a worker, as often as it
takes; `Job.read` is the judge's reader, `Job.compared` what it says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.client.cluster import TopicPartition
from impl.consumer.consumer import Consumer
from impl.producer.producer import Producer

FETCH_MS: Final = 200

Seen = dict[TopicPartition, list[bytes | None]]
"""What a reader was shown, in its order."""


class Order(Enum):
    """What a round does first."""

    TRANSACTION = "transaction"
    PRODUCE_THEN_COMMIT = "produce-then-commit"
    COMMIT_THEN_PRODUCE = "commit-then-produce"


class Compared(NamedTuple):
    """`lost` and `duplicated` are the results that were seen never, or once more; `out_of_order`
    counts partitions."""

    lost: tuple[str, ...]
    duplicated: tuple[str, ...]
    out_of_order: int


class Job(NamedTuple):
    """What there is to do: how much, and under which names. A round takes `records_a_round`."""

    input_topic: str = "input"
    output_topic: str = "output"
    group_id: str = "workers"
    partitions: int = 2
    records_a_partition: int = 6
    records_a_round: int = 4

    @property
    def input(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return [(self.input_topic, partition) for partition in range(self.partitions)]

    @property
    def output(self) -> list[TopicPartition]:
        """The partitions that results are written to: each to that of its record."""
        return [(self.output_topic, partition) for partition in range(self.partitions)]

    async def write_input(self, producer: Producer) -> None:
        """All that is to be read. Raises as `Producer.send_and_wait`."""
        for number in range(self.records_a_partition):
            for partition in range(self.partitions):
                value = b"%d.%d" % (partition, number)
                await producer.send_and_wait(self.input_topic, value, partition=partition)

    async def read(self, consumer: Consumer) -> Seen:
        """The output up to its end, as this consumer sees it. Raises as `Consumer.getmany`."""
        read: Seen = {place: [] for place in self.output}
        consumer.assign(self.output)
        ends = await consumer.end_offsets(self.output)
        while [place for place in ends if await consumer.position(place) < ends[place]]:
            for place, records in (await consumer.getmany(timeout_ms=FETCH_MS)).items():
                read[place].extend(record.value for record in records)
        return read

    def compared(self, seen: Seen) -> Compared:
        """What was seen beside what there must be: each result once, in the order of the input."""
        lost: list[str] = []
        duplicated: list[str] = []
        out_of_order = 0
        for place in self.output:
            wanted = [f"result of {place[1]}.{n}" for n in range(self.records_a_partition)]
            counted = Counter((value or b"").decode() for value in seen.get(place, []))
            lost += [value for value in wanted if value not in counted]
            duplicated += list((counted - Counter(wanted)).elements())
            out_of_order += list(counted) != [value for value in wanted if value in counted]
        return Compared(tuple(lost), tuple(duplicated), out_of_order)


async def work(job: Job, order: Order, producer: Producer, consumer: Consumer) -> None:
    """One life: round after round until nothing is left. Raises what producer and consumer do."""
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
