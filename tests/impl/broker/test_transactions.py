"""Transactions at one node, on the wire: both conversations, and verification."""

from typing import Any

import pytest

from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.partition.log_config import LogConfig
from impl.partition.rules import TransactionRules
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Closed, Network, Producer, is_marker
from tests.impl.broker.transacting import read, ready, started

NONE = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def network() -> Network:
    return started()


# ---- FindCoordinator


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_every_version_finds_the_coordinator(network: Network, version: int, key_type: int) -> None:
    if version >= 4:
        body: Any = {"key_type": key_type, "coordinator_keys": ["T", "U"]}
        rows = network.ask(ApiKey.FIND_COORDINATOR, version, body)["coordinators"]
        assert [row["key"] for row in rows] == ["T", "U"]
    else:
        body = {"key": "T", "key_type": key_type}
        rows = [network.ask(ApiKey.FIND_COORDINATOR, version, body)]
    for row in rows:
        assert (row["error_code"], row["node_id"], row["port"]) == (NONE, 1, 9001)
    is_transaction = key_type == 1 and version >= 1
    name = TRANSACTION_STATE_TOPIC if is_transaction else OFFSETS_TOPIC
    topics = network.ask(ApiKey.METADATA, 12, {"topics": None})["topics"]
    found = {topic["name"]: topic for topic in topics}
    assert (found[name]["is_internal"], len(found[name]["partitions"])) == (True, 50)


def test_other_things_have_no_coordinator(network: Network) -> None:
    body = {"key_type": 2, "coordinator_keys": ["g:t:0"]}
    (row,) = network.ask(ApiKey.FIND_COORDINATOR, 6, body)["coordinators"]
    assert row["error_code"] == ErrorCode.INVALID_REQUEST


# ---- one conversation after the other


def test_a_whole_v1_conversation(network: Network) -> None:
    """Its markers carry the epoch of its data; sequences go on behind them."""
    producer = ready(network)
    assert producer.produce(0, T0) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert producer.add(T0, T1) == [NONE, NONE]
    assert producer.produce(0, T0, T1) == [NONE, NONE]
    assert read(network) == ([], [])
    assert read(network, committed=False) == ([0], [])
    assert producer.end() is NONE
    assert network.view().image.state.title == "PrepareCommit"
    assert read(network) == ([], [])
    network.run()
    assert network.view().image.state.title == "CompleteCommit"
    assert read(network) == ([0, 1], [])
    assert producer.add(T0) == [NONE]
    assert producer.produce(1, T0) == [NONE]
    assert producer.end(commit=False) is NONE
    network.run()
    assert read(network) == ([0, 1, 2, 3], [(producer.producer_id, 2)])
    assert producer.epoch == 0


def test_a_whole_v2_conversation(network: Network) -> None:
    """Nobody adds partitions; each end bumps the epoch and begins at sequence 0."""
    producer = ready(network, v2=True)
    assert producer.produce(0, T0, T1) == [NONE, NONE]
    assert network.view().image.partitions == {T0, T1}
    assert producer.produce(1, T0) == [NONE]
    assert producer.end() is NONE
    assert producer.epoch == 1
    network.run()
    assert producer.produce(2, T0) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert producer.produce(0, T0) == [NONE]
    assert producer.end(commit=False) is NONE
    network.run()
    assert read(network) == ([0, 1, 2, 3, 4], [(producer.producer_id, 3)])
    assert producer.end(commit=False) is NONE
    assert producer.epoch == 3


def prepared() -> tuple[Network, Producer]:
    """A V2 transaction in PREPARE: node 1 coordinates, the marker to node 2 is on its way."""
    network = Network(2)
    network.create("t", 1, 2)
    producer = ready(network, v2=True)
    assert producer.coordinator == 1
    assert producer.produce(0, T1, node_id=2) == [NONE]
    network.holds = is_marker
    assert producer.end() is NONE
    assert [sent.request.node_id for sent in network.held] == [2]
    return network, producer


def test_the_second_v2_transaction_waits_for_the_first_ones_markers() -> None:
    """The broker itself asks again, every 20 ms, for 100 ms."""
    network, producer = prepared()
    question = network.send(1, ApiKey.PRODUCE, 12, producer.body(0, T0))
    network.run(19)
    assert not question.is_answered
    network.deliver()
    network.run(21)
    assert question.answer["topics"][0]["partitions"][0]["error_code"] == NONE


@pytest.mark.parametrize(
    ("version", "wanted"), [(12, BUSY), (13, BUSY), (11, ErrorCode.NOT_ENOUGH_REPLICAS)]
)
def test_after_all_retries_a_client_gets_concurrent_transactions(
    version: int, wanted: ErrorCode
) -> None:
    network, producer = prepared()
    body = producer.body(0, T0)
    topic = network.cluster.topics.get("t")
    assert topic is not None
    body["topics"][0]["topic_id"] = topic.topic_id
    question = network.send(1, ApiKey.PRODUCE, version, body)
    assert question.is_answered == (version < 12)
    network.run(99)
    assert question.is_answered == (version < 12)
    network.run(1)
    row = question.answer["topics"][0]["partitions"][0]
    assert row["error_code"] == wanted


