"""What aiokafka's users expect of a producer: serializers, partitioners, batches of their own,
metadata with timestamps, compression."""

import asyncio
import json

import pytest

from impl.broker.config import NodeConfig
from impl.broker.embedded import Broker
from impl.client.errors import UnknownTopicOrPartitionError
from impl.partition.log_config import LogConfig
from impl.producer import (
    ConfigError,
    DeliveryError,
    IllegalStateError,
    InvalidArgumentError,
    RecordTooLargeError,
    TransactionAbortableError,
)
from impl.producer.producer import Producer
from tests.impl.producer.test_producer import consumer, in_a_world, producer, read

# ---- serializers and partitioners


def test_key_and_value_are_serialized_once_however_long_the_record_waits():
    calls = []

    def note(kind, content):
        calls.append((kind, content))
        return json.dumps(content).encode()

    async def program(world):
        serializers = {
            "key_serializer": lambda key: note("key", key),
            "value_serializer": lambda value: note("value", value),
        }
        async with producer(world, buffer_memory=2_000, batch_size=1_000, **serializers) as p:
            for number in range(8):
                await p.send("t", {"n": number, "filler": "x" * 700}, key=number)
            await p.flush()
        async with consumer(world, "read_uncommitted") as reader:
            reader.assign([("t", 0)])
            record = await reader.getone()
        assert (record.key, json.loads(record.value)["n"]) == (b"0", 0)

    in_a_world(program)
    assert [kind for kind, _ in calls] == ["value", "key"] * 8


def test_a_serializer_that_fails_queues_nothing_and_its_transaction_goes_on():
    async def program(world):
        settings = {"transactional_id": "T", "value_serializer": str.encode}
        async with producer(world, **settings) as p, p.transaction():
            await p.send("t", "a")
            with pytest.raises(TypeError):
                await p.send("t", 5)
        return await read(world)

    assert in_a_world(program) == [b"a"]


def test_a_partitioner_gets_the_serialized_key_and_chooses():
    asked = []

    def choose(key, every, available):
        asked.append((key, every, available))
        return every[-1] if key == b"last" else every[0]

    async def program(world):
        async with producer(world, partitioner=choose, key_serializer=str.encode) as p:
            assert (await p.send_and_wait("t", b"", "last")).partition == 2
            assert (await p.send_and_wait("t", b"", "k")).partition == 0
            assert (await p.send_and_wait("t", b"", "k", partition=1)).partition == 1

    in_a_world(program, partitions=3)
    assert asked == [(b"last", [0, 1, 2], [0, 1, 2]), (b"k", [0, 1, 2], [0, 1, 2])]


def test_a_partitioner_that_names_no_partition_is_told():
    async def program(world):
        async with producer(world, partitioner=lambda *_: 9) as p:
            with pytest.raises(InvalidArgumentError, match="partition of 't' from 0 to 0, is 9"):
                await p.send("t", b"")

    in_a_world(program)


# ---- what a future has


def test_metadata_has_the_records_timestamp_and_place():
    async def program(world):
        async with producer(world, linger_ms=10) as p:
            sent = [await p.send("t", b"v", timestamp_ms=stamp) for stamp in (70, 60, 80)]
            found = [await outcome for outcome in sent]
            now = await p.send_and_wait("t", b"v")
        assert [(each.offset, each.timestamp, each.timestamp_type) for each in found] == [
            (0, 70, 0),
            (1, 60, 0),
            (2, 80, 0),
        ]
        assert 0 <= world.clock_ms() - now.timestamp < 1_000
        assert found[0].topic_partition == (found[0].topic, found[0].partition) == ("t", 0)
        assert found[0].topic_partition.topic == "t"
        assert found[0].log_start_offset == 0

    in_a_world(program)


async def test_metadata_has_the_leaders_timestamp_where_the_topic_says_so():
    config = NodeConfig(port=0, log=LogConfig(is_log_append_time=True))
    async with Broker(config=config, topics={"t": 1}) as kafka:
        async with Producer(kafka.bootstrap_servers, linger_ms=10) as p:
            sent = [await p.send("t", b"v", timestamp_ms=stamp) for stamp in (70, 60)]
            found = [await outcome for outcome in sent]
        assert {each.timestamp_type for each in found} == {1}
        [stamp] = {each.timestamp for each in found}
        assert stamp > 1_600_000_000_000


