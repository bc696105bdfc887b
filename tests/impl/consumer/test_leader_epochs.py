"""Positions are validated when a partition has another leader (KIP-320)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conformance.adapters.brokers.kafka.admin import create_topic
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl.broker import apis
from impl.client.arguments import OffsetAndMetadata
from impl.client.network_client import NetworkClient
from impl.consumer.consumer import Consumer
from impl.consumer.errors import LogTruncationError
from impl.consumer.position_validator import PositionValidator
from impl.producer.producer import Producer
from impl.protocol.schemas import ApiKey
from impl.simulator import ClientHost
from tests.impl.consumer.test_consumer import T, consumer, in_a_world, producer, write

OTHER = {1: 2, 2: 1}
"""The other node of two."""


def move(world: Any, keep: int | None = None) -> None:
    """The other node leads, with the log up to this offset: an election of an unclean leader."""
    topic = world.cluster.topics.get("t")
    if keep is not None:
        topic.partitions[0].log.truncate_to(keep, world.clock_ms())
    world.cluster.move("t", 0, OTHER[topic.leader_ids[0]])


async def write_each(world: Any, values: list[bytes]) -> None:
    """A batch each."""
    async with producer(world, linger_ms=0) as p:
        for value in values:
            await p.send_and_wait("t", value)


async def read(c: Consumer, count: int) -> list[bytes]:
    return [(await c.getone()).value for _ in range(count)]


def asked_epochs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The (current, asked) leader epochs of OffsetForLeaderEpoch requests, as they come."""
    asked: list[tuple[int, int]] = []
    served = apis.HANDLERS[ApiKey.OFFSET_FOR_LEADER_EPOCH]

    def note(node: Any, request: Any, now_ms: int) -> Any:
        rows = [row for topic in request.body["topics"] for row in topic["partitions"]]
        asked.extend((row["current_leader_epoch"], row["leader_epoch"]) for row in rows)
        return served(node, request, now_ms)

    monkeypatch.setitem(apis.HANDLERS, ApiKey.OFFSET_FOR_LEADER_EPOCH, note)
    return asked


def test_a_moved_leader_is_asked_once_and_records_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_epochs(monkeypatch)

    async def program(world: Any) -> None:
        await write_each(world, [b"0", b"1", b"2"])
        async with consumer(world) as c:
            c.assign([T])
            assert await read(c, 3) == [b"0", b"1", b"2"]
            assert asked == []
            move(world)
            await write_each(world, [b"3"])
            assert await read(c, 1) == [b"3"]
            move(world)
            await write_each(world, [b"4"])
            assert await read(c, 1) == [b"4"]

    in_a_world(program)
    assert asked == [(1, 0), (2, 1)]


def test_records_that_are_lost_are_an_error_that_names_where_the_log_diverges() -> None:
    async def program(world: Any) -> None:
        await write_each(world, [b"0", b"1", b"2", b"3"])
        async with consumer(world, auto_offset_reset="none") as c:
            c.assign([T])
            c.seek(T, 0)
            assert len(await read(c, 4)) == 4
            move(world, keep=2)
            await write_each(world, [b"two", b"three", b"four"])
            for _ in range(2):
                with pytest.raises(
                    LogTruncationError, match=r"t-0 was read to offset 4.* at 2: seek 2"
                ) as lost:
                    await c.getone()
            assert (lost.value.partition, lost.value.position) == (T, 4)
            assert lost.value.divergent_offset == 2
            c.seek(T, lost.value.divergent_offset)
            assert await read(c, 3) == [b"two", b"three", b"four"]

    in_a_world(program)


def test_a_reset_goes_on_where_the_log_diverges() -> None:
    """Not at the end of the log, nor at its beginning."""

    async def program(world: Any) -> None:
        await write_each(world, [b"0", b"1", b"2", b"3"])
        async with consumer(world, auto_offset_reset="latest") as c:
            c.assign([T])
            c.seek(T, 0)
            assert len(await read(c, 4)) == 4
            move(world, keep=2)
            await write_each(world, [b"two", b"three", b"four"])
            assert await read(c, 3) == [b"two", b"three", b"four"]

    in_a_world(program)


