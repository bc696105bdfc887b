"""Groups of consumers of other hands: kafka-python, aiokafka, librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from impl.broker.config import NodeConfig
from impl.broker.server import Server
from impl.coordinator.group_config import GroupConfig

with catch_warnings():  # kafka-python reads its schemas in a deprecated way
    simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer

pytestmark = pytest.mark.slow  # clients of others, with threads of their own

SECONDS = 20
PARTITIONS = 4


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    config = NodeConfig(
        host="127.0.0.1",
        port=0,
        num_partitions=PARTITIONS,
        groups=GroupConfig(initial_rebalance_delay_ms=0),
    )
    async with asyncio.timeout(SECONDS), Server(config) as server:
        server.node.topics.create("t", PARTITIONS, {})
        yield server


async def write(server: Server, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{server.port}")
    await producer.start()
    for number in range(count):
        await producer.send_and_wait("t", b"%d" % number, partition=number % PARTITIONS)
    await producer.stop()


def states(server: Server) -> dict[str, tuple[str, int]]:
    groups = server.node.coordinators.memberships.groups.groups
    return {name: (group.state.value, len(group.members)) for name, group in groups.items()}


def committed(server: Server, group_id: str = "g") -> int:
    """The sum of what the group has committed."""
    fetched = server.node.coordinators.offsets.fetch(group_id, None, require_stable=False)
    return sum(row.offset for row in fetched.rows)


# ---- one consumer joins, another joins, one leaves


@dataclass
class Reader:
    """A consumer in a thread; it runs until it is told to stop."""

    poll: Callable[[], list[bytes]]
    assigned: Callable[[], int]
    close: Callable[[], None]
    values: list[bytes] = field(default_factory=list)
    partitions: int = 0
    stops: bool = False

    def run(self) -> None:
        while not self.stops:
            self.values += self.poll()
            self.partitions = self.assigned()
        self.close()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reader]:
        """Runs until the body ends: a thread that a failed test left behind would never end."""
        running = asyncio.create_task(asyncio.to_thread(self.run))
        try:
            yield self
        finally:
            self.stops = True
            await running


def kafka_python(address: str, **more: Any) -> Reader:
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=address,
        group_id="g",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        **more,
    )
    consumer.partitions_for_topic("t")  # else it may assign a topic that it knows nothing of

    def poll() -> list[bytes]:
        return [r.value for rows in consumer.poll(timeout_ms=50).values() for r in rows]

    return Reader(poll, lambda: len(consumer.assignment()), consumer.close)


def librdkafka(address: str, **more: Any) -> Reader:
    settings = {
        "bootstrap.servers": address,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
        **more,
    }
    consumer = LibrdkafkaConsumer(settings)
    consumer.subscribe(["t"])

    def poll() -> list[bytes]:
        message = consumer.poll(0.05)
        return [] if message is None or message.error() else [message.value()]

    return Reader(poll, lambda: len(consumer.assignment()), consumer.close)


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "make",
    [
        kafka_python,
        librdkafka,
        lambda address: librdkafka(
            address, **{"partition.assignment.strategy": "cooperative-sticky"}
        ),
    ],
    ids=["kafka-python", "librdkafka", "librdkafka cooperative"],
)
async def test_partitions_are_shared_by_members_that_come_and_go(
    make: Callable[[str], Reader],
) -> None:
    async with serving() as server:
        await write(server, 40)
        address = f"127.0.0.1:{server.port}"
        one = await asyncio.to_thread(make, address)
        async with AsyncExitStack() as two_reads:
            async with one.reading():
                await until(lambda: len(one.values) == 40)
                two = await asyncio.to_thread(make, address)
                await two_reads.enter_async_context(two.reading())
                await until(lambda: (one.partitions, two.partitions) == (2, 2))
                await until(lambda: states(server) == {"g": ("Stable", 2)})
            await until(lambda: two.partitions == PARTITIONS)
            await write(server, 40)
            await until(lambda: len(two.values) >= 40)
        assert states(server) == {"g": ("Empty", 0)}
        assert committed(server) == 80


async def test_aiokafka_consumers_share_partitions() -> None:
    async with serving() as server:
        await write(server, 8)
        settings = {
            "bootstrap_servers": f"127.0.0.1:{server.port}",
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
        }
        one, two = (AIOKafkaConsumer("t", **settings) for _ in range(2))
        await one.start()
        values = {(await one.getone()).value for _ in range(8)}
        assert values == {b"%d" % number for number in range(8)}
        await two.start()
        await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
        await one.commit()
        await one.stop()
        await until(lambda: len(two.assignment()) == PARTITIONS)
        await two.stop()
        assert states(server) == {"g": ("Empty", 0)}
        assert committed(server) == 8


async def test_a_static_member_comes_back_without_a_rebalance() -> None:
    async with serving() as server:
        await write(server, 4)
        address = f"127.0.0.1:{server.port}"

        def member() -> Reader:
            return librdkafka(address, **{"group.instance.id": "one"})

        for generation in range(2):
            reader = await asyncio.to_thread(member)
            async with reader.reading():
                await until(lambda reader=reader: reader.partitions == PARTITIONS)
            group = server.node.coordinators.memberships.groups.groups["g"]
            assert (group.state.value, group.generation_id) == ("Stable", 1), generation


def _process_in_a_transaction(address: str) -> int:
    """librdkafka: consume, produce, commit the group's offsets with the transaction."""
    reader = librdkafka(address, **{"enable.auto.commit": False})
    consumer: Any = reader.poll.__closure__[0].cell_contents  # type: ignore[index]
    producer = LibrdkafkaProducer({"bootstrap.servers": address, "transactional.id": "T"})
    producer.init_transactions(SECONDS)
    begun = monotonic()
    while not reader.poll():
        assert monotonic() - begun < SECONDS
    producer.begin_transaction()
    producer.produce("out", b"v")
    offsets = [LibrdkafkaPartition("t", 0, 1)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)
    consumer.close()
    return consumer is not None


async def test_offsets_of_a_transaction_are_held_to_the_generation() -> None:
    async with serving() as server:
        await write(server, 1)
        await asyncio.to_thread(_process_in_a_transaction, f"127.0.0.1:{server.port}")
        assert committed(server) == 1


async def test_kafka_python_lists_describes_and_deletes_groups() -> None:
    async with serving() as server:
        await write(server, 4)
        address = f"127.0.0.1:{server.port}"
        reader = await asyncio.to_thread(kafka_python, address)
        async with reader.reading():
            await until(lambda: states(server) == {"g": ("Stable", 1)})
            admin = await asyncio.to_thread(KafkaAdminClient, bootstrap_servers=address)

            def administer() -> tuple[Any, Any]:
                return admin.list_groups(), admin.describe_groups(["g"])

            listed, described = await asyncio.to_thread(administer)
            print(listed, described)
        await asyncio.to_thread(admin.delete_groups, ["g"])
        assert states(server) == {}
        await asyncio.to_thread(admin.close)
