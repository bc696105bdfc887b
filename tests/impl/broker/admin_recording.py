"""Requests of administrators and what a real broker answered, kept to be compared with a node's.

`python -m tests.impl.broker.admin_recording HOST:PORT > FILE` asks a running broker of id 1 that
has no topics. What differs from run to run is replaced: ids, addresses, sizes of disks.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey

Ask = Callable[[ApiKey, int, dict[str, Any]], Any]
Request = tuple[ApiKey, int, dict[str, Any]]

TOPIC, NODE = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
UP, SAFE, UNSAFE = 1, 2, 3
REPLACED = {
    "topic_id": "",
    "cluster_id": "",
    "host": "",
    "port": 0,
    "log_dir": "",
    "total_bytes": 0,
    "usable_bytes": 0,
    "throttle_time_ms": 0,
    "leader_epoch": 0,
}
OTHERS = {
    "segment.index.bytes": "the recipe of the recorded broker sets it",
}
"""Settings that are not compared, and why."""


def describe(kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True) -> Request:
    row = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    return ApiKey.DESCRIBE_CONFIGS, version, {"resources": [row], "include_synonyms": synonyms}


def change(kind: int, name: str, *rows: tuple[str, int, str | None], only: bool = False) -> Request:
    configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in rows]
    row = {"resource_type": kind, "resource_name": name, "configs": configs}
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [row], "validate_only": only}


def replace_all(name: str, *rows: tuple[str, str | None]) -> Request:
    configs = [{"name": n, "value": v} for n, v in rows]
    row = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
    return ApiKey.ALTER_CONFIGS, 2, {"resources": [row], "validate_only": False}


def grow(name: str, count: int, assigned: list[list[int]] | None = None, times: int = 1) -> Request:
    rows = None if assigned is None else [{"broker_ids": ids} for ids in assigned]
    row = {"name": name, "count": count, "assignments": rows}
    body = {"topics": [row] * times, "timeout_ms": 5_000, "validate_only": False}
    return ApiKey.CREATE_PARTITIONS, 3, body


def cluster(version: int, endpoint_type: int, operations: bool = False) -> Request:
    body = {
        "include_cluster_authorized_operations": operations,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": False,
    }
    return ApiKey.DESCRIBE_CLUSTER, version, body


def resources(version: int, *types: int) -> Request:
    return ApiKey.LIST_CONFIG_RESOURCES, version, {"resource_types": list(types)}


def partitions(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Request:
    body: dict[str, Any] = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
    }
    if cursor:
        body["cursor"] = {"topic_name": cursor[0], "partition_index": cursor[1]}
    return ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body


def level(level: int, kind: int, version: int = 2, name: str = "transaction.version") -> Request:
    row = {
        "feature": name,
        "max_version_level": level,
        "upgrade_type": kind,
        "allow_downgrade": kind != UP,
    }
    return ApiKey.UPDATE_FEATURES, version, {"feature_updates": [row], "validate_only": False}


def epoch(topic: str, partition: int, current: int, asked: int, version: int = 4) -> Request:
    row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": asked}
    topics = [{"topic": topic, "partitions": [row]}]
    return ApiKey.OFFSET_FOR_LEADER_EPOCH, version, {"replica_id": -1, "topics": topics}


def directories(*places: tuple[str, int], version: int = 5, every: bool = False) -> Request:
    rows = [{"topic": topic, "partitions": [partition]} for topic, partition in places]
    return ApiKey.DESCRIBE_LOG_DIRS, version, {"topics": None if every else rows}


TWICE = change(TOPIC, "t", ("retention.ms", SET, "8"))
TWICE[2]["resources"] *= 2

REQUESTS: list[Request] = [
    (
        ApiKey.CREATE_TOPICS,
        7,
        {
            "topics": [
                {
                    "name": "t",
                    "num_partitions": 2,
                    "replication_factor": 1,
                    "configs": [{"name": "retention.ms", "value": "1000"}],
                }
            ]
        },
    ),
    describe(TOPIC, "t"),
    describe(TOPIC, "t", "retention.ms", "cleanup.policy", "nope", version=1),
    describe(TOPIC, "t", "retention.ms", version=3, synonyms=False),
    describe(TOPIC, "nope"),
    describe(TOPIC, ""),
    describe(NODE, "7"),
    describe(NODE, "x"),
    describe(32, ""),
    change(TOPIC, "t", ("retention.ms", SET, "77")),
    change(TOPIC, "t", ("retention.ms", SET, "78"), only=True),
    change(TOPIC, "t", ("max.message.bytes", SET, "5000"), ("segment.ms", SET, "9000")),
    change(TOPIC, "t", ("retention.ms", SET, "x")),
    change(TOPIC, "t", ("retention.ms", SET, "-2")),
    change(TOPIC, "t", ("max.message.bytes", SET, "2147483648")),
    change(TOPIC, "t", ("message.timestamp.type", SET, "Never")),
    change(TOPIC, "t", ("nope", SET, "x")),
    change(TOPIC, "t", ("nope", DELETE, None)),
    change(TOPIC, "t", ("retention.ms", SET, None)),
    change(TOPIC, "t", ("retention.ms", APPEND, "8")),
    change(TOPIC, "t", ("retention.ms", SUBTRACT, "8")),
    change(TOPIC, "t", ("retention.ms", 7, "8")),
    change(TOPIC, "t", ("retention.ms", SET, "8"), ("retention.ms", DELETE, None)),
    change(TOPIC, "t", ("cleanup.policy", APPEND, "delete")),
    describe(TOPIC, "t", "cleanup.policy"),
    change(TOPIC, "nope", ("retention.ms", SET, "8")),
    change(TOPIC, "", ("retention.ms", SET, "8")),
    change(NODE, "7", ("log.retention.ms", SET, "8")),
    change(NODE, "x", ("log.retention.ms", SET, "8")),
    change(NODE, "1", ("node.id", SET, "8")),
    change(99, "x", ("log.retention.ms", SET, "8")),
    TWICE,
    describe(TOPIC, "t"),
    change(TOPIC, "t", ("max.message.bytes", DELETE, None)),
    describe(TOPIC, "t", "max.message.bytes", "segment.ms", "retention.ms"),
    replace_all("t", ("retention.bytes", "77")),
    describe(TOPIC, "t"),
    replace_all("t", ("retention.bytes", None)),
    replace_all("t", ("nope", "1")),
    replace_all("nope", ("retention.ms", "1")),
    replace_all("t"),
    describe(TOPIC, "t"),
    *(grow("t", count) for count in (2, 1, 0, -1)),
    grow("nope", 2),
    grow("t", 3, [[1]]),
    grow("t", 5, [[1]]),
    grow("t", 4, [[7]]),
    grow("t", 4, [[1, 1]]),
    grow("t", 4, [[]]),
    grow("t", 4, []),
    grow("t", 6, times=2),
    grow("t", 6),
    *(cluster(version, kind) for version in (0, 1, 2) for kind in (1, 2, 3)),
    cluster(2, 1, operations=True),
    resources(0),
    resources(1, TOPIC, NODE),
    resources(1),
    resources(1, 99),
    resources(1, TOPIC, 0),
    directories(every=True),
    directories(),
    directories(("t", 0), ("nope", 0), ("t", 99)),
    directories(("t", 1), version=1),
    partitions("t"),
    partitions(),
    partitions("zz", "t", "a", limit=4),
    partitions("t", "t", limit=0),
    partitions("t", limit=1, cursor=("t", 1)),
    partitions("t", limit=6),
    partitions("t", "zz", limit=6),
    partitions("t", cursor=("u", 1)),
    partitions(cursor=("u", 1)),
    partitions("t", cursor=("t", -1)),
    partitions(""),
    partitions("a b"),
    epoch("t", 0, -1, 0),
    epoch("t", 0, 0, 1),
    epoch("t", 0, 1, 0),
    epoch("t", 0, -7, 0),
    epoch("t", 0, 0, -1),
    epoch("t", 0, -1, -5),
    epoch("t", 0, -1, 0, version=2),
    epoch("t", 9, 0, 0),
    epoch("nope", 0, 0, 0),
    level(1, SAFE, version=1),
    level(2, UP),
    level(2, UP),
    level(3, UP),
    level(-1, UP),
    level(1, UP),
    level(0, 9),
    level(0, UP, version=0),
    level(1, UNSAFE),
    level(2, SAFE),
    level(1, UP, name="nope"),
    level(2, UP, version=0),
]


def normalized(value: Any) -> Any:
    """`value` without what differs from run to run; rows in an order of their own."""
    if isinstance(value, list):
        return sorted((normalized(item) for item in value if not _is_other(item)), key=repr)
    if isinstance(value, dict):
        return {key: REPLACED.get(key, normalized(item)) for key, item in value.items()}
    return value


def _is_other(row: Any) -> bool:
    return isinstance(row, dict) and row.get("name") in OTHERS


def record(ask: Ask) -> Iterator[list[Any]]:
    """Each request with its answer."""
    for api_key, version, body in REQUESTS:
        yield [api_key.name, version, body, normalized(ask(api_key, version, body))]


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)

    def ask(api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
        connection.sendall(frame(encode_request(api_key, version, 7, "admin", body)))
        buffer = bytearray()
        while True:
            buffer += connection.recv(1 << 16)
            for payload in take_frames(buffer):
                return decode_response(api_key, version, payload)[1]

    rows = ",\n".join(json.dumps(row) for row in record(ask))
    print(f"[\n{rows}\n]")


if __name__ == "__main__":
    main()
