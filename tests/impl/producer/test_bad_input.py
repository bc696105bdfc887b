"""Invalid input of the application: refused at once, by name, without side effects."""

import asyncio
import re
import reprlib

import pytest

from impl.client.network_client import UnsupportedClusterError
from impl.producer import (
    AbortedError,
    Advice,
    ConfigError,
    GroupMetadata,
    InvalidArgumentError,
    KafkaTimeoutError,
    MalformedAnswerError,
    OffsetAndMetadata,
    ProducerClosedError,
    TopicRefusedError,
)
from impl.producer.producer import Producer
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from impl.simulator.virtual_time import run_virtually
from tests.impl.client.test_cluster import Network, versions
from tests.impl.producer.test_producer import Filter, T, in_a_world, producer, read
from tests.impl.producer.txn_driver import TxnDriver

RECORDS = [
    ("topic", {"topic": None}),
    ("topic", {"topic": 5}),
    ("topic", {"topic": []}),
    ("topic", {"topic": ""}),
    ("topic", {"topic": "x" * 250}),
    ("topic", {"topic": "\ud800"}),
    ("partition", {"partition": -1}),
    ("partition", {"partition": 2**31}),
    ("partition", {"partition": "0"}),
    ("partition", {"partition": True}),
    ("partition", {"topic": "new", "partition": -1}),
    ("timestamp_ms", {"timestamp_ms": -1}),
    ("timestamp_ms", {"timestamp_ms": 1.5}),
    ("timestamp_ms", {"timestamp_ms": 2**63}),
    ("value", {"value": "text"}),
    ("value", {"value": 5}),
    ("key", {"key": "text"}),
    ("headers", {"headers": "abc"}),
    ("headers", {"headers": {"ab": b""}}),
    ("headers", {"headers": [("h", "text")]}),
    ("headers", {"headers": [(None, b"")]}),
    ("headers", {"headers": [("\ud800", b"")]}),
    ("headers", {"headers": 5}),
]

OFFSETS = [
    ("offsets", 5, "g"),
    ("offsets", {"t": 5}, "g"),
    ("offsets", {("t", 0, 1): 5}, "g"),
    ("topic", {(5, 0): 5}, "g"),
    ("partition", {("t", -1): 5}, "g"),
    ("offset", {T: -5}, "g"),
    ("offset", {T: "5"}, "g"),
    ("offset", {T: 2**63}, "g"),
    ("offset", {T: True}, "g"),
    ("leader_epoch", {T: OffsetAndMetadata(5, "", -2)}, "g"),
    ("metadata", {T: OffsetAndMetadata(5, None)}, "g"),
    ("group", {T: 5}, ""),
    ("group", {T: 5}, None),
    ("group", {T: 5}, GroupMetadata(5)),
    ("member_id", {T: 5}, GroupMetadata("g", 1)),
    ("generation_id", {T: 5}, GroupMetadata("g", "1", "m")),
]


@pytest.mark.parametrize(("argument", "wrong"), RECORDS, ids=reprlib.repr)
def test_a_bad_record_is_refused_and_its_transaction_goes_on(argument, wrong):
    async def program(world):
        async with producer(world, transactional_id="T", max_block_ms=1_000) as p:
            await p.begin_transaction()
            began = world.clock_ms()
            with pytest.raises(InvalidArgumentError, match=f"^{argument} must ") as refused:
                await p.send(**({"topic": "t", "value": b"bad"} | wrong))
            assert world.clock_ms() == began or wrong.keys() & {"timestamp_ms", "headers"}
            assert refused.value.argument == argument
            assert refused.value.advice is Advice.ABORT
            assert "commit_transaction" in refused.value.legal_calls
            await p.send("t", b"good")
            await p.commit_transaction()
        assert await read(world) == [b"good"]

    in_a_world(program)


@pytest.mark.parametrize(("argument", "offsets", "group"), OFFSETS, ids=reprlib.repr)
def test_bad_offsets_are_refused_and_their_transaction_goes_on(argument, offsets, group):
    async def program(world):
        async with producer(world, transactional_id="T") as p, p.transaction():
            await p.send("t", b"good")
            with pytest.raises(InvalidArgumentError) as refused:
                await p.send_offsets_to_transaction(offsets, group)
            assert refused.value.argument == argument
        assert await read(world) == [b"good"]

    in_a_world(program)


def test_bytearrays_and_pairs_are_good_enough():
    async def program(world):
        async with producer(world) as p:
            pairs = [("a", b"1"), ("b", None)]
            place = await p.send_and_wait("t", bytearray(b"v"), bytearray(b"k"), headers=pairs)
            assert place.offset == 0
        assert await read(world) == [b"v"]

    in_a_world(program)


# ---- topics that the cluster does not have


