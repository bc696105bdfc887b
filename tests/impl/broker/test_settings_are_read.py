"""A setting that is said to have an effect is read where work is done."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from impl import Broker, Producer
from impl.broker.config import NodeConfig
from impl.broker.embedded import EMBEDDED
from impl.broker.node_effects import NODE_SETTINGS
from impl.broker.node_settings import TOPIC_DEFAULTS, path_of
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import ConsumerGroupConfig, GroupConfig, OffsetsConfig
from impl.partition.log_config import LogConfig
from impl.partition.rules import TransactionRules
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from tests.impl.broker.admin_recording import SET, change
from tests.impl.broker.conversation import Conversation
from tests.impl.broker.resource_recording import BEAT, GROUP, INTERVAL, SESSION

OF_PATHS: dict[str, type] = {
    "": NodeConfig,
    "log": LogConfig,
    "log.rules": TransactionRules,
    "transactions": TransactionConfig,
    "offsets": OffsetsConfig,
    "groups": GroupConfig,
    "consumer_groups": ConsumerGroupConfig,
}
TELLING = (
    "dataclasses",
    "copy",
    "impl.settings",
    "impl.broker.config",
    "impl.broker.node_settings",
    "impl.broker.topic_settings",
    "impl.broker.group_settings",
)
"""Modules that read settings to check them, to change them, or to tell them."""
GROUP_BOUNDS = [
    path_of(f"group.consumer.{bound}.{rest}")
    for bound in ("min", "max")
    for rest in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
]
"""Read by `group_settings`, whose tests hold them to Kafka's answers."""


def spied(read: set[tuple[type, str]], kind: type) -> Callable[[Any, str], Any]:
    def look(self: Any, name: str) -> Any:
        if sys._getframe(1).f_globals.get("__name__") not in TELLING:
            read.add((kind, name))
        return object.__getattribute__(self, name)

    return look


async def transact(kafka: Broker, name: str, *topics: str) -> None:
    """Two transactions, the second while the first one is being completed."""
    async with Producer(kafka.bootstrap_servers, transactional_id=name) as producer:
        for _ in range(2):
            async with producer.transaction():
                for topic in topics:
                    await producer.send_and_wait(topic, b"v" * 100, key=b"k")


def consume(kafka: Broker, protocol: str) -> None:
    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"g-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe(["plain"])
    while reader.poll(1) is None:
        pass
    reader.commit(asynchronous=False)
    reader.close()


def use(directory: Path) -> None:
    """Whatever clients and administrators do, on a clock that runs ahead."""
    config = replace(EMBEDDED, marker_delay_ms=50)
    with Broker(nodes=2, directory=directory, config=config, topics={"plain": 1}) as kafka:
        for codec in ("gzip", "lz4", "zstd"):
            kafka.create_topic(codec, compression_type=codec)
        kafka.create_topic("kept", cleanup_policy="compact", segment_ms="1000")
        topics = ("plain", "gzip", "lz4", "zstd", "kept", "created-by-itself")
        asyncio.run(transact(kafka, "a", *topics))
        for protocol in ("classic", "consumer"):
            consume(kafka, protocol)
        kafka.clock.advance(60_000)
        asyncio.run(transact(kafka, "b", "kept"))
        host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
        with Conversation(host, int(port)) as c:
            c.ask(*change(GROUP, "g", (BEAT, SET, "6000"), (SESSION, SET, "50000")))
            c.ask(*change(GROUP, "g", (INTERVAL, SET, "1")))
            rows = [{"name": "gzip", "topic_id": ZERO_UUID}]
            c.ask(ApiKey.DELETE_TOPICS, 6, {"topics": rows, "timeout_ms": 5_000})
        kafka.clock.advance(15 * 86_400_000)
        kafka.stop_node(2)


def test_every_setting_with_an_effect_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[tuple[type, str]] = set()
    for kind in OF_PATHS.values():
        monkeypatch.setattr(kind, "__getattribute__", spied(read, kind))
    use(tmp_path)
    paths = {path for name in (*NODE_SETTINGS, *TOPIC_DEFAULTS) if (path := path_of(name))}
    unread = []
    for path in sorted(paths.difference(GROUP_BOUNDS)):
        within, _, field = path.rpartition(".")
        if (OF_PATHS[within], field) not in read:
            unread.append(path)
    assert unread == []