def test_records_that_were_fetched_ahead_and_lost_are_not_delivered() -> None:
    async def program(world: Any) -> None:
        await write_each(world, [b"0", b"1", b"2", b"3"])
        async with consumer(world, auto_offset_reset="none", max_partition_fetch_bytes=140) as c:
            c.assign([T])
            c.seek(T, 0)
            assert await read(c, 1) == [b"0"]
            move(world, keep=2)
            await write_each(world, [b"two", b"three"])
            assert await c.end_offsets([T]) == {T: 4}  # it hears of the new leader
            assert await read(c, 1) == [b"1"]
            await asyncio.sleep(0.5)  # "2" and "3" wait until the new leader says what it has
            assert await read(c, 2) == [b"two", b"three"]

    in_a_world(program)


def test_a_committed_offset_is_validated_with_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_epochs(monkeypatch)

    async def program(world: Any) -> None:
        await write_each(world, [b"0", b"1", b"2"])
        settings = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "none"}
        async with consumer(world, **settings) as c:
            c.assign([T])
            c.seek(T, 0)
            await read(c, 3)
            await c.commit()
            move(world, keep=1)
            await write_each(world, [b"one", b"two"])
        async with consumer(world, **settings) as c:
            c.assign([T])
            with pytest.raises(LogTruncationError, match=r"read to offset 3.* at 1"):
                await c.getone()
            await c.commit({T: OffsetAndMetadata(1, "m", 0)})
            await c.seek_to_committed()
            assert await read(c, 2) == [b"one", b"two"]

    in_a_world(program)
    assert asked == [(1, 0)]


def test_a_position_without_an_epoch_cannot_be_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_epochs(monkeypatch)

    async def program(world: Any) -> None:
        await write_each(world, [b"0", b"1"])
        async with consumer(world) as c:
            c.assign([T])
            c.seek(T, 1)
            move(world)
            assert await read(c, 1) == [b"1"]

    in_a_world(program)
    assert asked == []


def test_metadata_of_a_broker_that_lags_is_ignored() -> None:
    async def program(world: Any) -> None:
        await write(world, 1)
        client = NetworkClient(ClientHost(world, "c"), world.bootstrap_servers, "c", 1_000)
        await client.refresh(["t"])
        stale = {"topics": [metadata_row(client, leader=7, epoch=0)], "brokers": []}
        move(world)
        await client.refresh(["t"])
        leader = client.leaders[T]
        client._update_metadata(stale)
        assert (client.leaders[T], client.leader_epochs[T]) == (leader, 1)
        client._update_metadata(
            {"topics": [metadata_row(client, 7, 0, b"another topic id")], "brokers": []}
        )
        assert (client.leaders[T], client.leader_epochs[T]) == (7, 0)
        await client.close()

    in_a_world(program)


def metadata_row(
    client: NetworkClient, leader: int, epoch: int, topic_id: bytes | None = None
) -> Any:
    known = next(topic_id for topic_id, name in client.topic_names.items() if name == "t")
    return {
        "error_code": 0,
        "name": "t",
        "topic_id": topic_id or known,
        "is_internal": False,
        "partitions": [{"partition_index": 0, "leader_id": leader, "leader_epoch": epoch}],
    }


@pytest.mark.kafka
@pytest.mark.slow
async def test_kafka_is_asked_when_it_leads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of 4.3.1 is a new leader epoch, and its answer says that nothing is lost."""
    rows: list[Any] = []
    ask = PositionValidator._ask

    async def note(self: PositionValidator, part: Any, leader_epoch: int) -> Any:
        rows.append(await ask(self, part, leader_epoch))
        return rows[-1]

    monkeypatch.setattr(PositionValidator, "_ask", note)
    with KafkaBroker("4.3.1") as kafka:
        with kafka.connect() as connection:
            create_topic(connection, "t", 1)
        servers = "{}:{}".format(*kafka.address)
        settings = {"auto_offset_reset": "none", "request_timeout_ms": 2_000}
        async with asyncio.timeout(90), Consumer(bootstrap_servers=servers, **settings) as c:
            async with Producer(servers) as p:
                await p.send_and_wait("t", b"0")
            c.assign([T])
            c.seek(T, 0)
            assert await read(c, 1) == [b"0"]
            assert rows == []
            await asyncio.to_thread(kafka.restart)
            async with Producer(servers) as p:
                await p.send_and_wait("t", b"1")
            assert await read(c, 1) == [b"1"]
    assert [(row["error_code"], row["end_offset"]) for row in rows] == [(0, 1)]
