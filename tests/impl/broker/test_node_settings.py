"""Settings of brokers: what a real broker answered, answered by a node; and what they do."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from impl import Broker, Security
from impl.broker.config import NodeConfig
from impl.broker.embedded import EMBEDDED
from impl.broker.kafka_settings import KAFKA_SETTINGS, UpdateMode
from impl.broker.node import Node
from impl.broker.node_effects import ELSEWHERE, NODE_SETTINGS
from impl.broker.node_settings import (
    TOPIC_DEFAULTS,
    UnknownSetting,
    can_change,
    configure,
    explain_node_setting,
    has_effect,
    path_of,
)
from impl.broker.setting_views import ConfigType
from impl.broker.topic_settings import TOPIC_SETTINGS
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from tests.impl.broker.admin_recording import NODE, describe
from tests.impl.broker.conversation import Conversation
from tests.impl.broker.network import Network
from tests.impl.broker.node_settings_recording import REQUESTS, record, recorded_of

RELEASE = "4.3.1"
RECORDED = Path(__file__).with_name("recorded_nodes") / f"kafka-{RELEASE}.json"


def network_of(config: NodeConfig) -> Network:
    return Network(**{field.name: getattr(config, field.name) for field in fields(config)})


def configured(properties: dict[str, str]) -> NodeConfig:
    config = NodeConfig()
    for name, value in properties.items():
        if name not in ELSEWHERE:
            config = configure(config, name, value)
    return config


OWN_VALUES = {
    "advertised.listeners": "the ports of this broker",
    "listeners": "the ports of this broker",
    "listener.security.protocol.map": "no listener of a controller",
    "log.dirs": "the directory of this broker",
}
"""Settings whose values and places are this broker's own."""


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """A row of DescribeConfigs, without the value where that is each broker's own."""
    if row.get("name") not in OWN_VALUES or "config_type" not in row:
        return row
    return {key: row[key] for key in ("name", "read_only", "is_sensitive", "config_type")}


def compared(answer: Any) -> Any:
    if isinstance(answer, list):
        return [compared(item) for item in answer]
    if isinstance(answer, dict):
        return comparable({key: compared(item) for key, item in answer.items()})
    return answer


LOADED = "ssl.engine.factory.class"
"""Kafka loads the class first, and then looks at who is asked."""


def is_about_inert_settings(request: list[Any]) -> bool:
    """Whether a change is of what does nothing here, so that it is refused in our own words."""
    api_key, _, body, _ = request
    if "ALTER_CONFIGS" not in api_key:
        return False
    [resource] = body["resources"]
    names = [row["name"] for row in resource["configs"]]
    return resource["resource_type"] == NODE and not all(map(can_change, names))


def test_a_node_answers_about_its_settings_as_the_broker_did() -> None:
    recorded = json.loads(RECORDED.read_text())
    network = network_of(configured(recorded["properties"]))
    assert len(recorded["answers"]) == len(REQUESTS)
    differences = []
    for wanted, row in zip(recorded["answers"], record(network.ask), strict=True):
        found = json.loads(json.dumps(row))
        assert found[:3] == wanted[:3]
        if compared(found[3]) == compared(wanted[3]):
            continue
        if is_about_inert_settings(wanted):
            [refused] = found[3]["responses"]
            assert refused["error_code"] == ErrorCode.INVALID_REQUEST
            own = ("has no effect in this broker", "stays what it is while this broker runs")
            is_own = any(text in refused["error_message"] for text in own)
            assert is_own or LOADED in refused["error_message"]
        else:
            differences.append((wanted[:3], wanted[3], found[3]))
    assert differences == []


@pytest.mark.full
@pytest.mark.kafka
def test_the_recording_is_kafkas() -> None:
    found = json.loads(json.dumps(recorded_of(RELEASE)["answers"]))
    recorded = json.loads(RECORDED.read_text())["answers"]
    assert compared(found) == compared(recorded)


# ---- the tables


def test_every_setting_of_kafka_has_a_row() -> None:
    """And one sentence; the names and facts are held to the recording above."""
    assert len(KAFKA_SETTINGS) == 341
    for name in KAFKA_SETTINGS:
        about = explain_node_setting(name)
        assert about.endswith("."), name
        assert ("without effect" in about) == (not has_effect(name)), name
        assert about[0].isupper() or about.startswith(tuple(TOPIC_SETTINGS)), name


def test_no_setting_stands_in_two_tables() -> None:
    assert KAFKA_SETTINGS.keys() >= {*NODE_SETTINGS, *TOPIC_DEFAULTS, *ELSEWHERE}
    assert not NODE_SETTINGS.keys() & ELSEWHERE.keys()
    assert not NODE_SETTINGS.keys() & TOPIC_DEFAULTS.keys()
    assert can_change("log.retention.ms")
    assert not can_change("num.partitions")
    changeable = {name for name in KAFKA_SETTINGS if can_change(name)}
    modes = {name: fact.mode for name, fact in KAFKA_SETTINGS.items()}
    assert {modes[name] for name in changeable} == {UpdateMode.CLUSTER}
    effective = {name for name in KAFKA_SETTINGS if path_of(name)}
    assert {modes[name] for name in effective - changeable} == {UpdateMode.STATIC}


