"""Several nodes: markers and verification over the network, leaders that move, links that break."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.broker.cluster import Cluster, UnknownPartitionOrBroker
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.producer_ids import ProducerIdBlocks
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.partition.consuming import committed_batches
from impl.partition.reading import read
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import (
    Record,
    client_batch,
    decode_batches,
    encode_batch,
    read_header,
)
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Network, Producer, Sent, is_marker

NONE = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
STATE = TRANSACTION_STATE_TOPIC
T_PARTITION = 34
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def is_verification(sent: Sent) -> bool:
    return sent.api_key is ApiKey.ADD_PARTITIONS_TO_TXN


@pytest.fixture
def network() -> Network:
    """Three nodes, each with one partition of t; T is coordinated by node 2."""
    network = Network(3)
    network.create("t", 1, 2, 3)
    return network


def begun(network: Network, *, v2: bool) -> Producer:
    """A transaction with one batch in each partition."""
    producer = Producer(network, v2=v2)
    assert producer.coordinator == 2
    assert producer.init() is NONE
    if not v2:
        assert producer.add(T0, T1, T2) == [NONE] * 3
    for node_id, place in enumerate((T0, T1, T2), start=1):
        assert producer.produce(0, place, node_id=node_id) == [NONE]
    return producer


def stable(network: Network) -> list[int]:
    return [network.leader("t", index).last_stable_offset for index in range(3)]


def title(network: Network) -> str:
    return network.view().image.state.title


@pytest.mark.parametrize("v2", [False, True])
def test_a_transaction_over_three_nodes(network: Network, v2: bool) -> None:
    producer = begun(network, v2=v2)
    network.holds = is_marker
    assert producer.end() is NONE
    network.run()
    assert title(network) == "PrepareCommit"
    assert sorted(sent.request.node_id for sent in network.held) == [1, 3]
    assert all(sent.body["markers"][0]["transaction_version"] == 2 * v2 for sent in network.held)
    assert stable(network) == [0, 2, 0]
    network.deliver(1)
    assert network.view().image.partitions == {T0}
    assert producer.end(commit=False) is BUSY
    network.deliver()
    assert title(network) == "CompleteCommit"
    assert stable(network) == [2, 2, 2]


def test_a_marker_whose_connection_breaks_is_sent_again(network: Network) -> None:
    producer = begun(network, v2=False)
    network.holds = is_marker
    producer.end()
    network.run()
    for _ in range(3):
        network.cut()
        network.cut()
        assert network.view().markers_waiting == {T0, T2}
        network.run(50)
        assert len(network.held) == 2
    network.deliver()
    network.deliver()
    assert title(network) == "CompleteCommit"


def test_a_marker_that_arrived_but_was_not_answered_is_written_twice(network: Network) -> None:
    producer = begun(network, v2=True)
    network.holds = is_marker
    producer.end()
    network.run()
    sent = next(sent for sent in network.held if sent.request.node_id == 1)
    network.nodes[1].receive("lost", sent.request.payload, network.now_ms)
    network.holds = lambda sent: False
    while network.held:
        network.cut()
    network.run(50)
    assert title(network) == "CompleteCommit"
    assert network.leader("t", 0).log_end_offset == 3
    assert stable(network) == [3, 2, 2]


def test_a_marker_follows_its_partition_to_a_new_leader(network: Network) -> None:
    producer = begun(network, v2=True)
    network.holds = is_marker
    producer.end()
    network.run()
    network.cluster.move("t", 0, 3)
    while network.held:
        network.deliver()
    assert network.view().markers_waiting == {T0}
    network.holds = lambda sent: False
    network.run(50)
    assert title(network) == "CompleteCommit"
    assert network.leader("t", 0).last_stable_offset == 2


def test_a_marker_for_a_stopped_broker_waits(network: Network) -> None:
    producer = begun(network, v2=True)
    network.cluster.brokers.pop(3)
    producer.end()
    network.run(200)
    assert (title(network), network.view().image.partitions) == ("PrepareCommit", {T2})
    network.cluster.move("t", 2, 1)
    network.run(50)
    assert title(network) == "CompleteCommit"


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_the_next_coordinator_completes_what_was_prepared(
    network: Network, v2: bool, commit: bool
) -> None:
    producer = begun(network, v2=v2)
    network.holds = is_marker
    producer.end(commit=commit)
    network.run()
    stale = list(network.held)
    network.held.clear()
    network.cluster.move(STATE, T_PARTITION, 1)
    network.holds = lambda sent: False
    network.run()
    assert network.view().coordinator_epoch == 1
    assert title(network) == ("CompleteCommit" if commit else "CompleteAbort")
    for sent in stale:
        outputs = network.nodes[sent.request.node_id].receive(
            sent, sent.request.payload, network.now_ms
        )
        answers = network.nodes[2].receive_answer(
            sent.request.correlation_id, outputs[0].payload, network.now_ms
        )
        assert answers == []
    assert title(network) == ("CompleteCommit" if commit else "CompleteAbort")
    assert producer.end(commit=commit) is ErrorCode.NOT_COORDINATOR
    producer.coordinator = network.find("T")
    assert producer.coordinator == 1
    if not v2:
        assert producer.end(commit=commit) is NONE


@pytest.mark.parametrize("answered_first", [True, False])
def test_a_coordinator_that_was_away_begins_anew(network: Network, answered_first: bool) -> None:
    """Its partition moved away and back: its state is of an older epoch."""
    producer = begun(network, v2=False)
    network.holds = is_marker
    producer.end()
    network.run()
    for node_id in (3, 2):
        network.cluster.move(STATE, T_PARTITION, node_id)
    if not answered_first:
        network.run()
    network.holds = lambda sent: False
    while network.held:
        network.deliver()
    network.run(50)
    assert (title(network), network.view().coordinator_epoch) == ("CompleteCommit", 2)
    leader = network.leader(STATE, T_PARTITION)
    headers = [read_header(stored.data) for stored in leader.batches]
    assert [header.partition_leader_epoch for header in headers] == [0, 0, 0, 2]
    assert network.leader("t").producers[producer.producer_id].coordinator_epoch == 2


def test_a_zombie_coordinators_marker_is_fenced(network: Network) -> None:
    producer = begun(network, v2=False)
    network.holds = is_marker
    producer.end()
    network.run()
    late = next(sent for sent in network.held if sent.request.node_id == 1)
    network.held.clear()
    network.holds = lambda sent: False
    network.cluster.move(STATE, T_PARTITION, 1)
    network.run()
    network.nodes[1].receive("late", late.request.payload, network.now_ms)
    assert network.leader("t", 0).log_end_offset == 2


# ---- verification between nodes


@pytest.mark.parametrize("v2", [False, True])
def test_a_late_verification_does_not_reach_into_the_next_transaction(
    network: Network, v2: bool
) -> None:
    """KAFKA-14884: the marker took the guard away."""
    producer = Producer(network, v2=v2)
    producer.init()
    if not v2:
        producer.add(T0)
    network.holds = is_verification
    version = 12 if v2 else 11
    question = network.send(1, ApiKey.PRODUCE, version, producer.body(0, T0))
    (sent,) = network.held
    answer = network.nodes[2].receive("x", sent.request.payload, network.now_ms)
    network.held.clear()
    network.holds = lambda sent: False
    assert producer.end(commit=False) is NONE
    network.run()
    outputs = network.nodes[1].receive_answer(
        sent.request.correlation_id, answer[0].payload, network.now_ms
    )
    network.take(1, outputs)
    row = question.answer["topics"][0]["partitions"][0]
    wanted = ErrorCode.INVALID_PRODUCER_EPOCH if v2 else ErrorCode.INVALID_TXN_STATE
    assert row["error_code"] == wanted
    assert network.leader("t", 0).last_stable_offset == network.leader("t", 0).log_end_offset


def test_questions_to_one_node_travel_together(network: Network) -> None:
    """One under way, the others in the next request."""
    names = [name for name in "ABCDEFGH" if network.find(name) == 2][:3]
    producers = [Producer(network, name, v2=True) for name in names]
    for producer in producers:
        assert producer.init() is NONE
    network.holds = is_verification
    asked = [network.send(1, ApiKey.PRODUCE, 12, p.body(0, T0)) for p in producers]
    assert len(network.held) == 1
    network.deliver()
    (second,) = network.held
    assert [row["transactional_id"] for row in second.body["transactions"]] == names[1:]
    network.deliver()
    errors = [q.answer["topics"][0]["partitions"][0]["error_code"] for q in asked]
    assert errors == [NONE] * 3


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (0, (ErrorCode.NOT_ENOUGH_REPLICAS, NONE)),
        (1, (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH)),
        (-1, (NONE, ErrorCode.INVALID_PRODUCER_EPOCH)),
    ],
)
def test_of_one_id_only_the_newest_question_waits(
    network: Network, change: int, wanted: tuple[ErrorCode, ErrorCode]
) -> None:
    """The same epoch takes the older one's place; of two epochs the higher one is asked for."""
    busy = next(name for name in "ABCDEFGH" if network.find(name) == 2)
    first, producer = Producer(network, busy, v2=True), Producer(network, v2=True)
    assert (first.init(), producer.init(), producer.init()) == (NONE, NONE, NONE)
    assert producer.epoch == 1
    network.holds = is_verification
    network.send(1, ApiKey.PRODUCE, 12, first.body(0, T0))
    older = network.send(1, ApiKey.PRODUCE, 12, producer.body(0, T0))
    producer.epoch += change
    newer = network.send(1, ApiKey.PRODUCE, 12, producer.body(0, T0))
    network.deliver()
    network.holds = lambda sent: False
    while network.held:
        network.deliver()
    network.run(200)
    found = [q.answer["topics"][0]["partitions"][0]["error_code"] for q in (older, newer)]
    assert tuple(found) == wanted


