"""Requests of principals with different ACLs, and what a real broker answered.

`secured_kafka` records them. What differs from run to run is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.broker import admin_recording, cluster_recording

Request = tuple[str, ApiKey, int, dict[str, Any]]
"""Principal, API, version, body. A topic id is written as the topic's name in bytes."""
Ask = Callable[[str, ApiKey, int, dict[str, Any]], Any]

CLOSED = "closed"
ADMIN = "ANONYMOUS"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
ALL, DENY, ALLOW, LITERAL, PREFIXED = 2, 2, 3, 3, 4
BROKER = 4

Acl = tuple[str, int, str, int, int, int]
"""Principal, resource type, name, operation, permission, pattern type."""


def allow(user: str, kind: int, name: str, *operations: int, pattern: int = LITERAL) -> list[Acl]:
    return [(user, kind, name, operation, ALLOW, pattern) for operation in operations]


def deny(user: str, kind: int, name: str, *operations: int, pattern: int = LITERAL) -> list[Acl]:
    return [(user, kind, name, operation, DENY, pattern) for operation in operations]


ACLS: list[Acl] = [
    *allow("reader", TOPIC, "t", READ),
    *allow("reader", GROUP, "g", READ),
    *allow("writer", TOPIC, "t", WRITE),
    *allow("writer", TRANSACTIONAL_ID, "x", WRITE),
    *allow("describer", TOPIC, "t", DESCRIBE, DESCRIBE_CONFIGS),
    *allow("describer", GROUP, "g", DESCRIBE, DESCRIBE_CONFIGS),
    *allow("describer", TRANSACTIONAL_ID, "x", DESCRIBE),
    *allow("describer", CLUSTER, "kafka-cluster", DESCRIBE, DESCRIBE_CONFIGS),
    *allow("manager", TOPIC, "t", ALTER, DELETE, ALTER_CONFIGS, CREATE),
    *allow("manager", TOPIC, "new", CREATE, pattern=PREFIXED),
    *allow("manager", GROUP, "g", DELETE, ALTER_CONFIGS),
    *allow("operator", CLUSTER, "kafka-cluster", ALTER, CREATE, CLUSTER_ACTION, ALTER_CONFIGS),
    *allow("idempotent", CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE),
    *allow("denied", TOPIC, "*", ALL),
    *allow("denied", GROUP, "*", ALL),
    *deny("denied", TOPIC, "t", WRITE),
    *deny("denied", GROUP, "g", DESCRIBE, ALTER_CONFIGS),
    *deny("denied", TOPIC, "o", READ, pattern=PREFIXED),
    *allow("pipeline", TOPIC, "t", READ, WRITE),
    *allow("pipeline", GROUP, "g", READ),
    *allow("pipeline", TRANSACTIONAL_ID, "x", WRITE),
]
USERS = ["nobody", *dict.fromkeys(acl[0] for acl in ACLS)]


def creations(acls: list[Acl]) -> dict[str, Any]:
    rows = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": f"User:{user}",
            "host": "*",
            "operation": operation,
            "permission_type": permission,
        }
        for user, kind, name, operation, permission, pattern in acls
    ]
    return {"creations": rows}


def batch(producer_id: int = -1, *, is_transactional: bool = False) -> bytes:
    numbered = {"producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    return encode_batch(
        client_batch(
            [Record(0, 1_000, None, b"v")],
            producer_id=producer_id,
            is_transactional=is_transactional,
            **numbered,
        )
    )


def produce(records: bytes, *names: str, name: str | None = None) -> dict[str, Any]:
    rows = [{"index": 0, "records": records}]
    topics = [{"name": topic, "partitions": rows} for topic in names]
    return {"transactional_id": name, "acks": -1, "timeout_ms": 1_000, "topics": topics}


def fetch(*names: str) -> dict[str, Any]:
    rows = [{"partition": 0, "fetch_offset": 1_000_000, "partition_max_bytes": 1_000}]
    topics = [{"topic": name, "topic_id": name.encode(), "partitions": rows} for name in names]
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}