def test_a_future_that_is_cancelled_disturbs_no_other():
    async def program(world):
        async with producer(world, linger_ms=10) as p:
            first, second = [await p.send("t", value) for value in (b"a", b"b")]
            first.cancel()
            assert (await second).offset == 1
        return await read(world)

    assert in_a_world(program) == [b"a", b"b"]


def test_each_record_has_an_error_of_its_own():
    async def program(world):
        settings = {"linger_ms": 5, "request_timeout_ms": 500, "delivery_timeout_ms": 505}
        async with producer(world, **settings) as p:
            await p.send_and_wait("t", b"before")
            world.stop_node(1)
            sent = [await p.send("t", value) for value in (b"a", b"b")]
            errors = await asyncio.gather(*sent, return_exceptions=True)
            world.start_node(1)
        assert [type(error).__name__ for error in errors] == ["DeliveryTimeoutError"] * 2
        assert errors[0] is not errors[1]
        assert errors[0].args == errors[1].args

    in_a_world(program)


# ---- compression


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "none", None])
async def test_batches_are_compressed(codec):
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"compression_type": codec, "linger_ms": 20}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            for number in range(10):
                await p.send("t", b"%d" % number + bytes(400), partition=0)
            await p.flush()
            metrics = p.metrics()
        log = kafka.log("t", 0)
        assert [value[:1] for value in log.values] == [b"%d" % number for number in range(10)]
        is_compressed = codec not in ("none", None)
        assert (metrics["compression-rate-avg"] < 0.5) == is_compressed


def test_a_codec_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="must be one of none, gzip, snappy, lz4, zstd, is 'br'"):
        Producer(compression_type="br")


# ---- batches of the application


def test_a_batch_is_filled_and_sent_as_it_is():
    async def program(world):
        async with producer(world, batch_size=300, value_serializer=str.encode) as p:
            batch = p.create_batch()
            assert (batch.size(), batch.record_count(), batch.closed()) == (0, 0, False)
            added = []
            while record := batch.append(timestamp=77, key=None, value="x" * 50):
                added.append(record)
            assert [record.offset for record in added] == [0, 1, 2, 3]
            assert {record.timestamp for record in added} == {77}
            assert batch.size() == 61 + sum(record.size for record in added) <= 300
            assert (batch.record_count(), batch.closed()) == (4, True)
            await p.send_and_wait("t", "before", partition=1)
            place = await (await p.send_batch(batch, "t", partition=1))
            assert (place.partition, place.offset, place.timestamp) == (1, 1, 77)
            assert (await p.send_and_wait("t", "after", partition=1)).offset == 5
        return await read(world, "read_uncommitted", ("t", 1))

    assert in_a_world(program, partitions=2) == [b"before", *[b"x" * 50] * 4, b"after"]


@pytest.mark.parametrize("attempt", ["again", "empty"])
def test_a_batch_is_sent_once_and_not_empty(attempt):
    async def program(world):
        async with producer(world) as p:
            batch = p.create_batch()
            if attempt == "empty":
                with pytest.raises(InvalidArgumentError, match="batch must have a record"):
                    await p.send_batch(batch, "t", partition=0)
                return
            batch.append(timestamp=None, key=b"k", value=b"v", headers=[("h", b"1")])
            await p.send_batch(batch, "t", partition=0)
            assert batch.append(timestamp=None, key=b"k", value=b"v") is None
            with pytest.raises(IllegalStateError, match="sent before: create another"):
                await p.send_batch(batch, "t", partition=0)

    in_a_world(program)


def test_a_batch_is_in_its_transaction():
    async def program(world):
        async with producer(world, transactional_id="T") as p:
            for outcome in ("abort", "commit"):
                await p.begin_transaction()
                batch = p.create_batch()
                batch.append(timestamp=None, key=None, value=outcome.encode())
                await p.send_batch(batch, "t", partition=0)
                await getattr(p, f"{outcome}_transaction")()
        return await read(world)

    assert in_a_world(program) == [b"commit"]


