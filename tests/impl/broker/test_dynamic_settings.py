"""Settings of brokers that are changed while they run: what they do then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from impl import Broker
from impl.broker import topic_settings
from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.node_settings import (
    TOPIC_DEFAULTS,
    UnknownSetting,
    apply_changes,
    apply_log_changes,
    configure,
    path_of,
)
from impl.broker.resource_configs import ALL_BROKERS, ConfigResourceType
from impl.broker.setting_changes import with_changes, with_log_changes
from impl.broker.setting_views import ConfigSource
from impl.partition.log_config import LogConfig
from impl.protocol.errors import ErrorCode
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import Record, client_batch, decode_batch, encode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.broker.admin_recording import DELETE, NODE, SET, TOPIC, change, describe
from tests.impl.broker.network import Network
from tests.impl.broker.test_node_settings import another_value, network_of
from tests.impl.broker.test_resource_settings import conversation

APPLIED = [name for name in TOPIC_DEFAULTS if path_of(name)]
SIZE, RETENTION = "message.max.bytes", "log.retention.ms"
DEFAULT = ConfigSource.DYNAMIC_DEFAULT_BROKER


def alter(network: Network, who: str, *rows: tuple[str, int, str | None], node_id: int = 1) -> None:
    [answer] = network.ask(*change(NODE, who, *rows), node_id)["responses"]
    assert answer["error_code"] == 0, answer


def alter_topic(network: Network, *rows: tuple[str, int, str | None]) -> None:
    [answer] = network.ask(*change(TOPIC, "t", *rows))["responses"]
    assert answer["error_code"] == 0, answer


def described(network: Network, kind: int, name: str, key: str) -> tuple[str, int]:
    [row] = network.ask(*describe(kind, name, key))["results"][0]["configs"]
    return row["value"], row["config_source"]


def produce(network: Network, bytes_: int, node_id: int = 1, partition: int = 0) -> ErrorCode:
    records = encode_batch(client_batch([Record(0, 0, None, b"v" * bytes_)]))
    rows = [{"index": partition, "records": records}]
    body = {"acks": -1, "timeout_ms": 1, "topics": [{"name": "t", "partitions": rows}]}
    [topic] = network.ask(ApiKey.PRODUCE, 9, body, node_id)["topics"]
    return ErrorCode(topic["partitions"][0]["error_code"])


@pytest.mark.parametrize("name", APPLIED)
def test_topics_without_their_own_follow_a_default(name: str) -> None:
    """Those that there are and new ones, until it is removed; a topic's own setting stays."""
    field, text = path_of(name).removeprefix("log."), another_value(name)
    network = Network()
    network.create("t", 1)
    before = getattr(network.leader("t").config, field)
    alter(network, "", (name, SET, text))
    network.create("u", 1)
    after = getattr(network.leader("t").config, field)
    assert after != before
    assert getattr(network.leader("u").config, field) == after
    assert described(network, TOPIC, "u", TOPIC_DEFAULTS[name]) == (text, DEFAULT)
    own = described(network, NODE, "1", name)
    assert own == (text, DEFAULT)
    plain = getattr(LogConfig(), field)
    if field != "min_insync_replicas":  # it is always there, see below
        alter(network, "", (name, DELETE, None))
        assert getattr(network.leader("t").config, field) == before == plain


def test_a_larger_batch_is_refused_as_soon_as_brokers_say_so() -> None:
    network = Network()
    network.create("t", 1)
    assert produce(network, 100) is ErrorCode.NONE
    alter(network, "", (SIZE, SET, "50"))
    assert produce(network, 100) is ErrorCode.MESSAGE_TOO_LARGE
    alter_topic(network, ("max.message.bytes", SET, "1000"))
    assert produce(network, 100) is ErrorCode.NONE


