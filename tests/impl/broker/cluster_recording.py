"""Requests about the cluster as a whole and what a real broker answered, to be compared with ours.

`clustered_kafka` records them of a 4.3.1 of one node. What differs from run to run is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from impl.protocol.schemas import ApiKey
from tests.impl.broker.admin_recording import SAFE, UNSAFE, UP, level

Ask = Callable[[ApiKey, int, dict[str, Any]], Any]
Request = tuple[ApiKey, int, dict[str, Any]]

ANY_ACL = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter"), 1),
    **dict.fromkeys(("operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
PREFERRED, UNCLEAN = 0, 1
EXACT, DEFAULT, ANY = 0, 1, 2
REPLACED = {
    "topic_id": "",
    "host": "",
    "port": 0,
    "replica_directory_id": "",
    "leader_epoch": 0,
    "high_watermark": 0,
    "log_end_offset": 0,
    "last_fetch_timestamp": 0,
    "last_caught_up_timestamp": 0,
    "throttle_time_ms": 0,
}
LOG_DIR = "LOG_DIR"
"""Stands in requests for the node's log directory."""

K = ApiKey


def created(
    name: str,
    count: int = 1,
    factor: int = 1,
    *placed: tuple[int, list[int]],
    config: tuple[str, str] | None = None,
) -> Request:
    row = {
        "name": name,
        "num_partitions": count,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in placed],
        "configs": [{"name": config[0], "value": config[1]}] if config else [],
    }
    return K.CREATE_TOPICS, 4, {"topics": [row]}


BAD = ("retention.ms", "x")
REFUSED_TOPICS: list[Request] = [
    *map(created, ("bad name", "", ".", "..", "x" * 250, "a/b", "\xfc")),
    *(created("a", *numbers) for numbers in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 3))),
    *(created("a", *numbers) for numbers in ((-2, -2), (0, 0), (0, 3))),
    created("a", -1, -1, (0, [7])),
    created("a", -1, -1, (1, [1])),
    created("a", -1, -1, (-1, [1])),
    created("a", -1, -1, (0, [1]), (0, [1])),
    created("a", -1, -1, (0, [1]), (2, [1])),
    created("a", -1, -1, (0, [])),
    created("a", -1, -1, (0, [1, 1])),
    created("a", -1, -1, (0, [1]), (1, [1, 7])),
    created("a", -1, -1, (1, [7])),
    *(created("a", *numbers, (0, [1])) for numbers in ((1, -1), (-1, 1), (1, 1))),
    created("bad name", 0, 0, config=BAD),
    created("a", 0, config=BAD),
    created("a", 1, 3, config=BAD),
    created("a", 1, 0, config=("nope", "x")),
    created("a", -1, -1, (0, [7]), config=BAD),
    created("e.x"),
    created("e_x"),
    created("e.x", 0, config=BAD),
    (K.DELETE_TOPICS, 3, {"topic_names": ["e.x"], "timeout_ms": 5_000}),
    created("e_x"),
    (K.DELETE_TOPICS, 3, {"topic_names": ["e_x"], "timeout_ms": 5_000}),
    (K.DESCRIBE_ACLS, 3, ANY_ACL),
]


# ---- replicas


def reassignments(*rows: tuple[str, list[int]], every: bool = False) -> Request:
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in rows]
    return K.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None if every else topics}


def reassign(
    *rows: tuple[str, int, list[int] | None], version: int = 1, may: bool = True
) -> Request:
    topics: dict[str, list[Any]] = {}
    for name, index, replicas in rows:
        row = {"partition_index": index, "replicas": replicas}
        topics.setdefault(name, []).append(row)
    body = {"topics": [{"name": name, "partitions": each} for name, each in topics.items()]}
    return K.ALTER_PARTITION_REASSIGNMENTS, version, body | {"allow_replication_factor_change": may}


def elect(
    kind: int, *rows: tuple[str, list[int]], every: bool = False, version: int = 2
) -> Request:
    topics = [{"topic": topic, "partitions": indexes} for topic, indexes in rows]
    body = {"election_type": kind, "topic_partitions": None if every else topics}
    return K.ELECT_LEADERS, version, body


def move_to(path: str, *rows: tuple[str, list[int]], version: int = 2) -> Request:
    topics = [{"name": name, "partitions": indexes} for name, indexes in rows]
    return K.ALTER_REPLICA_LOG_DIRS, version, {"dirs": [{"path": path, "topics": topics}]}


def same_topic_twice(request: Request) -> Request:
    api_key, version, body = request
    return api_key, version, body | {"topics": body["topics"] * 2}


