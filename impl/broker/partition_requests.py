"""Handlers of partitions: CreatePartitions, DescribeTopicPartitions, DescribeLogDirs.

Sources: `ReplicationControlManager.createPartitions`, `DescribeTopicPartitionsRequestHandler`
(KIP-966), `KafkaApis.handleDescribeLogDirsRequest`; answers of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from impl.broker.controller_requests import refuse_without_time
from impl.broker.handler import Handler, HandlerContext
from impl.broker.metadata_requests import topic_row
from impl.broker.outputs import DecodedRequest
from impl.broker.replicas import check_replicas, check_running, misplaced
from impl.broker.topic_refused import TopicRefused
from impl.broker.topics import Topic, is_legal_name
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from impl.security.acls import ResourceType

_E: Final = ErrorCode

MAX_DESCRIBED_PARTITIONS: Final = 2_000
"""max.request.partition.size.limit"""


# ---- CreatePartitions


def create_partitions(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Each topic by itself; one that is requested twice is refused once."""
    names = Counter(asked["name"] for asked in request.body["topics"])
    by_name = {asked["name"]: asked for asked in request.body["topics"]}
    rows = []
    for name, asked in by_name.items():
        row = {"name": name, "error_code": _E.NONE}
        try:
            if names[name] > 1:
                raise TopicRefused(_E.INVALID_REQUEST, "Duplicate topic name.")
            _create_partitions(node, asked, request.body["validate_only"])
        except TopicRefused as refusal:
            row |= {"error_code": refusal.error, "error_message": str(refusal) or None}
        rows.append(row)
    return {"results": rows}


def _create_partitions(node: HandlerContext, asked: Value, validate_only: bool) -> None:
    """Raises `TopicRefused`."""
    name, count = asked["name"], asked["count"]
    topic = node.topics.get(name)
    if topic is None:
        raise TopicRefused(_E.UNKNOWN_TOPIC_OR_PARTITION, "")
    existing = len(topic.partitions)
    if count == existing:
        raise TopicRefused(_E.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if count < existing:
        problem = (
            f"The topic {name} currently has {existing} partition(s);"
            f" {count} would not be an increase."
        )
        raise TopicRefused(_E.INVALID_PARTITIONS, problem)
    more = count - existing
    replicas = _assigned(node, topic, asked["assignments"], more)
    if topic.is_internal:
        problem = "coordinators place their state by the number of its partitions"
        raise TopicRefused(_E.INVALID_REQUEST, problem)
    node.topics.add_partitions(topic, more, replicas=replicas, validate_only=validate_only)


def _assigned(
    node: HandlerContext, topic: Topic, assignments: list[Value] | None, more: int
) -> list[list[int]]:
    """The nodes that the request names for its partitions. Raises `TopicRefused`."""
    if assignments is None:
        return []
    if len(assignments) != more:
        raise misplaced(
            f"Attempted to add {more} additional partition(s), but only"
            f" {len(assignments)} assignment(s) were specified."
        )
    replicas = [row["broker_ids"] for row in assignments]
    for node_ids in replicas:
        check_replicas(node_ids, node.cluster.registered_ids, topic.replication_factor)
    for index, node_ids in enumerate(replicas, len(topic.partitions)):
        check_running(node_ids, node.cluster.brokers, index)
    return replicas


# ---- DescribeTopicPartitions


def describe_topic_partitions(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Topics by name from the cursor on, up to a number of partitions in all."""
    body, cursor = request.body, request.body["cursor"]
    names = [row["name"] for row in body["topics"]]
    error = _wrong_request(names, cursor)
    if error:
        return {"topics": [_missing(name, error) for name in names], "next_cursor": None}
    wanted = sorted(set(names) or {topic.name for topic in node.topics})
    first = (cursor["topic_name"], cursor["partition_index"]) if cursor else ("", 0)
    left = max(1, min(body["response_partition_limit"], MAX_DESCRIBED_PARTITIONS))
    rows: list[Value] = []
    for name in (name for name in wanted if name >= first[0]):
        if not left:
            return _page(rows, name, 0)
        start = first[1] if name == first[0] else 0
        topic = node.topics.get(name)
        row = _described(node, topic, start, left) if topic else _unknown(name)
        operations = node.authorized_operations(request, ResourceType.TOPIC, name)
        rows.append(row | {"topic_authorized_operations": operations})
        left -= len(rows[-1]["partitions"])
        if topic and start + len(rows[-1]["partitions"]) < len(topic.partitions):
            return _page(rows, name, start + len(rows[-1]["partitions"]))
    return {"topics": rows, "next_cursor": None}


def _page(rows: list[Value], name: str, partition: int) -> Value:
    return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": partition}}


def _wrong_request(names: list[str], cursor: Value | None) -> ErrorCode:
    if "" in names:
        return _E.UNKNOWN_SERVER_ERROR
    if cursor and (cursor["partition_index"] < 0 or (names and cursor["topic_name"] not in names)):
        return _E.INVALID_REQUEST
    return _E.NONE


def _described(node: HandlerContext, topic: Topic, start: int, limit: int) -> Value:
    """QUIRK: a partition without a leader is no error here, as it is one in Metadata."""
    row = topic_row(node, topic)
    for partition, placement in zip(row["partitions"], topic.placements, strict=True):
        partition |= {
            "error_code": _E.NONE,
            "eligible_leader_replicas": list(placement.eligible),
            "last_known_elr": placement.last_leaders,
        }
    partitions = row["partitions"][start : start + limit]
    return row | {"partitions": partitions}


def _unknown(name: str) -> Value:
    is_legal = is_legal_name(name)
    error = _E.UNKNOWN_TOPIC_OR_PARTITION if is_legal else _E.INVALID_TOPIC_EXCEPTION
    return _missing(name, error)


def _missing(name: str, error: ErrorCode) -> Value:
    return {"error_code": error, "name": name, "topic_id": ZERO_UUID, "partitions": []}


# ---- DescribeLogDirs


def describe_log_dirs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The sizes of this node's partitions, bytes; null topics ask for all."""
    asked = request.body["topics"]
    wanted = {(row["topic"], index) for row in asked or () for index in row["partitions"]}
    topics = topic_rows(
        (topic.name, row)
        for topic in node.topics
        for row in _sizes(node, topic)
        if asked is None or (topic.name, row["partition_index"]) in wanted
    )
    directory: Value = {"error_code": _E.NONE, "log_dir": node.cluster.log_dir, "topics": topics}
    with suppress(OSError):  # the volume is gone: its size stays unknown
        directory |= node.cluster.log_dir_space._asdict()
    return {"error_code": _E.NONE, "results": [directory]}


def _sizes(node: HandlerContext, topic: Topic) -> Iterator[Value]:
    placed = zip(topic.partitions, topic.placements, strict=True)
    for index, (leader, placement) in enumerate(placed):
        if node.config.node_id in placement.replicas:
            size = leader.log.size_bytes
            row = {"partition_index": index, "partition_size": size}
            yield row | {"offset_lag": 0, "is_future_key": False}


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.CREATE_PARTITIONS: refuse_without_time(create_partitions),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
        ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    }
)
