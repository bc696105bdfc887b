"""Quotas, reassignments, elections, the quorum: what a real broker answered, answered by a node."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from impl import Broker
from impl.broker.durable_cluster import DurableCluster
from impl.partition.log_config import LogConfig
from impl.protocol.schemas import ApiKey
from impl.simulator.disk import SimulatedDisk
from tests.impl.broker.cluster_recording import (
    METADATA,
    PREFERRED,
    UNCLEAN,
    elect,
    entity,
    matching,
    normalized,
    quorum,
    quotas,
    reassign,
    reassignments,
    record,
)
from tests.impl.broker.clustered_kafka import RECORDED, record_real, with_log_dir
from tests.impl.broker.network import Network
from tests.impl.broker.secured_kafka import exchange
from tests.impl.storage.crash_workload import LOG, NOW_MS

SEVEN_DAYS_MS = 604_800_000

METADATA_PARTITION = (METADATA, [0])


def test_a_node_answers_about_its_cluster_as_the_broker_did() -> None:
    network = Network(log=LogConfig(retention_ms=SEVEN_DAYS_MS), auto_create_topics=False)

    def ask(api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
        return network.ask(api_key, version, with_log_dir(body, network.cluster.log_dir))

    recorded = json.loads(RECORDED.read_text())
    for answer, wanted in zip(record(ask), recorded, strict=True):
        assert json.loads(json.dumps(answer)) == wanted


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_the_recording_is_what_a_broker_answers() -> None:
    assert record_real() == json.loads(RECORDED.read_text())


def partition_errors(answer: Any) -> list[int]:
    [topic] = answer["responses"]
    return [row["error_code"] for row in topic["partitions"]]


def test_a_reassignment_moves_the_leader_at_once() -> None:
    network = Network(nodes=3)
    network.create("t", 1, 2)
    epoch = network.leader("t", 0).leader_epoch
    answer = network.ask(*reassign(("t", 0, [3]), ("t", 1, [2])), node_id=2)
    assert partition_errors(answer) == [0, 0]
    topic = network.cluster.topics.get("t")
    assert topic is not None
    assert topic.leader_ids == (3, 2)
    assert network.leader("t", 0).leader_epoch == epoch + 1
    assert network.leader("t", 1).leader_epoch == 0
    assert network.ask(*reassignments(every=True))["topics"] == []


def test_no_leader_is_elected_while_its_broker_is_down() -> None:
    """What 4.3.1 answers of three nodes, one of them down, about partitions of one replica."""
    network = Network(nodes=2)
    network.create("t", 1, 2)
    network.cluster.remove(2)
    for kind, error, text in (
        (PREFERRED, 80, "The preferred leader was not available."),
        (UNCLEAN, 83, "Eligible topic partition leaders are not available."),
    ):
        row = {"partition_id": 1, "error_code": error, "error_message": text}
        for request in (elect(kind, every=True), elect(kind, ("t", [1]))):
            [topic] = network.ask(*request)["replica_election_results"]
            assert topic["partition_result"] == [row]


def test_the_controller_is_the_voter_and_other_nodes_observe() -> None:
    network = Network(nodes=3)
    answer = network.ask(*quorum(METADATA_PARTITION), node_id=2)
    [partition] = answer["topics"][0]["partitions"]
    assert partition["leader_id"] == 1
    assert [row["replica_id"] for row in partition["current_voters"]] == [1]
    assert [row["replica_id"] for row in partition["observers"]] == [2, 3]
    assert [row["node_id"] for row in answer["nodes"]] == [1]


def test_a_broker_that_runs_is_not_unregistered() -> None:
    network = Network(nodes=2)
    refused = network.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 2})
    assert (refused["error_code"], "stop it" in refused["error_message"]) == (42, True)
    network.cluster.remove(2)
    assert network.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 2})["error_code"] == 0
    assert network.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 2})["error_code"] == 102


def test_quotas_survive_a_restart() -> None:
    disk = SimulatedDisk()

    def start() -> Network:
        cluster = DurableCluster(disk, "c", LOG, lambda: NOW_MS)
        return Network(cluster=cluster, log=LOG)

    network = start()
    network.ask(*quotas(entity(user="u", client_id=None), ("producer_byte_rate", 5.0)))
    network.ask(*quotas(entity(user="gone"), ("producer_byte_rate", 5.0)))
    network.ask(*quotas(entity(user="gone"), ("producer_byte_rate", None)))
    network.ask(*quotas(entity(user="u"), ("producer_byte_rate", 6.0)))
    network.ask(*quotas(entity(user="u"), ("producer_byte_rate", 7.5), ("request_percentage", 1.5)))
    before = network.ask(*matching())
    assert len(before["entries"]) == 2
    assert normalized(start().ask(*matching())) == normalized(before)


def test_a_directory_says_how_much_room_there_is(tmp_path: Path) -> None:
    with Broker(directory=tmp_path) as kafka:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            answer = exchange(connection, ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None})
    [row] = answer["results"]
    assert row["total_bytes"] == shutil.disk_usage(tmp_path).total
    assert 0 < row["usable_bytes"] < row["total_bytes"]
