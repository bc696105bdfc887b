"""Requests that no honest client sends, refused as Kafka 4.3.1 refuses them.

The errors are those of a real broker: `python -m benchmarks.hostile_answers` asks both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from impl import (
    ApiKey,
    CloseConnection,
    Node,
    NodeConfig,
    Record,
    client_batch,
    encode_batch,
)
from impl.protocol.errors import ErrorCode as E
from tests.impl.broker.test_node import NOW_MS, Client, batch

ZERO_ID = bytes(16)
OTHER_ID = b"\1" * 16
TRANSACTIONAL = encode_batch(
    client_batch(
        [Record(0, NOW_MS, None, b"v")],
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
)


def error_codes(value: Any) -> Iterator[int]:
    """Those of rows, or of the whole."""
    if isinstance(value, dict):
        if "error_code" in value:
            yield value["error_code"]
        for part in value.values():
            yield from error_codes(part)
    elif isinstance(value, list):
        for part in value:
            yield from error_codes(part)


@pytest.fixture
def client() -> Client:
    client = Client(Node(NodeConfig(auto_create_topics=False)))
    client.create("t", 2)
    client.node.coordinators.internal_topic("__consumer_offsets")
    return client


def fetch(isolation_level: int, **row: Any) -> dict[str, Any]:
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1} | row
    topics = [{"topic": "t", "partitions": [asked]}]
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "isolation_level": isolation_level,
        "topics": topics,
    }


def list_offsets(isolation_level: int) -> dict[str, Any]:
    row = {"partition_index": 0, "timestamp": -1}
    topics = [{"name": "t", "partitions": [row]}, {"name": "?", "partitions": [row]}]
    return {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}


def delete_records(name: str, partition: int) -> dict[str, Any]:
    row = {"partition_index": partition, "offset": 0}
    return {"topics": [{"name": name, "partitions": [row]}], "timeout_ms": 1000}


def created(name: str, count: int, factor: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": count, "replication_factor": factor}


def resources(*rows: tuple[int, str]) -> dict[str, Any]:
    named = [{"resource_type": kind, "resource_name": name} for kind, name in rows]
    return {"resources": [row | {"configuration_keys": None} for row in named]}


def metadata(*rows: tuple[str | None, bytes]) -> dict[str, Any]:
    return {"topics": [{"name": name, "topic_id": topic_id} for name, topic_id in rows]}


def produce(*records: bytes, transactional_id: str | None = None, name: str = "t") -> Any:
    rows = [{"index": index, "records": each} for index, each in enumerate(records)]
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 1000,
        "topics": [{"name": name, "partitions": rows}],
    }


def scram(*rows: tuple[str, int, int | None]) -> dict[str, Any]:
    """Deletions, and upsertions with so many iterations."""
    named = [({"name": name, "mechanism": mechanism}, i) for name, mechanism, i in rows]
    return {
        "deletions": [row for row, iterations in named if iterations is None],
        "upsertions": [
            row | {"iterations": iterations, "salt": b"s", "salted_password": b"p"}
            for row, iterations in named
            if iterations is not None
        ],
    }


NO_TOPIC, INVALID = E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_REQUEST
DUPLICATE, ILLEGAL = E.DUPLICATE_RESOURCE, E.INVALID_TOPIC_EXCEPTION
FAILED = E.UNKNOWN_SERVER_ERROR
MANY = {"topics": [created("u", 9_999), created("v", 2), created("t", 0)]}

REFUSED: list[tuple[ApiKey, int, dict[str, Any], list[int]]] = [
    (ApiKey.FETCH, 12, fetch(2), [FAILED, FAILED]),
    (ApiKey.FETCH, 12, fetch(2, partition=9), [0, NO_TOPIC]),
    (ApiKey.FETCH, 12, fetch(0, current_leader_epoch=-2), [0, 0]),
    (ApiKey.LIST_OFFSETS, 3, list_offsets(-1), [FAILED, FAILED]),
    (ApiKey.LIST_OFFSETS, 3, list_offsets(1), [0, NO_TOPIC]),
    (ApiKey.DELETE_RECORDS, 2, delete_records("__consumer_offsets", 999), [NO_TOPIC]),
    (ApiKey.DELETE_RECORDS, 2, delete_records("__consumer_offsets", 0), [ILLEGAL]),
    (ApiKey.CREATE_TOPICS, 5, {"topics": [created("u", -2, 2)]}, [E.INVALID_PARTITIONS]),
    (ApiKey.CREATE_TOPICS, 5, {"topics": [created("u", -2, 0)]}, [E.INVALID_REPLICATION_FACTOR]),
    (ApiKey.CREATE_TOPICS, 5, {"topics": [created("u", 1, 2)]}, [E.INVALID_REPLICATION_FACTOR]),
    (ApiKey.CREATE_TOPICS, 5, MANY, [E.POLICY_VIOLATION] * 3),
    (
        ApiKey.DELETE_TOPICS,
        5,
        {"topic_names": ["a", "", "a"], "timeout_ms": 1},
        [INVALID, NO_TOPIC],
    ),
    (ApiKey.DESCRIBE_CONFIGS, 4, resources((4, "x"), (8, "x"), (8, "")), [INVALID] * 3),
    (ApiKey.DESCRIBE_CONFIGS, 4, resources((2, "t"), (0, "t")), [INVALID] * 2),
    (ApiKey.DESCRIBE_CONFIGS, 4, resources((2, "t"), (8, "1")), [0, 0]),
    (ApiKey.DESCRIBE_GROUPS, 3, {"groups": ["", "a"]}, [0, 0]),
    (ApiKey.DELETE_GROUPS, 1, {"groups_names": [""]}, [E.GROUP_ID_NOT_FOUND]),
    (
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": "?", "partition_indexes": [0]}]},
        [ILLEGAL],
    ),
    (ApiKey.METADATA, 8, metadata(("", ZERO_ID), ("u", ZERO_ID)), [0, ILLEGAL, NO_TOPIC]),
    (ApiKey.METADATA, 11, metadata(("t", ZERO_ID), ("t", OTHER_ID)), [0, INVALID, INVALID]),
    (ApiKey.METADATA, 12, metadata(("t", ZERO_ID), (None, OTHER_ID)), [0, E.UNKNOWN_TOPIC_ID]),
    (
        ApiKey.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": "__consumer_offsets", "count": 0, "assignments": None}],
            "timeout_ms": 1,
            "validate_only": False,
        },
        [E.INVALID_PARTITIONS],
    ),
    (
        ApiKey.PRODUCE,
        9,
        produce(TRANSACTIONAL, batch(0)),
        [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2,
    ),
    (ApiKey.PRODUCE, 9, produce(TRANSACTIONAL[:-1], name="?"), [NO_TOPIC]),
    (
        ApiKey.PRODUCE,
        9,
        produce(batch(0), TRANSACTIONAL[:8] + bytes(4) + TRANSACTIONAL[12:], name="?"),
        [E.CORRUPT_MESSAGE] * 2,
    ),
    (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        scram(("a", 1, None), ("a", 9, None), ("", 9, 1)),
        [E.RESOURCE_NOT_FOUND, E.UNACCEPTABLE_CREDENTIAL],
    ),
    (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        scram(("a", 1, 5_000), ("a", 9, 5_000), ("b", 9, 5_000), ("b", 1, 5_000)),
        [DUPLICATE, E.UNSUPPORTED_SASL_MECHANISM],
    ),
]


@pytest.mark.parametrize(("api_key", "version", "body", "wanted"), REFUSED)
def test_it_is_refused_as_kafka_does(
    client: Client, api_key: ApiKey, version: int, body: dict[str, Any], wanted: list[int]
) -> None:
    assert list(error_codes(client.ask(api_key, version, body))) == wanted


def test_a_session_timeout_is_checked_before_the_group(client: Client) -> None:
    group = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group)
    body = {
        "group_id": "g",
        "session_timeout_ms": 1,
        "member_id": "",
        "protocol_type": "connect",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    codes = [
        client.ask(ApiKey.JOIN_GROUP, 1, body | {"session_timeout_ms": ms})["error_code"]
        for ms in (1, 10_000)
    ]
    assert codes == [E.INVALID_SESSION_TIMEOUT, E.INCONSISTENT_GROUP_PROTOCOL]


ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize(
    ("api_key", "whole", "row"),
    [
        (ApiKey.CREATE_ACLS, "creations", ACL),
        (ApiKey.DESCRIBE_ACLS, "", FILTER),
        (ApiKey.DELETE_ACLS, "filters", FILTER),
    ],
)
def test_an_unknown_kind_of_acl_closes_the_connection(
    client: Client, api_key: ApiKey, whole: str, row: dict[str, Any]
) -> None:
    def ask(row: dict[str, Any]) -> Any:
        return client.ask(api_key, 1, {whole: [row]} if whole else row)

    assert E.SECURITY_DISABLED in error_codes(ask(row))
    with pytest.raises(CloseConnection, match="operation is UNKNOWN"):
        ask(row | {"operation": 0})