def test_a_batch_that_is_too_large_fails_its_transaction():
    async def program(world):
        async with producer(world, transactional_id="T", max_request_size=1_000) as p:
            await p.begin_transaction()
            batch = p.create_batch()
            batch.append(timestamp=None, key=None, value=bytes(2_000))
            with pytest.raises(RecordTooLargeError, match="increase max_request_size"):
                await p.send_batch(batch, "t", partition=0)
            with pytest.raises(TransactionAbortableError):
                await p.commit_transaction()

    in_a_world(program)


async def test_a_batch_that_the_leader_finds_too_large_is_not_split():
    config = NodeConfig(port=0, log=LogConfig(max_message_bytes=500))
    async with (
        Broker(topics={"t": 1}, config=config) as kafka,
        Producer(kafka.bootstrap_servers) as p,
    ):
        batch = p.create_batch()
        for _ in range(4):
            batch.append(timestamp=None, key=None, value=bytes(200))
        with pytest.raises(DeliveryError, match=r"4 record\(s\) for t-0: MESSAGE_TOO_LARGE"):
            await (await p.send_batch(batch, "t", partition=0))
        # Records that were sent one by one are.
        sent = [await p.send("t", bytes(200), partition=0) for _ in range(4)]
        assert [(await outcome).offset for outcome in sent] == [0, 1, 2, 3]


# ---- topics that are not there, and names


async def test_a_topic_that_does_not_exist_fails_soon():
    config = NodeConfig(port=0, auto_create_topics=False)
    async with Broker(topics={"t": 1}, config=config) as kafka:
        settings = {"unknown_topic_timeout_ms": 300, "linger_ms": 0}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            for topic, partition, what in (
                ("nope", None, "no topic 'nope', after 300 ms still .*: create it, or check"),
                ("t", 7, "topic 't' has 1 partition.s., no partition 7, after 300 ms"),
            ):
                with pytest.raises(UnknownTopicOrPartitionError, match=what):
                    await asyncio.wait_for(p.send(topic, b"", partition=partition), 5)
            with pytest.raises(UnknownTopicOrPartitionError):
                await asyncio.wait_for(p.partitions_for("nope"), 5)


def test_both_names_of_a_batchs_size():
    Producer(max_batch_size=100, client_id=None)
    with pytest.raises(ConfigError, match="max_batch_size: is another name of batch_size"):
        Producer(max_batch_size=100, batch_size=100)
    for name in ("key_serializer", "value_serializer", "partitioner"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be callable"):
            Producer(**{name: 5})


# ---- a batch that is open


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": "text"},
        {"value": 5},
        {"key": "text"},
        {"timestamp_ms": True},
        {"timestamp_ms": -1},
        {"partition": True},
        {"headers": [("h", "text")]},
    ],
    ids=repr,
)
def test_what_is_wrong_is_refused_while_a_batch_is_open(wrong):
    async def program(world):
        async with producer(world, linger_ms=1_000) as p:
            await p.send("t", b"a", partition=1)
            with pytest.raises(InvalidArgumentError):
                await p.send(**({"topic": "t", "value": b"b", "partition": 1} | wrong))
            await p.send("t", bytearray(b"c"), partition=1)
        return await read(world, "read_uncommitted", ("t", 1))

    assert in_a_world(program, partitions=2) == [b"a", b"c"]


def test_a_failed_transaction_takes_no_record_into_an_open_batch():
    async def program(world):
        settings = {"transactional_id": "T", "linger_ms": 1_000, "max_request_size": 20_000}
        async with producer(world, **settings) as p:
            await p.begin_transaction()
            await p.send("t", b"a", partition=0)
            with pytest.raises(RecordTooLargeError):
                await p.send("t", bytes(30_000), partition=0)
            with pytest.raises(TransactionAbortableError) as refused:
                await p.send("t", b"b", partition=0)
            assert refused.value.legal_calls == ("abort_transaction", "stop")
            await p.abort_transaction()

    in_a_world(program)