def test_a_node_takes_each_setting_and_tells_it() -> None:
    """With a value that is not the default, unless the broker itself has it."""
    config = NodeConfig()
    taken = [name for name in KAFKA_SETTINGS if name not in ELSEWHERE]
    for name in taken:
        changed = configure(NodeConfig(), name, another_value(name))
        assert has_effect(name) == (replace(changed, named={}) != NodeConfig()), name
        config = configure(config, name, another_value(name))
    described = {row["name"]: row for row in described_by(config)}
    for name in taken:
        row, fact = described[name], KAFKA_SETTINGS[name]
        assert row["value"] == (None if fact.is_sensitive else another_value(name)), name
        is_changed = name == "min.insync.replicas"
        assert row["config_source"] == (DYNAMIC_DEFAULT if is_changed else STATIC), name


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_given_elsewhere_is_refused_with_the_place(name: str) -> None:
    with pytest.raises(UnknownSetting, match=re.escape(ELSEWHERE[name])):
        configure(NodeConfig(), name, "x")


def described_by(config: NodeConfig) -> list[dict[str, Any]]:
    api_key, version, body = describe(NODE, str(config.node_id))
    answer = Node(config).handle(encode_request(api_key, version, 1, "admin", body), 0)
    assert answer is not None
    [result] = decode_response(api_key, version, answer)[1]["results"]
    return list(result["configs"])


STATIC, DYNAMIC_DEFAULT = 4, 3
OTHERS = {
    "cleanup.policy": "compact",
    "log.cleanup.policy": "compact",
    "compression.type": "gzip",
    "compression.gzip.level": "2",
    "log.message.timestamp.type": "LogAppendTime",
    "group.consumer.migration.policy": "upgrade",
    "node.id": "7",
    "broker.id": "7",
    "log.segment.bytes": "1048577",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "group.consumer.session.timeout.ms": "45001",
}


def another_value(name: str) -> str:
    """A value that Kafka takes, and that is not the default."""
    fact = KAFKA_SETTINGS[name]
    if name in OTHERS:
        return OTHERS[name]
    if fact.config_type is ConfigType.BOOLEAN:
        return "false" if fact.default == "true" else "true"
    if fact.config_type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG):
        number = int(fact.default or 1)
        return str(number - 1 if number > 100 else number + 1)
    return "0.25" if fact.config_type is ConfigType.DOUBLE else "x"


# ---- what the broker itself has


def test_a_node_tells_where_it_is(tmp_path: Path) -> None:
    security = Security(
        listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
        users={"alice": "secret"},
        sasl_mechanisms=("PLAIN",),
        connections_max_reauth_ms=7_000,
        acls=(),
        super_users=("User:ANONYMOUS",),
    )
    config = replace(EMBEDDED, advertised_host="localhost")
    with Broker(directory=tmp_path, config=config, security=security) as kafka:
        host, _, port = kafka.bootstrap_servers_of("PLAINTEXT").rpartition(":")
        others = kafka.bootstrap_servers_of("SASL_PLAINTEXT").rpartition(":")[2]
        with Conversation(host, int(port)) as c:
            [result] = c.ask(*describe(NODE, "1"))["results"]
    told = {row["name"]: row["value"] for row in result["configs"] if row["config_source"] == 4}
    ports = f"PLAINTEXT://{{0}}:{port},SASL_PLAINTEXT://{{0}}:{others}"
    assert told["listeners"] == ports.format("127.0.0.1")
    assert told["advertised.listeners"] == ports.format("localhost")
    assert told["log.dirs"] == str(tmp_path)
    assert told["inter.broker.listener.name"] == "BETWEEN_BROKERS"
    assert told["security.inter.broker.protocol"] == "SASL_PLAINTEXT"
    protocols = dict(each.split(":") for each in told["listener.security.protocol.map"].split(","))
    assert protocols == {
        "PLAINTEXT": "PLAINTEXT",
        "SASL_PLAINTEXT": "SASL_PLAINTEXT",
        "BETWEEN_BROKERS": "SASL_PLAINTEXT",
    }
    assert told["sasl.enabled.mechanisms"] == "PLAIN"
    assert told["connections.max.reauth.ms"] == "7000"
    assert told["authorizer.class.name"] == "impl.security.acls.Authorizer"


def test_an_address_of_ipv6_has_brackets() -> None:
    rows = described_by(NodeConfig(host="::1", port=9094))
    [listeners] = [row["value"] for row in rows if row["name"] == "listeners"]
    assert listeners == "PLAINTEXT://[::1]:9094"


def test_settings_of_the_authorizer_are_told_without_values() -> None:
    """4.3.1 answered so, about super.users."""
    rows = described_by(configure(NodeConfig(), "super.users", "User:ANONYMOUS"))
    [row] = [row for row in rows if row["name"] == "super.users"]
    assert (row["value"], row["config_source"], row["config_type"]) == (None, STATIC, 0)
    assert (row["read_only"], row["is_sensitive"]) == (True, True)
    assert [(each["value"], each["source"]) for each in row["synonyms"]] == [(None, STATIC)]
    assert len(rows) == len(KAFKA_SETTINGS) + 1