def test_a_broker_has_a_setting_of_its_own_where_it_leads() -> None:
    network = Network(nodes=2)
    network.create("t", 1, 2)
    alter(network, "", (SIZE, SET, "5000"))
    alter(network, "2", (SIZE, SET, "50"), node_id=2)
    assert produce(network, 100, 1, 0) is ErrorCode.NONE
    assert produce(network, 100, 2, 1) is ErrorCode.MESSAGE_TOO_LARGE
    network.cluster.move("t", 1, 1)
    assert produce(network, 100, 1, 1) is ErrorCode.NONE
    network.cluster.move("t", 0, 2)
    assert produce(network, 100, 2, 0) is ErrorCode.MESSAGE_TOO_LARGE
    [row] = network.ask(*describe(TOPIC, "t", "max.message.bytes"), 2)["results"][0]["configs"]
    sources = [place["source"] for place in row["synonyms"]]
    assert (row["value"], sources) == ("50", [2, 3, 5])
    alter(network, "2", (SIZE, DELETE, None), node_id=2)
    assert produce(network, 100, 2, 0) is ErrorCode.NONE


def segments_after(network: Network, ms: int) -> int:
    network.run(1)
    network.now_ms += ms
    network.run(1)
    return network.leader("t").log_start_offset


@pytest.mark.parametrize("own", [None, "-1"])
def test_old_records_go_unless_the_topic_keeps_all(own: str | None) -> None:
    """retention.ms=-1 of a topic is unlimited, whatever brokers have."""
    network = Network(log_retention_check_interval_ms=10)
    rows = [] if own is None else [{"name": "retention.ms", "value": own}]
    row = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": rows}
    [created] = network.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})["topics"]
    assert created["error_code"] == 0
    assert produce(network, 10) is ErrorCode.NONE
    assert segments_after(network, 100_000) == 0
    alter(network, "", (RETENTION, SET, "1000"))
    assert segments_after(network, 100_000) == (1 if own is None else 0)
    value = ("1000", DEFAULT) if own is None else ("-1", ConfigSource.DYNAMIC_TOPIC)
    assert described(network, TOPIC, "t", "retention.ms") == value


def test_unlimited_retention_is_a_change_like_any_other() -> None:
    network = Network(log_retention_check_interval_ms=10)
    network.create("t", 1)
    alter(network, "", (RETENTION, SET, "1000"))
    alter_topic(network, ("retention.ms", SET, "-1"))
    assert produce(network, 10) is ErrorCode.NONE
    assert segments_after(network, 100_000) == 0
    alter_topic(network, ("retention.ms", DELETE, None))
    alter(network, "", (RETENTION, SET, "-1"))
    assert segments_after(network, 100_000) == 0
    alter(network, "", (RETENTION, DELETE, None))
    assert described(network, NODE, "1", RETENTION) == ("-1", ConfigSource.STATIC_BROKER)


def test_batches_are_stamped_and_written_as_brokers_say() -> None:
    network = Network()
    network.create("t", 1)
    stamps = "log.message.timestamp.type"
    alter(network, "", (stamps, SET, "LogAppendTime"), ("compression.type", SET, "gzip"))
    assert produce(network, 100) is ErrorCode.NONE
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [
            {
                "topic": "t",
                "partitions": [
                    {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20},
                ],
            }
        ],
    }
    answer = network.ask(ApiKey.FETCH, 11, body)
    batch = decode_batch(answer["responses"][0]["partitions"][0]["records"])
    assert batch.attributes & 0b111 == 1
    assert batch.max_timestamp == network.now_ms


def test_too_few_replicas_are_too_few_as_soon_as_brokers_say_so() -> None:
    network = Network(nodes=2)
    row = {"name": "t", "num_partitions": 1, "replication_factor": 2}
    network.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})
    topic = network.cluster.topics.get("t")
    assert topic is not None
    leader_id = topic.leader_ids[0]
    network.cluster.remove(3 - leader_id)
    assert produce(network, 10, leader_id) is ErrorCode.NONE
    alter(network, "", ("min.insync.replicas", SET, "2"), node_id=leader_id)
    assert produce(network, 10, leader_id) is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("log.cleaner.backoff.ms", "7", lambda me: me.log_cleaner_backoff_ms),
        (
            "group.consumer.assignment.interval.ms",
            "70",
            lambda me: me.consumer_groups.assignment_interval_ms,
        ),
    ],
)
def test_a_node_follows_what_changes(name: str, text: str, read: Any) -> None:
    network = Network(nodes=2)
    alter(network, "", (name, SET, text))
    network.run(1)
    assert [read(node.config) for node in network.nodes.values()] == [int(text)] * 2
    alter(network, "2", (name, SET, "9"), node_id=2)
    network.run(1)
    assert [read(node.config) for node in network.nodes.values()] == [int(text), 9]
    alter(network, "", (name, DELETE, None))
    network.run(1)
    assert [read(node.config) for node in network.nodes.values()] == [read(NodeConfig()), 9]


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("producer.id.expiration.ms", "7", lambda log: log.producer_id_expiration_ms),
        ("transaction.partition.verification.enable", "false", lambda log: log.rules.verifies),
    ],
)
def test_all_logs_follow_what_is_no_topics(name: str, text: str, read: Any) -> None:
    network = Network()
    network.create("t", 1)
    plain = read(LogConfig())
    alter(network, "", (name, SET, text))
    network.create("u", 1)
    found = [read(network.leader(topic).config) for topic in "tu"]
    assert [str(value).lower() for value in found] == [text] * 2
    assert described(network, NODE, "1", name) == (text, DEFAULT)
    alter(network, "", (name, DELETE, None))
    assert [read(network.leader(topic).config) for topic in "tu"] == [plain] * 2


