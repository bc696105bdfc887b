"""What a consumer subscribes to: topics and patterns, in a group and alone, as they change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from impl.client.errors import IllegalStateError, InvalidArgumentError
from impl.consumer.errors import ConsumerStoppedError
from tests.impl.consumer.test_consumer import consumer, in_a_world, producer
from tests.impl.consumer.test_membership import FAST, PLACES, Notes, poll, write

KINDS = {
    "no group": {},
    "classic": FAST,
    "cooperative": FAST | {"partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_id": "g", "group_protocol": "consumer"},
}


async def create(world: Any, *topics: str) -> None:
    async with producer(world) as p:
        for topic in topics:
            await p.send_and_wait(topic, b"of " + topic.encode(), partition=0)


def topics_of(c: Any) -> set[str]:
    return {place.topic for place in c.assignment()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pattern_follows_the_topics_that_match_it(kind: str) -> None:
    async def program(world: Any) -> None:
        await create(world, "orders-1", "invoices", "old-orders")
        async with consumer(world, metadata_max_age_ms=300, **KINDS[kind]) as c:
            c.subscribe(pattern="orders-.*")
            values = await poll(c, until=lambda: topics_of(c) == {"orders-1"})
            assert c.subscription() == {"orders-1"}
            await create(world, "orders-2")
            values += await poll(c, until=lambda: topics_of(c) == {"orders-1", "orders-2"})
            async with asyncio.timeout(20):
                while len(values) < 2:
                    values += await poll(c, until=iter([False, True]).__next__)
            assert sorted(values) == [b"of orders-1", b"of orders-2"]

    in_a_world(program, partitions=2)


@pytest.mark.parametrize("excludes", [True, False])
def test_internal_topics_match_if_they_are_not_excluded(excludes: bool) -> None:
    async def program(world: Any) -> None:
        await create(world, "orders")
        async with consumer(world, exclude_internal_topics=excludes, **FAST) as c:
            await c.commit({("orders", 0): 1})  # the log of the coordinators is there
            c.subscribe(pattern=".*")
            await poll(c, until=lambda: "orders" in topics_of(c))
            assert ("__consumer_offsets" in topics_of(c)) is not excludes
            assert await c.topics() == {"orders"}

    in_a_world(program)


@pytest.mark.parametrize("kind", KINDS)
def test_new_partitions_are_noticed(kind: str) -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        settings = {"metadata_max_age_ms": 300} | KINDS[kind]
        async with consumer(world, **settings) as c:
            c.subscribe(["t"])
            await poll(c, until=lambda: c.assignment() == PLACES)
            assert c.partitions_for_topic("t") == {0, 1, 2, 3}
            topics = world.cluster.topics
            topics.add_partitions(topics.get("t"), 2)
            await poll(c, until=lambda: len(c.assignment()) == 6)
            assert c.partitions_for_topic("t") == set(range(6))
            async with producer(world) as p:
                await p.send_and_wait("t", b"new", partition=5)
            values: list[bytes] = []
            async with asyncio.timeout(20):
                while b"new" not in values:
                    values += await poll(c, until=iter([False, True]).__next__)

    in_a_world(program, partitions=4)


def test_without_a_group_all_partitions_are_read_and_the_listener_hears_of_them() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        notes = Notes()
        async with consumer(world) as c:
            assert c.partitions_for_topic("t") is None
            c.subscribe(["t"], listener=notes)
            assert c.subscription() == {"t"}
            assert len(await poll(c, until=lambda: c.assignment() == PLACES)) <= 8
            c.subscribe(["u"])
            await poll(c, until=lambda: topics_of(c) == {"u"})
            assert notes.notes == [("assigned", 4), ("revoked", 4), ("assigned", 4)]
            await c.unsubscribe()
            assert (c.subscription(), c.assignment()) == (set(), set())
            c.assign([("t", 1)])
            assert (await c.getone()).partition == 1

    in_a_world(program, partitions=4)


class Raising:
    """A listener with one method, which fails."""

    def on_partitions_revoked(self, revoked: object) -> None:
        raise ValueError("mine")


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_listener_raises_the_consumer_leaves_and_is_stopped(kind: str) -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        c = consumer(world, **KINDS[kind])
        await c.start()
        c.subscribe(["t"], listener=Raising())
        await poll(c, until=lambda: c.assignment() == PLACES)
        stopped_at = asyncio.get_running_loop().time()
        with pytest.raises(ValueError, match="mine"):
            await c.stop()
        await c.stop()
        with pytest.raises(ConsumerStoppedError):
            await c.getone()
        async with consumer(world, **KINDS[kind]) as other:
            other.subscribe(["t"])
            await poll(other, until=lambda: other.assignment() == PLACES)
        waited_s = asyncio.get_running_loop().time() - stopped_at
        assert waited_s < 5.5, "the other one has waited until the session of the first was over"

    in_a_world(program, partitions=4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_listener_may_lack_methods_but_not_all(kind: str) -> None:
    class Assigned:
        def __init__(self) -> None:
            self.heard: list[int] = []

        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            self.heard.append(len(assigned))

    async def program(world: Any) -> None:
        await write(world, 4)
        listener = Assigned()
        async with consumer(world, **KINDS[kind]) as c:
            with pytest.raises(
                InvalidArgumentError, match="listener must have one of on_partitions_"
            ):
                c.subscribe(["t"], listener=5)
            assert c.subscription() == set()
            c.subscribe(["t"], listener=listener)
            await poll(c, until=lambda: c.assignment() == PLACES)
        assert listener.heard == [4]

    in_a_world(program, partitions=4)


def test_a_subscription_before_the_start() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        c = consumer(world, **FAST)
        c.subscribe(["t"])
        async with c:
            assert len(await poll(c, until=lambda: c.assignment() == PLACES)) <= 4

    in_a_world(program, partitions=4)


@pytest.mark.parametrize("kind", ["classic", "cooperative", "consumer"])
def test_who_does_not_wait_for_unsubscribe_has_left_with_the_next_call(kind: str) -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        async with consumer(world, **KINDS[kind]) as c:
            c.subscribe(["t"])
            values: list[bytes] = []
            while len(values) < 8:
                values += await poll(c, until=iter([False, True]).__next__)
            c.unsubscribe()
            assert c.subscription() == set()
            assert await c.getmany(timeout_ms=200) == {}
            assert c.assignment() == set()
            assert sum([await c.committed(place) or 0 for place in PLACES]) == 8
            c.unsubscribe()
            c.subscribe(["t"])
            assert await poll(c, until=lambda: c.assignment() == PLACES) == []

    in_a_world(program, partitions=4)


def test_iteration_ends_when_the_consumer_stops() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        c = consumer(world)
        await c.start()
        c.assign(PLACES)
        seen = []

        async def read() -> None:
            async for record in c:
                seen.append(record)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.5)
        await c.stop()
        await reading
        assert len(seen) == 4
        with pytest.raises(ConsumerStoppedError):
            c.unsubscribe()

    in_a_world(program, partitions=4)


def test_bad_subscriptions_change_nothing() -> None:
    async def program(world: Any) -> None:
        async with consumer(world, **FAST) as c:
            for bad in ({}, {"topics": ["t"], "pattern": "t"}, {"topics": []}):
                with pytest.raises(InvalidArgumentError, match="or a pattern must be given"):
                    c.subscribe(**bad)
            for pattern in ("(", 5):
                with pytest.raises(InvalidArgumentError, match="must be a regular expression"):
                    c.subscribe(pattern=pattern)
            assert c.subscription() == set()
            c.assign([("t", 0)])
            with pytest.raises(IllegalStateError, match="assigned by hand"):
                c.subscribe(pattern="t")
            assert c.assignment() == {("t", 0)}

    in_a_world(program)
