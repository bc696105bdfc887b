"""Settings of groups and of client metrics: what a real broker answered, answered by a node."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from impl import Broker
from impl.broker.config import NodeConfig
from impl.broker.node_settings import configure
from impl.protocol.errors import ErrorCode
from tests.impl.broker.admin_recording import DELETE, NODE, SET, TOPIC, change, describe, resources
from tests.impl.broker.conversation import Conversation
from tests.impl.broker.network import Network
from tests.impl.broker.resource_recording import (
    BEAT,
    BOUNDS,
    GROUP,
    METRICS,
    REQUESTS,
    SESSION,
    record,
    recorded_of,
)

RELEASE = "4.3.1"
RECORDED = Path(__file__).with_name("recorded_resources") / f"kafka-{RELEASE}.json"


def plain(rows: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(rows))


def network(config: NodeConfig) -> Network:
    return Network(auto_create_topics=False, consumer_groups=config.consumer_groups)


def test_a_node_answers_about_resources_as_the_broker_did() -> None:
    config = NodeConfig()
    for name, value in BOUNDS.items():
        config = configure(config, name, value)
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded) == len(REQUESTS)
    for wanted, found in zip(recorded, record(network(config).ask), strict=True):
        assert plain(found) == wanted


@pytest.mark.full
@pytest.mark.kafka
def test_the_recording_is_kafkas() -> None:
    assert plain(recorded_of(RELEASE)) == json.loads(RECORDED.read_text())


SETTINGS = {
    "4.0": {"consumer": 2, "share": 4},
    "4.1": {"consumer": 2, "share": 5, "streams": 3},
    "4.2": {"consumer": 2, "share": 5, "streams": 4},
    "4.3": {"consumer": 3, "share": 9, "streams": 5},
}
"""How many 4.0.2, 4.1.2, 4.2.1 and 4.3.1 describe."""


@pytest.mark.parametrize("release", SETTINGS)
def test_a_group_has_the_settings_of_the_release(release: str) -> None:
    [group] = Network(release=release).ask(*describe(GROUP, "g"))["results"]
    families = Counter(row["name"].partition(".")[0] for row in group["configs"])
    assert families == SETTINGS[release]
    asked = change(GROUP, "g", ("consumer.assignment.interval.ms", SET, "0"))
    [refused] = Network(release=release).ask(*asked)["responses"]
    assert refused["error_code"] == (0 if release == "4.3" else ErrorCode.INVALID_CONFIG)


@pytest.mark.parametrize(("release", "kind"), [("3.9", GROUP), ("3.3", METRICS), ("2.8", GROUP)])
def test_a_release_without_these_resources_does_not_know_the_type(release: str, kind: int) -> None:
    """3.9.2 answered so for groups."""
    node = Network(release=release)
    asked = change(kind, "g", ("interval.ms", SET, "1000"))
    [refused] = node.ask(*asked)["responses"]
    assert refused["error_code"] == ErrorCode.INVALID_REQUEST
    assert refused["error_message"] == f"Unknown resource type {kind}"
    [row] = node.ask(*describe(kind, "g"))["results"]
    assert row["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name"), [(TOPIC, "t"), (NODE, "1"), (GROUP, "g"), (METRICS, "m")]
)
def test_each_setting_has_a_sentence_where_it_is_asked_for(kind: int, name: str) -> None:
    node = Network()
    node.create("t", 1)
    api_key, _, body = describe(kind, name)
    for version, is_asked in ((1, True), (3, False), (3, True), (4, True)):
        asked = {**body, "include_documentation": is_asked and version >= 3}
        [resource] = node.ask(api_key, version, asked)["results"]
        told = [row["documentation"] for row in resource["configs"]]
        assert told
        if asked["include_documentation"]:
            assert all(text.endswith(".") for text in told)
        else:
            assert set(told) == {None}


def test_settings_of_resources_are_kept_in_a_directory(tmp_path: Path) -> None:
    interval = "interval.ms"
    with Broker(directory=tmp_path) as kafka, conversation(kafka) as c:
        c.ask(*change(GROUP, "g", (BEAT, SET, "6000"), (SESSION, SET, "50000")))
        c.ask(*change(GROUP, "g", (SESSION, DELETE, None)))
        c.ask(*change(GROUP, "gone", (SESSION, SET, "50000")))
        c.ask(*change(GROUP, "gone", (SESSION, DELETE, None)))
        c.ask(*change(METRICS, "m", (interval, SET, "1000")))
    with Broker(directory=tmp_path) as kafka, conversation(kafka) as c:
        [group] = c.ask(*describe(GROUP, "g", BEAT, SESSION))["results"]
        values = {row["name"]: row["value"] for row in group["configs"]}
        assert values == {BEAT: "6000", SESSION: "45000"}
        [metrics] = c.ask(*describe(METRICS, "m", interval))["results"]
        assert metrics["configs"][0]["value"] == "1000"
        listed = c.ask(*resources(1, GROUP, METRICS))["config_resources"]
        assert sorted(row["resource_name"] for row in listed) == ["g", "m"]


def conversation(broker: Broker) -> Conversation:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return Conversation(host, int(port))


def test_all_nodes_follow_what_a_group_sets() -> None:
    """Whichever node was asked to set it."""
    nodes = Network(nodes=2)
    nodes.create("t", 1)
    for node_id in nodes.nodes:
        nodes.ask(*change(GROUP, f"g{node_id}", (BEAT, SET, "6000")), node_id)
        found = [nodes.ask(*describe(GROUP, f"g{node_id}", BEAT), each) for each in nodes.nodes]
        values = [answer["results"][0]["configs"][0]["value"] for answer in found]
        assert values == ["6000", "6000"]
