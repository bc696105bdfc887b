"""Members of a consumer group (KIP-848) in a simulated world: what each reads, keeps and loses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from impl.client.errors import CommitFailedError, InvalidArgumentError
from impl.client.network_client import NetworkClient
from impl.consumer.consumer import Consumer
from impl.consumer.errors import RefusedError
from impl.consumer.membership import ConsumerRebalanceListener
from impl.coordinator.placement import OFFSETS_TOPIC, partition_for
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from impl.simulator import ClientHost
from tests.impl.consumer.test_consumer import consumer, in_a_world, producer
from tests.impl.consumer.test_membership import PLACES, poll, write

NEW = {"group_id": "g", "group_protocol": "consumer"}


class Notes(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.notes: list[tuple[str, int]] = []

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.notes.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.notes.append(("assigned", len(assigned)))

    async def on_partitions_lost(self, lost: set[Any]) -> None:
        self.notes.append(("lost", len(lost)))


async def share(*consumers: Consumer) -> list[bytes]:
    """Until all partitions are read, by all; what was read meanwhile."""

    def is_shared() -> bool:
        read = [place for c in consumers for place in c.assignment()]
        return sorted(read) == sorted(PLACES) and all(c.assignment() for c in consumers)

    return await poll(*consumers, until=is_shared)


async def read(consumers: tuple[Consumer, ...], values: list[bytes], count: int) -> None:
    async with asyncio.timeout(60):
        while len(values) < count:
            values += await poll(*consumers, until=iter([False, True]).__next__)


async def leave_for(world: Any, member_id: str) -> None:
    """Say in the name of a member that it leaves."""
    client = NetworkClient(ClientHost(world, "other"), world.bootstrap_servers, "other", 9_000)
    body = {"group_id": "g", "member_id": member_id, "member_epoch": -1}
    await client.start()
    for address in list(client.nodes.values()):
        connection = await client.connect(address)
        await connection.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)
    await client.close()


@pytest.mark.parametrize("assignor", [None, "range"])
def test_members_keep_what_they_need_not_give_up(assignor: str | None) -> None:
    async def program(world: Any) -> None:
        await write(world, 20)
        settings = NEW | {"group_remote_assignor": assignor}
        async with consumer(world, **settings) as a, consumer(world, **settings) as b:
            notes = Notes()
            a.subscribe(["t"], listener=notes)
            values = await share(a)
            kept: set[Any] = a.assignment()
            b.subscribe(["t"])
            while len(a.assignment()) + len(b.assignment()) < 4 or not b.assignment():
                values += await poll(a, b, until=iter([False, True]).__next__)
                kept &= a.assignment()
            await write(world, 20)
            await read((a, b), values, 40)
            assert sorted(values) == sorted([b"%d" % number for number in range(20)] * 2)
            assert len(kept) == 2
            assert [note for note in notes.notes if note[1]] == [("assigned", 4), ("revoked", 2)]
            await b.stop()
            await share(a)
            assert notes.notes[-1] == ("assigned", 2)

    in_a_world(program, partitions=4)


def test_a_changed_subscription_changes_the_assignment() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        async with producer(world) as p:
            await p.send("u", b"of u", partition=0)
        async with consumer(world, **NEW) as a:
            a.subscribe(["t"])
            await share(a)
            a.subscribe(["u"])
            values = await poll(a, until=lambda: {t for t, _ in a.assignment()} == {"u"})
            while b"of u" not in values:
                values += await poll(a, until=iter([False, True]).__next__)

    in_a_world(program, partitions=4)


def test_positions_are_committed_before_they_are_given_up_and_read_by_the_next_one() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        async with consumer(world, **NEW) as a:
            a.subscribe("t")
            values: list[bytes] = await share(a)
            await read((a,), values, 8)
            await a.unsubscribe()
            assert (a.subscription(), a.assignment()) == (frozenset(), set())
            assert [await a.committed(place) for place in sorted(PLACES)] == [2] * 4
            a.subscribe("t")
            assert await share(a) == []
            assert await a.getmany(timeout_ms=500) == {}

    in_a_world(program, partitions=4)


def test_who_asks_for_nothing_has_lost_its_partitions() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        settings = NEW | {"max_poll_interval_ms": 900, "enable_auto_commit": False}
        async with consumer(world, **settings) as slow, consumer(world, **settings) as quick:
            notes = Notes()
            slow.subscribe("t", listener=notes)
            await share(slow)
            quick.subscribe("t")
            await poll(quick, until=lambda: quick.assignment() == PLACES)
            with pytest.raises(CommitFailedError):
                await slow.commit({("t", 0): 1})
            await share(slow, quick)
            assert [note for note in notes.notes if note[1]] == [
                ("assigned", 4),
                ("lost", 4),
                ("assigned", 2),
            ]
            await slow.commit()

    in_a_world(program, partitions=4)


def test_who_is_fenced_joins_again_under_its_id() -> None:
    """The coordinator does not know it: UNKNOWN_MEMBER_ID."""

    async def program(world: Any) -> None:
        await write(world, 4)
        async with consumer(world, **NEW) as a:
            notes = Notes()
            a.subscribe("t", listener=notes)
            await share(a)
            me = a.group_metadata()
            await leave_for(world, me.member_id)
            with pytest.raises(CommitFailedError):
                await a.commit({("t", 0): 1})
            await poll(a, until=lambda: ("lost", 4) in notes.notes)
            await share(a)
            assert a.group_metadata().member_id == me.member_id

    in_a_world(program, partitions=4)


def test_a_static_member_takes_its_place_again() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        static = NEW | {"group_instance_id": "i"}
        async with consumer(world, **static) as a, consumer(world, **NEW) as b:
            a.subscribe("t")
            b.subscribe("t")
            await share(a, b)
            mine = a.assignment()
            async with consumer(world, **static) as twin:
                twin.subscribe("t")
                with pytest.raises(RefusedError) as refused:
                    await poll(twin, until=lambda: False)
                assert refused.value.error_code is ErrorCode.UNRELEASED_INSTANCE_ID
            await a.stop()
            async with consumer(world, **static) as again:
                again.subscribe("t")
                await poll(again, until=again.assignment)
                assert again.assignment() == mine

    in_a_world(program, partitions=4)


def test_a_member_outlives_its_coordinator() -> None:
    async def program(world: Any) -> None:
        await write(world, 8)
        async with consumer(world, **NEW) as a:
            a.subscribe("t")
            values: list[bytes] = await share(a)
            topic = world.cluster.topics.get(OFFSETS_TOPIC)
            world.stop_node(topic.leader_ids[partition_for("g", len(topic.leader_ids))])
            await write(world, 8)
            await read((a,), values, 16)
            await a.commit()
            assert sorted(values) == sorted([b"%d" % number for number in range(8)] * 2)

    in_a_world(program, partitions=4)


def test_a_transaction_commits_offsets_as_this_member() -> None:
    async def program(world: Any) -> None:
        await write(world, 4)
        settings = NEW | {"enable_auto_commit": False}
        async with consumer(world, **settings) as a, producer(world, transactional_id="T") as p:
            a.subscribe("t")
            await share(a)
            await p.begin_transaction()
            await p.send_offsets_to_transaction({("t", 0): 1}, a.group_metadata())
            await p.commit_transaction()
            assert await a.committed(("t", 0)) == 1
            stranger = a.group_metadata()._replace(member_id="nobody")
            await p.begin_transaction()
            with pytest.raises(Exception, match="UNKNOWN_MEMBER_ID"):
                await p.send_offsets_to_transaction({("t", 0): 2}, stranger)
            await p.abort_transaction()

    in_a_world(program, partitions=4)


def test_an_unknown_assignor_is_refused() -> None:
    async def program(world: Any) -> None:
        async with consumer(world, **NEW, group_remote_assignor="mine") as a:
            a.subscribe("t")
            with pytest.raises(RefusedError, match="UNSUPPORTED_ASSIGNOR"):
                await poll(a, until=lambda: False)
        with pytest.raises(InvalidArgumentError, match="group_protocol='consumer'"):
            consumer(world, **NEW, session_timeout_ms=6_000)

    in_a_world(program, partitions=4)
