"""The asyncio consumer in a simulated world: positions, offsets, isolation."""

import asyncio

import pytest
from aiokafka.structs import OffsetAndMetadata as AiokafkaOffset
from aiokafka.structs import TopicPartition as AiokafkaPartition

from impl.broker import apis
from impl.client.arguments import OffsetAndMetadata
from impl.client.errors import IllegalStateError, InvalidArgumentError, KafkaTimeoutError
from impl.consumer.consumer import Consumer
from impl.consumer.errors import (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RefusedError,
)
from impl.producer import ProducerClosedError
from impl.producer.producer import Producer
from impl.protocol.schemas import ApiKey
from impl.simulator import ClientHost, Faults, World

T = ("t", 0)


def in_a_world(program, nodes=2, partitions=1):
    world = World(1, Faults(), nodes=nodes, partitions=partitions)
    return world.run(lambda: program(world))


def consumer(world, **settings):
    settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20} | settings
    return Consumer(
        bootstrap_servers=world.bootstrap_servers, network=ClientHost(world, "c"), **settings
    )


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


def test_seeks_to_where_the_logs_begin_end_and_were_committed():
    async def program(world):
        await write(world, 6)
        async with consumer(world, group_id="g") as c:
            c.assign([T])
            await c.seek_to_end()
            assert await c.position(T) == 6
            await c.seek_to_committed(T)
            assert await c.position(T) == 6
            await c.commit({T: 4})
            await c.seek_to_committed()
            assert await c.position(T) == 4
            await c.seek_to_beginning(T)
            assert (await c.getone()).offset == 0
            with pytest.raises(IllegalStateError):
                await c.seek_to_end(("t", 9))

    in_a_world(program)


def test_the_first_record_from_a_time_on():
    async def program(world):
        async with producer(world) as p:
            for timestamp_ms in (100, 300, 200):
                await p.send_and_wait("t", b"v", timestamp_ms=timestamp_ms)
        async with consumer(world) as c:
            found = [(await c.offsets_for_times({T: at}))[T] for at in (0, 101, 300, 301)]
            assert found == [(0, 100), (1, 300), (1, 300), None]
            assert found[0].timestamp == 100
            with pytest.raises(InvalidArgumentError, match="timestamp must be an integer"):
                await c.offsets_for_times({T: -1})

    in_a_world(program)


def test_a_paused_partition_is_neither_fetched_nor_delivered():
    other = ("t", 1)

    async def program(world):
        async with producer(world) as p:
            for place in (T, other):
                for number in range(4):
                    await p.send(place[0], b"%d" % number, partition=place[1])
        async with consumer(world) as c:
            c.assign([T, other])
            first = await c.getmany(timeout_ms=500, max_records=1)
            (held,) = first
            c.pause(held)
            assert c.paused() == {held}
            seen = []
            while taken := await c.getmany(timeout_ms=100):
                assert held not in taken
                seen += [record.offset for rows in taken.values() for record in rows]
            assert seen == [0, 1, 2, 3]
            c.resume(held)
            assert c.paused() == set()
            (records,) = (await c.getmany(timeout_ms=500)).values()
            assert [record.offset for record in records] == [1, 2, 3]
            c.pause()
            assert c.paused() == set()
            c.pause(T)
            c.assign([T])
            assert c.paused() == set()

    in_a_world(program, partitions=2)


def test_committed_offsets_are_where_the_next_one_begins():
    async def program(world):
        await write(world, 5)
        async with consumer(world, group_id="g", enable_auto_commit=False) as c:
            c.assign([T])
            assert await c.committed(T) is None
            await c.getmany(timeout_ms=500, max_records=2)
            await c.commit()
            assert await c.committed(T) == 2
            for offset in (3, OffsetAndMetadata(3, "m"), AiokafkaOffset(3, "m"), (3, "m", 0)):
                await c.commit({AiokafkaPartition(*T): offset})
                assert await c.committed(T) == 3
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
            with pytest.raises(NoOffsetForPartitionError, match=r"no committed .*: seek one"):
                await c.getmany(timeout_ms=100)
            c.seek(T, 99)
            with pytest.raises(OffsetOutOfRangeError, match=r"not have offset 99.*: seek one"):
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
            topic = world.cluster.topics.get("t")
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
            with pytest.raises(IllegalStateError, match="without a group_id"):
                await c.commit()
            for call in (c.getone, c.getmany):
                with pytest.raises(IllegalStateError, match="subscribe to topics, or assign"):
                    await call()

    in_a_world(program)


