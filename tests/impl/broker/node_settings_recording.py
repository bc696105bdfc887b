"""Settings of brokers: requests, and what a real broker answered.

`python -m tests.impl.broker.node_settings_recording RELEASE > FILE` asks a broker that it starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from conformance.adapters.brokers.kafka.administration import await_applied
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl.broker.kafka_settings import KAFKA_SETTINGS
from impl.broker.setting_views import ConfigType
from impl.broker.topic_settings import TOPIC_SETTINGS
from impl.properties import decode_properties
from impl.protocol.schemas import ApiKey
from tests.impl.broker.admin_recording import (
    APPEND,
    DELETE,
    NODE,
    SET,
    SUBTRACT,
    TOPIC,
    Ask,
    Request,
    change,
    describe,
    resources,
)
from tests.impl.broker.resource_recording import (
    CHANGING,
    GROUP,
    INTERVAL,
    replace_all,
)

PROPERTIES = {"log.retention.ms": "-1", "num.partitions": "1", "log.roll.hours": "24"}
"""Given to the broker that is asked: the default of ours, Kafka's own default, larger units."""

ALL, ME = "", "1"
SIZE, RETENTION, POLICY = "message.max.bytes", "log.retention.ms", "log.cleanup.policy"
IN_SYNC = "min.insync.replicas"
LAG, MOST_LAG = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
TOPICS = (
    "max.message.bytes",
    "retention.ms",
    "min.insync.replicas",
    "compression.type",
    "message.timestamp.type",
    "segment.ms",
    "segment.bytes",
    "flush.ms",
    "segment.jitter.ms",
    "index.interval.bytes",
)
CHANGES = (
    (SIZE, "2000"),
    (RETENTION, "5000"),
    (IN_SYNC, "2"),
    ("compression.type", "gzip"),
    ("log.message.timestamp.type", "LogAppendTime"),
    ("log.roll.ms", "7000"),
    ("log.segment.bytes", "1048577"),
    ("log.flush.interval.ms", "5"),
    ("log.roll.jitter.ms", "5"),
    ("log.index.interval.bytes", "8192"),
    ("log.cleaner.backoff.ms", "7"),
    ("group.consumer.assignment.interval.ms", "70"),
    ("producer.id.expiration.ms", "7000"),
    ("transaction.partition.verification.enable", "false"),
    ("unclean.leader.election.enable", "TRUE"),
    ("max.connections", "700"),
    ("max.connections.per.ip", "70"),
)
SAMPLES = {
    ConfigType.BOOLEAN: "true",
    ConfigType.INT: "1",
    ConfigType.SHORT: "1",
    ConfigType.LONG: "1",
    ConfigType.DOUBLE: "0.5",
}


def create(name: str) -> Request:
    row = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    return ApiKey.CREATE_TOPICS, 7, {"topics": [row], "timeout_ms": 5_000, "validate_only": False}


def explained(request: Request) -> Request:
    key, version, body = request
    return key, version, body | {"include_documentation": True}


def only_check(name: str, who: str, value: str | None = None) -> Request:
    fact = KAFKA_SETTINGS[name]
    return change(NODE, who, (name, SET, value or fact.default or _sample(name)), only=True)


def _sample(name: str) -> str:
    return SAMPLES.get(KAFKA_SETTINGS[name].config_type, "x")


def values() -> Iterator[Request]:
    """The default of each topic's setting that a broker has, at the limits of its values."""
    for setting in TOPIC_SETTINGS.values():
        name = setting.broker_name
        if not name:
            continue
        for value in (
            "",
            "x",
            "-1",
            "0",
            "1",
            "-2",
            "-3",
            "+7",
            " 8 ",
            "1_0",
            "1048575",
            "1048576",
        ):
            yield only_check(name, ALL, value)
        for choice in setting.choices:
            yield only_check(name, ALL, choice)
    for name in (
        "log.cleaner.backoff.ms",
        "producer.id.expiration.ms",
        "max.connections",
        "max.connections.per.ip",
    ):
        for value in ("x", "-1", "0", "1"):
            yield only_check(name, ALL, value)
    for value in ("x", "-1", "0", "15000", "15001"):
        yield only_check("group.consumer.assignment.interval.ms", ALL, value)


