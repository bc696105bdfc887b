"""What stands in a partition of an embedded broker, as values."""

from __future__ import annotations

import asyncio

import pytest

from impl import Broker, Producer
from impl.broker.cluster import UnknownPartitionOrBroker
from impl.broker.log_view import OpenTransaction, ProducerView

pytestmark = pytest.mark.slow  # sockets

SECONDS = 10


async def test_a_log_is_shown_while_a_transaction_is_open_and_after_it() -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"t": 2}) as kafka:
        settings = {"transactional_id": "x", "linger_ms": 0}
        async with Producer(kafka.bootstrap_servers, **settings) as producer:
            for is_committed, value in ((True, b"yes"), (False, b"no")):
                await producer.begin_transaction()
                await producer.send_and_wait("t", value, partition=1)
                if not is_committed:
                    break
                await producer.commit_transaction()
                await markers(kafka, 1)
            log = kafka.log("t", 1)
            producer_id = log.batches[0].producer_id
            assert (log.leader_id, log.log_start_offset, log.log_end_offset) == (1, 0, 3)
            assert (log.high_watermark, log.last_stable_offset) == (3, 2)
            assert log.open_transactions == (OpenTransaction(producer_id, 1, 2),)
            assert log.producers == (ProducerView(producer_id, 1, 0),)
            await producer.abort_transaction()
            await markers(kafka, 2)
        log = kafka.log("t", 1)
        assert log.values == [b"yes", b"no"]
        assert [batch.control for batch in log.batches] == [None, "COMMIT", None, "ABORT"]
        assert [batch.base_sequence for batch in log.batches] == [0, -1, 0, -1]
        assert [batch.producer_epoch for batch in log.batches] == [0, 1, 1, 2]
        assert all(batch.is_transactional for batch in log.batches)
        assert (log.last_stable_offset, log.open_transactions) == (4, ())
        assert kafka.log("t", 0).batches == ()


async def markers(kafka: Broker, count: int) -> None:
    """Wait for this many: they are written after the transaction's end is answered."""
    while sum(batch.control is not None for batch in kafka.log("t", 1).batches) < count:
        await asyncio.sleep(0.001)


def test_each_partition_has_its_leader() -> None:
    with Broker(nodes=2, topics={"t": 2}) as kafka:
        for node_id in (1, 2):
            kafka.move_leader("t", 1, node_id)
        assert (kafka.log("t", 1).leader_id, kafka.log("t", 1).leader_epoch) == (2, 2)
        assert (kafka.log("t", 0).leader_id, kafka.log("t", 0).leader_epoch) == (1, 0)


def test_an_unknown_partition_is_refused() -> None:
    with Broker(topics={"t": 1}) as kafka, pytest.raises(UnknownPartitionOrBroker):
        kafka.log("t", 1)