def test_nothing_is_asked_before_the_start_or_after_the_end():
    async def program(world):
        before = asyncio.all_tasks()
        c = consumer(world, group_id="g")
        c.assign([T])
        for what in ("not started: start it first", "stopped: create another one"):
            for call in (c.getmany, c.getone, lambda: c.committed(T), lambda: c.commit({T: 1})):
                with pytest.raises(IllegalStateError, match=what):
                    await call()
            await c.stop()
        with pytest.raises(IllegalStateError, match="stopped"):
            await c.start()
        assert asyncio.all_tasks() == before

    in_a_world(program)


def test_a_stop_ends_what_is_waited_for():
    async def program(world):
        before = asyncio.all_tasks()
        c = consumer(world, group_id="g")
        await c.start()
        c.assign([("nowhere", 9)])
        waiting = [asyncio.create_task(call) for call in (c.getone(), c.commit({("no", 0): 1}))]
        await asyncio.sleep(0.5)
        await c.stop()
        began = world.clock_ms()
        for call in waiting:
            with pytest.raises(IllegalStateError, match="stopped"):
                await call
        assert world.clock_ms() - began < 1_000
        assert asyncio.all_tasks() == before

    in_a_world(program)


@pytest.mark.parametrize("turns", range(0, 40, 3))
def test_a_stop_in_the_middle_of_a_start_leaves_nothing_behind(turns):
    async def program(world):
        before = asyncio.all_tasks()
        for client in (consumer(world), producer(world), producer(world, transactional_id="T")):
            starting = asyncio.create_task(client.start())
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            await client.stop()
            await asyncio.wait([starting])
            error = starting.exception()
            assert error is None or isinstance(error, IllegalStateError | ProducerClosedError)
            assert asyncio.all_tasks() == before

    in_a_world(program)


def test_two_starts_are_one():
    async def program(world):
        p = producer(world)
        before = asyncio.all_tasks()
        await asyncio.gather(p.start(), p.start())
        assert (await p.send_and_wait("t", b"a")).offset == 0
        await p.stop()
        assert asyncio.all_tasks() == before

    in_a_world(program)


# ---- bad input


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("isolation_level", {"isolation_level": "serializable"}),
        ("auto_offset_reset", {"auto_offset_reset": None}),
        ("group_id", {"group_id": 5}),
        ("group_id", {"group_id": ""}),
        ("client_id", {"client_id": "\ud800"}),
        ("fetch_max_wait_ms", {"fetch_max_wait_ms": "20"}),
        ("fetch_max_bytes", {"fetch_max_bytes": -1}),
        ("max_partition_fetch_bytes", {"max_partition_fetch_bytes": 2**31}),
        ("request_timeout_ms", {"request_timeout_ms": None}),
        ("retry_backoff_ms", {"retry_backoff_ms": 0.5}),
        ("default_api_timeout_ms", {"default_api_timeout_ms": True}),
        ("enable_auto_commit", {"enable_auto_commit": "no"}),
        ("check_crcs", {"check_crcs": 0}),
        ("exclude_internal_topics", {"exclude_internal_topics": None}),
        ("value_deserializer", {"value_deserializer": 3}),
        ("group_protocol", {"group_protocol": "new"}),
        ("ssl_context", {"ssl_context": "x"}),
    ],
)
def test_bad_settings_are_named(argument, settings):
    with pytest.raises(InvalidArgumentError, match=f"^{argument} must be ") as refused:
        Consumer(**settings)
    assert refused.value.argument == argument


def test_bad_arguments_change_nothing():
    async def program(world):
        await write(world, 3)
        async with consumer(world, group_id="g") as c:
            c.assign([T])
            c.seek(T, 1)
            for bad in (5, "t", ["t"], [("t",)], [("t", "0")], [("t", -1)], [("", 0)], [(None, 0)]):
                with pytest.raises(InvalidArgumentError):
                    c.assign(bad)
                with pytest.raises(InvalidArgumentError):
                    await c.end_offsets(bad)
            for bad in ((0, 5), (0, "", None), (0, "", -2)):
                with pytest.raises(InvalidArgumentError, match=r"metadata|leader_epoch"):
                    await c.commit({T: bad})
            for bad in (-1, "1", None, 2**63, True):
                with pytest.raises(InvalidArgumentError, match="offset must be an integer"):
                    c.seek(T, bad)
                with pytest.raises(InvalidArgumentError, match="offset must be an integer"):
                    await c.commit({T: bad})
            for argument, bad in (
                ("timeout_ms", -1),
                ("timeout_ms", None),
                ("timeout_ms", 0.5),
                ("max_records", 0),
                ("max_records", True),
                ("max_records", "1"),
            ):
                with pytest.raises(InvalidArgumentError, match=f"^{argument} must be an integer"):
                    await c.getmany(**{argument: bad})
            for bad in (5, [T], {"t": 1}):
                with pytest.raises(InvalidArgumentError):
                    await c.commit(bad)
            with pytest.raises(InvalidArgumentError):
                await c.committed("t")
            assert c.assignment() == {T}
            assert (await c.getone()).offset == 1
            assert await c.committed(T) is None

    in_a_world(program)


