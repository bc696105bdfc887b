"""Consumers of a group in a simulated world: who reads what, and what is committed when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from impl.client.errors import CommitFailedError, IllegalStateError, InvalidArgumentError
from impl.consumer.consumer import Consumer
from impl.consumer.membership import ConsumerRebalanceListener
from impl.coordinator.placement import OFFSETS_TOPIC, partition_for
from tests.impl.consumer.test_consumer import consumer, in_a_world, producer

PLACES = {("t", index) for index in range(4)}
FAST = {"group_id": "g", "heartbeat_interval_ms": 50, "session_timeout_ms": 6_000}


async def write(world: Any, count: int) -> None:
    async with producer(world) as p:
        for number in range(count):
            await p.send("t", b"%d" % number, partition=number % 4)


async def poll(*consumers: Consumer, until: Any) -> list[bytes]:
    """Poll each in turn until something is so; the values that they read."""
    values = []
    async with asyncio.timeout(60):
        while not until():
            for c in consumers:
                for records in (await c.getmany(timeout_ms=20)).values():
                    values += [record.value for record in records]
    return values


class Notes(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.notes: list[tuple[str, int]] = []

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.notes.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.notes.append(("assigned", len(assigned)))


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_members_share_the_partitions_and_read_each_record_once(strategy: str) -> None:
    async def program(world: Any) -> None:
        await write(world, 20)
        settings = FAST | {"partition_assignment_strategy": [strategy]}
        async with consumer(world, **settings) as a, consumer(world, **settings) as b:
            notes = Notes()
            a.subscribe(["t"], listener=notes)
            values = await poll(a, until=lambda: a.assignment() == PLACES)
            b.subscribe(["t"])
            values += await poll(a, b, until=lambda: len(b.assignment()) == 2)
            assert a.assignment() | b.assignment() == PLACES
            await write(world, 20)
            values += await poll(a, b, until=lambda: len(values) >= 20)
            expected = [b"%d" % number for number in range(20)] * 2
            async with asyncio.timeout(5):
                while len(values) < 40:
                    values += await poll(a, b, until=iter([False, True]).__next__)
            assert sorted(values) == sorted(expected)
            assert notes.notes == [("assigned", 4), ("revoked", 4), ("assigned", 2)]
            await b.stop()
            await poll(a, until=lambda: a.assignment() == PLACES)

    in_a_world(program, partitions=4)


def test_what_was_returned_is_committed_by_itself() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        settings = FAST | {"auto_commit_interval_ms": 100}
        async with consumer(world, **settings) as a, consumer(world, group_id="g") as other:
            a.subscribe("t")
            await a.getone()
            place = next(iter(PLACES - {p for p in PLACES if await a.position(p) == 0}))
            assert await other.committed(place) is None
            await asyncio.sleep(0.3)  # it is due, and the next call knows that "0" was processed
            assert await other.committed(place) is None
            await a.getone()
            assert await other.committed(place) == 1
            await a.stop()
            total = sum([await other.committed(p) or 0 for p in PLACES])
            assert total == 2

    in_a_world(program, partitions=4)


def test_without_auto_commit_nothing_is_committed() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        async with consumer(world, enable_auto_commit=False, **FAST) as a:
            a.subscribe("t")
            await a.getone()
            await a.unsubscribe()
            assert (a.subscription(), a.assignment()) == (frozenset(), set())
            assert [await a.committed(place) for place in PLACES] == [None] * 4
            a.assign([("t", 0)])

    in_a_world(program, partitions=4)


def test_who_asks_for_nothing_leaves_and_may_not_commit() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        settings = FAST | {"max_poll_interval_ms": 400, "enable_auto_commit": False}
        async with consumer(world, **settings) as slow, consumer(world, **settings) as quick:
            slow.subscribe("t")
            await slow.getone()
            quick.subscribe("t")
            await poll(quick, until=lambda: quick.assignment() == PLACES)
            with pytest.raises(CommitFailedError):
                await slow.commit()
            await poll(slow, quick, until=lambda: len(quick.assignment()) == 2)
            await slow.commit()

    in_a_world(program, partitions=4)


def test_who_waits_for_others_to_join_holds_no_partition() -> None:
    """Its partitions may have another owner before it hears of it."""

    async def program(world: Any) -> None:
        await write(world, 4)
        names = ("first", "second", "third")
        first, second, third = (consumer(world, client_id=name, **FAST) for name in names)
        async with first, second, third:
            first.subscribe("t")
            second.subscribe("t")
            await poll(first, second, until=lambda: len(second.assignment()) == 2)
            third.subscribe("t")
            assert await poll(third, first, until=lambda: first.assignment() == set()) == []
            await write(world, 4)
            assert await first.getmany(timeout_ms=200) == {}  # the second does not join yet
            assert (len(second.assignment()), third.assignment()) == (2, set())
            everybody = (first, second, third)
            await poll(*everybody, until=lambda: all(c.assignment() for c in everybody))

    in_a_world(program, partitions=4)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_who_stops_while_it_waits_for_others_to_join_leaves_at_once(strategy: str) -> None:
    async def program(world: Any) -> None:
        settings = FAST | {"partition_assignment_strategy": [strategy]}
        first, second = (consumer(world, client_id=name, **settings) for name in ("1st", "2nd"))
        async with first, second:
            first.subscribe("t")
            await poll(first, until=lambda: first.assignment() == PLACES)
            second.subscribe("t")
            for _ in range(5):  # the first does not join yet
                assert await second.getmany(timeout_ms=100) == {}
            began_ms = world.clock_ms()
            await second.stop()
            assert world.clock_ms() - began_ms < 1_000
            await first.getmany(timeout_ms=1_000)
            assert first.assignment() == PLACES

    in_a_world(program, partitions=4)


def test_a_call_ends_in_time_although_the_coordinator_waits_for_others() -> None:
    """Its only broker answers what else is asked."""

    async def program(world: Any) -> None:
        first, second = (consumer(world, client_id=name, **FAST) for name in ("1st", "2nd"))
        async with first, second:
            first.subscribe("t")
            await poll(first, until=lambda: first.assignment() == PLACES)
            second.subscribe("t")
            for _ in range(5):
                began_ms = world.clock_ms()
                assert await second.getmany(timeout_ms=100) == {}
                assert world.clock_ms() - began_ms < 300
            assert second.partitions_for_topic("t") == {0, 1, 2, 3}

    in_a_world(program, nodes=1, partitions=4)


def test_a_member_outlives_its_coordinator() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        async with consumer(world, **FAST) as a:
            a.subscribe("t")
            values = await poll(a, until=lambda: a.assignment() == PLACES)
            topic = world.cluster.topics.get(OFFSETS_TOPIC)
            world.stop_node(topic.leader_ids[partition_for("g", len(topic.leader_ids))])
            await write(world, 8)
            while len(values) < 16:
                values += await poll(a, until=iter([False, True]).__next__)
            assert sorted(values) == sorted([b"%d" % number for number in range(8)] * 2)

    in_a_world(program, partitions=4)


def test_calls_that_are_not_legal() -> None:
    async def program(world: Any) -> None:
        async with consumer(world) as c:
            with pytest.raises(IllegalStateError, match="without a group_id"):
                c.group_metadata()
        async with consumer(world, **FAST) as c:
            c.assign([("t", 0)])
            with pytest.raises(IllegalStateError, match="assigned by hand"):
                c.subscribe("t")
            c.assign([])
            c.subscribe("t")
            with pytest.raises(IllegalStateError, match="unsubscribe first"):
                c.assign([("t", 0)])
        with pytest.raises(InvalidArgumentError, match="partition_assignment_strategy"):
            consumer(world, **FAST, partition_assignment_strategy=["lucky"])

    in_a_world(program, partitions=4)
