"""Compacted topics of an embedded broker: its clock cleans them, clients read what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from impl import Broker, Consumer, NodeConfig, Producer, TopicPartition
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.partition.log_config import LogConfig
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Network

with catch_warnings():  # kafka-python reads its schemas in a deprecated way
    simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka import TopicPartition as PythonPartition

pytestmark = pytest.mark.slow  # sockets

BACKOFF_MS = 15_000
DAY_MS = 86_400_000
SMALL = {"cleanup_policy": "compact", "segment_bytes": "200", "min_cleanable_dirty_ratio": "0"}
LEFT = [(b"b", b"4"), (b"a", b"8"), (b"c", b"9")]


async def fill(kafka: Broker) -> None:
    """Ten values of three keys; those of a transaction that is aborted are not committed."""
    async with Producer(kafka.bootstrap_servers, linger_ms=0) as producer:
        for number, key in enumerate((b"a", b"b", b"a", b"a", b"b", b"a", b"a", b"a", b"a", b"c")):
            await producer.send_and_wait("t", b"%d" % number, key=key)
    aborting = {"transactional_id": "x", "linger_ms": 0}
    async with Producer(kafka.bootstrap_servers, **aborting) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"aborted", key=b"a")
        await producer.abort_transaction()
    async with Producer(kafka.bootstrap_servers, linger_ms=0) as producer:
        for _ in range(3):
            await producer.send_and_wait("t", b"-", key=b"end")


def read_with_kafka_python(kafka: Broker) -> list[tuple[bytes, bytes]]:
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    consumer.assign([PythonPartition("t", 0)])
    found: list[Any] = []
    while not found or found[-1].offset < kafka.log("t").log_end_offset - 1:
        found += [each for rows in consumer.poll(100).values() for each in rows]
    consumer.close()
    return [(each.key, each.value) for each in found]


def read_with_librdkafka(kafka: Broker) -> list[tuple[bytes, bytes]]:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"}
    consumer = LibrdkafkaConsumer(settings)
    consumer.assign([LibrdkafkaPartition("t", 0, 0)])
    found: list[Any] = []
    while not found or found[-1].offset() < kafka.log("t").log_end_offset - 1:
        message = consumer.poll(0.1)
        found += [message] if message is not None and not message.error() else []
    consumer.close()
    return [(each.key(), each.value()) for each in found]


async def read_with_ours(kafka: Broker) -> list[tuple[bytes | None, bytes | None]]:
    reading = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap_servers=kafka.bootstrap_servers, **reading) as consumer:
        consumer.assign([("t", 0)])
        found = [await consumer.getone()]
        while found[-1].offset < kafka.log("t").log_end_offset - 1:
            found.append(await consumer.getone())
    return [(record.key, record.value) for record in found]


async def test_the_clock_compacts_and_all_clients_read_the_same(tmp_path: Path) -> None:
    async with Broker(directory=tmp_path) as kafka:
        kafka.create_topic("t", **SMALL)
        await fill(kafka)
        before = len(kafka.log("t").batches)
        kafka.clock.advance(BACKOFF_MS)
        assert len(kafka.log("t").batches) < before
        ours = await read_with_ours(kafka)
        assert [row for row in ours if row[0] != b"end"] == LEFT
    with Broker(directory=tmp_path) as kafka:
        assert read_with_kafka_python(kafka) == read_with_librdkafka(kafka) == ours


def produce(network: Network, records: list[Record]) -> Any:
    partition = {"index": 0, "records": encode_batch(client_batch(records))}
    topics = [{"name": "t", "partitions": [partition]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topics": topics}
    return network.ask(ApiKey.PRODUCE, 9, body)["topics"][0]["partitions"][0]


def test_records_without_a_key_are_refused_one_by_one() -> None:
    """As a broker of 4.3.1 answered."""
    network = Network(log=LogConfig(cleanup_policy="compact"))
    network.create("t", 1)
    now_ms = network.now_ms
    assert not produce(network, [Record(0, now_ms, b"k", b"v")])["error_code"]
    keys = [b"k", None, b"k", None, None, None]
    row = produce(network, [Record(n, now_ms, key, b"v") for n, key in enumerate(keys)])
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    told = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 3, 4))
    assert row["error_code"] == ErrorCode.INVALID_RECORD
    assert row["record_errors"] == [
        {"batch_index": index, "batch_index_error_message": text} for index in (1, 3, 4, 5)
    ]
    assert row["error_message"] == (
        "One or more records have been rejected due to 4 record errors in total, and only showing "
        f"the first three errors at most: [{told}]"
    )
    late_ms = now_ms + 10**9
    row = produce(network, [Record(0, late_ms, b"k", b"v"), Record(1, now_ms, None, b"v")])
    assert row["error_code"] == ErrorCode.INVALID_TIMESTAMP
    assert row["error_message"] == "One or more records have been rejected due to invalid timestamp"
    assert [error["batch_index"] for error in row["record_errors"]] == [0, 1]


async def test_the_topics_of_coordinators_do_not_grow_for_ever(tmp_path: Path) -> None:
    """After a restart from what is left, offsets and transactional ids are as before."""
    config = NodeConfig(
        host="127.0.0.1",
        port=0,
        offsets=OffsetsConfig(num_partitions=1, segment_bytes=2000),
        transactions=TransactionConfig(num_partitions=1, segment_bytes=2000),
    )
    async with Broker(directory=tmp_path, config=config, topics={"t": 1}) as kafka:
        for number in range(120):
            await commit(kafka, number)
            if number % 15 == 14:
                kafka.clock.advance(DAY_MS)
        for name in ("__consumer_offsets", "__transaction_state"):
            log = kafka.log(name)
            assert len(log.batches) < log.log_end_offset / 2, f"{name} grows"
        for number in range(120, 123):
            await commit(kafka, number)
        ids = {each.producer_id for each in kafka.log("t").producers}
    async with Broker(directory=tmp_path, config=config) as kafka:
        reading = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": "g"}
        async with Consumer(**reading) as consumer:
            assert await consumer.committed(TopicPartition("t", 0)) == 122
        for number in range(3):
            await commit(kafka, number)
        assert {each.producer_id for each in kafka.log("t").producers} == ids


async def commit(kafka: Broker, number: int) -> None:
    """One of three transactional ids commits an offset."""
    settings = {"transactional_id": f"x{number % 3}", "linger_ms": 0}
    async with Producer(kafka.bootstrap_servers, **settings) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"%d" % number)
        await producer.send_offsets_to_transaction({TopicPartition("t", 0): number}, "g")
        await producer.commit_transaction()