def test_a_driver_that_cannot_wait_is_answered_at_once() -> None:
    network, producer = prepared()
    request = encode_request(ApiKey.PRODUCE, 12, 1, "c", producer.body(0, T0))
    payload = network.nodes[1].handle(request, network.now_ms)
    assert payload is not None
    answer = decode_response(ApiKey.PRODUCE, 12, payload)[1]
    assert answer["topics"][0]["partitions"][0]["error_code"] == BUSY


# ---- verification


@pytest.mark.parametrize("version", range(3, 12))
def test_a_partition_that_was_not_added_is_refused(network: Network, version: int) -> None:
    producer = ready(network)
    wanted = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert producer.produce(0, T0, version=version) == [wanted]
    assert producer.add(T0) == [NONE]
    assert producer.produce(0, T1, version=version) == [wanted]
    assert producer.produce(0, T0, version=version) == [NONE]


def test_one_refused_partition_does_not_stop_the_others(network: Network) -> None:
    producer = ready(network)
    producer.add(T0)
    wanted = [NONE, ErrorCode.TRANSACTION_ABORTABLE, UNKNOWN]
    assert producer.produce(0, T0, T1, ("t", 9)) == wanted


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"producer_id": 77}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"epoch": 5}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"name": "nobody"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
@pytest.mark.parametrize("v2", [False, True])
def test_the_coordinators_refusals_are_translated(
    network: Network, v2: bool, change: dict[str, Any], wanted: ErrorCode
) -> None:
    producer = ready(network, v2=v2)
    if not v2:
        producer.add(T0)
    for name, value in change.items():
        setattr(producer, name, value)
    assert producer.produce(0, T0) == [wanted]


def test_without_verification_v1_is_trusted_and_v2_is_not() -> None:
    network = started(log=LogConfig(rules=TransactionRules(verifies=False)))
    producer = ready(network)
    assert producer.produce(0, T0) == [NONE]
    producer.name = "nobody"
    assert producer.produce(0, T1, version=12) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize(
    ("v2", "wanted"), [(True, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (False, NONE)]
)
def test_a_v2_producer_begins_at_0(network: Network, v2: bool, wanted: ErrorCode) -> None:
    """KAFKA-18202; an unknown V1 producer may continue with any sequence."""
    producer = ready(network, v2=v2)
    producer.add(T0)
    assert producer.produce(5, T0) == [wanted]


def test_two_producers_in_one_request_are_refused(network: Network) -> None:
    producer = ready(network, v2=True)
    body = producer.body(0, T0, T1)
    producer.producer_id += 1
    body["topics"][1]["partitions"][0]["records"] = producer.batch(0)
    answer = network.ask(ApiKey.PRODUCE, 12, body)
    errors = [row["error_code"] for topic in answer["topics"] for row in topic["partitions"]]
    assert errors == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_acks_0_in_a_transaction_is_silent_or_closes(network: Network) -> None:
    producer = ready(network, v2=True)
    body = producer.body(0, T0, acks=0)
    assert network.ask(ApiKey.PRODUCE, 12, body) is None
    producer.epoch = 7
    with pytest.raises(Closed):
        network.ask(ApiKey.PRODUCE, 12, producer.body(0, T1, acks=0))


def test_a_zombie_is_refused_everywhere(network: Network) -> None:
    old = ready(network)
    old.add(T0)
    old.produce(0, T0)
    new = Producer(network)
    assert new.init() is BUSY
    network.run()
    assert new.init() is NONE
    assert (new.producer_id, new.epoch) == (old.producer_id, 2)
    assert old.produce(1, T0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert old.add(T0) == [FENCED]
    assert old.end() is FENCED
    assert read(network)[1] == [(old.producer_id, 0)]


@pytest.mark.parametrize(("v2", "commit"), [(False, True), (True, False)])
def test_markers_that_are_delayed_keep_the_next_transaction_waiting(v2: bool, commit: bool) -> None:
    network = started(marker_delay_ms=500)
    producer = ready(network, v2=v2)
    if not v2:
        producer.add(T0)
    assert producer.produce(0, T0) == [NONE]
    assert producer.end(commit=commit) is NONE
    network.run(499)
    assert network.view().image.state.title == ("PrepareCommit" if commit else "PrepareAbort")
    assert read(network) == ([], [])
    assert producer.init(keep=True) is ErrorCode.CONCURRENT_TRANSACTIONS
    network.run(1)
    assert network.view().image.state.title == ("CompleteCommit" if commit else "CompleteAbort")
    assert network.leader("t").last_stable_offset == 2
    assert producer.init(keep=True) is NONE
