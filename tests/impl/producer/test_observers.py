"""Who watches a producer: interceptors, metrics, and the log."""

import asyncio
import logging

import pytest

from impl.broker.embedded import Broker
from impl.broker.faults import CutFault, DropFault, ErrorFault
from impl.producer import (
    DeliveryError,
    InvalidArgumentError,
    ProducerFenced,
    ProducerInterceptor,
    TransactionAbortableError,
)
from impl.producer.producer import Producer
from tests.impl.producer.test_producer import in_a_world, producer, read

LOG = "impl.producer.sender_log"


class Noting(ProducerInterceptor):
    """Keeps what it hears, and changes each value."""

    def __init__(self):
        self.sent = []
        self.heard = []

    def on_send(self, record):
        self.sent.append(record)
        return record._replace(value=record.value + "!", headers=[("seen", b"1")])

    def on_acknowledgement(self, metadata, error):
        self.heard.append(metadata.offset if metadata else type(error))


class Failing(ProducerInterceptor):
    """A defect of an application."""

    def on_send(self, record):
        raise KeyError("on_send")

    def on_acknowledgement(self, metadata, error):
        raise KeyError("on_acknowledgement")


# ---- interceptors


def test_interceptors_change_records_and_hear_what_became_of_them():
    first, second = Noting(), Noting()

    async def program(world):
        settings = {"interceptors": [first, second], "value_serializer": str.encode}
        async with producer(world, max_request_size=1_000, linger_ms=5, **settings) as p:
            for value in ("a", "b"):
                await p.send("t", value)
            await p.flush()
            with pytest.raises(InvalidArgumentError):
                await p.send("t", "key", key="is no bytes")
        return await read(world)

    assert in_a_world(program) == [b"a!!", b"b!!"]
    assert [record.value for record in second.sent] == ["a!", "b!", "key!"]
    assert first.sent[0][:2] == ("t", "a")
    assert first.heard == second.heard == [0, 1, InvalidArgumentError]


def test_an_interceptor_that_fails_is_logged_and_nothing_else(caplog):
    noting = Noting()

    async def program(world):
        settings = {"interceptors": [Failing(), noting], "value_serializer": str.encode}
        async with producer(world, **settings) as p:
            assert (await p.send_and_wait("t", "a")).offset == 0
            await p.send_and_wait("t", "b")
        return await read(world)

    assert in_a_world(program) == [b"a!", b"b!"]
    assert noting.heard == [0, 1]
    records = [record for record in caplog.records if record.name.endswith("interceptors")]
    calls = ["on_send", "on_acknowledgement"] * 2
    assert [record.getMessage().split()[0] for record in records] == calls
    assert all(record.exc_info for record in records)


async def test_interceptors_hear_of_records_that_fail_and_of_no_batches():
    noting = Noting()
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"interceptors": [noting], "value_serializer": str.encode, "linger_ms": 0}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            with (
                kafka.faults.add(ErrorFault("Produce", "INVALID_RECORD")),
                pytest.raises(DeliveryError),
            ):
                await p.send_and_wait("t", "a")
            batch = p.create_batch()
            batch.append(timestamp=None, key=None, value="b")
            await (await p.send_batch(batch, "t", partition=0))
    assert noting.heard == [DeliveryError]
    assert kafka.log("t", 0).values == [b"b"]


# ---- metrics


async def test_metrics_count_records_batches_and_requests():
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"linger_ms": 20, "retry_backoff_ms": 10}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            with kafka.faults.add(ErrorFault("Produce", "NOT_ENOUGH_REPLICAS")):
                for _ in range(10):
                    await p.send("t", bytes(100), partition=0)
                await p.flush()
            with (
                kafka.faults.add(ErrorFault("Produce", "INVALID_RECORD")),
                pytest.raises(DeliveryError),
            ):
                await p.send_and_wait("t", bytes(100), partition=0)
            found = p.metrics()
    # A refused batch is sent twice.
    assert found["record-send-total"] == 10 + 10 + 1
    assert found["record-retry-total"] == 10
    assert found["record-error-total"] == 1
    assert found["records-per-request-avg"] == 7
    assert found["batch-size-max"] > 1_000 > found["batch-size-avg"] > 700
    assert found["request-total"] == found["response-total"] == 3 + 1
    assert 0 < found["request-latency-avg"] <= found["request-latency-max"] < 60_000
    assert found["compression-rate-avg"] == 1


def test_metrics_before_anything_is_sent():
    assert set(Producer().metrics().values()) == {0}


# ---- the log


def levels(caplog):
    return [
        (record.levelname, record.getMessage()) for record in caplog.records if record.name == LOG
    ]


async def test_ids_retries_and_lost_connections_are_logged(caplog):
    caplog.set_level(logging.INFO, "impl")
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"linger_ms": 0, "retry_backoff_ms": 10, "client_id": "till"}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            await p.send_and_wait("t", b"a")
            for fault in (
                ErrorFault("Produce", "NOT_LEADER_OR_FOLLOWER"),
                CutFault("Produce", at="answer"),
            ):
                with kafka.faults.add(fault):
                    await p.send_and_wait("t", b"b")
            with (
                kafka.faults.add(ErrorFault("Produce", "INVALID_RECORD")),
                pytest.raises(DeliveryError),
            ):
                await p.send_and_wait("t", b"c")
            await p.send_and_wait("t", b"d")
    said = [line for line in levels(caplog) if "COORDINATOR_LOAD" not in line[1]]
    assert said[0][0] == "INFO"
    assert said[0][1].startswith("till: producer id ")
    assert said[0][1].endswith(", epoch 0")
    refused = "till: node 1 refuses a batch of t-0: "
    assert said[1:4] == [
        ("WARNING", f"{refused}NOT_LEADER_OR_FOLLOWER; it is sent again"),
        ("WARNING", "till: lost the connection to node 1: what was under way is sent again"),
        ("WARNING", f"{refused}INVALID_RECORD"),
    ]