REPLICAS: list[Request] = [
    created("t", 2),
    reassignments(every=True),
    reassignments(),
    reassignments(("t", [0, 1])),
    reassignments(("t", [9]), ("nope", [0])),
    reassign(("t", 0, [1])),
    reassign(("t", 0, [1]), version=0),
    reassign(("t", 0, None), ("t", 1, [1])),
    reassign(("t", 0, [9])),
    reassign(("t", 0, [1, 9])),
    reassign(("t", 0, [1, 1])),
    reassign(("t", 0, [])),
    reassign(("t", 0, [-1])),
    reassign(("t", 9, [1]), ("nope", 0, [1])),
    reassign(("t", 9, None), ("nope", 0, None)),
    reassign(("t", 9, [9]), ("nope", 0, [9])),
    reassign(("", 0, [1])),
    reassign(("t", 0, [1]), ("t", 0, [9])),
    reassign(("t", 0, [1, 2]), may=False),
    reassign(("t", 0, [1]), may=False),
    same_topic_twice(reassign(("t", 0, [1]))),
    reassign(),
    elect(PREFERRED, ("t", [0, 1])),
    elect(PREFERRED, ("t", [9]), ("nope", [0])),
    elect(PREFERRED, ("t", [0, 0])),
    elect(PREFERRED),
    elect(PREFERRED, every=True),
    elect(PREFERRED, ("t", [0]), version=0),
    elect(PREFERRED, every=True, version=0),
    elect(UNCLEAN, ("t", [0]), version=1),
    elect(UNCLEAN, ("t", [9]), ("nope", [0])),
    elect(UNCLEAN, every=True),
    elect(2, ("t", [0])),
    elect(2, every=True),
    move_to("/nope", ("t", [0, 9]), ("nope", [0])),
    move_to("nope", ("t", [0]), version=1),
    move_to("", ("t", [0])),
    move_to("/nope"),
    move_to(LOG_DIR, ("t", [0, 9]), ("nope", [0])),
]


# ---- quotas


def entity(**names: str | None) -> list[dict[str, Any]]:
    return [
        {"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()
    ]


def quotas(
    names: list[dict[str, Any]], *ops: tuple[str, float | None], only: bool = False, times: int = 1
) -> Request:
    rows = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops]
    body = {"entries": [{"entity": names, "ops": rows}] * times, "validate_only": only}
    return K.ALTER_CLIENT_QUOTAS, 1, body


