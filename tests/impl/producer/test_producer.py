"""The asyncio producer: in a simulated world, and once over sockets."""

import asyncio
import logging

import pytest

from impl.addresses import InvalidBootstrapServers
from impl.broker.config import NodeConfig
from impl.broker.server import Server
from impl.client.errors import UnknownTopicOrPartitionError
from impl.client.network_client import NoBrokersAvailable
from impl.consumer.consumer import Consumer
from impl.coordinator.config import TransactionConfig
from impl.producer import (
    AbortedError,
    Advice,
    ConfigError,
    IllegalStateError,
    KafkaTimeoutError,
    ProducerClosedError,
    ProducerFenced,
    RecordTooLargeError,
    State,
    TransactionAbortableError,
)
from impl.producer.producer import Producer
from impl.protocol.messages import decode_request
from impl.protocol.schemas import ApiKey
from impl.simulator import ClientHost, Faults, World

T = ("t", 0)
LEVELS = pytest.mark.parametrize("level", [1, 2], ids=["V1", "V2"])


def in_a_world(program, *, level=2, nodes=1, faults=None, partitions=1):
    """Run `program(world)` to its end."""
    transactions = TransactionConfig(num_partitions=2, transaction_version=level)
    world = World(
        0, faults or Faults(), nodes=nodes, partitions=partitions, transactions=transactions
    )
    return world.run(lambda: program(world))


def producer(world, name="p", **config):
    return Producer(
        world.bootstrap_servers,
        network=ClientHost(world, name),
        clock_ms=world.clock_ms,
        **({"linger_ms": 0} | config),
    )


async def aborted(p, call):
    """A block with this call that raises, and so is aborted."""

    async def block():
        async with p.transaction():
            await call
            raise KeyError

    with pytest.raises(KeyError):
        await block()


async def read(world, isolation_level="read_committed", place=T):
    """All values up to the end, once every transaction has its markers."""
    while True:
        ends = [await _end(world, level, place) for level in ("read_committed", "read_uncommitted")]
        if ends[0] == ends[1]:
            break
        await asyncio.sleep(0.1)
    values = []
    async with consumer(world, isolation_level) as reader:
        reader.assign([place])
        while await reader.position(place) < ends[0]:
            for records in (await reader.getmany(timeout_ms=100)).values():
                values += [record.value for record in records]
    return values


async def _end(world, isolation_level, place):
    async with consumer(world, isolation_level) as reader:
        return (await reader.end_offsets([place]))[place]


def consumer(world, isolation_level, **settings):
    return Consumer(
        bootstrap_servers=world.bootstrap_servers,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
        network=ClientHost(world, "reader"),
        **settings,
    )


# ---- without transactions


def test_records_get_their_offsets_in_order():
    async def program(world):
        async with producer(world) as p:
            outcomes = [await p.send("t", b"%d" % number) for number in range(20)]
            await p.flush()
            assert [outcome.result().offset for outcome in outcomes] == list(range(20))
            assert (await p.send_and_wait("t", b"x", b"key")).partition == 0
            assert await p.partitions_for("t") == {0}
        return await read(world)

    assert in_a_world(program) == [b"%d" % number for number in range(20)] + [b"x"]


def test_keys_choose_partitions_and_timestamps_are_kept():
    async def program(world):
        async with producer(world) as p:
            places = {(await p.send_and_wait("t", b"", b"%d" % n)).partition for n in range(20)}
            assert places == {0, 1, 2}
            where = await p.send_and_wait("t", b"v", b"k", timestamp_ms=77)
        async with consumer(world, "read_uncommitted") as reader:
            reader.assign([("t", where.partition)])
            reader.seek(("t", where.partition), where.offset)
            record = await reader.getone()
            assert (record.timestamp, record.key, record.offset) == (77, b"k", where.offset)

    in_a_world(program, partitions=3)


def test_records_without_keys_move_on_when_they_would_fill_a_batch():
    async def program(world):
        async with producer(world, batch_size=1_000) as p:
            sent = [await p.send_and_wait("t", bytes(400)) for _ in range(9)]
            assert [place.partition for place in sent] == [0, 0, 0, 1, 1, 2, 2, 2, 0]

    in_a_world(program, partitions=3)