@pytest.mark.parametrize("v2", [False, True])
def test_a_question_without_an_answer_is_retriable(network: Network, v2: bool) -> None:
    producer = Producer(network, v2=v2)
    producer.init()
    producer.add(T0)
    network.holds = is_verification
    question = network.send(1, ApiKey.PRODUCE, 12 if v2 else 11, producer.body(0, T0))
    network.cut()
    row = question.answer["topics"][0]["partitions"][0]
    assert row["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS
    network.holds = lambda sent: False
    assert producer.produce(0, T0) == [NONE]


@pytest.mark.parametrize("v2", [False, True])
def test_offsets_are_verified_over_the_network(network: Network, v2: bool) -> None:
    producer = Producer(network, v2=v2)
    producer.init()
    group_node = network.find_group()
    assert group_node != producer.coordinator
    if not v2:
        assert producer.commit_offset(7) is ErrorCode.TRANSACTION_ABORTABLE
        body = {**producer.identity, "group_id": "g"}
        assert network.ask(ApiKey.ADD_OFFSETS_TO_TXN, 4, body, 2)["error_code"] == NONE
    assert producer.commit_offset(7) is NONE
    assert network.fetch_offset(node_id=group_node)[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.end()
    network.run()
    assert network.fetch_offset(node_id=group_node) == (7, NONE)
    network.cluster.move(OFFSETS_TOPIC, 3, 3 if group_node != 3 else 1)
    assert network.fetch_offset(node_id=network.find_group()) == (7, NONE)
    assert producer.commit_offset(8, node_id=group_node) is ErrorCode.NOT_COORDINATOR


def test_a_new_topic_of_an_old_name_has_no_offsets(network: Network) -> None:
    """Wherever the group is coordinated; what is pending goes, too."""
    at = network.find_group()
    row = {"partition_index": 0, "committed_offset": 9, "committed_metadata": None}
    topics = [{"name": "t", "partitions": [row]}]
    body = {"group_id": "g", "member_id": "", "topics": topics}
    network.ask(ApiKey.OFFSET_COMMIT, 8, body, at)
    producer = Producer(network, v2=True)
    producer.init()
    assert producer.commit_offset(7) is NONE
    elsewhere = at % 3 + 1
    body = {"topics": [{"name": "t"}], "timeout_ms": 1}
    network.ask(ApiKey.DELETE_TOPICS, 6, body, elsewhere)
    network.create("t", 1, 2, 3)
    assert network.fetch_offset(node_id=at) == (-1, NONE)
    assert producer.end() is NONE
    network.run()
    assert network.fetch_offset(node_id=at) == (-1, NONE)
    network.cluster.move(OFFSETS_TOPIC, 3, elsewhere)
    assert network.fetch_offset(node_id=elsewhere) == (-1, NONE)


def test_a_lost_question_about_offsets_is_loading(network: Network) -> None:
    producer = Producer(network, v2=True)
    producer.init()
    at = network.find_group()
    network.holds = is_verification
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
    body = {**producer.identity, "group_id": "g", "topics": [{"name": "t", "partitions": [row]}]}
    question = network.send(at, ApiKey.TXN_OFFSET_COMMIT, 5, body)
    network.cut()
    error = question.answer["topics"][0]["partitions"][0]["error_code"]
    assert error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# ---- leaders


def test_a_node_serves_what_it_leads(network: Network) -> None:
    producer = Producer(network, v2=True)
    producer.init()
    wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert producer.produce(0, T1, node_id=1) == [wrong]
    answer = network.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": "t", "partition_indexes": [1]}]}
    )
    assert answer["topics"][0]["partitions"][0]["error_code"] == wrong
    body = {"topics": [{"name": "t", "partitions": [{"partition_index": 1, "offset": 0}]}]}
    answer = network.ask(ApiKey.DELETE_RECORDS, 2, body | {"timeout_ms": 1})
    assert answer["topics"][0]["partitions"][0]["error_code"] == wrong


def test_metadata_shows_all_brokers_and_who_leads(network: Network) -> None:
    network.cluster.move("t", 0, 3)
    for node_id in (1, 2, 3):
        answer = network.ask(ApiKey.METADATA, 12, {"topics": [{"name": "t"}]}, node_id)
        assert [row["node_id"] for row in answer["brokers"]] == [1, 2, 3]
        rows = answer["topics"][0]["partitions"]
        assert [(row["leader_id"], row["leader_epoch"]) for row in rows] == [(3, 1), (2, 0), (3, 0)]


def test_a_cluster_knows_whom_it_knows() -> None:
    network = Network(2)
    with pytest.raises(UnknownPartitionOrBroker, match="unknown topic 'nothing'; known: none"):
        network.cluster.move("nothing", 0, 1)
    network.create("t", 1)
    for partition in (1, -1):
        with pytest.raises(
            UnknownPartitionOrBroker, match=f"partition {partition}: topic 't' has 0 alone"
        ):
            network.cluster.move("t", partition, 1)
    with pytest.raises(UnknownPartitionOrBroker, match="unknown node 9; known: 1, 2"):
        network.cluster.move("t", 0, 9)
    assert network.cluster.leader_of("t", 5) is None


def test_the_blocks_of_a_cluster_are_not_a_nodes() -> None:
    cluster = Network(1).cluster
    with pytest.raises(TypeError, match="a cluster has its own blocks"):
        Node(NodeConfig(node_id=2), blocks=ProducerIdBlocks(), cluster=cluster)
    assert list(cluster.brokers) == [1]


def test_unexpected_or_malformed_answers_are_ignored() -> None:
    network = Network(3)
    network.create("t", 1, 2, 3)
    assert network.nodes[1].receive_answer(99, b"?", 0) == []
    producer = begun(network, v2=True)
    network.holds = is_marker
    producer.end()
    network.run()
    sent = network.held.pop()
    assert network.nodes[2].receive_answer(sent.request.correlation_id, b"\0\0", 0) == []
    assert network.view().markers_waiting


# ---- histories


STEPS = st.lists(
    st.sampled_from(
        ["produce", "commit", "abort", "init", "deliver", "cut", "time", "move t", "move T", "run"]
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.booleans(), st.integers(0, 2))
def test_whatever_breaks_a_transaction_is_all_or_nothing(
    steps: list[str], v2: bool, first: int
) -> None:
    """After all has settled, what was committed is visible everywhere, what was not nowhere.

    A transaction whose EndTxn met an error may be either; none is open.
    """
    network = Network(3)
    network.create("t", 1, 2, 3)
    client = _Client(network, v2=v2, seed=first)
    network.holds = lambda sent: True
    for step in steps:
        client.take(step)
    client.settle()
    visible = [client.visible(index) for index in range(3)]
    for number, places in client.written.items():
        seen = {number in visible[index] for index in places}
        allowed = {"commit": [{True}], "unknown": [{True}, {False}]}
        assert seen in allowed.get(client.outcomes.get(number, "abort"), [{False}]), number
    for index in range(3):
        leader = network.leader("t", index)
        assert leader.last_stable_offset == leader.high_watermark


class _Client:
    """One producer that numbers its transactions and keeps the result of each."""

    def __init__(self, network: Network, *, v2: bool, seed: int) -> None:
        self.network = network
        self.producer = Producer(network, v2=v2)
        while self.producer.init():
            network.run(10)
        self.moves = seed
        self.number = 0
        self.outcomes: dict[int, str] = {}
        self.written: dict[int, list[int]] = {}
        self.sequences: dict[int, int] = {}

    def take(self, step: str) -> None:
        network = self.network
        if step == "produce":
            self._produce()
        elif step in ("commit", "abort"):
            self._end(step)
        elif step == "init":
            self._init()
        elif step in ("deliver", "cut") and network.held:
            (network.deliver if step == "deliver" else network.cut)()
        elif step == "time":
            network.run(70_000)
        elif step.startswith("move"):
            self.moves += 1
            name, index = ("t", self.moves % 3) if step == "move t" else (STATE, T_PARTITION)
            network.cluster.move(name, index, self.moves % 3 + 1)
        else:
            network.run(60)

    def _produce(self) -> None:
        index = self.moves % 3
        self.moves += 1
        topic = self.network.cluster.topics.get("t")
        assert topic is not None
        node_id = topic.leader_ids[index]
        held, self.network.holds = self.network.holds, is_marker
        if not self.producer.v2:
            self.producer.coordinator = self.network.find("T")
            if self.producer.add(("t", index)) != [NONE]:
                self.network.holds = held
                return
        body = self.producer.body(self.sequences.get(index, 0), ("t", index))
        body["topics"][0]["partitions"][0]["records"] = self._batch(index)
        version = 12 if self.producer.v2 else 11
        answer = self.network.ask(ApiKey.PRODUCE, version, body, node_id)
        self.network.holds = held
        if answer["topics"][0]["partitions"][0]["error_code"] == NONE:
            self.sequences[index] = self.sequences.get(index, 0) + 1
            self.written.setdefault(self.number, []).append(index)

    def _batch(self, index: int) -> bytes:
        return encode_batch(
            client_batch(
                [Record(0, self.network.now_ms, None, str(self.number).encode())],
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                base_sequence=self.sequences.get(index, 0),
                is_transactional=True,
            )
        )

    def _end(self, outcome: str) -> None:
        if self.number not in self.written:
            return
        self.producer.coordinator = self.network.find("T")
        error = self.producer.end(commit=outcome == "commit")
        if error is NONE:
            self._next(outcome)
        elif not error.is_retriable:
            self._next("unknown")
            self._init()

    def _init(self) -> None:
        self.producer.coordinator = self.network.find("T")
        if self.number in self.written:
            self._next("abort")
        held, self.network.holds = self.network.holds, lambda sent: False
        while self.producer.init():
            while self.network.held:
                self.network.deliver()
            self.network.run(60)
        self.network.holds = held
        self.sequences = {}

    def _next(self, outcome: str) -> None:
        self.outcomes[self.number] = outcome
        self.number += 1
        if self.producer.v2:
            self.sequences = {}

    def settle(self) -> None:
        network = self.network
        network.holds = lambda sent: False
        while network.held:
            network.cut()
        network.run(200_000)

    def visible(self, index: int) -> set[int]:
        found = read(
            self.network.leader("t", index).log,
            0,
            1 << 20,
            at_least_one=True,
            isolation=Isolation.READ_COMMITTED,
        )
        aborted = [(a.producer_id, a.first_offset) for a in found.aborted_transactions]
        batches = committed_batches(decode_batches(found.records), aborted)
        return {int(record.value or b"") for batch in batches for record in batch.records}


def test_a_node_of_its_own_is_a_cluster_of_one() -> None:
    node = Node(NodeConfig(node_id=7))
    assert isinstance(node.cluster, Cluster)
    brokers: Any = node.cluster.brokers
    assert list(brokers) == [7]
    assert node.cluster.controller_id == 7
