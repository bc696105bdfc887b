"""Partitions with several replicas: what a real cluster answered, what survives, and refusals."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from impl import (
    Broker,
    Consumer,
    ErrorCode,
    NodeConfig,
    Producer,
    Record,
    RecordBatch,
    encode_batch,
)
from impl.broker.durable_cluster import DurableCluster
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.protocol.schemas import ApiKey as K
from impl.simulator.disk import SimulatedDisk
from tests.impl.broker.cluster_recording import reassign
from tests.impl.broker.network import Network
from tests.impl.broker.replica_recording import (
    RECORDED,
    by_number,
    creation,
    picture,
    record,
    record_real,
)
from tests.impl.storage.crash_workload import LOG, NOW_MS

E = ErrorCode
RECORDS = encode_batch(RecordBatch((Record(0, 0, None, b"v"),)))
STRICT = {"min.insync.replicas": "2"}


class Simulated:
    """The nodes of a network, as the script of a recording wants them."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._addresses = dict(network.cluster.brokers)

    def ask(self, api_key: K, version: int, body: dict[str, Any]) -> Any:
        return self.network.ask(api_key, version, body)

    def kill(self, node_id: int) -> None:
        self.network.cluster.remove(node_id)

    def start(self, node_id: int) -> None:
        self.network.cluster.register(self._addresses[node_id])
        self.network.cluster.rejoin(node_id)

    def settle(self, is_settled: Callable[[], bool]) -> None:
        assert is_settled(), picture(self)


def test_nodes_answer_about_replicas_as_a_real_cluster_did_when_nodes_were_killed() -> None:
    answers = [json.loads(json.dumps(answer)) for answer in record(Simulated(Network(nodes=3)))]
    assert answers == json.loads(RECORDED.read_text())


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_the_recording_is_what_a_cluster_answers() -> None:
    assert record_real() == json.loads(RECORDED.read_text())


# ---- numbers


def created(network: Network, factor: int) -> tuple[int, int]:
    [row] = network.ask(*by_number(factor))["topics"]
    return row["error_code"], row["replication_factor"]


@pytest.mark.parametrize(
    ("nodes", "factor", "is_possible"), [(1, 1, True), (1, 2, False), (3, 3, True), (3, 4, False)]
)
def test_a_topic_has_as_many_replicas_as_there_are_nodes(
    nodes: int, factor: int, is_possible: bool
) -> None:
    refused = (E.INVALID_REPLICATION_FACTOR, -1)
    assert created(Network(nodes=nodes), factor) == ((0, factor) if is_possible else refused)


def test_topics_without_a_replication_factor_have_the_default_of_the_nodes() -> None:
    network = Network(nodes=3, default_replication_factor=2)
    assert created(network, -1) == (0, 2)
    asked = {"topics": [{"name": "auto"}], "allow_auto_topic_creation": True}
    [topic] = network.ask(K.METADATA, 9, asked)["topics"]
    assert [row["replica_nodes"] for row in topic["partitions"]] == [[1, 2]]


def test_leaders_and_replicas_are_spread_over_all_nodes() -> None:
    network = Network(nodes=3)
    network.cluster.topics.create("t", 4, {}, replication_factor=2)
    placed = [row["replica_nodes"] for row in picture(Simulated(network)).values()]
    assert placed == [[1, 2], [2, 3], [3, 1], [1, 2]]


# ---- in-sync replicas


def produce(network: Network, acks: int, node_id: int = 1) -> E:
    partition = {"index": 0, "records": RECORDS}
    body = {
        "acks": acks,
        "timeout_ms": 1_000,
        "topics": [{"name": "strict", "partitions": [partition]}],
    }
    answer = network.ask(K.PRODUCE, 9, body, node_id)
    return E(answer["topics"][0]["partitions"][0]["error_code"])


def test_acks_all_needs_min_insync_replicas_and_other_records_wait_for_them() -> None:
    network = Network(nodes=3)
    nodes = Simulated(network)
    network.ask(*creation("strict", [[1, 2, 3]], STRICT))
    assert produce(network, -1) == E.NONE
    nodes.kill(2)
    assert produce(network, -1) == E.NONE
    nodes.kill(3)
    assert produce(network, -1) == E.NOT_ENOUGH_REPLICAS
    assert produce(network, 1) == E.NONE
    leader = network.leader("strict")
    assert (leader.log_end_offset, leader.high_watermark) == (3, 2)
    nodes.start(3)
    assert network.leader("strict").high_watermark == 3
    assert produce(network, -1) == E.NONE


def test_a_replica_takes_over_under_the_next_epoch_with_all_records() -> None:
    network = Network(nodes=3)
    network.ask(*creation("strict", [[1, 2, 3]], STRICT))
    assert produce(network, -1) == E.NONE
    old = network.leader("strict")
    network.cluster.remove(1)
    new = network.leader("strict")
    assert (old.is_leader, new.is_leader) == (False, True)
    assert (new.leader_epoch, new.high_watermark) == (old.leader_epoch + 1, 1)
    assert produce(network, -1, node_id=2) == E.NONE
    assert network.leader("strict").high_watermark == 2


