"""Consumers whose group goes on without them, or whose leader is gone; calls that are cut off."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from impl import Broker, CommitFailedError, Consumer, CutFault, DelayFault, ErrorFault, Producer
from impl.broker.faults import Fault
from impl.client.errors import IllegalStateError, KafkaTimeoutError
from impl.consumer.membership import ConsumerRebalanceListener
from impl.protocol.fields import TopicPartition

pytestmark = pytest.mark.slow  # members time out

SECONDS = 30
PLACE = ("a", 0)
MAX_POLL_INTERVAL_MS = 300
NEVER_MS = 3_600_000
"""By the clock of the broker, which nobody advances."""
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"heartbeat_interval_ms": 50},
    "consumer": {"group_protocol": "consumer"},
}


def member(kafka: Broker, protocol: str = "classic", **more: Any) -> Consumer:
    arguments = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    arguments |= PROTOCOLS[protocol] | more
    return Consumer("a", bootstrap_servers=kafka.bootstrap_servers, **arguments)


async def fill(kafka: Broker, count: int, partition: int = 0) -> None:
    async with Producer(kafka.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send("a", b"%d" % number, partition=partition)


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            values += [record.value for record in records]
    return values


async def leaves(kafka: Broker) -> None:
    """Wait until group g has no members: nobody polls, and heartbeats note that."""
    [server] = kafka._servers.values()
    coordinators = server.node.coordinators
    while True:
        group = coordinators.consumer_groups.get("g") or coordinators.memberships.find("g")
        if group is not None and group.is_empty:
            return
        await asyncio.sleep(0.01)


# ---- a member that the group has gone on without


@pytest.mark.parametrize("is_there", [True, False], ids=["the next is there", "the next has left"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_who_was_too_slow_commits_nothing(protocol: str, is_there: bool) -> None:
    """Neither by itself nor in a transaction: another member has had its records."""
    async with asyncio.timeout(SECONDS), Broker(topics={"a": 1}) as kafka:
        await fill(kafka, 4)
        async with member(kafka, protocol, max_poll_interval_ms=MAX_POLL_INTERVAL_MS) as slow:
            await read(slow, 4)
            await leaves(kafka)
            following = member(kafka, protocol)
            await following.start()
            await read(following, 4)
            await following.commit()
            if not is_there:
                await following.stop()
            await refuses(kafka, slow, {PLACE: 2})
            assert await slow.committed(PLACE) == 4
            await following.stop()


async def refuses(kafka: Broker, slow: Consumer, offsets: dict[TopicPartition, int]) -> None:
    async with Producer(kafka.bootstrap_servers, transactional_id="x") as producer:
        with pytest.raises(CommitFailedError):
            async with producer.transaction():
                await producer.send_offsets_to_transaction(offsets, slow.group_metadata())
    with pytest.raises(CommitFailedError):
        await slow.commit(offsets)


async def test_who_has_not_joined_yet_commits_nothing() -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"a": 1}) as kafka:
        arguments = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": "g"}
        async with Consumer(**arguments) as consumer:
            consumer.subscribe(["a"])
            with pytest.raises(CommitFailedError, match="the consumer has not joined yet"):
                await consumer.commit({PLACE: 1})
        async with Consumer(**arguments) as alone:
            alone.assign([PLACE])
            await alone.commit({PLACE: 1})
            assert await alone.committed(PLACE) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_who_joins_again_commits_again(protocol: str) -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"a": 1}) as kafka:
        await fill(kafka, 4)
        async with member(kafka, protocol, max_poll_interval_ms=MAX_POLL_INTERVAL_MS) as slow:
            await read(slow, 4)
            await leaves(kafka)
            await read(slow, 4)
            await slow.commit()
            assert await slow.committed(PLACE) == 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_listener_cannot_read(protocol: str) -> None:
    """It would wait for its own end."""

    class Reader(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            await consumer.getone()

    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"a": 1}) as kafka,
        Consumer(
            bootstrap_servers=kafka.bootstrap_servers, group_id="g", **PROTOCOLS[protocol]
        ) as consumer,
    ):
        consumer.subscribe(["a"], listener=Reader())
        with pytest.raises(IllegalStateError, match="a rebalance listener cannot read records"):
            await consumer.getone()


# ---- a partition that nobody leads


async def test_a_partition_without_a_leader_holds_no_other_one_up() -> None:
    async with asyncio.timeout(SECONDS), Broker(nodes=2, topics={"a": 2}) as kafka:
        kafka.move_leader("a", 0, node_id=1)
        kafka.move_leader("a", 1, node_id=2)
        await fill(kafka, 3)
        await kafka.stop_node(2, fail_over=False)
        consumer = Consumer(
            bootstrap_servers=kafka.bootstrap_servers,
            auto_offset_reset="earliest",
            default_api_timeout_ms=2_000,
        )
        clock_s = asyncio.get_running_loop().time
        async with consumer:
            consumer.assign([("a", 0), ("a", 1)])
            begun_s = clock_s()
            assert len(await read(consumer, 3)) == 3
            assert clock_s() - begun_s < 1.5
            with pytest.raises(KafkaTimeoutError, match=r"ListOffsets of .*1"):
                await read(consumer, 1)
            begun_s = clock_s()
            assert await consumer.getmany(timeout_ms=300) == {}
            assert clock_s() - begun_s < 1


# ---- what ends, and what begins behind it


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_what_is_read_next_may_be_said_before_unsubscribe_is_done(
    group_id: str | None,
) -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"a": 1}) as kafka:
        await fill(kafka, 2)
        async with member(kafka, group_id=group_id) as consumer:
            await read(consumer, 2)
            consumer.unsubscribe()
            consumer.assign([PLACE])
            with pytest.raises(IllegalStateError, match="partitions were assigned by hand"):
                consumer.subscribe(["a"])
            await read(consumer, 2)
            assert consumer.assignment() == {PLACE}
        async with member(kafka, group_id=group_id) as consumer:
            await read(consumer, 2)
            consumer.unsubscribe()
            consumer.subscribe(["a"])
            await read(consumer, 2)


@pytest.mark.parametrize(
    "fault",
    [CutFault("LeaveGroup", nth=1), ErrorFault("LeaveGroup", "NOT_COORDINATOR", nth=1)],
    ids=str,
)
async def test_leaving_is_said_again(fault: Fault) -> None:
    """Else the next member would wait for the session's end, 45 seconds."""
    async with asyncio.timeout(SECONDS / 2), Broker(topics={"a": 1}) as kafka:
        await fill(kafka, 2)
        async with member(kafka) as first:
            await read(first, 2)
            added = kafka.faults.add(fault)
        assert added.count == 1
        async with member(kafka) as following:
            await read(following, 2)