@pytest.mark.parametrize("own", [{}, {"retention.ms": "5"}])
def test_defaults_that_contradict_each_other_break_nothing(own: dict[str, str]) -> None:
    """4.3.1 takes them, too; a topic with settings of its own meets them when these change."""
    network = Network()
    network.create("t", 1)
    alter_topic(network, *((name, SET, value) for name, value in own.items()))
    lag = "log.cleaner.{}.compaction.lag.ms".format
    alter(network, "", (lag("min"), SET, "10"), (lag("max"), SET, "5"))
    config = network.leader("t").config
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (10, 5)
    asked = change(TOPIC, "t", ("retention.ms", SET, "6"))
    [answer] = network.ask(*asked)["responses"]
    assert answer["error_code"] == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_brokers_get_no_codec_that_is_not_there(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_settings, "is_installed", lambda: False)
    network = Network()
    [answer] = network.ask(*change(NODE, "", ("compression.type", SET, codec)))["responses"]
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST
    assert "its library is not installed" in answer["error_message"]
    with pytest.raises(UnknownSetting, match="its library is not installed"):
        configure(NodeConfig(), "compression.type", codec)
    alter(network, "", ("compression.type", SET, "producer"))


def test_consumer_groups_follow_a_changed_interval() -> None:
    network = Network()
    groups = network.nodes[1].coordinators.consumer_groups.groups
    alter(network, "", ("group.consumer.assignment.interval.ms", SET, "70"))
    network.run(1)
    assert groups.config_of("g").assignment_interval_ms == 70


def test_a_directory_keeps_what_was_changed(tmp_path: Path) -> None:
    with Broker(directory=tmp_path, topics={"t": 1}) as kafka, conversation(kafka) as c:
        c.ask(*change(NODE, "", (SIZE, SET, "5000"), (RETENTION, SET, "70")))
        c.ask(*change(NODE, "1", (SIZE, SET, "50")))
        c.ask(*change(NODE, "", (RETENTION, DELETE, None)))
    with Broker(directory=tmp_path) as kafka, conversation(kafka) as c:
        [node] = c.ask(*describe(NODE, "1", SIZE, RETENTION))["results"]
        found = {row["name"]: (row["value"], row["config_source"]) for row in node["configs"]}
        assert found == {SIZE: ("50", 2), RETENTION: ("-1", 4)}
        topic = kafka.cluster.topics.get("t")
        assert topic is not None
        assert topic.partitions[0].config.max_message_bytes == 50


def test_a_directory_keeps_how_many_replicas_must_be_in_sync(tmp_path: Path) -> None:
    """As Kafka since 4.1, which has it from the settings of the time when it was formatted."""
    settings = {"min.insync.replicas": "2"}
    with Broker(directory=tmp_path, settings=settings) as kafka, conversation(kafka) as c:
        found = c.ask(*describe(NODE, "1", "min.insync.replicas"))["results"][0]["configs"][0]
        sources = [(place["value"], place["source"]) for place in found["synonyms"]]
        assert sources == [("2", 3), ("2", 4), ("1", 5)]
    with Broker(directory=tmp_path) as kafka, conversation(kafka) as c:
        [found] = c.ask(*describe(NODE, "", "min.insync.replicas"))["results"][0]["configs"]
        assert found["value"] == "2"