@pytest.mark.parametrize("transactional_id", [None, "T"])
def test_a_refused_topic_fails_at_once_and_is_not_requested_again(transactional_id):
    async def program(world):
        config = {} if transactional_id is None else {"transactional_id": transactional_id}
        async with producer(world, **config) as p:
            if config:
                await p.begin_transaction()
            began = world.clock_ms()
            with pytest.raises(TopicRefusedError, match="INVALID_TOPIC_EXCEPTION") as refused:
                await p.send("no topic!", b"")
            assert world.clock_ms() - began < 1_000
            assert refused.value.topic == "no topic!"
            assert refused.value.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
            assert refused.value.advice is Advice.ABORT
            if config:
                assert refused.value.legal_calls == ("abort_transaction", "stop")
                await p.abort_transaction()
                await p.begin_transaction()
            with pytest.raises(TopicRefusedError):
                await p.partitions_for("no topic!")
            assert (await p.send_and_wait("t", b"good")).offset == 0

    in_a_world(program)


def test_all_sends_to_a_refused_topic_fail():
    async def program(world):
        async with producer(world) as p:
            sends = [p.send("no topic!", b"") for _ in range(3)]
            told = await asyncio.gather(*sends, return_exceptions=True)
            assert [type(error) for error in told] == [TopicRefusedError] * 3

    in_a_world(program)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"partition": 1}, r"topic 't' has 1 partition\(s\), no partition 1, after 500 ms"),
        ({"value": bytes(900)}, r"no room in buffer_memory for a record of topic 't'"),
    ],
)
def test_a_timeout_names_what_was_missing(more, what):
    async def program(world):
        settings = {"buffer_memory": 1_000, "batch_size": 500, "max_block_ms": 500}
        async with producer(world, **settings) as p:
            await p.send_and_wait("t", b"first")
            world.stop_node(1)
            await p.send("t", b"second")
            with pytest.raises(KafkaTimeoutError, match=what):
                await p.send(**({"topic": "t", "value": b""} | more))
            await p.stop(timeout_ms=0)

    in_a_world(program)


def test_partitions_are_asked_for_by_name_and_not_for_ever():
    async def program(world):
        async with producer(world, max_block_ms=500) as p:
            with pytest.raises(InvalidArgumentError, match=r"^topic must "):
                await p.partitions_for("")
            world.stop_node(1)
            what = r"^no metadata of topic 'u', within 500 ms"
            with pytest.raises(KafkaTimeoutError, match=what):
                await p.partitions_for("u")

    in_a_world(program)


def test_a_call_that_takes_too_long_says_what_it_waits_for():
    async def program(world):
        async with producer(world, transactional_id="T", max_block_ms=500) as p:
            await p.begin_transaction()
            what = "send_offsets_to_transaction is not done within 500 ms, and continues: "
            what += "TXN_OFFSET_COMMIT was answered UNKNOWN_TOPIC_OR_PARTITION"
            with pytest.raises(KafkaTimeoutError, match=what) as late:
                await p.send_offsets_to_transaction({("t", 9): 1}, "g")
            assert "commit_transaction" in late.value.legal_calls
            await p.stop(timeout_ms=0)

    in_a_world(program)


# ---- a cluster that does not do its part


@pytest.mark.parametrize("rows", [[], 2], ids=["none", "two"])
def test_a_coordinator_that_is_not_named_is_no_answer(rows):
    driver = TxnDriver(start=False)
    driver.core.initialize()
    request = driver.request(ApiKey.FIND_COORDINATOR)
    row = {"key": "T", "node_id": 2, "host": "h", "port": 1, "error_code": ErrorCode.NONE}
    with pytest.raises(MalformedAnswerError, match="not one"):
        driver.answer(request, coordinators=[row] * rows if rows else [])
    driver.lose(request.node_id)
    driver.talk(ApiKey.FIND_COORDINATOR)
    driver.talk(ApiKey.INIT_PRODUCER_ID)


@pytest.mark.parametrize(
    ("produce", "init", "what"),
    [
        (None, (22, 0, 5), "PRODUCE is not served, this client supports 3 to 12"),
        ((0, 0, 2), (22, 0, 5), "PRODUCE is served from 0 to 2"),
        ((0, 13, 14), (22, 0, 5), "PRODUCE is served from 13 to 14"),
        ((0, 3, 12), None, "INIT_PRODUCER_ID is not served, this client supports 0 to 5"),
        ((0, 3, 12), (22, 6, 7), "INIT_PRODUCER_ID is served from 6 to 7"),
    ],
)
def test_a_cluster_that_speaks_another_language_is_named(produce, init, what):
    async def program():
        before = tasks()
        with pytest.raises(UnsupportedClusterError, match=what):
            async with producer_of(produce, init):
                pass
        assert tasks() <= before

    run_virtually(program())


