"""A real broker of 4.3.1: it answers, remembers a producer, and survives what is done to it."""

import time
from itertools import count

import pytest

from conformance.adapters.brokers.kafka.admin import (
    ProducerIdentity,
    api_versions,
    await_leader,
    create_topic,
    describe_producers,
    init_producer_id,
    init_producer_ids,
)
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection, WireRequest
from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost, RequestRefused
from conformance.adapters.brokers.layouts import ON_A_BUSY_MACHINE
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PRODUCE_VERSION = 9
ALL_REPLICAS = -1
DAY_MS = 86_400_000  # producer.id.expiration.ms

fresh = count()


@pytest.fixture
def topic(connection: BrokerConnection) -> str:
    name = f"topic-{next(fresh)}"
    create_topic(connection, name, 3)
    return name


def produce(
    topic: str,
    producer: ProducerIdentity,
    base_sequence: int,
    acks: int = ALL_REPLICAS,
    ago: int = 0,
) -> WireRequest:
    """One record; `ago` is how many milliseconds before now it is dated."""
    batch = client_batch(
        [Record(0, time.time_ns() // 1_000_000 - ago, b"key", b"value")],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=base_sequence,
    )
    partitions = [{"index": 0, "records": encode_batch(batch)}]
    topics = [{"name": topic, "partitions": partitions}]
    body = {"acks": acks, "timeout_ms": 5_000, "topics": topics}
    return WireRequest(ApiKey.PRODUCE, PRODUCE_VERSION, body)


def append(
    connection: BrokerConnection,
    topic: str,
    producer: ProducerIdentity,
    sequence: int,
    ago: int = 0,
) -> Value:
    request = produce(topic, producer, sequence, ago=ago)
    body = connection.ask(request.api_key, request.api_version, request.body)
    return body["topics"][0]["partitions"][0]


def test_it_runs_at_the_level_it_was_formatted_with(broker, connection):
    supported = api_versions(connection)
    assert supported.levels["transaction.version"] == broker.level == 2
    assert supported.versions[ApiKey.PRODUCE] == (0, 13)


def test_a_retried_batch_is_a_duplicate_at_the_same_offset(connection, topic):
    producer = init_producer_id(connection)
    first = append(connection, topic, producer, 0)
    second = append(connection, topic, producer, 0)
    assert (first["error_code"], second["error_code"]) == (ErrorCode.NONE, ErrorCode.NONE)
    assert first["base_offset"] == second["base_offset"] == 0

    described = describe_producers(connection, [(topic, 0), (topic, 1)])
    assert described[topic, 1].producers == {}
    active = described[topic, 0].producers[producer.producer_id]
    assert (active.producer_epoch, active.last_sequence) == (producer.producer_epoch, 0)
    assert active.current_txn_start_offset == -1


def test_a_gap_in_the_sequence_is_refused(connection, topic):
    producer = init_producer_id(connection)
    append(connection, topic, producer, 0)
    refused = append(connection, topic, producer, 2)
    assert refused["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producer_ids_are_different_over_several_blocks(connection):
    identities = init_producer_ids(connection, 1_200)
    assert len({identity.producer_id for identity in identities}) == 1_200


def test_answers_come_in_the_order_of_their_requests(connection, topic):
    producer = init_producer_id(connection)
    requests = [produce(topic, producer, sequence) for sequence in range(200)]
    answers = list(connection.pipeline(requests))
    offsets = [answer.body["topics"][0]["partitions"][0]["base_offset"] for answer in answers]
    assert offsets == list(range(200))
    assert [answer.request for answer in answers] == requests


def test_a_produce_without_acks_has_no_answer(connection, topic):
    producer = init_producer_id(connection)
    silent = produce(topic, producer, 0, acks=0)
    connection.send(silent.api_key, silent.api_version, silent.body, is_answered=False)
    assert connection.in_flight == 0
    assert append(connection, topic, producer, 1)["base_offset"] == 1


def test_a_topic_that_exists_is_refused(connection, topic):
    with pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"):
        create_topic(connection, topic, 1)


def test_a_paused_broker_answers_only_when_it_is_resumed(broker):
    with broker.connect() as connection:
        broker.pause()
        try:
            connection.send(ApiKey.INIT_PRODUCER_ID, 1, {"transaction_timeout_ms": 1_000})
            with pytest.raises(AnswerTimeout, match="api 22 version 1, correlation id 0"):
                connection.receive(timeout_ms=100)
        finally:
            broker.resume()
        assert connection.receive().body["error_code"] == ErrorCode.NONE


def test_an_aborted_connection_leaves_the_broker_up(broker, connection, topic):
    other = broker.connect()
    other.send(ApiKey.API_VERSIONS, 0, {})
    other.abort()
    assert append(connection, topic, init_producer_id(connection), 0)["error_code"] == 0


@pytest.mark.parametrize("end", [KafkaBroker.stop, KafkaBroker.kill])
def test_a_restart_remembers_producers_and_goes_to_a_new_block_of_ids(broker, end):
    name = f"topic-{next(fresh)}"
    with broker.connect() as before:
        create_topic(before, name, 1)
        producer = init_producer_id(before)
        append(before, name, producer, 0)
        end(broker)
        with pytest.raises(ConnectionLost):
            before.ask(ApiKey.API_VERSIONS, 0, {})
    broker.start()
    with broker.connect() as after:
        await_leader(after, [(name, 0)])
        assert append(after, name, producer, 0)["base_offset"] == 0
        assert append(after, name, producer, 1)["base_offset"] == 1
        assert init_producer_id(after).producer_id // 1_000 > producer.producer_id // 1_000


def test_a_restart_forgets_a_producer_whose_records_are_dated_a_day_ago(broker, connection, topic):
    producer = init_producer_id(connection)
    assert append(connection, topic, producer, 0, ago=DAY_MS)["base_offset"] == 0
    assert append(connection, topic, producer, 0, ago=DAY_MS)["base_offset"] == 0
    broker.restart()
    with broker.connect() as after:
        await_leader(after, [(topic, 0)])
        assert append(after, topic, producer, 0, ago=DAY_MS)["base_offset"] == 1


@pytest.mark.full
def test_a_broker_of_4_0_starts_again_when_its_session_is_over():
    """With a minute, as brokers of clusters have it, it did not answer in time."""
    with KafkaBroker("4.0.2", properties=ON_A_BUSY_MACHINE) as broker:
        broker.stop()
        broker.start()
        assert broker.is_running