def conversation(who: str) -> Iterator[Request]:
    """Changes of one broker, or of all, and what is described then."""
    yield change(NODE, who, ("node.id", SET, "8"))
    yield change(NODE, who, ("node.id", SET, "8"), ("num.partitions", SET, "8"))
    yield change(NODE, who, ("default.replication.factor", SET, "1"), (SIZE, SET, "8"))
    yield change(NODE, who, (POLICY, APPEND, "compact"))
    yield describe(NODE, who, POLICY)
    yield change(NODE, who, (POLICY, APPEND, "compact"))
    yield change(NODE, who, (POLICY, SUBTRACT, "delete"))
    yield describe(NODE, who, POLICY)
    yield describe(NODE, ME, POLICY)
    yield change(NODE, who, (POLICY, DELETE, None))
    yield change(NODE, who, (POLICY, DELETE, None))
    yield change(NODE, who, ("nope", DELETE, None))
    yield change(NODE, who, ("num.partitions", DELETE, None))
    yield describe(NODE, who, "nope", POLICY)
    yield change(NODE, who, (SIZE, APPEND, "8"))
    yield change(NODE, who, (SIZE, SUBTRACT, "8"))
    yield change(NODE, who, ("nope", APPEND, "8"))
    yield change(NODE, who, (SIZE, 7, "8"))
    yield change(NODE, who, (SIZE, SET, None))
    yield change(NODE, who, (SIZE, SET, "1"), (SIZE, SET, "2"))
    yield change(NODE, who, (SIZE, SET, "2000"), only=True)
    yield describe(NODE, who, SIZE)
    yield change(NODE, who, (SIZE, SET, " 2000 "))
    yield describe(NODE, who, SIZE)
    yield describe(NODE, ME, SIZE)
    yield change(NODE, who, (RETENTION, SET, "-1"))
    yield describe(NODE, ME, SIZE, RETENTION, "log.retention.hours", "log.retention.minutes")
    yield replace_all(NODE, who, (RETENTION, "-1"))
    yield replace_all(NODE, who, ("node.id", "1"))
    yield replace_all(NODE, who, (RETENTION, None))
    yield replace_all(NODE, who, (RETENTION, "x"))
    yield replace_all(NODE, who, (RETENTION, "-2"))
    yield replace_all(NODE, who, (RETENTION, "0"))
    yield replace_all(NODE, who)
    yield describe(NODE, who, RETENTION, IN_SYNC, SIZE)
    yield change(NODE, who, (IN_SYNC, SET, "2"))
    yield change(NODE, who, (IN_SYNC, DELETE, None))
    yield describe(NODE, ME, IN_SYNC)
    yield change(NODE, who, (SIZE, DELETE, None), (RETENTION, DELETE, None))
    yield change(NODE, who, ("ssl.keystore.password", SET, "secret"))


REQUESTS: list[Request] = [
    create("t"),
    explained(describe(NODE, ME)),
    describe(NODE, ME, "listeners", "num.partitions", "nope", synonyms=False),
    describe(NODE, ME, "log.roll.ms", "log.roll.hours", version=1),
    describe(NODE, ALL),
    explained(describe(TOPIC, "t")),
    describe(TOPIC, "t", IN_SYNC, "segment.ms"),
    *(only_check(name, who) for name in KAFKA_SETTINGS for who in (ALL, ME)),
    *values(),
    *conversation(ALL),
    *conversation(ME),
    *(
        request
        for who in ("7", "x", " 1", "1.0")
        for request in (change(NODE, who, (SIZE, SET, "2000")), describe(NODE, who, SIZE))
    ),
    *(change(NODE, ALL, (name, SET, value)) for name, value in CHANGES),
    describe(NODE, ALL),
    describe(NODE, ME, *(name for name, _ in CHANGES)),
    describe(TOPIC, "t", *TOPICS),
    describe(GROUP, "g", INTERVAL),
    create("u"),
    change(NODE, ME, (SIZE, SET, "3000"), (RETENTION, SET, "6000")),
    change(TOPIC, "t", ("retention.ms", SET, "-1")),
    describe(TOPIC, "t", *TOPICS),
    describe(NODE, ME, *(name for name, _ in CHANGES)),
    describe(NODE, ALL),
    change(TOPIC, "t", ("retention.ms", DELETE, None)),
    change(NODE, ME, (SIZE, DELETE, None), (RETENTION, DELETE, None)),
    describe(TOPIC, "t", *TOPICS),
    *(change(NODE, ALL, (name, DELETE, None)) for name, _ in CHANGES),
    change(NODE, ALL, (IN_SYNC, SET, "1")),
    describe(NODE, ALL),
    describe(TOPIC, "t", *TOPICS),
    change(NODE, ALL, (LAG, SET, "10"), (MOST_LAG, SET, "5")),
    describe(TOPIC, "t", "min.compaction.lag.ms", "max.compaction.lag.ms"),
    create("v"),
    change(TOPIC, "t", ("retention.ms", SET, "5")),
    change(NODE, ALL, (LAG, DELETE, None), (MOST_LAG, DELETE, None)),
    resources(1),
]


def plain(value: Any) -> Any:
    """An answer without what differs from run to run; rows in an order of their own, but for
    synonyms, whose order counts."""
    if isinstance(value, list):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, dict):
        said = {
            key: item if key == "synonyms" else plain(item)
            for key, item in value.items()
            if key != "topic_id"
        }
        if "documentation" in said:
            said["documentation"] = said["documentation"] is not None
        return said
    return value


def record(ask: Ask) -> Iterator[list[Any]]:
    """Each request with its answer."""
    for api_key, version, body in REQUESTS:
        yield [api_key.name, version, body, plain(ask(api_key, version, body))]


def recorded_of(release: str) -> dict[str, Any]:
    """The properties of a real broker of the release, and what it answers."""
    with KafkaBroker(release, properties=PROPERTIES) as broker, broker.connect() as connection:

        def ask(api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
            answer = connection.ask(api_key, version, body)
            if api_key in CHANGING or api_key is ApiKey.CREATE_TOPICS:
                await_applied(connection.ask)
            return answer

        properties = decode_properties((broker.folder / "server.properties").read_bytes())
        return {"properties": properties, "answers": list(record(ask))}


def main() -> None:
    found = recorded_of(sys.argv[1])
    rows = ",\n".join(json.dumps(row) for row in found["answers"])
    print(f'{{"properties": {json.dumps(found["properties"])},\n"answers": [\n{rows}\n]}}')


if __name__ == "__main__":
    main()