@pytest.mark.parametrize(
    ("produce", "what"),
    [
        ((0, 3, 12), "FIND_COORDINATOR is not served, this producer speaks 0 to 6"),
        ((0, 13, 14), "PRODUCE is served from 13 to 14, this producer speaks 3 to 12"),
    ],
)
def test_a_cluster_without_transactions_is_named(produce, what):
    async def program():
        with pytest.raises(ConfigError, match=f"^transactional_id: {what}"):
            async with producer_of(produce, (22, 0, 5), transactional_id="mine"):
                pass

    run_virtually(program())


def producer_of(produce, init, **config):
    """A producer opposite a cluster that serves these versions."""
    served = [row for row in (produce, init, (3, 0, 12), (18, 0, 4)) if row]
    return Producer("a:1", network=Network(versions(served=served)), **config)


@pytest.mark.parametrize("produce", [(0, 3, 12), (0, 0, 3), (0, 12, 13)])
def test_without_idempotence_no_producer_id_is_needed(produce):
    async def program():
        async with producer_of(produce, None, acks=0):
            pass

    run_virtually(program())


# ---- ends


def tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_a_stop_that_is_cancelled_leaves_nothing_behind():
    async def program(world):
        before = tasks()
        p = producer(world)
        await p.start()
        await p.send_and_wait("t", b"a")
        world.stop_node(1)
        outcome = await p.send("t", b"b")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await p.stop()
        with pytest.raises(AbortedError):
            await outcome
        assert tasks() <= before
        with pytest.raises(ProducerClosedError):
            await p.send("t", b"c")

    in_a_world(program)


@pytest.mark.parametrize("turns", range(8))
def test_a_stop_ends_a_start_however_far_it_is(turns):
    async def program(world):
        before, seen = tasks(), set()
        for elapsed_ms in range(20):
            p = producer(world)
            starting = asyncio.create_task(p.start())
            await asyncio.sleep(elapsed_ms / 1_000)
            for _ in range(turns):
                await asyncio.sleep(0)
            is_started = starting.done()
            seen.add(is_started)
            await p.stop()
            if not is_started:
                with pytest.raises(ProducerClosedError):
                    await starting
        assert seen == {True, False}
        assert tasks() <= before

    in_a_world(program)


@pytest.mark.parametrize("transactional_id", [None, "T"])
def test_a_stop_ends_a_send_that_waits(transactional_id):
    async def program(world):
        config = {} if transactional_id is None else {"transactional_id": transactional_id}
        p = producer(world, **config)
        await p.start()
        if config:
            await p.begin_transaction()
        sends = (p.send("t", b"", partition=9), p.partitions_for("u"))
        waiting = [asyncio.create_task(call) for call in sends]
        await asyncio.sleep(0)
        began = world.clock_ms()
        await p.stop()
        for call in waiting:
            with pytest.raises(ProducerClosedError, match="create another one"):
                await call
        assert world.clock_ms() - began < 1_000

    in_a_world(program)


def fail_topics(header, body):
    """No request for a topic's metadata can be written."""
    if header["api_key"] == ApiKey.METADATA and body["topics"]:
        raise OverflowError
    return True


def test_a_client_that_gets_no_metadata_fails_all_its_sends():
    async def program(world):
        before, began = tasks(), world.clock_ms()
        p = Producer(world.bootstrap_servers, network=Filter(world, fail_topics))
        await p.start()
        with pytest.raises(ProducerClosedError):
            await p.send("t", b"")
        await p.stop()
        assert world.clock_ms() - began < 1_000
        assert tasks() <= before

    in_a_world(program)


def drop_init_producer_id(header, body):
    """No InitProducerId arrives."""
    return header["api_key"] != ApiKey.INIT_PRODUCER_ID


def test_a_start_that_fails_is_not_waited_for_twice():
    """A producer without an epoch has nothing to send: `async with` ends with the start."""

    async def program(world):
        before, began = tasks(), world.clock_ms()
        settings = {"transactional_id": "T", "max_block_ms": 700}
        p = Producer(
            world.bootstrap_servers, network=Filter(world, drop_init_producer_id), **settings
        )
        with pytest.raises(KafkaTimeoutError, match="start is not done within 700 ms"):
            async with p:
                pass
        assert world.clock_ms() - began < 1_500
        assert tasks() <= before

    in_a_world(program)


# ---- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interceptors": 5}, "interceptors must be a list of them, is 5"),
        ({"interceptors": [3]}, "interceptors must have on_send and on_acknowledgement"),
        ({"ssl_context": "x"}, "ssl_context must be an ssl.SSLContext, or None"),
    ],
)
def test_settings_that_cannot_be_are_named(settings, message):
    with pytest.raises((ConfigError, InvalidArgumentError), match=f"^{re.escape(message)}"):
        Producer(**settings)
