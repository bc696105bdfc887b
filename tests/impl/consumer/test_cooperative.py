"""Members of classic groups that keep partitions in a rebalance (KIP-429)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from impl.client.errors import CommitFailedError
from impl.consumer.membership import ConsumerRebalanceListener
from impl.coordinator.placement import OFFSETS_TOPIC, partition_for
from tests.impl.consumer.test_consumer import consumer, in_a_world
from tests.impl.consumer.test_membership import FAST, PLACES, poll, write

COOPERATIVE = FAST | {"partition_assignment_strategy": ["cooperative-sticky"]}


class Notes(ConsumerRebalanceListener):
    """What happened, and how much each partition was committed when it was revoked."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, int]] = []
        self.revoked: set[Any] = set()

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.notes.append(("revoked", len(revoked)))
        self.revoked |= revoked

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.notes.append(("assigned", len(assigned)))

    def on_partitions_lost(self, lost: set[Any]) -> None:
        self.notes.append(("lost", len(lost)))


def shared(consumers: Iterable[Any], each: int) -> Any:
    """Whether everything is assigned, so much to each."""

    def is_shared() -> bool:
        sets = [c.assignment() for c in consumers]
        return all(len(s) == each for s in sets) and set().union(*sets) == PLACES

    return is_shared


async def read(consumers: tuple[Any, ...], values: list[bytes], count: int) -> None:
    async with asyncio.timeout(60):
        while len(values) < count:
            values += await poll(*consumers, until=iter([False, True]).__next__)


def test_members_keep_what_they_need_not_give_up_and_read_each_record_once() -> None:
    async def program(world: Any) -> None:
        await write(world, 20)
        notes = Notes()
        async with consumer(world, **COOPERATIVE) as a, consumer(world, **COOPERATIVE) as b:
            a.subscribe(["t"], listener=notes)
            values = await poll(a, until=shared([a], 4))
            b.subscribe(["t"])
            kept: set[Any] = a.assignment()
            async with asyncio.timeout(60):
                while not shared([a, b], 2)():
                    values += await poll(a, b, until=iter([False, True]).__next__)
                    kept &= a.assignment()
            assert len(kept) == 2
            assert not notes.revoked & kept
            await write(world, 20)
            await read((a, b), values, 40)
            assert sorted(values) == sorted([b"%d" % number for number in range(20)] * 2)
            assert [note for note in notes.notes if note[1]] == [("assigned", 4), ("revoked", 2)]
            await b.stop()
            await poll(a, until=shared([a], 4))
            assert notes.notes[-1] == ("assigned", 2)

    in_a_world(program, partitions=4)


def test_a_member_reads_on_while_it_waits_for_others_to_join() -> None:
    async def program(world: Any) -> None:
        members = [consumer(world, client_id=name, **COOPERATIVE) for name in "abc"]
        a, b, c = members
        async with a, b, c:
            for member in (a, b):
                member.subscribe(["t"])
            await poll(a, b, until=shared([a, b], 2))
            c.subscribe(["t"])
            await poll(c, a, until=iter([False] * 20 + [True]).__next__)
            assert (len(a.assignment()), c.assignment()) == (2, set())  # b does not join yet
            await write(world, 8)
            values: list[bytes] = []
            await read((a, c), values, 4)
            await read((a, b, c), values, 8)
            await poll(*members, until=lambda: all(member.assignment() for member in members))
            assert sorted(values) == sorted(b"%d" % number for number in range(8))

    in_a_world(program, partitions=4)


def test_what_is_revoked_is_committed_where_it_was_read_to() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        notes = Notes()
        settings = COOPERATIVE | {"auto_commit_interval_ms": 1_000_000}
        async with consumer(world, **settings) as a, consumer(world, **settings) as b:
            a.subscribe(["t"], listener=notes)
            values: list[bytes] = []
            await read((a,), values, 8)
            b.subscribe(["t"])
            await poll(a, b, until=shared([a, b], 2))
            assert {await b.committed(place) for place in notes.revoked} == {2}
            assert {await b.position(place) for place in b.assignment()} == {2}
            assert await b.getmany(timeout_ms=300) == {}

    in_a_world(program, partitions=4)


def test_a_member_outlives_its_coordinator_and_a_leader_that_moves() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        notes = Notes()
        async with consumer(world, **COOPERATIVE) as a:
            a.subscribe(["t"], listener=notes)
            values = await poll(a, until=shared([a], 4))
            topic = world.cluster.topics.get(OFFSETS_TOPIC)
            world.stop_node(topic.leader_ids[partition_for("g", len(topic.leader_ids))])
            await write(world, 8)
            await read((a,), values, 16)
            await a.commit()
            assert sorted(values) == sorted([b"%d" % number for number in range(8)] * 2)

    in_a_world(program, partitions=4)


def test_who_asks_for_nothing_has_lost_its_partitions() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        settings = COOPERATIVE | {"max_poll_interval_ms": 400, "enable_auto_commit": False}
        async with consumer(world, **settings) as slow, consumer(world, **settings) as quick:
            notes = Notes()
            slow.subscribe(["t"], listener=notes)
            await poll(slow, until=shared([slow], 4))
            quick.subscribe(["t"])
            await poll(quick, until=shared([quick], 4))
            with pytest.raises(CommitFailedError):
                await slow.commit()
            await poll(slow, quick, until=shared([slow, quick], 2))
            assert [note for note in notes.notes if note[1]][1] == ("lost", 4)
            await slow.commit()

    in_a_world(program, partitions=4)


def test_a_changed_subscription_changes_the_assignment() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        async with consumer(world, **COOPERATIVE) as a:
            a.subscribe(["t"])
            await poll(a, until=shared([a], 4))
            a.subscribe(["u"])
            await poll(a, until=lambda: {place.topic for place in a.assignment()} == {"u"})

    in_a_world(program, partitions=4)
