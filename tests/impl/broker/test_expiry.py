"""Offsets and groups that expire, and groups that are full: as a real broker does it, after a
restart as well, and by the clock of a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.brokers.kafka.connection import BrokerConnection
from impl import ApiKey, Broker, Consumer, Producer
from impl.broker.node_settings import UnknownSetting
from impl.protocol.errors import ErrorCode
from impl.settings import InvalidSetting
from tests.impl.broker.admin_recording import describe
from tests.impl.broker.expiry_recording import (
    RECORDED,
    RECORDINGS,
    SETTINGS,
    Kafka,
    record_real,
    recorded,
)

pytestmark = pytest.mark.slow  # sockets

DAY_MS = 86_400_000
NODE = 4
"""The type of a resource of DescribeConfigs."""


def client_of(broker: Broker) -> Kafka:
    """Connections to it, and its clock."""
    began_ms = broker.clock()
    host, port = broker.bootstrap_servers.split(":")

    def wait_until(seconds: float) -> None:
        broker.clock.advance(max(0, began_ms + round(seconds * 1_000) - broker.clock()))

    return Kafka(lambda: BrokerConnection(host, int(port)), wait_until)


@contextmanager
def clients_of(broker: Broker) -> Iterator[Kafka]:
    kafka = client_of(broker)
    try:
        yield kafka
    finally:
        kafka.close()


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_broker_answers_as_a_real_one_did(name: str, tmp_path: Path) -> None:
    answered = []
    for phase, settings in RECORDINGS[name]:
        with Broker(directory=tmp_path, settings=settings) as broker:
            answered += recorded(phase, client_of(broker))
    for ours, theirs in zip(answered, json.loads(RECORDED.read_text())[name], strict=True):
        assert ours == theirs


@pytest.mark.full
@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_recording_is_what_a_real_broker_answers(name: str) -> None:
    assert record_real(name) == json.loads(RECORDED.read_text())[name]


# ---- the defaults, and a restart


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_that_is_left_is_gone_after_its_week(protocol: str) -> None:
    async with Broker(topics={"t": 1}) as broker:
        async with Producer(broker.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"v")
        more: dict[str, Any] = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
        async with Consumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", **more
        ) as consumer:
            await consumer.getone()
            await consumer.commit()
        broker.clock.advance(6 * DAY_MS)
        assert names(broker) == ["g"]
        broker.clock.advance(2 * DAY_MS)
        assert names(broker) == []


def names(broker: Broker) -> list[str]:
    """The groups of a broker, without a socket: its loop is that of the test."""
    found = {
        group_id
        for server in broker._servers.values()
        for offsets in server.node.coordinators.offsets.partitions.values()
        if offsets is not None
        for group_id in offsets.groups
    }
    return sorted(found)


def test_what_has_expired_stays_away_after_a_restart_and_the_rest_stays(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1"}
    with Broker(directory=tmp_path, settings=settings) as broker, clients_of(broker) as kafka:
        kafka.prepare()
        for name in ("old", "renewed"):
            kafka.commit(name, ("unread", 0))
        left = kafka.enter("left")
        kafka.leave("left", left["member_id"])
        broker.clock.advance(6 * DAY_MS)
        kafka.commit("renewed", ("unread", 1))
        broker.clock.advance(2 * DAY_MS)
        before = kafka.picture()
        tombstones = kafka.tombstones()
    assert before == {"renewed": ["Empty", "classic", "", {"unread-1": 7}]}
    assert tombstones == {
        "left": ["classic group"],
        "old": ["offset of unread-0", "classic group"],
        "renewed": ["offset of unread-0"],
    }
    with Broker(directory=tmp_path, settings=settings) as broker, clients_of(broker) as kafka:
        assert kafka.picture() == before


def test_when_a_group_became_empty_is_known_after_a_restart(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1"}
    with Broker(directory=tmp_path, settings=settings) as broker, clients_of(broker) as kafka:
        kafka.prepare()
        joined = kafka.enter("g")
        kafka.commit_as("g", joined, ("unread", 0))
        kafka.leave("g", joined["member_id"])
    with Broker(directory=tmp_path, settings=settings) as broker, clients_of(broker) as kafka:
        broker.clock.advance(7 * DAY_MS - 600_000)
        kafka.commit("g", ("unread", 1))
        assert "g" in kafka.picture()
        broker.clock.advance(2 * 600_000)
        assert kafka.picture() == {}


# ---- settings


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("offsets.retention.minutes", "10080"),
        ("offsets.retention.check.interval.ms", "600000"),
        ("group.max.size", "2147483647"),
        ("group.consumer.max.size", "2147483647"),
    ],
)
def test_a_setting_is_taken_described_and_held_to_its_range(name: str, default: str) -> None:
    for settings, value in (({}, default), ({name: "7"}, "7")):
        with Broker(settings=settings) as broker, clients_of(broker) as kafka:
            key, version, body = describe(NODE, "1", name)
            assert key is ApiKey.DESCRIBE_CONFIGS
            [result] = kafka.ask(key, version, body)["results"]
            assert [(row["name"], row["value"]) for row in result["configs"]] == [(name, value)]
    with pytest.raises(InvalidSetting):
        Broker(settings={name: "0"})
    with pytest.raises(UnknownSetting):
        Broker(settings={name: "x"})


def test_what_cannot_be_stored_is_tried_again() -> None:
    with Broker(settings=SETTINGS) as broker, clients_of(broker) as kafka:
        kafka.prepare()
        kafka.commit("g", ("unread", 0))
        partition = broker.cluster.topics.get("__consumer_offsets")
        assert partition is not None
        [leader] = partition.partitions
        with pytest.MonkeyPatch.context() as patch:
            refused = type("Refused", (), {"error": ErrorCode.NOT_ENOUGH_REPLICAS})
            patch.setattr(type(leader), "append_as_coordinator", lambda *_, **__: refused)
            broker.clock.advance(120_000)
            assert list(kafka.picture()) == ["g"]
        broker.clock.advance(1_000)
        assert kafka.picture() == {}
