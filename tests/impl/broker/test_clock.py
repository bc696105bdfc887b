"""The time of an embedded broker, which tests advance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from impl import Broker, Consumer, DelayFault, DropFault, NodeConfig, Producer
from impl.client.errors import ProducerError
from impl.producer.errors import DeliveryError

pytestmark = pytest.mark.slow  # sockets

SECONDS = 10
MINUTE_MS = 60_000


@pytest.mark.parametrize("nodes", [1, 3])
async def test_a_transaction_times_out_at_once(nodes: int) -> None:
    settings = {"transactional_id": "x", "transaction_timeout_ms": MINUTE_MS, "linger_ms": 0}
    async with (
        asyncio.timeout(SECONDS),
        Broker(nodes=nodes, topics={"t": 1}) as kafka,
        Producer(kafka.bootstrap_servers, **settings) as producer,
    ):
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"v")
        kafka.clock.advance(MINUTE_MS // 2)
        assert kafka.log("t").open_transactions
        kafka.clock.advance(MINUTE_MS)
        while nodes > 1 and kafka.log("t").open_transactions:  # nodes ask each other over sockets
            await asyncio.sleep(0.001)
        assert [batch.control for batch in kafka.log("t").batches] == [None, "ABORT"]
        with pytest.raises(ProducerError):
            await producer.commit_transaction()


async def test_markers_that_are_delayed_are_written_at_once() -> None:
    config = NodeConfig(host="127.0.0.1", port=0, marker_delay_ms=MINUTE_MS)
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"t": 1}, config=config) as kafka,
        Producer(kafka.bootstrap_servers, transactional_id="x") as producer,
    ):
        async with producer.transaction():
            await producer.send_and_wait("t", b"v")
        assert kafka.log("t").last_stable_offset == 0
        kafka.clock.advance(MINUTE_MS)
        assert kafka.log("t").last_stable_offset == 2


def test_time_does_not_go_back() -> None:
    with Broker() as kafka:
        before_ms = kafka.clock()
        with pytest.raises(ValueError, match="from 0 to 3155760000000, is -1"):
            kafka.clock.advance(-1)
        kafka.clock.advance(MINUTE_MS)
        assert MINUTE_MS <= kafka.clock() - before_ms < 2 * MINUTE_MS


# ---- clients of this process live by the broker's clock

MOST_REAL_SECONDS = 1.0
"""What a test of a lost request may take: the client's time-out is 30 s."""


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def lose(kafka: Broker, fault: DropFault, advance_ms: int, **settings: Any) -> Any:
    """The outcome of a record whose request, or answer, is lost."""
    async with Producer(kafka.bootstrap_servers, **settings) as producer:
        with kafka.faults.add(fault) as dropped:
            sent = await producer.send("t", b"v")
            await until(lambda: dropped.count)
            kafka.clock.advance(advance_ms)
            return await sent


@pytest.mark.parametrize("at", ["request", "answer"])
@pytest.mark.parametrize("is_on_a_thread", [False, True])
async def test_a_lost_request_takes_no_longer_than_the_test_says(
    is_on_a_thread: bool, at: Literal["request", "answer"]
) -> None:
    began_s = time.monotonic()
    async with asyncio.timeout(SECONDS):
        if is_on_a_thread:
            with Broker(topics={"t": 1}) as kafka:
                await lose(kafka, DropFault("Produce", at=at), 30_000)
        else:
            async with Broker(topics={"t": 1}) as kafka:
                await lose(kafka, DropFault("Produce", at=at), 30_000)
    assert kafka.log("t").values == [b"v"]
    assert time.monotonic() - began_s < MOST_REAL_SECONDS


async def test_records_have_the_time_of_the_clock() -> None:
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"t": 1}) as kafka,
        Producer(kafka.bootstrap_servers) as producer,
    ):
        kafka.clock.advance(60 * MINUTE_MS)
        sent = await producer.send_and_wait("t", b"v")
        assert abs(kafka.clock() - sent.timestamp) < MINUTE_MS


async def test_a_producer_that_stops_waits_by_the_clock() -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"t": 1}) as kafka:
        producer = Producer(kafka.bootstrap_servers)
        await producer.start()
        dropped = kafka.faults.add(DropFault("Produce", times=None))
        sent = await producer.send("t", b"v")
        await until(lambda: dropped.count)
        stopping = asyncio.create_task(producer.stop())
        await asyncio.sleep(0)
        kafka.clock.advance(2 * MINUTE_MS)
        await stopping
        with pytest.raises(DeliveryError):
            await sent


async def test_records_linger_by_the_clock() -> None:
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"t": 1}) as kafka,
        Producer(kafka.bootstrap_servers, linger_ms=MINUTE_MS) as producer,
    ):
        sent = await producer.send("t", b"v")
        await asyncio.sleep(0.05)
        assert not sent.done()
        kafka.clock.advance(MINUTE_MS)
        await sent


async def test_a_consumer_waits_for_records_by_the_clock() -> None:
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"t": 1}) as kafka,
        Consumer("t", bootstrap_servers=kafka.bootstrap_servers) as consumer,
    ):
        reading = asyncio.create_task(consumer.getmany(timeout_ms=60 * MINUTE_MS))
        await until(lambda: "Fetch" in kafka.format_timeline())
        kafka.clock.advance(60 * MINUTE_MS)
        assert await reading == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_of_a_group_beat_by_the_clock(protocol: str) -> None:
    """In steps that are shorter than a session no member is lost."""
    api = {"classic": "Heartbeat", "consumer": "ConsumerGroupHeartbeat"}[protocol]
    settings = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"t": 1}) as kafka,
        Consumer("t", bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer,
    ):
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=10)
        me = consumer.group_metadata()
        with kafka.faults.add(DelayFault(api, delay_ms=0, times=None)) as heartbeats:
            while heartbeats.count < 6:
                before = heartbeats.count
                kafka.clock.advance(10_000)
                await until(lambda before=before: heartbeats.count > before)
                await asyncio.sleep(0.01)  # else the next one is due in real time
        await consumer.getmany(timeout_ms=10)
        assert consumer.group_metadata() == me


async def test_a_delay_ends_by_the_clock() -> None:
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"t": 1}) as kafka,
        Producer(kafka.bootstrap_servers, request_timeout_ms=10 * MINUTE_MS) as producer,
    ):
        with kafka.faults.add(DelayFault("Produce", delay_ms=MINUTE_MS)) as delayed:
            sent = await producer.send("t", b"v")
            await until(lambda: delayed.count)
            kafka.clock.advance(MINUTE_MS)
            await sent


async def test_a_client_behind_another_address_is_given_the_clock() -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"t": 1}) as kafka:
        host, port = kafka.bootstrap_servers.split(":")
        async with (
            forwarded(host, int(port)) as address,
            Producer(address, linger_ms=MINUTE_MS, clock=kafka.clock) as producer,
        ):
            sent = await producer.send("t", b"v")
            kafka.clock.advance(MINUTE_MS)
            await sent


@asynccontextmanager
async def forwarded(host: str, port: int) -> AsyncIterator[str]:
    """The address of a server that passes everything on."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, port)
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        server.close()
