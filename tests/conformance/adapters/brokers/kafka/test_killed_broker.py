"""A real Kafka that is killed and started again, while our clients go on.

An idempotent producer writes, a transactional one commits and aborts, and a member of a group
transforms what both write, in transactions with its offsets. In the end each record is there once,
in its order, and so is each output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from conformance.adapters.brokers.kafka.admin import create_topic
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl import Consumer, Producer, ProducerError
from impl.client.errors import ClientError
from proofs.java import MissingTool
from tests.sizes import sized

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2
INPUT, OUTPUT = "input", "output"
IN_FLIGHT = 20
MORE = 60
"""So many records are acknowledged, and as many transformed, between two kills."""
SECONDS = 60
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
COMMITTED = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    broker = KafkaBroker("4.3.1", folder=tmp_path / "kafka", properties=QUICK)
    try:
        broker.start()
    except MissingTool as error:
        pytest.skip(str(error))
    try:
        with broker.connect() as connection:
            for topic in (INPUT, OUTPUT):
                create_topic(connection, topic, PARTITIONS)
        yield broker
    finally:
        broker.kill()


class Application:
    """Three clients of one broker, and what they were told."""

    def __init__(self, servers: str, group_protocol: str) -> None:
        self._servers = servers
        self._group_protocol = group_protocol
        self.is_stopped = False
        self.acked: list[tuple[int, bytes]] = []
        self.committed: list[tuple[int, bytes]] = []
        self.aborted: set[bytes] = set()
        self.transformed = 0
        self.repeated = 0

    async def send(self) -> None:
        """Write records, many in flight; what is acknowledged is in the order of `send`."""
        async with Producer(self._servers, linger_ms=0) as producer:
            room = asyncio.Semaphore(IN_FLIGHT)
            waiting = []
            for number in count():
                if self.is_stopped:
                    break
                await room.acquire()
                partition, value = number % PARTITIONS, b"plain-%d" % number
                sent = await producer.send(INPUT, value, partition=partition)
                sent.add_done_callback(lambda _: room.release())
                waiting.append((partition, value, sent))
                await asyncio.sleep(0.005)
            for partition, value, sent in waiting:
                assert (await sent).partition == partition
                self.acked.append((partition, value))

    async def transact(self) -> None:
        """Write a record into each partition in one transaction; every third is aborted."""
        async with Producer(self._servers, transactional_id="writer", linger_ms=0) as producer:
            for number in count():
                if self.is_stopped:
                    break
                rows = [(place, b"tx-%d-%d" % (number, place)) for place in range(PARTITIONS)]
                if number % 3:
                    await self._repeat(lambda rows=rows: self._commit(producer, rows))
                    self.committed += rows
                else:
                    self.aborted |= {value for _, value in rows}
                    await self._repeat(lambda rows=rows: self._abort(producer, rows))
                await asyncio.sleep(0.02)

    async def _commit(self, producer: Producer, rows: list[tuple[int, bytes]]) -> None:
        async with producer.transaction():
            for partition, value in rows:
                await producer.send(INPUT, value, partition=partition)

    async def _abort(self, producer: Producer, rows: list[tuple[int, bytes]]) -> None:
        await producer.begin_transaction()
        for partition, value in rows:
            await producer.send(INPUT, value, partition=partition)
        await producer.abort_transaction()

    async def _repeat(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Again after an error that was followed by an abort; any other ends the test."""
        while True:
            try:
                return await attempt()
            except ProducerError as error:
                if "begin_transaction" not in error.legal_calls:
                    raise
                self.repeated += 1

    async def transform(self) -> None:
        """Read committed records as a member, and write one for each with the offsets."""
        member = Consumer(
            INPUT,
            bootstrap_servers=self._servers,
            group_id="transform",
            group_protocol=self._group_protocol,
            enable_auto_commit=False,
            **COMMITTED,
        )
        async with (
            member,
            Producer(self._servers, transactional_id="transform", linger_ms=0) as producer,
        ):
            while not self.is_stopped:
                found = await member.getmany(timeout_ms=200, max_records=20)
                if not found:
                    continue
                try:
                    async with producer.transaction():
                        for (_, partition), records in found.items():
                            for record in records:
                                await producer.send(OUTPUT, record.value, partition=partition)
                        offsets = {place: rows[-1].offset + 1 for place, rows in found.items()}
                        await producer.send_offsets_to_transaction(offsets, member.group_metadata())
                    self.transformed += sum(map(len, found.values()))
                except ClientError as error:
                    if "begin_transaction" not in error.legal_calls:
                        raise
                    self.repeated += 1
                    for place in member.assignment() & found.keys():
                        member.seek(place, found[place][0].offset)


async def read(servers: str, topic: str) -> list[list[bytes]]:
    """The committed values of each partition."""
    async with Consumer(bootstrap_servers=servers, **COMMITTED) as consumer:
        places = [(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: dict[int, list[bytes]] = {partition: [] for _, partition in places}
        while any([await consumer.position(place) < ends[place] for place in places]):
            for (_, partition), records in (await consumer.getmany(timeout_ms=200)).items():
                found[partition] += [record.value or b"" for record in records]
        return list(found.values())


async def until(is_true: Callable[[], bool], tasks: list[asyncio.Task[None]]) -> None:
    """Wait for it; what a client raises meanwhile is raised."""
    async with asyncio.timeout(SECONDS):
        while not is_true():
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)


CASES = [("consumer", 1), ("consumer", 2), ("classic", 2)]
"""By which protocol the group is led, and how often the broker is killed."""


@pytest.mark.parametrize(("group_protocol", "kills"), sized(CASES, CASES[1:]))
async def test_what_a_killed_broker_was_given_is_there_once_and_in_order(
    kafka: KafkaBroker, group_protocol: str, kills: int
) -> None:
    servers = "{}:{}".format(*kafka.address)
    app = Application(servers, group_protocol)
    tasks = [asyncio.ensure_future(work()) for work in (app.send, app.transact, app.transform)]
    for kill in range(kills + 1):
        committed, transformed = len(app.committed), app.transformed
        await until(
            lambda c=committed, t=transformed: (
                len(app.committed) >= c + MORE // 3 and app.transformed >= t + MORE
            ),
            tasks,
        )
        if kill < kills:
            await asyncio.to_thread(kafka.kill)
            await asyncio.to_thread(kafka.start)
    app.is_stopped = True
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*tasks)

    stored, outputs = await read(servers, INPUT), await read(servers, OUTPUT)
    for partition in range(PARTITIONS):
        values = stored[partition]
        assert len(set(values)) == len(values)
        assert not app.aborted & set(values)
        for prefix, told in ((b"plain", app.acked), (b"tx", app.committed)):
            mine = [value for value in values if value.startswith(prefix)]
            assert mine == [value for place, value in told if place == partition]
        assert outputs[partition] == values[: len(outputs[partition])]
    assert app.transformed == sum(map(len, outputs))
