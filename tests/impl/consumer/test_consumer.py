"""The asyncio consumer in a simulated world: positions, offsets, isolation."""

import pytest

from impl.consumer.consumer import Consumer
from impl.consumer.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from impl.producer.producer import Producer
from impl.simulator import ClientHost, Faults, World

T = ("t", 0)


def in_a_world(program, nodes=2):
    world = World(1, Faults(), nodes=nodes)
    return world.run(lambda: program(world))


def consumer(world, **settings):
    settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20} | settings
    return Consumer(world.bootstrap_servers, network=ClientHost(world, "c"), **settings)


def producer(world, **config):
    network = ClientHost(world, "p")
    return Producer(world.bootstrap_servers, network=network, clock_ms=world.clock_ms, **config)


async def write(world, count, topic="t"):
    async with producer(world) as p:
        for number in range(count):
            await p.send(topic, b"%d" % number)


def test_positions_follow_what_is_returned():
    async def program(world):
        await write(world, 10)
        async with consumer(world) as c:
            c.assign([T])
            assert c.assignment() == {T}
            assert await c.position(T) == 0
            (records,) = (await c.getmany(timeout_ms=500, max_records=3)).values()
            assert [record.value for record in records] == [b"0", b"1", b"2"]
            assert await c.position(T) == 3
            assert (await c.getone()).offset == 3
            c.seek(T, 8)
            (records,) = (await c.getmany(timeout_ms=500)).values()
            assert [record.offset for record in records] == [8, 9]
            assert await c.getmany(timeout_ms=100) == {}
            assert await c.beginning_offsets([T]) == {T: 0}
            assert await c.end_offsets([T]) == {T: 10}

    in_a_world(program)


def test_committed_offsets_are_where_the_next_one_begins():
    async def program(world):
        await write(world, 5)
        async with consumer(world, group_id="g") as c:
            c.assign([T])
            assert await c.committed(T) is None
            await c.getmany(timeout_ms=500, max_records=2)
            await c.commit()
            assert await c.committed(T) == 2
            await c.commit({T: 4})
        async with consumer(world, group_id="g") as c:
            c.assign([T])
            assert (await c.getone()).offset == 4

    in_a_world(program)


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 5)])
def test_without_a_committed_offset_the_reset_decides(reset, first):
    async def program(world):
        await write(world, 5)
        async with consumer(world, group_id="g", auto_offset_reset=reset) as c:
            c.assign([T])
            assert await c.position(T) == first
            c.seek(T, 99)
            got = await c.getmany(timeout_ms=100)
            assert [record.offset for record in got.get(T, [])] == list(range(first, 5))

    in_a_world(program)


def test_without_a_reset_nothing_is_guessed():
    async def program(world):
        await write(world, 5)
        async with consumer(world, group_id="g", auto_offset_reset="none") as c:
            c.assign([T])
            with pytest.raises(NoOffsetForPartitionError):
                await c.getmany(timeout_ms=100)
            c.seek(T, 99)
            with pytest.raises(OffsetOutOfRangeError):
                await c.getmany(timeout_ms=100)

    in_a_world(program)


def test_an_open_transaction_is_waited_for():
    async def program(world):
        await write(world, 1, "in")
        async with (
            producer(world, transactional_id="T", linger_ms=0) as p,
            consumer(world, group_id="g", isolation_level="read_committed") as c,
            consumer(world, group_id="g") as uncommitted,
        ):
            await p.begin_transaction()
            await p.send_and_wait("t", b"a")
            await p.send_offsets_to_transaction({("in", 0): 1}, "g")
            assert await uncommitted.committed(("in", 0)) is None
            assert await c.end_offsets([T]) == {T: 0}
            assert await uncommitted.end_offsets([T]) == {T: 1}
            c.assign([T])
            uncommitted.assign([T])
            assert await c.getmany(timeout_ms=200) == {}
            assert (await uncommitted.getone()).value == b"a"
            impatient = consumer(
                world, group_id="g", isolation_level="read_committed", default_api_timeout_ms=500
            )
            async with impatient:
                with pytest.raises(KafkaTimeoutError):
                    await impatient.committed(("in", 0))
            await p.commit_transaction()
            assert await c.committed(("in", 0)) == 1
            assert (await c.getone()).value == b"a"

    in_a_world(program)


def test_a_leader_that_stops_is_replaced():
    async def program(world):
        await write(world, 3)
        async with consumer(world, request_timeout_ms=500) as c:
            c.assign([T])
            assert (await c.getone()).offset == 0
            topic = world.cluster.topics.named("t")
            world.stop_node(topic.leader_ids[0])
            assert (await c.getone()).offset == 1
            c.seek(T, 2)
            assert (await c.getone()).offset == 2

    in_a_world(program)


def test_calls_in_the_wrong_place():
    async def program(world):
        async with consumer(world) as c:
            with pytest.raises(IllegalStateError, match="is not assigned"):
                await c.position(T)
            with pytest.raises(IllegalStateError, match="without a group_id"):
                await c.committed(T)
            c.assign([T])
            with pytest.raises(ValueError, match="not negative"):
                c.seek(T, -1)

    in_a_world(program)
    with pytest.raises(ValueError, match="isolation_level must be one of"):
        Consumer(isolation_level="serializable")