@pytest.mark.parametrize("seed", range(4))
def test_every_record_is_there_once_when_connections_break(seed):
    async def program(world):
        async with producer(world, retry_backoff_ms=10) as p:
            await p.send_and_wait("t", b"first")
            world.begin_faults()
            outcomes = []
            for number in range(30):
                outcomes.append(await p.send("t", b"%d" % number))
                await asyncio.sleep(0.003)
            await asyncio.gather(*outcomes)
            await world.end_faults()
        return await read(world)

    faults = Faults(break_rate=0.1, loss_rate=0.3, delay_ms=(1 + seed, 5 + seed))
    values = in_a_world(program, faults=faults, nodes=2)
    assert values == [b"first"] + [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_acks_of_less(acks):
    async def program(world):
        async with producer(world, acks=acks) as p:
            where = await p.send_and_wait("t", b"a")
            assert where.offset == (-1 if acks == "0" else 0)
        await asyncio.sleep(1)
        return await read(world)

    assert in_a_world(program) == [b"a"]


def test_memory_is_waited_for():
    async def program(world):
        async with producer(world, buffer_memory=2_000, batch_size=1_000) as p:
            outcomes = [await p.send("t", b"x" * 800) for _ in range(10)]
            assert sum(outcome.done() for outcome in outcomes) >= 7
            await asyncio.gather(*outcomes)

    in_a_world(program)


def test_what_lingers_makes_room_for_a_record_that_waits():
    async def program(world):
        settings = {"buffer_memory": 2_000, "batch_size": 1_000, "linger_ms": 20_000}
        async with producer(world, **settings) as p:
            await p.send("t", b"first")
            await p.flush()
            began = world.clock_ms()
            for partition in range(3):
                await p.send("t", b"x" * 800, partition=partition)
                await asyncio.sleep(1)
            assert world.clock_ms() - began < 4_000

    in_a_world(program, partitions=3)


def test_only_a_record_that_waits_pays_for_a_timer(monkeypatch):
    async def program(world):
        async with producer(world, buffer_memory=2_000, batch_size=1_000) as p:
            await p.send_and_wait("t", b"metadata is there")
            loop, timers = asyncio.get_running_loop(), []
            call_at = loop.call_at

            def counted(when, callback, *more, **context):
                timers.append(callback)
                return call_at(when, callback, *more, **context)

            monkeypatch.setattr(loop, "call_at", counted)
            outcomes = [await p.send("t", b"x" * 800) for _ in range(2)]
            assert timers == []
            outcomes.append(await p.send("t", b"x" * 800))
            assert timers != []
            await asyncio.gather(*outcomes)

    in_a_world(program)


def test_a_partition_that_is_not_there_times_out():
    async def program(world):
        async with producer(world, max_block_ms=1_000) as p:
            with pytest.raises(KafkaTimeoutError, match="no partition 7"):
                await p.send("t", b"", partition=7)

    in_a_world(program)


# ---- transactions


@LEVELS
def test_committed_records_are_read_and_aborted_ones_are_not(level):
    async def program(world):
        async with producer(world, transactional_id="T") as p:
            for number in range(4):
                async with p.transaction():
                    await p.send("t", b"a%d" % number)
                    await p.send("t", b"b%d" % number)
                await aborted(p, p.send_and_wait("t", b"never%d" % number))
        assert len(await read(world, "read_uncommitted")) == 12
        return await read(world)

    wanted = [name % number for number in range(4) for name in (b"a%d", b"b%d")]
    assert in_a_world(program, level=level) == wanted


@LEVELS
def test_offsets_move_with_the_transaction(level):
    async def program(world):
        async with producer(world) as source:
            await source.send_and_wait("in", b"x")
        async with (
            producer(world, transactional_id="T") as p,
            consumer(world, "read_committed", group_id="g") as c,
        ):
            await aborted(p, p.send_offsets_to_transaction({("in", 0): 1}, "g"))
            assert await c.committed(("in", 0)) is None
            async with p.transaction():
                await p.send_offsets_to_transaction({("in", 0): 1}, "g")
            assert await c.committed(("in", 0)) == 1
            c.assign([("in", 0)])
            assert await c.position(("in", 0)) == 1

    in_a_world(program, level=level, nodes=2)


@LEVELS
def test_a_newer_producer_fences_the_older_one(level):
    async def program(world):
        async with producer(world, "old", transactional_id="T") as old:
            await old.begin_transaction()
            await old.send_and_wait("t", b"old")
            async with producer(world, "new", transactional_id="T") as new:
                with pytest.raises(ProducerFenced) as fenced:
                    await old.commit_transaction()
                assert fenced.value.advice is Advice.GIVE_UP
                assert fenced.value.legal_calls == ("stop",)
                with pytest.raises(ProducerFenced):
                    await old.begin_transaction()
                async with new.transaction():
                    await new.send("t", b"new")
        return await read(world)

    assert in_a_world(program, level=level) == [b"new"]


@LEVELS
def test_a_record_that_is_refused_takes_the_commit_with_it(level):
    async def program(world):
        async with producer(world, transactional_id="T", max_request_size=1_000) as p:

            async def block():
                async with p.transaction():
                    await p.send("t", b"before")
                    with pytest.raises(RecordTooLargeError) as large:
                        await p.send("t", b"x" * 2_000)
                    assert large.value.legal_calls == ("abort_transaction", "stop")

            with pytest.raises(TransactionAbortableError, match="MESSAGE_TOO_LARGE") as refused:
                await block()
            assert refused.value.legal_calls == ("begin_transaction", "stop")
            async with p.transaction():
                await p.send("t", b"after")
        return await read(world)

    assert in_a_world(program, level=level) == [b"after"]


def test_a_record_that_times_out_fails_the_commit():
    async def program(world):
        async with producer(world, transactional_id="T", max_block_ms=2_000) as p:
            await p.begin_transaction()
            with pytest.raises(KafkaTimeoutError) as late:
                await p.send("t", b"", partition=9)
            assert late.value.legal_calls == ("abort_transaction", "stop")
            with pytest.raises(TransactionAbortableError):
                await p.commit_transaction()
            await p.abort_transaction()
            async with p.transaction():
                await p.send("t", b"after")
        return await read(world)

    assert in_a_world(program) == [b"after"]


def test_a_commit_that_takes_too_long_is_repeated():
    async def program(world):
        async with producer(
            world, transactional_id="T", max_block_ms=500, request_timeout_ms=200
        ) as p:
            await p.begin_transaction()
            await p.send_and_wait("t", b"a")
            world.stop_node(1)
            with pytest.raises(KafkaTimeoutError) as late:
                await p.commit_transaction()
            assert late.value.advice is Advice.RETRY
            assert late.value.legal_calls == ("commit_transaction", "stop")
            with pytest.raises(IllegalStateError, match="legal now: commit_transaction, stop"):
                await p.begin_transaction()
            world.start_node(1)
            await p.commit_transaction()
            async with p.transaction():
                await p.send("t", b"b")
        return await read(world)

    assert in_a_world(program) == [b"a", b"b"]


def test_stopping_aborts_what_is_open():
    async def program(world):
        p = producer(world, transactional_id="T")
        await p.start()
        await p.begin_transaction()
        await p.send("t", b"a")
        await p.stop()
        with pytest.raises(ProducerClosedError):
            await p.send("t", b"b")
        assert await read(world, "read_uncommitted") == [b"a"]
        return await read(world)

    assert in_a_world(program) == []


def test_a_cancelled_block_is_aborted():
    async def program(world):
        async with producer(world, transactional_id="T") as p:

            async def block():
                async with p.transaction():
                    await p.send_and_wait("t", b"a")
                    await asyncio.sleep(1_000)

            task = asyncio.ensure_future(block())
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with p.transaction():
                await p.send("t", b"b")
        return await read(world)

    assert in_a_world(program) == [b"b"]


@pytest.mark.parametrize(("requests", "version"), [("v1", 11), ("v2", 12), ("auto", 12)])
def test_the_requests_follow_the_cluster_or_the_option(requests, version):
    async def program(world):
        async with producer(world, transactional_id="T", transaction_requests=requests) as p:
            async with p.transaction():
                await p.send_and_wait("t", b"a")
            return p._started.core._manager.produce_version

    assert in_a_world(program) == version


class Filter(ClientHost):
    """A network that sends what `passes(header, body)` lets through; it may also raise."""

    def __init__(self, world, passes):
        super().__init__(world, "p")
        self.passes = passes

    async def connect(self, host, port, receiver):
        transport = await super().connect(host, port, receiver)
        send = transport.send

        def filtered(payload):
            if self.passes(*decode_request(payload)):
                send(payload)

        transport.send = filtered
        return transport


def fail_group_coordinators(header, body):
    """No request for a group's coordinator can be written."""
    if header["api_key"] == ApiKey.FIND_COORDINATOR and body["key_type"] == 0:
        raise OverflowError
    return True


def test_a_request_that_cannot_be_written_fails_its_futures():
    async def program(world):
        network = Filter(world, fail_group_coordinators)
        p = Producer(world.bootstrap_servers, network=network, linger_ms=0, transactional_id="T")
        await p.start()
        await p.begin_transaction()
        outcome = await p.send("t", b"a")
        with pytest.raises(AbortedError) as ended:
            await p.send_offsets_to_transaction({T: 1}, "g")
        assert ended.value.legal_calls == ("stop",)
        assert outcome.done()
        await p.stop()

    in_a_world(program)


# ---- calls in the wrong place


def test_calls_that_need_something_else_first():
    async def program(world):
        plain = producer(world)
        with pytest.raises(IllegalStateError, match="not started"):
            await plain.send("t", b"")
        async with plain:
            for call in (plain.begin_transaction, plain.commit_transaction):
                with pytest.raises(IllegalStateError, match="without a transactional_id"):
                    await call()
        async with producer(world, transactional_id="T") as p:
            with pytest.raises(IllegalStateError) as early:
                await p.send("t", b"")
            assert early.value.legal_calls == ("begin_transaction", "stop")
            assert p._started.core.state is State.READY

    in_a_world(program)


def test_bad_settings_are_named():
    with pytest.raises(ConfigError, match="transaction_requests: must be one of auto, v1, v2"):
        Producer(transactional_id="T", transaction_requests="v3")
    with pytest.raises(InvalidBootstrapServers, match="'host:port' is not host:port"):
        Producer("host:port")


def test_no_broker_is_reachable():
    async def program(world):
        world.stop_node(1)
        p = producer(world)
        with pytest.raises(NoBrokersAvailable):
            await p.start()
        await p.stop()

    in_a_world(program)


# ---- sockets


async def test_over_sockets_as_in_the_world():
    config = NodeConfig(host="127.0.0.1", port=0, transactions=TransactionConfig(num_partitions=2))
    async with Server(config) as server:
        address = f"127.0.0.1:{server.port}"
        async with Producer(address, transactional_id="T") as p:
            for number in range(3):
                async with p.transaction():
                    await p.send("t", b"%d" % number)
                    await p.send_offsets_to_transaction({T: number}, "g")
            await aborted(p, p.send_and_wait("t", b"never"))
        settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        async with Consumer(bootstrap_servers=address, group_id="g", **settings) as c:
            assert await c.committed(T) == 2
            c.assign([T])
            c.seek(T, 0)
            values = [(await c.getone()).value for _ in range(3)]
            assert values == [b"0", b"1", b"2"]
            assert await c.getmany(timeout_ms=100) == {}
            assert await c.position(T) == (await c.end_offsets([T]))[T]


async def test_a_topic_that_does_not_exist_is_an_error_in_the_end(caplog):
    caplog.set_level(logging.DEBUG, "impl.client.missing_topics")
    config = NodeConfig(host="127.0.0.1", port=0, auto_create_topics=False)
    async with Server(config) as server:
        address = f"127.0.0.1:{server.port}"
        async with Producer(bootstrap_servers=address, max_block_ms=400, linger_ms=0) as p:
            sending = asyncio.create_task(p.send("nope", b"v"))
            while not caplog.messages and not sending.done():
                await asyncio.sleep(0.001)
            said = "metadata of topic 'nope': UNKNOWN_TOPIC_OR_PARTITION; asked again"
            assert caplog.messages == [said]
            with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'nope', after 400 ms"):
                await sending
