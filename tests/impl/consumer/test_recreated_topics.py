"""A topic that is deleted and created again while its clients are busy: what they remember by its
name is of records that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from impl import Broker, Consumer, Producer
from impl.broker.embedded import EMBEDDED
from impl.client.errors import ConsumerError
from impl.client.network_client import NetworkClient
from impl.client.transport import AsyncioNetwork
from impl.consumer.errors import NoOffsetForPartitionError
from impl.producer.errors import SkippedRecordsError
from impl.protocol.schemas import ApiKey

SECONDS = 30
PLACE = ("a", 0)
RELEASES = ["4.3", "3.9"]
"""Brokers with topic ids in OffsetCommit, and without."""


class Topics:
    """What an administrator does at a broker."""

    def __init__(self, kafka: Broker) -> None:
        self._kafka = kafka
        self._client = NetworkClient(AsyncioNetwork(), kafka.bootstrap_servers, "admin", 10_000)

    async def delete(self, topic: str = "a") -> None:
        connection = await self._client.any_connection()
        body = {"topic_names": [topic], "timeout_ms": 10_000}
        answer = await connection.request(ApiKey.DELETE_TOPICS, 5, body)
        assert [row["error_code"] for row in answer["responses"]] == [0]

    async def recreate(self, topic: str = "a", partitions: int = 1) -> None:
        await self.delete(topic)
        self._kafka.create_topic(topic, partitions)

    async def close(self) -> None:
        await self._client.close()


@asynccontextmanager
async def broker(release: str = "4.3", partitions: int = 1) -> AsyncIterator[tuple[Broker, Topics]]:
    config = replace(EMBEDDED, auto_create_topics=False).of_release(release)
    async with (
        asyncio.timeout(SECONDS),
        Broker(topics={"a": partitions}, config=config) as kafka,
    ):
        topics = Topics(kafka)
        try:
            yield kafka, topics
        finally:
            await topics.close()


def member(kafka: Broker, **more: Any) -> Consumer:
    arguments = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    settings = arguments | {"heartbeat_interval_ms": 50, "fetch_max_wait_ms": 100} | more
    if settings.get("group_protocol") == "consumer":
        del settings["heartbeat_interval_ms"]
    return Consumer("a", bootstrap_servers=kafka.bootstrap_servers, **settings)


async def fill(kafka: Broker, *values: bytes, partition: int = 0) -> None:
    async with Producer(kafka.bootstrap_servers) as producer:
        for value in values:
            await producer.send_and_wait("a", value, partition=partition)


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        for records in (await consumer.getmany(timeout_ms=100)).values():
            values += [record.value for record in records]
    return values


OLD = [b"old %d" % number for number in range(5)]
NEW = [b"new %d" % number for number in range(8)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("count", [2, 8], ids=["shorter", "longer"])
async def test_all_records_of_the_new_topic_are_read(
    count: int, protocol: str, release: str
) -> None:
    """Whether its log is shorter than the position or longer."""
    if protocol == "consumer" and release != "4.3":
        pytest.skip("no groups of KIP-848")
    async with broker(release) as (kafka, topics):
        await fill(kafka, *OLD)
        async with member(kafka, group_protocol=protocol) as c:
            assert await read(c, 5) == OLD
            await c.commit()
            await topics.recreate()
            await fill(kafka, *NEW[:count])
            if release != "4.3":  # which finds it out at the next metadata
                await c._requests.request_metadata()
            assert await read(c, count) == NEW[:count]
            await c.commit()
            assert await c.committed(PLACE) == count


async def test_a_commit_of_the_old_position_is_not_the_new_topics() -> None:
    """Not even from a consumer that does not know yet."""
    async with broker() as (kafka, topics):
        await fill(kafka, *OLD)
        async with member(kafka) as c:
            await read(c, 5)
            await topics.recreate()
            await fill(kafka, *NEW)
            await c.commit()
            assert await c.committed(PLACE) is None
            await c.commit({PLACE: 5})
            assert await c.committed(PLACE) is None
            assert await read(c, 8) == NEW


async def test_offsets_of_the_old_topic_are_refused_in_a_transaction() -> None:
    async with broker() as (kafka, topics):
        await fill(kafka, *OLD)
        servers = kafka.bootstrap_servers
        async with member(kafka) as c, Producer(servers, transactional_id="x") as producer:
            await read(c, 5)
            await topics.recreate()
            await c._requests.request_metadata()
            with pytest.raises(SkippedRecordsError):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({PLACE: 5}, c.group_metadata())
            await fill(kafka, *NEW)
            await c.seek_to_committed()
            async with producer.transaction():
                assert await read(c, 8) == NEW
                await producer.send_offsets_to_transaction({PLACE: 8}, c.group_metadata())
            assert await c.committed(PLACE) == 8


async def test_without_a_reset_the_application_is_asked() -> None:
    async with broker() as (kafka, topics):
        await fill(kafka, *OLD)
        async with member(kafka, auto_offset_reset="none") as c:
            with pytest.raises(NoOffsetForPartitionError):
                await read(c, 1)
            c.seek(PLACE, 0)
            await read(c, 5)
            await topics.recreate()
            await fill(kafka, *NEW)
            with pytest.raises(ConsumerError, match="created again"):
                await read(c, 1)
            c.seek(PLACE, 1)
            assert await read(c, 7) == NEW[1:]


@pytest.mark.parametrize("transactional_id", [None, "x"])
async def test_a_producer_goes_on_in_the_new_topic(transactional_id: str | None) -> None:
    """Its sequences go on, as Java's: a leader takes any of a producer that it does not know."""
    async with (
        broker() as (kafka, topics),
        Producer(
            kafka.bootstrap_servers, transactional_id=transactional_id, retry_backoff_ms=10
        ) as producer,
    ):

        async def send(values: list[bytes]) -> None:
            if transactional_id is None:
                for value in values:
                    await producer.send_and_wait("a", value, partition=0)
                return
            async with producer.transaction():
                for value in values:
                    await producer.send_and_wait("a", value, partition=0)

        await send(OLD)
        await topics.recreate()
        await send(NEW)
        assert kafka.log("a").values == NEW
