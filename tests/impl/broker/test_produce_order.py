"""The first of several faults is what a Produce is answered; what coordinators know lasts."""

from typing import Any

import pytest

from impl import ErrorCode, LogConfig, Record, client_batch, encode_batch
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.protocol.crc32c import crc32c
from impl.protocol.record_batch import TRANSACTIONAL
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Network
from tests.impl.broker.transacting import NONE, ready, started

T0 = ("t", 0)
STATE = (TRANSACTION_STATE_TOPIC, 34)
"""Where the transactional id T belongs."""

PLAIN = encode_batch(client_batch([Record(0, 1_000_000, b"k", b"v")]))
TWO_BATCHES = PLAIN + PLAIN


@pytest.fixture
def network() -> Network:
    """t-0 is led by node 2; requests go to node 1 unless said otherwise."""
    network = Network(nodes=2)
    network.create("t", 2, 1)
    network.find("T")
    return network


def produce(network: Network, place: tuple[str, int], records: bytes, **more: Any) -> Any:
    """The row of the answer, and the nodes that it names."""
    version = more.pop("version", 12)
    node_id = more.pop("node_id", 1)
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 1000,
        "topics": [{"name": place[0], "partitions": [{"index": place[1], "records": records}]}],
    }
    answer = network.ask(ApiKey.PRODUCE, version, body | more, node_id)
    (row,) = answer["topics"][0]["partitions"]
    return row, [(node["node_id"], node["port"]) for node in answer["node_endpoints"]]


# ---- the order of the checks


@pytest.mark.parametrize("place", [T0, STATE], ids=["led elsewhere", "internal"])
@pytest.mark.parametrize(
    ("records", "acks", "error"),
    [
        (TWO_BATCHES, 5, ErrorCode.INVALID_RECORD),
        (PLAIN, 5, ErrorCode.INVALID_REQUIRED_ACKS),
        (PLAIN, -1, None),
    ],
    ids=["shape", "acks", "place"],
)
def test_shape_and_acks_come_before_the_place(
    network: Network, place: tuple[str, int], records: bytes, acks: int, error: ErrorCode | None
) -> None:
    by_place = {
        T0: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        STATE: ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    row, _ = produce(network, place, records, acks=acks)
    assert row["error_code"] == (error or by_place[place])


def test_an_internal_topic_comes_before_its_leader(network: Network) -> None:
    index = 34 if network.find("T") == 2 else 35
    row, _ = produce(network, (TRANSACTION_STATE_TOPIC, index), PLAIN)
    assert row["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_two_producers_come_before_the_leader(network: Network) -> None:
    producer = ready(network, v2=True)
    body = producer.body(0, T0, ("t", 1))
    producer.producer_id += 1
    body["topics"][1]["partitions"][0]["records"] = producer.batch(0)
    answer = network.ask(ApiKey.PRODUCE, 12, body)
    errors = [row["error_code"] for topic in answer["topics"] for row in topic["partitions"]]
    assert errors == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_what_looks_wrong_is_not_added_to_its_transaction() -> None:
    network = started()
    producer = ready(network, v2=True)
    batch = producer.batch(0)
    row, _ = produce(network, T0, batch + batch, transactional_id="T")
    assert row["error_code"] == ErrorCode.INVALID_RECORD
    assert not network.view().image.partitions


def test_a_transactional_batch_for_an_internal_topic_is_verified_first() -> None:
    network = started()
    producer = ready(network)
    assert producer.produce(0, STATE) == [ErrorCode.TRANSACTION_ABORTABLE]
    producer.v2 = True
    assert producer.produce(0, STATE) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_transactional_batch_without_a_producer_is_plain() -> None:
    network = started()
    ready(network, v2=True)
    row, _ = produce(network, T0, _without_producer(), transactional_id="T")
    assert row["error_code"] == NONE
    assert not network.view().image.partitions
    assert network.leader("t").last_stable_offset == 1


def _without_producer() -> bytes:
    """The bytes of a batch that no writer makes."""
    data = bytearray(PLAIN)
    data[22] |= TRANSACTIONAL
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


# ---- who leads instead


@pytest.mark.parametrize("version", range(3, 13))
def test_a_wrong_node_names_the_leader_from_version_10_on(network: Network, version: int) -> None:
    network.cluster.move("t", 0, 1)
    network.cluster.move("t", 0, 2)
    row, nodes = produce(network, T0, PLAIN, version=version)
    assert row["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = row["current_leader"]
    expected = (2, 2) if version >= 10 else (-1, -1)
    assert (told["leader_id"], told["leader_epoch"]) == expected
    assert nodes == ([(2, 9002)] if version >= 10 else [])
    row, nodes = produce(network, T0, PLAIN, version=version, node_id=2)
    assert (row["error_code"], row["current_leader"]["leader_id"], nodes) == (NONE, -1, [])


def test_a_transactional_batch_is_refused_before_it_is_verified(network: Network) -> None:
    producer = ready(network, v2=True)
    assert producer.produce(0, T0, node_id=1) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert not network.view().image.partitions
    assert producer.produce(0, T0, node_id=2) == [NONE]


# ---- what coordinators know lasts


def test_nothing_of_a_coordinators_log_is_deleted() -> None:
    config = LogConfig(retention_ms=1, retention_bytes=1, segment_bytes=100)
    network = Network(nodes=2, log=config)
    network.create("t", 1)
    producer = ready(network, v2=True)
    assert producer.produce(0, T0) == [NONE]
    assert producer.commit_offset(5) == NONE
    assert producer.end() == NONE
    network.run(1_000_000)
    assert network.leader("t").log_start_offset > 0
    at, group_at = network.find("T"), network.find_group()
    network.cluster.move(*STATE, 3 - at)
    network.cluster.move(
        OFFSETS_TOPIC, network.nodes[1].coordinators.offsets.partition_of("g"), 3 - group_at
    )
    producer.coordinator = network.find("T")
    assert producer.coordinator == 3 - at
    assert producer.produce(0, T0) == [NONE]
    assert network.fetch_offset(node_id=3 - group_at) == (5, NONE)


@pytest.mark.parametrize("topic", [TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC])
@pytest.mark.parametrize("node_id", [1, 2])
def test_a_coordinators_records_cannot_be_deleted(
    network: Network, topic: str, node_id: int
) -> None:
    network.find_group()
    body = {"topics": [{"name": topic, "partitions": [{"partition_index": 34, "offset": -1}]}]}
    answer = network.ask(ApiKey.DELETE_RECORDS, 2, body | {"timeout_ms": 1}, node_id)
    row = answer["topics"][0]["partitions"][0]
    assert row["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert row["low_watermark"] == -1