async def test_who_cannot_leave_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"a": 1}) as kafka:
        await fill(kafka, 1)
        async with member(kafka) as consumer:
            await read(consumer, 1)
            kafka.faults.add(CutFault("LeaveGroup", times=None))
    [line] = [r for r in caplog.records if "does not leave" in r.getMessage()]
    assert line.levelno == logging.WARNING


def test_another_event_loop_is_refused() -> None:
    """It would wait for ever."""
    with Broker(topics={"a": 1}) as kafka, asyncio.Runner() as one, asyncio.Runner() as other:
        consumer = member(kafka, group_id=None)
        producer = Producer(kafka.bootstrap_servers, transactional_id="x")
        for each in (consumer, producer):
            one.run(each.start())
        one.run(producer.begin_transaction())
        for call in (consumer.getone, producer.flush, producer.commit_transaction):
            with pytest.raises(IllegalStateError, match="on another event loop: call it there"):
                other.run(call())
        one.run(producer.commit_transaction())
        for each in (consumer, producer):
            one.run(each.stop())


# ---- a producer whose call was cut off


async def test_a_second_stop_does_not_wait() -> None:
    async with asyncio.timeout(SECONDS), Broker(topics={"a": 1}) as kafka:
        producer = Producer(kafka.bootstrap_servers, transactional_id="x")
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("a", b"v")
        kafka.faults.add(DelayFault("EndTxn", delay_ms=NEVER_MS, at="answer"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await producer.stop()
        await producer.stop()


async def test_whose_end_is_unknown_is_named() -> None:
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"a": 1}) as kafka,
        Producer(kafka.bootstrap_servers, transactional_id="x") as producer,
    ):
        await producer.begin_transaction()
        await producer.send_and_wait("a", b"v")
        kafka.faults.add(DelayFault("EndTxn", delay_ms=300, at="answer"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await producer.commit_transaction()
        await asyncio.sleep(0.5)
        with pytest.raises(IllegalStateError, match="the end of commit_transaction is unknown"):
            await producer.begin_transaction()
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.abort_transaction()
