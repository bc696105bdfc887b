"""The time of an embedded broker, which tests advance."""

from __future__ import annotations

import asyncio

import pytest

from impl import Broker, NodeConfig, Producer
from impl.client.errors import ProducerError

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