def committed(*names: str) -> list[dict[str, Any]]:
    row = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    return [{"name": name, "partitions": [row]} for name in names]


def wanted(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "partition_indexes": [0]} for name in names]


def metadata(names: list[str] | None, *, create: bool = False, **more: bool) -> dict[str, Any]:
    topics = None if names is None else [{"name": name} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": create, **more}


def new_topics(*names: str) -> dict[str, Any]:
    rows = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return {"topics": rows, "validate_only": True}


def settings(key: str, rows: Mapping[int, Any]) -> dict[str, Any]:
    names = [(TOPIC, "t"), (TOPIC, "other"), (TOPIC, "nope"), (BROKER, "1"), (32, "g"), (16, "m")]
    resources = [
        {"resource_type": kind, "resource_name": name, key: [rows[kind]]} for kind, name in names
    ]
    return {"resources": resources, "validate_only": True}


def alive(group_id: str, *topics: str) -> dict[str, Any]:
    member = {"group_id": group_id, "member_id": "m", "member_epoch": 5}
    return member | {"subscribed_topic_names": list(topics) or None}


SETTING = {
    TOPIC: "retention.ms",
    BROKER: "node.id",
    16: "interval.ms",
    32: "consumer.session.timeout.ms",
}
NEW_SETTING = {
    kind: {"name": name, "value": "1000", "config_operation": 0} for kind, name in SETTING.items()
}
NOBODYS_ACL: list[Acl] = allow("somebody", TOPIC, "t", READ)
ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:somebody",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
PRODUCER = {"producer_id": 77, "producer_epoch": 0}
NO_MEMBER = {"generation_id_or_member_epoch": -1, "member_id": ""}
MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m"}
BOTH = ("t", "other")

K = ApiKey
EACH: list[tuple[ApiKey, int, dict[str, Any]]] = [
    (K.METADATA, 12, metadata(None)),
    (K.METADATA, 12, metadata(["t", "other", "nope"])),
    (K.METADATA, 12, metadata(["nope", "new-nope"], create=False)),
    (K.METADATA, 12, metadata(["t", "other"], include_topic_authorized_operations=True)),
    (K.METADATA, 9, metadata(["t"], include_cluster_authorized_operations=True)),
    (K.METADATA, 12, {"topics": [{"name": None, "topic_id": b"t"}]}),
    (K.METADATA, 12, {"topics": [{"name": None, "topic_id": b"other"}]}),
    (K.PRODUCE, 9, produce(batch(), *BOTH)),
    (K.PRODUCE, 9, produce(batch(), "nope")),
    (K.PRODUCE, 9, produce(batch(4_000), *BOTH)),
    (K.PRODUCE, 9, produce(batch(77, is_transactional=True), *BOTH, name="x")),
    (K.FETCH, 12, fetch(*BOTH, "nope")),
    (K.FETCH, 13, fetch(*BOTH)),
    *(
        (
            K.LIST_OFFSETS,
            7,
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [
                    {"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}
                    for name in names
                ],
            },
        )
        for names in (BOTH, ("nope",))
    ),
    (
        K.OFFSET_COMMIT,
        8,
        {**NO_MEMBER, "group_id": "g", "topics": committed(*BOTH, "nope")},
    ),
    (
        K.OFFSET_COMMIT,
        8,
        {**NO_MEMBER, "group_id": "h", "topics": committed("t")},
    ),
    (K.OFFSET_FETCH, 7, {"group_id": "g", "topics": wanted(*BOTH)}),
    (K.OFFSET_FETCH, 7, {"group_id": "g", "topics": None}),
    (K.OFFSET_FETCH, 1, {"group_id": "g", "topics": wanted(*BOTH)}),
    (
        K.OFFSET_FETCH,
        9,
        {
            "groups": [
                {"group_id": "g", "topics": wanted(*BOTH)},
                {"group_id": "h", "topics": None},
            ],
            "require_stable": False,
        },
    ),
    (K.FIND_COORDINATOR, 4, {"coordinator_keys": ["g", "h"], "key_type": 0}),
    (K.FIND_COORDINATOR, 4, {"coordinator_keys": ["x", "y"], "key_type": 1}),
    (K.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0}),
    (
        K.JOIN_GROUP,
        5,
        {
            "group_id": "g",
            "session_timeout_ms": 1,
            "rebalance_timeout_ms": 1,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [],
        },
    ),
    (K.SYNC_GROUP, 4, MEMBER | {"assignments": []}),
    (K.HEARTBEAT, 3, MEMBER),
    (K.LEAVE_GROUP, 3, {"group_id": "g", "members": [{"member_id": "m"}]}),
    (K.LEAVE_GROUP, 1, {"group_id": "g", "member_id": "m"}),
    (K.DESCRIBE_GROUPS, 5, {"groups": ["g", "h"], "include_authorized_operations": True}),
    (K.LIST_GROUPS, 4, {"states_filter": []}),
    (K.CREATE_TOPICS, 7, new_topics("new-1", "other-1")),
    (K.CREATE_TOPICS, 5, new_topics("t", "new-1", "new-1")),
    (
        K.DELETE_TOPICS,
        6,
        {"topics": [{"name": "nope"}, {"name": None, "topic_id": b"other"}], "timeout_ms": 1_000},
    ),
    (K.DELETE_TOPICS, 5, {"topic_names": ["other", "nope"], "timeout_ms": 1_000}),
    *(
        (
            K.DELETE_RECORDS,
            2,
            {
                "topics": [
                    {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
                    for name in names
                ],
                "timeout_ms": 1_000,
            },
        )
        for names in (BOTH, ("nope",))
    ),
    (K.INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout_ms": 1}),
    (K.INIT_PRODUCER_ID, 4, {"transactional_id": "y", "transaction_timeout_ms": 60_000}),
    (
        K.OFFSET_FOR_LEADER_EPOCH,
        4,
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": name,
                    "partitions": [
                        {"partition": 0, "current_leader_epoch": -1, "leader_epoch": -5}
                    ],
                }
                for name in (*BOTH, "nope")
            ],
        },
    ),
    *(
        (
            K.ADD_PARTITIONS_TO_TXN,
            3,
            {
                "v3_and_below_transactional_id": name,
                "v3_and_below_producer_id": 77,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": [{"name": topic, "partitions": [0]} for topic in topics],
            },
        )
        for name, topics in (("x", BOTH), ("x", ("t",)), ("y", ("t",)), ("x", ("t", "nope")))
    ),
    (
        K.ADD_PARTITIONS_TO_TXN,
        4,
        {
            "transactions": [
                {
                    "transactional_id": "x",
                    **PRODUCER,
                    "verify_only": False,
                    "topics": [{"name": "t", "partitions": [0]}],
                }
            ]
        },
    ),
    (K.ADD_OFFSETS_TO_TXN, 3, {"transactional_id": "x", **PRODUCER, "group_id": "g"}),
    (K.ADD_OFFSETS_TO_TXN, 3, {"transactional_id": "y", **PRODUCER, "group_id": "g"}),
    (K.ADD_OFFSETS_TO_TXN, 3, {"transactional_id": "x", **PRODUCER, "group_id": "h"}),
    (K.END_TXN, 3, {"transactional_id": "x", **PRODUCER, "committed": True}),
    (K.END_TXN, 3, {"transactional_id": "y", **PRODUCER, "committed": True}),
    *(
        (
            K.TXN_OFFSET_COMMIT,
            3,
            {"transactional_id": name, "group_id": group, **PRODUCER, "topics": committed(*topics)},
        )
        for name, group, topics in (
            ("x", "g", (*BOTH, "nope")),
            ("x", "h", ("t",)),
            ("y", "g", ("t",)),
        )
    ),
    (
        K.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    **PRODUCER,
                    "transaction_result": False,
                    "topics": [{"name": "nope", "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
    ),
    (K.DESCRIBE_CONFIGS, 4, settings("configuration_keys", SETTING | {BROKER: "nope"})),
    (K.INCREMENTAL_ALTER_CONFIGS, 1, settings("configs", NEW_SETTING)),
    (K.ALTER_CONFIGS, 2, settings("configs", NEW_SETTING)),
    (K.DESCRIBE_LOG_DIRS, 4, {"topics": []}),
    (
        K.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": name, "count": 5, "assignments": None} for name in (*BOTH, "nope")],
            "timeout_ms": 1_000,
            "validate_only": True,
        },
    ),
    (K.DELETE_GROUPS, 2, {"groups_names": ["gone", "h"]}),
    *(
        (
            K.OFFSET_DELETE,
            0,
            {
                "group_id": group,
                "topics": [
                    {"name": name, "partitions": [{"partition_index": 1}]}
                    for name in (*BOTH, "nope")
                ],
            },
        )
        for group in ("g", "h")
    ),
    admin_recording.level(99, 1),
    admin_recording.cluster(0, 1, operations=True),
    (
        K.DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": name, "partition_indexes": [1]} for name in (*BOTH, "nope")]},
    ),
    (K.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["x", "z"]}),
    (K.LIST_TRANSACTIONS, 1, {"state_filters": [], "producer_id_filters": []}),
    admin_recording.resources(1),
    admin_recording.resources(0),
    admin_recording.partitions("t", "other", "nope"),
    admin_recording.partitions(),
    *(
        (K.CONSUMER_GROUP_HEARTBEAT, 1, alive(group, *topics))
        for group, topics in (("g", ()), ("g", ("t",)), ("g", BOTH), ("h", ("t",)))
    ),
    (
        K.CONSUMER_GROUP_DESCRIBE,
        1,
        {"group_ids": ["g", "h"], "include_authorized_operations": True},
    ),
    (K.CREATE_ACLS, 3, creations(NOBODYS_ACL)),
    (K.DESCRIBE_ACLS, 3, ANY_ACL),
    (K.DELETE_ACLS, 3, {"filters": [ANY_ACL]}),
    (K.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "nobody"}]}),
    (
        K.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
    ),
    cluster_recording.reassignments(("t", [0]), ("nope", [0])),
    cluster_recording.reassign(("t", 0, None), ("nope", 0, [1])),
    *(cluster_recording.elect(0, ("t", [0]), ("nope", [0]), version=version) for version in (0, 2)),
    cluster_recording.move_to("/nope", ("t", [0, 1]), ("nope", [0])),
    cluster_recording.matching(("user", 0, "nobody")),
    cluster_recording.quotas(
        cluster_recording.entity(user="u"), cluster_recording.PRODUCED, only=True
    ),
    cluster_recording.quorum(("t", [0])),
    cluster_recording.quorum(("t", [0]), version=0),
    (K.UNREGISTER_BROKER, 0, {"broker_id": 9}),
    *cluster_recording.TOKENS,
]


