"""Administration: what a real broker answered, answered by a node; and what it changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from impl import Broker
from impl.broker.config import NodeConfig
from impl.broker.node_settings import NODE_SETTINGS
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.reading import EndOfEpoch, find_end_of_epoch
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.broker.admin_recording import change, describe, level, normalized
from tests.impl.broker.network import Network

RECORDED = Path(__file__).with_name("recorded_admin") / "kafka-4.3.1.json"
SEVEN_DAYS_MS = 604_800_000
SECONDS = 20


def test_a_node_answers_administrators_as_the_broker_did() -> None:
    network = Network(log=LogConfig(retention_ms=SEVEN_DAYS_MS), auto_create_topics=False)
    for name, version, body, wanted in json.loads(RECORDED.read_text()):
        found = normalized(network.ask(ApiKey[name], version, body))
        assert json.loads(json.dumps(found)) == wanted, (name, version, body)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_that_leaves_no_time_does_nothing(timeout_ms: int) -> None:
    """Error 7 for each row, repeated, illegal or missing topics included: so did 4.3.1 and 3.9.2.
    2.8.2, with ZooKeeper, did what it was asked for."""

    def topic(name: str, count: int) -> dict[str, object]:
        return {"name": name, "num_partitions": count, "replication_factor": 1}

    time = {"timeout_ms": timeout_ms}
    created = [topic("new", 1), topic("a/b", 1), topic("there", 1), topic("z", 0), topic("z", 0)]
    grown = [{"name": name, "count": 3, "assignments": None} for name in ("there", "no", "no")]
    deleted = [{"name": name, "topic_id": bytes(16)} for name in ("there", "no", "no")]
    for release, errors in (("4.3", [7]), ("2.8", [0, 17, 36, 42])):
        network = Network(release=release)
        network.create("there", 1, 1)
        answers = [
            network.ask(key, version, {"topics": rows, "validate_only": False} | time)
            for key, version, rows in (
                (ApiKey.CREATE_TOPICS, 5, created),
                (ApiKey.CREATE_PARTITIONS, 2, grown),
                (ApiKey.DELETE_TOPICS, 6, deleted),
            )
        ]
        rows = [row for answer in answers for rows in answer.values() for row in _rows(rows)]
        assert sorted({row["error_code"] for row in rows}) == errors
        is_done = release == "2.8"
        assert (len(rows) == 11) is not is_done
        there = network.cluster.topics.get("there")
        assert (there is None) is is_done
        assert (network.cluster.topics.get("new") is None) is not is_done


def test_an_election_or_a_reassignment_that_leaves_no_time_does_nothing() -> None:
    """As 4.3.1 answered."""
    network = Network(nodes=2)
    network.create("t", 1, 1)
    error = {"error_code": 7, "error_message": None}
    asked = {"name": "t", "partitions": [{"partition_index": 0, "replicas": [2]}]}
    answer = network.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 0, "topics": [asked]}
    )
    row = {"name": "t", "partitions": [{"partition_index": 0} | error]}
    assert answer["responses"] == [row]
    assert answer["error_code"] == 7
    topic = network.cluster.topics.get("t")
    assert topic is not None
    assert topic.leader_ids[0] == 1
    partitions = [{"topic": "t", "partitions": [0]}]
    body = {"election_type": 0, "topic_partitions": partitions, "timeout_ms": 0}
    answer = network.ask(ApiKey.ELECT_LEADERS, 2, body)
    row = {"topic": "t", "partition_result": [{"partition_id": 0} | error]}
    assert answer["replica_election_results"] == [row]
    assert answer["error_code"] == 7


def _rows(field: object) -> list[dict[str, Any]]:
    return field if isinstance(field, list) else []


def test_a_changed_setting_is_applied_by_leaders_of_old_and_new_partitions() -> None:
    network = Network()
    network.create("t", 1, 1)
    network.ask(*change(2, "t", ("max.message.bytes", 0, "50")))
    topic = network.cluster.topics.get("t")
    assert topic is not None
    network.cluster.topics.add_partitions(topic, 1)
    grown = network.cluster.topics.get("t")
    assert grown is not None
    assert [leader.config.max_message_bytes for leader in grown.partitions] == [50] * 3
    records = encode_batch(client_batch([Record(0, 0, None, b"v" * 50)]))
    rows = [{"index": index, "records": records} for index in range(3)]
    body = {"acks": -1, "timeout_ms": 1, "topics": [{"name": "t", "partitions": rows}]}
    answer = network.ask(ApiKey.PRODUCE, 9, body)
    errors = [row["error_code"] for row in answer["topics"][0]["partitions"]]
    assert errors == [10, 10, 10]  # MESSAGE_TOO_LARGE


def test_a_changed_level_is_announced_and_followed_by_all_nodes() -> None:
    network = Network(nodes=2)
    network.ask(*level(1, 2), node_id=2)
    for node_id, node in network.nodes.items():
        body = {"client_software_name": "c", "client_software_version": "1"}
        answer = network.ask(ApiKey.API_VERSIONS, 4, body, node_id)
        assert answer["finalized_features_epoch"] == 1
        levels = {row["name"]: row["max_version_level"] for row in answer["finalized_features"]}
        assert levels["transaction.version"] == 1
        assert not node.coordinators.transactions.config.bumps_epoch


def test_a_node_describes_its_own_settings() -> None:
    network = Network(num_partitions=3)
    answer = network.ask(*describe(4, "1"))["results"][0]
    described = {row["name"]: row for row in answer["configs"]}
    assert described.keys() >= {*NODE_SETTINGS, "log.retention.ms", "message.max.bytes"}
    row = described["num.partitions"]
    assert (row["value"], row["config_source"], row["read_only"]) == ("3", 4, True)
    assert [synonym["value"] for synonym in row["synonyms"]] == ["3", "1"]
    defaults = network.ask(*describe(4, "1", "group.max.session.timeout.ms"))["results"][0]
    assert [row["config_source"] for row in defaults["configs"]] == [5]
    assert NodeConfig().log.retention_ms == -1
    assert described["log.retention.ms"]["config_source"] == 4


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (-1, (-1, -1)),
        (0, (0, 4)),
        (2, (2, 9)),
        (3, (2, 9)),
        (5, (5, 9)),
        (6, (-1, -1)),
        (-3, (-3, 0)),
        (1, (0, 4)),
    ],
)
def test_the_end_of_an_epoch(asked: int, found: tuple[int, int]) -> None:
    leader = PartitionLeader()
    for epoch, count in ((0, 2), (0, 2), (2, 5)):
        leader.leader_epoch = epoch
        records = [Record(delta, 0, None, b"v") for delta in range(count)]
        leader.produce(encode_batch(client_batch(records)), required_acks=-1, now_ms=0)
    assert find_end_of_epoch(leader.log, asked, 5) == EndOfEpoch(*found)


def test_an_epoch_whose_records_are_all_deleted_is_forgotten() -> None:
    """As in Kafka, though the file knew it when the log was loaded."""
    leader = PartitionLeader(log_start_offset=3, leader_epoch=2)
    leader.log.known_epochs = {0: 0}
    ends = [find_end_of_epoch(leader.log, epoch, 2) for epoch in range(4)]
    assert ends == [(0, 3), (1, 3), (2, 3), (-1, -1)]


@pytest.mark.slow
def test_librdkafkas_administrator() -> None:
    with Broker(topics={"t": 1}) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        entry = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", "t", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(SECONDS)
        asked = ConfigResource("topic", "t")
        described = admin.describe_configs([asked])[asked].result(SECONDS)
        assert described["retention.ms"].value == "5000"
        admin.create_partitions([NewPartitions("t", 3)])["t"].result(SECONDS)
        assert len(admin.list_topics("t", timeout=SECONDS).topics["t"].partitions) == 3
        cluster = admin.describe_cluster().result(SECONDS)
        assert [node.id for node in cluster.nodes] == [1]