def test_a_reassignment_that_drops_a_replica_has_the_next_epoch() -> None:
    network = Network(nodes=3)
    network.ask(*creation("t", [[1, 2]], {}))
    for replicas, epoch in (([1, 2, 3], 0), ([1, 3], 1), ([1, 3], 1), ([3, 1], 1), ([2, 3], 2)):
        network.ask(*reassign(("t", 0, replicas)))
        assert network.leader("t").leader_epoch == epoch, replicas


def test_a_node_that_was_unregistered_gets_no_replicas() -> None:
    network = Network(nodes=3)
    network.cluster.remove(3)
    assert created(network, 3) == (0, 3)
    assert network.ask(K.UNREGISTER_BROKER, 0, {"broker_id": 3})["error_code"] == E.NONE
    assert created(network, 3) == (E.INVALID_REPLICATION_FACTOR, -1)


# ---- log directories of nodes


def test_each_node_describes_the_replicas_that_it_has() -> None:
    network = Network(nodes=3)
    network.ask(*creation("t", [[1, 2]], {}))
    sizes = [
        [row["name"] for row in answer["results"][0]["topics"]]
        for node_id in (1, 2, 3)
        for answer in [network.ask(K.DESCRIBE_LOG_DIRS, 4, {"topics": None}, node_id)]
    ]
    assert sizes == [["t"], ["t"], []]


def test_replicas_and_their_leader_survive_a_restart() -> None:
    disk = SimulatedDisk()

    def start(nodes: int) -> Network:
        node_ids = range(1, nodes + 1)
        cluster = DurableCluster(disk, "c", LOG, lambda: NOW_MS, node_ids=node_ids)
        return Network(cluster=cluster, nodes=nodes, log=LOG)

    network = start(3)
    network.ask(*creation("t", [[1, 2, 3]], {}))
    network.ask(*creation("u", [[3]], {}))
    network.cluster.move("t", 0, 2)
    network.cluster.remove(3)
    again = picture(Simulated(start(3)))
    assert [row["replica_nodes"] for row in again.values()] == [[1, 2, 3], [3]]
    assert [row["isr_nodes"] for row in again.values()] == [[1, 2, 3], [3]]
    assert [row["leader_id"] for row in again.values()] == [2, 3]
    alone = picture(Simulated(start(1)))
    assert [row["replica_nodes"] for row in alone.values()] == [[1], [1]]
    assert [row["leader_id"] for row in alone.values()] == [1, 1]


# ---- internal topics


def test_internal_topics_have_the_replicas_of_their_settings() -> None:
    network = Network(
        nodes=3,
        offsets=OffsetsConfig(num_partitions=2, replication_factor=3),
        transactions=TransactionConfig(
            num_partitions=1, replication_factor=2, min_insync_replicas=2
        ),
    )
    network.find("T")
    network.find_group()
    found = picture(Simulated(network))
    assert {name: row["replica_nodes"] for name, row in found.items()} == {
        "__consumer_offsets-0": [1, 2, 3],
        "__consumer_offsets-1": [2, 3, 1],
        "__transaction_state-0": [1, 2],
    }
    state = network.cluster.topics.get("__transaction_state")
    assert state is not None
    assert state.configs["min.insync.replicas"] == "2"


def test_a_coordinator_is_not_available_where_its_topic_wants_more_nodes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network(nodes=1, offsets=OffsetsConfig(replication_factor=3))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            body = {"coordinator_keys": ["g"], "key_type": 0}
            [row] = network.ask(K.FIND_COORDINATOR, 6, body)["coordinators"]
            assert row["error_code"] == E.COORDINATOR_NOT_AVAILABLE
    [warning] = caplog.messages
    assert "only 1 broker(s) are registered" in warning


# ---- clients


async def test_clients_go_on_when_leaders_and_coordinators_are_killed(tmp_path: Path) -> None:
    config = NodeConfig(
        host="127.0.0.1",
        port=0,
        offsets=OffsetsConfig(num_partitions=1, replication_factor=3),
        transactions=TransactionConfig(
            num_partitions=1, replication_factor=3, min_insync_replicas=2
        ),
    )
    async with Broker(nodes=3, config=config, directory=tmp_path) as kafka:
        kafka.create_topic("t", replication_factor=3, min_insync_replicas="2")
        servers = kafka.bootstrap_servers
        async with Producer(servers, transactional_id="T") as producer:
            for number in range(3):
                async with producer.transaction():
                    await producer.send("t", b"%d" % number)
                leader_id = kafka.log("t").leader_id
                await kafka.stop_node(leader_id, fail_over=False)
                assert kafka.log("t").leader_id != leader_id
                await kafka.start_node(leader_id)
        async with Consumer(
            "t",
            bootstrap_servers=servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            read = [(await consumer.getone()).value for _ in range(3)]
        assert read == [b"0", b"1", b"2"]
        assert kafka.log("t").leader_epoch == 3