def test_a_topic_that_the_cluster_refuses_is_an_error():
    async def program(world):
        async with consumer(world) as c:
            c.assign([("no topic!", 0)])
            with pytest.raises(RefusedError, match="topic 'no topic!': INVALID_TOPIC_EXCEPTION"):
                await c.getmany(timeout_ms=100)

    in_a_world(program)


def test_a_timeout_names_what_was_missing():
    async def program(world):
        await write(world, 1)
        async with consumer(world, group_id="g", default_api_timeout_ms=500) as c:
            with pytest.raises(KafkaTimeoutError, match="t-9 has no leader"):
                await c.end_offsets([("t", 9)])
            with pytest.raises(KafkaTimeoutError, match="nope: UNKNOWN_TOPIC_OR_PARTITION"):
                await c.commit({("nope", 0): 1})

    in_a_world(program)


def test_an_answer_without_what_was_asked_is_asked_again(monkeypatch):
    """A broker that leaves a partition out of its answer has not answered."""
    served = apis.HANDLERS[ApiKey.LIST_OFFSETS]
    answers = iter([{"topics": []}, {"topics": [{"name": "t", "partitions": []}]}])
    monkeypatch.setitem(
        apis.HANDLERS, ApiKey.LIST_OFFSETS, lambda *asked: next(answers, None) or served(*asked)
    )

    async def program(world):
        await write(world, 2)
        async with consumer(world) as c:
            assert await c.end_offsets([T]) == {T: 2}

    in_a_world(program)
    assert list(answers) == []


@pytest.mark.parametrize("limit", [{"max_partition_fetch_bytes": 100}, {"fetch_max_bytes": 131}])
def test_records_are_read_past_batches_that_answers_cut(limit):
    async def program(world):
        await write(world, 10)
        async with consumer(world, **limit) as c:
            c.assign([T])
            return [(await c.getone()).offset for _ in range(10)]

    assert in_a_world(program) == list(range(10))


@pytest.mark.parametrize("partition", range(3))
def test_a_record_is_delivered_at_once_whichever_of_three_leaders_has_it(partition):
    async def program(world):
        places = [("t", index) for index in range(3)]
        async with consumer(world, fetch_max_wait_ms=500) as c, producer(world) as p:
            c.assign(places)
            assert await c.getmany(timeout_ms=700) == {}
            waiting = asyncio.create_task(c.getone())
            await asyncio.sleep(0.1)
            await p.send_and_wait("t", b"v", partition=partition)
            began = world.clock_ms()
            assert (await waiting).partition == partition
            return world.clock_ms() - began

    assert in_a_world(program, nodes=3, partitions=3) < 100


def test_what_was_fetched_ahead_is_dropped_by_a_seek():
    async def program(world):
        await write(world, 9)
        async with consumer(world, max_partition_fetch_bytes=200) as c:
            c.assign([T])
            assert [(await c.getone()).offset for _ in range(3)] == [0, 1, 2]
            c.seek(T, 1)
            assert [(await c.getone()).offset for _ in range(3)] == [1, 2, 3]
            c.seek(T, 7)
            assert [record.offset async for record in until(c, 2)] == [7, 8]
            c.assign([T])
            assert (await c.getone()).offset == 0

    in_a_world(program)


async def until(records, count):
    for _ in range(count):
        yield await anext(records)


def test_topics_are_read_without_an_assignment():
    async def program(world):
        await write(world, 4)
        servers = world.bootstrap_servers
        reading = {"network": ClientHost(world, "c"), "auto_offset_reset": "earliest"}
        async with Consumer("t", bootstrap_servers=servers, **reading) as c:
            assert c.assignment() == {("t", 0), ("t", 1)}
            assert len([record async for record in until(c, 4)]) == 4

    in_a_world(program, partitions=2)


def test_topics_are_names():
    with pytest.raises(InvalidArgumentError, match="topic must be a string"):
        Consumer(["t"])