def test_a_setting_of_the_start_that_a_directory_overrides_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(directory=tmp_path) as kafka, conversation(kafka) as c:
        c.ask(*change(NODE, "", (SIZE, SET, "5000")))
    assert caplog.records == []
    settings = {SIZE: "70", "min.insync.replicas": "2", "num.partitions": "3", RETENTION: "5"}
    with Broker(directory=tmp_path, settings=settings) as kafka, conversation(kafka) as c:
        [found] = c.ask(*describe(NODE, "1", SIZE))["results"][0]["configs"]
    assert (found["value"], found["config_source"]) == ("5000", DEFAULT)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "the setting message.max.bytes stays 5000, not 70",
        "the setting min.insync.replicas stays 1, not 2",
    ]


def test_settings_that_another_broker_left_do_no_harm() -> None:
    """A directory of Kafka may have names and values that nothing here follows."""
    cluster = Cluster("c", LogConfig())
    left = {"nope": "1", SIZE: "many", "num.io.threads": "4", RETENTION: "70"}
    cluster.resources.keep_in(
        {(ConfigResourceType.BROKER, ALL_BROKERS): left}, lambda kind, name, configs: None
    )
    cluster.configure_brokers("1", {})
    network = Network(cluster=cluster)
    network.create("t", 1)
    config = network.leader("t").config
    assert (config.max_message_bytes, config.retention_ms) == (1_048_588, 70)
    rows = network.ask(*describe(NODE, ""))["results"][0]["configs"]
    assert {row["name"]: row["value"] for row in rows} == {
        **left,
        "nope": None,
        "min.insync.replicas": "1",
    }


@pytest.mark.parametrize(("release", "source"), [("4.0", 5), ("4.1", 3), ("3.9", 5)])
def test_brokers_have_a_min_insync_replicas_since_4_1(release: str, source: int) -> None:
    """4.0.2, 4.1.2 and 4.2.1 answered so."""
    network = Network(release=release)
    network.create("t", 1)
    assert described(network, TOPIC, "t", "min.insync.replicas") == ("1", source)
    asked = change(NODE, "1", ("min.insync.replicas", SET, "2"))
    [answer] = network.ask(*asked)["responses"]
    assert answer["error_code"] == (0 if source == 5 else ErrorCode.INVALID_CONFIG)


@pytest.mark.parametrize("version", [1, 3, 6])
def test_topics_cannot_be_deleted_where_that_is_off(version: int) -> None:
    """4.3.1 with delete.topic.enable=false answered so, about unknown topics, too."""
    network = network_of(configure(NodeConfig(), "delete.topic.enable", "false"))
    network.create("t", 1)
    names: dict[str, Any] = {"topic_names": ["t", "nope"]}
    if version == 6:
        names = {"topics": [{"name": name, "topic_id": ZERO_UUID} for name in ("t", "nope")]}
    answer = network.ask(ApiKey.DELETE_TOPICS, version, names | {"timeout_ms": 5_000})
    error = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert [row["error_code"] for row in answer["responses"]] == [error] * 2
    assert network.cluster.topics.get("t") is not None


def test_larger_units_count_where_no_smaller_ones_are_given() -> None:
    config = configure(NodeConfig(), "log.retention.hours", "2")
    assert config.log.retention_ms == 7_200_000
    config = configure(config, "log.retention.minutes", "3")
    assert config.log.retention_ms == 180_000
    assert configure(config, "log.retention.hours", "4").log.retention_ms == 180_000
    config = configure(config, RETENTION, "5")
    assert configure(config, "log.retention.minutes", "4").log.retention_ms == 5


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"min.insync.replicas": "1"},
        {"min.insync.replicas": "2"},
        {"min.insync.replicas": " +2 "},
        {"min.insync.replicas": "none"},
        {"min.insync.replicas": "2", "max.connections": "7"},
        {"log.retention.ms": "5"},
    ],
    ids=str,
)
def test_changes_that_change_nothing_need_no_parser(changes: dict[str, str], least: int) -> None:
    config = NodeConfig(log=LogConfig(min_insync_replicas=least))
    assert with_changes(config, changes) == apply_changes(config, changes)
    assert with_log_changes(config.log, changes) == apply_log_changes(config.log, changes)
