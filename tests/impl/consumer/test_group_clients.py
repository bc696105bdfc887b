"""Members of one group that are of several hands, at our broker and Kafka's.

A classic group has ours and aiokafka's or librdkafka's, a consumer group (KIP-848) ours and
librdkafka's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl import Broker, Consumer, Producer

SECONDS = 15
RECORDS = 40
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
SHARED_WITH_LIBRDKAFKA = ("range", "roundrobin", "cooperative-sticky")
CONSUMER = "consumer"
"""The protocol, and a topic."""
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
FAST = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}


@pytest.fixture(scope="module", params=["ours", pytest.param("4.3.1", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "ours":
        with Broker() as broker:
            yield create_topics(broker.bootstrap_servers)
        return
    with KafkaBroker(request.param, properties=QUICK) as kafka:
        yield create_topics("{}:{}".format(*kafka.address))


def create_topics(servers: str) -> str:
    admin = AdminClient({"bootstrap.servers": servers})
    with_librdkafka = [f"{name}-librdkafka" for name in SHARED_WITH_LIBRDKAFKA]
    names = (*ASSIGNORS, CONSUMER, *with_librdkafka)
    topics = [NewTopic(name, num_partitions=4) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(SECONDS)
    return servers


async def write(servers: str, topic: str) -> None:
    async with Producer(servers) as producer:
        for number in range(RECORDS):
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 4)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ASSIGNORS)
async def test_a_group_of_two_hands_reads_each_record_once(servers: str, strategy: str) -> None:
    settings = {"bootstrap_servers": servers, "group_id": strategy, **FAST}
    theirs = AIOKafkaConsumer(
        strategy, partition_assignment_strategy=[ASSIGNORS[strategy]], **settings
    )
    values: list[bytes] = []

    async def poll(*consumers: Consumer | AIOKafkaConsumer) -> None:
        for consumer in consumers:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                values.extend(record.value for record in records)

    async with asyncio.timeout(SECONDS):
        await write(servers, strategy)
        async with Consumer(
            strategy, partition_assignment_strategy=[ASSIGNORS[strategy]], **settings
        ) as ours:
            while len(values) < RECORDS:
                await poll(ours)
            starting = asyncio.create_task(theirs.start())
            try:
                while not starting.done():
                    await poll(ours)
                await write(servers, strategy)
                while len(values) < 2 * RECORDS:
                    await poll(ours, theirs)
                assert {len(ours.assignment()), len(theirs.assignment())} == {2}
            finally:
                await theirs.stop()
            while len(ours.assignment()) < 4:
                await poll(ours)
    assert sorted(values) == sorted([b"%d" % number for number in range(RECORDS)] * 2)


class Librdkafka:
    """Its consumer in the group of this name, for the topic of this name."""

    def __init__(self, servers: str, name: str, **settings: object) -> None:
        base = {"bootstrap.servers": servers, "group.id": name, "auto.offset.reset": "earliest"}
        self._consumer = confluent_kafka.Consumer({**base, **settings})
        self._consumer.subscribe([name])

    async def poll(self) -> list[bytes]:
        found = await asyncio.to_thread(self._consumer.consume, 100, 0.05)
        assert not any(message.error() for message in found)
        return [message.value() for message in found]

    def assignment(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    async def stop(self) -> None:
        await asyncio.to_thread(self._consumer.close)


@pytest.mark.slow
async def test_a_consumer_group_of_two_hands_reads_each_record_once(servers: str) -> None:
    values: list[bytes] = []
    settings = {"bootstrap_servers": servers, "group_id": CONSUMER, "group_protocol": CONSUMER}

    async def poll(*consumers: Consumer) -> None:
        for consumer in consumers:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                values.extend(record.value for record in records)

    async with asyncio.timeout(SECONDS):
        await write(servers, CONSUMER)
        settings["auto_offset_reset"] = "earliest"
        async with Consumer(CONSUMER, **settings) as one, Consumer(CONSUMER, **settings) as two:
            while len(values) < RECORDS:
                await poll(one, two)
            theirs = Librdkafka(servers, CONSUMER, **{"group.protocol": CONSUMER})
            try:
                while not (one.assignment() and two.assignment() and theirs.assignment()):
                    await poll(one, two)
                    values += await theirs.poll()
                await write(servers, CONSUMER)
                while len(values) < 2 * RECORDS:
                    await poll(one, two)
                    values += await theirs.poll()
                members = (one.assignment(), two.assignment(), theirs.assignment())
                assert sorted(map(len, members)) == [1, 1, 2]
            finally:
                await theirs.stop()
            while len(one.assignment()) + len(two.assignment()) < 4:
                await poll(one, two)
    assert sorted(values) == sorted([b"%d" % number for number in range(RECORDS)] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", SHARED_WITH_LIBRDKAFKA)
async def test_a_classic_group_with_librdkafka_reads_each_record_once(
    servers: str, strategy: str
) -> None:
    """Whoever leads assigns by the same protocol, and knows what the other one has."""
    name = f"{strategy}-librdkafka"
    values: list[bytes] = []
    settings = {"bootstrap_servers": servers, "group_id": name, **FAST}
    more = {
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 100,
    }

    async def poll(theirs: Librdkafka | None, *consumers: Consumer) -> None:
        for consumer in consumers:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                values.extend(record.value for record in records)
        if theirs is not None:
            values.extend(await theirs.poll())

    async def share(sizes: list[int], theirs: Librdkafka | None, *consumers: Consumer) -> None:
        while True:
            members = [*consumers, *([theirs] if theirs else [])]
            assigned = [member.assignment() for member in members]
            is_whole = len(frozenset().union(*assigned)) == sum(map(len, assigned)) == 4
            if is_whole and sorted(map(len, assigned)) == sizes:
                return
            await poll(theirs, *consumers)

    async with asyncio.timeout(2 * SECONDS):
        await write(servers, name)
        async with Consumer(name, partition_assignment_strategy=[strategy], **settings) as one:
            await share([4], None, one)
            theirs = Librdkafka(servers, name, **more)
            try:
                await share([2, 2], theirs, one)  # ours leads
                await write(servers, name)
                while len(values) < 2 * RECORDS:
                    await poll(theirs, one)
                await one.stop()
                await share([4], theirs)
                two = Consumer(name, partition_assignment_strategy=[strategy], **settings)
                async with two:
                    await share([2, 2], theirs, two)  # theirs leads
            finally:
                await theirs.stop()
    assert sorted(values) == sorted([b"%d" % number for number in range(RECORDS)] * 2)