def only(**changes: Any) -> dict[str, Any]:
    return ANY_ACL | {"principal_filter": None} | changes


def one(**changes: Any) -> dict[str, Any]:
    [row] = creations(NOBODYS_ACL)["creations"]
    return {"creations": [row | changes]}


def scram(name: str = "s", mechanism: int = 1, iterations: int = 4_096, times: int = 1) -> Any:
    row = {"name": name, "mechanism": mechanism, "iterations": iterations}
    row |= {"salt": b"salt", "salted_password": b"p" * 32}
    return {"deletions": [], "upsertions": [row] * times}


def no_scram(name: str, mechanism: int = 1) -> Any:
    return {"deletions": [{"name": name, "mechanism": mechanism}], "upsertions": []}


def users(*names: str) -> Any:
    return {"users": [{"name": name} for name in names]}


ALTER_SCRAM, DESCRIBE_SCRAM = K.ALTER_USER_SCRAM_CREDENTIALS, K.DESCRIBE_USER_SCRAM_CREDENTIALS
ADMINISTRATION: list[tuple[ApiKey, int, dict[str, Any]]] = [
    (K.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
    (K.SASL_AUTHENTICATE, 1, {"auth_bytes": b""}),
    (K.CREATE_ACLS, 3, one()),
    (K.CREATE_ACLS, 3, one()),
    (K.CREATE_ACLS, 1, one(resource_pattern_type=PREFIXED)),
    (K.CREATE_ACLS, 3, one(resource_pattern_type=1)),
    (K.CREATE_ACLS, 3, one(resource_pattern_type=2)),
    (K.CREATE_ACLS, 3, one(resource_pattern_type=9)),
    (K.CREATE_ACLS, 3, one(resource_type=1)),
    (K.CREATE_ACLS, 3, one(resource_type=0)),
    (K.CREATE_ACLS, 3, one(resource_type=CLUSTER)),
    (K.CREATE_ACLS, 3, one(resource_name="")),
    (K.CREATE_ACLS, 3, one(resource_type=CLUSTER, resource_name="")),
    (K.CREATE_ACLS, 3, one(operation=1)),
    (K.CREATE_ACLS, 3, one(operation=0)),
    (K.CREATE_ACLS, 3, one(permission_type=1)),
    (K.CREATE_ACLS, 3, one(principal="somebody")),
    (K.CREATE_ACLS, 3, one(principal="")),
    (K.CREATE_ACLS, 3, one(principal=":")),
    (K.CREATE_ACLS, 3, one(principal="Group:x", host="")),
    (K.CREATE_ACLS, 3, one(host="10.0.0.1", operation=WRITE)),
    (K.CREATE_ACLS, 3, one(resource_name="*")),
    (K.CREATE_ACLS, 3, one(operation=IDEMPOTENT_WRITE)),
    (K.DESCRIBE_ACLS, 3, ANY_ACL),
    (K.DESCRIBE_ACLS, 3, only(resource_type_filter=TOPIC, resource_name_filter="t")),
    *(
        (
            K.DESCRIBE_ACLS,
            3,
            only(resource_name_filter="t", pattern_type_filter=pattern, host_filter="*"),
        )
        for pattern in (0, 1, 2, 3, 4)
    ),
    (K.DESCRIBE_ACLS, 3, only(operation=READ, principal_filter="User:reader")),
    (K.DESCRIBE_ACLS, 3, only(permission_type=DENY)),
    (K.DESCRIBE_ACLS, 3, only(host_filter="10.0.0.1")),
    (K.DESCRIBE_ACLS, 3, only(resource_type_filter=9)),
    (K.DESCRIBE_ACLS, 1, only(resource_type_filter=CLUSTER)),
    (K.DELETE_ACLS, 3, {"filters": [ANY_ACL, only(host_filter="10.0.0.1")]}),
    (K.DELETE_ACLS, 3, {"filters": [ANY_ACL]}),
    (K.DELETE_ACLS, 3, {"filters": [only(principal_filter="Group:x")]}),
    (K.DESCRIBE_ACLS, 3, ANY_ACL),
    (DESCRIBE_SCRAM, 0, users("s")),
    (ALTER_SCRAM, 0, scram()),
    (DESCRIBE_SCRAM, 0, users("s")),
    (DESCRIBE_SCRAM, 0, users("s", "s")),
    (DESCRIBE_SCRAM, 0, {"users": None}),
    (DESCRIBE_SCRAM, 0, users("nope")),
    (ALTER_SCRAM, 0, scram(mechanism=2, iterations=8_192)),
    (DESCRIBE_SCRAM, 0, users()),
    (ALTER_SCRAM, 0, scram(iterations=4_095)),
    (ALTER_SCRAM, 0, scram(iterations=16_385)),
    (ALTER_SCRAM, 0, scram(mechanism=0)),
    (ALTER_SCRAM, 0, scram(mechanism=7)),
    (ALTER_SCRAM, 0, scram(name="")),
    (ALTER_SCRAM, 0, scram(times=2)),
    (ALTER_SCRAM, 0, scram() | {"deletions": no_scram("s")["deletions"]}),
    (ALTER_SCRAM, 0, scram(mechanism=2) | {"deletions": no_scram("s")["deletions"]}),
    (ALTER_SCRAM, 0, no_scram("nope")),
    (ALTER_SCRAM, 0, no_scram("s", 2)),
    (DESCRIBE_SCRAM, 0, {"users": None}),
]

TOPICS: list[tuple[ApiKey, int, dict[str, Any]]] = [
    (
        K.CREATE_TOPICS,
        7,
        {"topics": [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in BOTH]},
    ),
    (K.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"], "key_type": 0}),
    (K.FIND_COORDINATOR, 4, {"coordinator_keys": ["x"], "key_type": 1}),
    (K.INIT_PRODUCER_ID, 4, {"transactional_id": "x", "transaction_timeout_ms": 60_000}),
    (
        K.OFFSET_COMMIT,
        8,
        {**NO_MEMBER, "group_id": "g", "topics": committed(*BOTH)},
    ),
]

REQUESTS: list[Request] = [
    *((ADMIN, *request) for request in TOPICS),
    (ADMIN, K.CREATE_ACLS, 3, creations(ACLS)),
    *((user, *request) for user in USERS for request in EACH),
    *((ADMIN, *request) for request in ADMINISTRATION),
]
REPLACED = {
    "producer_id": 0,
    "cluster_id": "",
    "port": 0,
    "log_dir": "",
    "total_bytes": 0,
    "usable_bytes": 0,
    "throttle_time_ms": 0,
    "leader_epoch": 0,
    "partition_size": 0,
}
LENIENT: list[Request] = [
    *((ADMIN, *request) for request in TOPICS[:2]),
    *(
        (user, *request)
        for acls in (
            allow("reader", TOPIC, "t", READ),
            allow("reader", TOPIC, "oth", READ, pattern=PREFIXED),
            deny("reader", GROUP, "g", READ),
            allow("writer", TOPIC, "*", WRITE),
        )
        for user, request in (
            (ADMIN, (K.CREATE_ACLS, 3, creations(acls))),
            *(
                (user, request)
                for user in ("nobody", "reader", "writer")
                for request in (
                    (K.METADATA, 12, metadata(["t", "other", "nope"])),
                    (K.HEARTBEAT, 3, MEMBER),
                    (
                        K.INIT_PRODUCER_ID,
                        4,
                        {"transactional_id": None, "transaction_timeout_ms": 1},
                    ),
                )
            ),
        )
    ),
]
"""For a broker with `allow.everyone.if.no.acl.found`."""
UUID_BYTES = 16
REQUEST_TEXT = re.compile(r"Request .* needs")


def with_ids(value: Any, ids: Mapping[str, bytes]) -> Any:
    """A body with topics' ids for their names."""
    if isinstance(value, list):
        return [with_ids(item, ids) for item in value]
    if isinstance(value, dict):
        return {
            key: ids[item.decode()]
            if key == "topic_id" and item.decode() in ids
            else bytes(16)
            if key == "topic_id"
            else with_ids(item, ids)
            for key, item in value.items()
        }
    return value


def find_ids(ask: Ask) -> dict[str, bytes]:
    answer = ask(ADMIN, K.METADATA, 12, metadata(None))
    return {topic["name"]: topic["topic_id"] for topic in answer["topics"]}


def normalized(value: Any, ids: Mapping[str, bytes]) -> Any:
    """An answer without what differs from run to run; rows in an order of their own."""
    if isinstance(value, list):
        rows = (row for row in value if not is_other(row))
        return sorted((normalized(row, ids) for row in rows), key=repr)
    if isinstance(value, dict):
        rest = REPLACED | ({"host": ""} if "port" in value else {})
        return {key: rest.get(key, normalized(item, ids)) for key, item in value.items()}
    if isinstance(value, bytes):
        names = {topic_id: name for name, topic_id in ids.items()}
        return names.get(value, "") if len(value) == UUID_BYTES else value.hex()
    return REQUEST_TEXT.sub("Request needs", value) if isinstance(value, str) else value


def is_other(row: Any) -> bool:
    return isinstance(row, dict) and row.get("name") in admin_recording.OTHERS


def record(ask: Ask, requests: list[Request]) -> Iterator[list[Any]]:
    """Each request with its answer."""
    ids: dict[str, bytes] = {}
    for user, api_key, version, body in requests:
        answer = ask(user, api_key, version, with_ids(body, ids))
        ids = ids or find_ids(ask)
        yield [user, api_key.name, version, normalized(answer, ids)]