def matching(
    *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Request:
    rows = [
        {"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components
    ]
    return K.DESCRIBE_CLIENT_QUOTAS, version, {"components": rows, "strict": strict}


def two_quotas(*requests: Request) -> Request:
    entries = [row for request in requests for row in request[2]["entries"]]
    return K.ALTER_CLIENT_QUOTAS, 0, {"entries": entries, "validate_only": False}


PRODUCED = ("producer_byte_rate", 1_000_000.0)
CONNECTED = ("connection_creation_rate", 5.0)
QUOTAS: list[Request] = [
    matching(),
    quotas(entity(client_id="c"), PRODUCED),
    quotas(entity(client_id="c"), ("consumer_byte_rate", 7.0), ("request_percentage", 0.5)),
    quotas(entity(client_id=None), PRODUCED),
    quotas(entity(user="u"), PRODUCED, ("controller_mutation_rate", 1.5)),
    quotas(entity(user=None), PRODUCED),
    quotas(entity(user="u", client_id="c"), PRODUCED),
    quotas(entity(client_id="d", user=None), PRODUCED),
    quotas(entity(ip="127.0.0.1"), CONNECTED),
    quotas(entity(ip=None), CONNECTED),
    quotas(entity(ip="not an ip"), CONNECTED),
    quotas(entity(ip="::1"), CONNECTED),
    quotas(entity(ip="127.0.0.1", user="u"), CONNECTED),
    quotas(entity(ip="127.0.0.1", client_id="u"), PRODUCED),
    quotas(entity(ip="127.0.0.1"), PRODUCED),
    quotas(entity(user="u"), CONNECTED),
    quotas(entity(foo="u"), PRODUCED),
    quotas(entity(user="u", foo="u"), PRODUCED),
    quotas([], PRODUCED),
    quotas(entity(user=""), PRODUCED),
    quotas(entity(user="a") + entity(user="b"), PRODUCED),
    quotas(entity(user="u"), ("nope", 1.0)),
    quotas(entity(user="u"), ("nope", None)),
    quotas(entity(user="v"), ("producer_byte_rate", 0.0)),
    quotas(entity(user="v"), ("producer_byte_rate", -1.0)),
    quotas(entity(user="v"), ("producer_byte_rate", 0.5)),
    quotas(entity(user="v"), ("producer_byte_rate", 1e300)),
    quotas(entity(user="v"), ("consumer_byte_rate", 2.5)),
    quotas(entity(user="v"), ("request_percentage", 1e300)),
    quotas(entity(user="v"), ("controller_mutation_rate", 0.1)),
    quotas(entity(user="v"), ("request_percentage", 0.0)),
    quotas(entity(ip="10.0.0.1"), ("connection_creation_rate", 1.5)),
    quotas(entity(ip="10.0.0.1"), ("connection_creation_rate", 1e12)),
    quotas(entity(ip="10.0.0.1"), ("connection_creation_rate", -1.0)),
    quotas(entity(user="w"), ("producer_byte_rate", None)),
    quotas(entity(user="w"), ("nope", None), PRODUCED),
    quotas(entity(user="only"), PRODUCED, only=True),
    quotas(entity(user="v"), ("consumer_byte_rate", 2.0000001)),
    quotas(entity(user="v"), ("consumer_byte_rate", 0.0000001)),
    quotas(entity(ip="", user="v"), CONNECTED),
    quotas(entity(ip="not an ip"), ("nope", None)),
    quotas(entity(user="w"), ("nope", 1.0), only=True),
    quotas(entity(user="w")),
    quotas(entity(user="x"), ("producer_byte_rate", 5.0), ("producer_byte_rate", 6.0)),
    quotas(entity(user="y"), ("producer_byte_rate", 5.0), times=2),
    two_quotas(
        quotas(entity(user="z"), ("producer_byte_rate", 5.0)),
        quotas(entity(user="z"), ("nope", 5.0)),
        quotas(entity(user="a"), ("consumer_byte_rate", 5.0)),
    ),
    matching(),
    matching(version=0),
    matching(strict=True),
    matching(("user", EXACT, "u")),
    matching(("user", EXACT, "u"), strict=True),
    matching(("user", EXACT, "u"), ("client-id", ANY, None)),
    matching(("user", DEFAULT, None)),
    matching(("user", DEFAULT, None), strict=True),
    matching(("user", ANY, None)),
    matching(("user", ANY, None), strict=True),
    matching(("client-id", ANY, None), strict=True),
    matching(("client-id", EXACT, "c")),
    matching(("ip", ANY, None)),
    matching(("ip", EXACT, "127.0.0.1"), strict=True),
    matching(("ip", EXACT, "nope"), strict=True),
    matching(("ip", ANY, None), ("user", ANY, None)),
    matching(("user", EXACT, None)),
    matching(("user", DEFAULT, "u")),
    matching(("user", ANY, "u")),
    matching(("user", 3, None)),
    matching(("foo", 3, None), ("ip", ANY, None)),
    matching(("ip", 3, None), ("user", ANY, None)),
    matching(("user", -1, "u")),
    matching(("foo", ANY, None)),
    matching(("", ANY, None)),
    matching(("user", EXACT, "u"), ("user", ANY, None)),
    matching(("user", EXACT, "nobody")),
    quotas(entity(user="u"), ("producer_byte_rate", None), ("controller_mutation_rate", None)),
    matching(("user", EXACT, "u")),
]


# ---- the quorum, brokers, tokens


def quorum(*rows: tuple[str, list[int]], version: int = 2) -> Request:
    topics = [
        {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in rows
    ]
    return K.DESCRIBE_QUORUM, version, {"topics": topics}


OWNER = {"principal_type": "User", "principal_name": "u"}
TOKENS: list[Request] = [
    *(
        (K.CREATE_DELEGATION_TOKEN, version, {"renewers": [OWNER], "max_lifetime_ms": -1, **owner})
        for version, owner in (
            (1, {}),
            (3, {"owner_principal_type": None, "owner_principal_name": None}),
            (3, {"owner_principal_type": "User", "owner_principal_name": "o"}),
        )
    ),
    (K.RENEW_DELEGATION_TOKEN, 2, {"hmac": b"h", "renew_period_ms": -1}),
    (K.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": b"h", "expiry_time_period_ms": -1}),
    (K.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None}),
    (K.DESCRIBE_DELEGATION_TOKEN, 1, {"owners": [OWNER]}),
    (K.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": []}),
]
METADATA = "__cluster_metadata"
QUORUM: list[Request] = [
    *(quorum((METADATA, [0]), version=version) for version in range(3)),
    quorum((METADATA, [1])),
    quorum((METADATA, [0, 1])),
    quorum((METADATA, [0]), ("t", [0])),
    quorum(("t", [0])),
    quorum(),
    *((K.UNREGISTER_BROKER, 0, {"broker_id": broker_id}) for broker_id in (9, -1)),
]

LEVELS: list[Request] = [
    level(*asked, name="metadata.version")
    for asked in (
        *((30, UP), (31, UP), (29, UP), (29, SAFE), (29, UNSAFE), (6, SAFE), (0, UNSAFE)),
        *((-1, UP), (30, SAFE), (31, SAFE), (30, 9), (7, SAFE)),
    )
]

REQUESTS = [*LEVELS, *REFUSED_TOPICS, *REPLICAS, *QUOTAS, *QUORUM, *TOKENS]


def normalized(value: Any) -> Any:
    """`value` without what differs from run to run; rows in an order of their own."""
    if isinstance(value, list):
        return sorted((normalized(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {key: REPLACED.get(key, normalized(item)) for key, item in value.items()}
    return value.decode("latin-1") if isinstance(value, bytes) else value


def record(ask: Ask) -> Iterator[list[Any]]:
    """Each request by its API and version, with its answer."""
    for api_key, version, body in REQUESTS:
        yield [api_key.name, version, normalized(ask(api_key, version, body))]