REFUSED_FIRST = ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER")


@pytest.mark.parametrize("error", [*REFUSED_FIRST, "LEADER_NOT_AVAILABLE"])
async def test_what_a_new_topic_goes_through_is_no_warning(caplog, error):
    """Metadata first, then the first batch: the cluster creates the topic, its leader learns."""
    caplog.set_level(logging.DEBUG, "impl")
    async with Broker() as kafka:
        kafka.faults.add(ErrorFault("Metadata", error, times=3))
        if error in REFUSED_FIRST:
            kafka.faults.add(ErrorFault("Produce", error, times=2))
        settings = {"linger_ms": 0, "retry_backoff_ms": 10}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            await p.send_and_wait("new", b"a")
    ours = [record for record in caplog.records if not record.name.startswith("impl.broker")]
    assert sum(error in record.getMessage() for record in ours) >= 1
    assert [r.getMessage() for r in ours if r.levelno >= logging.WARNING] == []


async def test_a_new_topic_that_is_late_is_a_warning(caplog):
    async with Broker(topics={"t": 1}) as kafka:
        kafka.faults.add(ErrorFault("Produce", "NOT_LEADER_OR_FOLLOWER", times=None))
        settings = {"linger_ms": 0, "retry_backoff_ms": 100}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            sending = await p.send("t", b"a")
            while not levels(caplog):
                kafka.clock.advance(500)
                await asyncio.sleep(0.01)
            kafka.clock.advance(300_000)
            with pytest.raises(DeliveryError):
                await sending
    assert all(level == "WARNING" for level, _ in levels(caplog))
    assert "NOT_LEADER_OR_FOLLOWER; it is sent again" in levels(caplog)[0][1]


async def test_a_connection_that_stop_closes_is_not_lost(caplog):
    caplog.set_level(logging.INFO, LOG)
    async with Broker(topics={"t": 1}) as kafka:
        p = Producer(kafka.bootstrap_servers, transactional_id="T", client_id="till")
        await p.start()
        await p.begin_transaction()
        await p.send_and_wait("t", b"a")
        with kafka.faults.add(DropFault("EndTxn")) as dropped:
            await p.stop(timeout_ms=300)
            assert dropped.count == 1
    assert [text for _, text in levels(caplog) if "connection" in text] == []


async def test_a_new_epoch_is_logged(caplog):
    caplog.set_level(logging.INFO, LOG)
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"linger_ms": 0, "client_id": "till", "retry_backoff_ms": 10}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            await p.send_and_wait("t", b"a")
            with kafka.faults.add(ErrorFault("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER")):
                await p.send_and_wait("t", b"b")
    identities = [text.split(", ")[1] for _, text in levels(caplog) if "producer id" in text]
    assert identities == ["epoch 0", "epoch 1"]


async def test_an_answer_that_does_not_come_is_logged(caplog):
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"linger_ms": 0, "client_id": "till", "request_timeout_ms": 200}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            await p.send_and_wait("t", b"a")
            with kafka.faults.add(DropFault("Produce")):
                await p.send_and_wait("t", b"b")
    what = "till: node 1 has not answered within request_timeout_ms: its connection is closed"
    assert ("WARNING", what) in levels(caplog)
    assert kafka.log("t", 0).values == [b"a", b"b"]


async def test_fencing_and_transactions_that_must_be_aborted_are_logged(caplog):
    async with Broker(topics={"t": 1}) as kafka:
        settings = {"transactional_id": "T", "linger_ms": 0}
        async with Producer(kafka.bootstrap_servers, **settings) as p:
            await p.begin_transaction()
            with (
                kafka.faults.add(ErrorFault("Produce", "INVALID_RECORD")),
                pytest.raises(DeliveryError),
            ):
                await p.send_and_wait("t", b"a")
            await p.abort_transaction()
            async with Producer(kafka.bootstrap_servers, **settings):
                pass
            await p.begin_transaction()
            await p.send("t", b"b")
            with pytest.raises(TransactionAbortableError):
                await p.commit_transaction()
            with pytest.raises(ProducerFenced):
                await p.abort_transaction()
    said = [(level, text) for level, text in levels(caplog) if "refuses" not in text]
    assert [level for level, _ in said] == ["WARNING", "WARNING", "ERROR"]
    assert said[0][1].startswith("producer-T: ")
    assert "INVALID_RECORD" in said[0][1]
    assert said[0][1].endswith("legal now: abort")
    assert said[2][1].startswith("producer-T cannot go on: ")


def test_what_a_configuration_changed_is_logged(caplog):
    caplog.set_level(logging.INFO, "impl")
    Producer(acks=1)
    assert caplog.messages == ["enable_idempotence is off: idempotence needs acks=all"]
