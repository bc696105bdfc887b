"""Handlers of replicas: ListPartitionReassignments, AlterPartitionReassignments, ElectLeaders,
AlterReplicaLogDirs.

All replicas of a partition share one log. So a reassignment copies nothing, and is over when it is
answered.

Sources: `ReplicationControlManager.alterPartitionReassignments`, `electLeaders`,
`ReplicaManager.alterReplicaLogDirs`; answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.controller_requests import refuse_without_time
from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.broker.replicas import ReplicaPlacement, check_replicas
from impl.broker.topic_refused import TopicRefused
from impl.broker.topics import MAX_NAME_CHARS, Topic
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

_E: Final = ErrorCode

PREFERRED: Final = 0
UNCLEAN: Final = 1
_UNAVAILABLE: Final = {
    PREFERRED: (_E.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    UNCLEAN: (
        _E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
"""What an election of each type says of a partition whose broker is down. `ElectionType`."""
_ELECTED: Final = (_E.NONE, None)
_NOT_NEEDED: Final = (_E.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


# ---- reassignments


def list_partition_reassignments(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value:
    """None is ever under way, of no topic or partition."""
    return {"error_code": _E.NONE, "topics": []}


def alter_partition_reassignments(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value:
    """Give partitions other replicas, each by itself."""
    body = request.body
    may_grow = body["allow_replication_factor_change"]
    responses = [
        {
            "name": topic["name"],
            "partitions": [
                _reassign(node, topic["name"], row, may_grow) for row in topic["partitions"]
            ],
        }
        for topic in body["topics"]
    ]
    return {
        "allow_replication_factor_change": may_grow,
        "error_code": _E.NONE,
        "error_message": None if responses else "",
        "responses": responses,
    }


def _reassign(node: HandlerContext, name: str, asked: Value, may_grow: bool) -> Value:
    index = asked["partition_index"]
    row: Value = {"partition_index": index, "error_code": _E.NONE}
    try:
        topic = _topic_with(node, name, index)
        if asked["replicas"] is None:
            raise TopicRefused(_E.NO_REASSIGNMENT_IN_PROGRESS, "")
        before = topic.placements[index]
        replicas = _new_replicas(node, before, asked["replicas"], may_grow)
        placement = before.reassign(replicas, node.cluster.brokers)
        elects = not set(before.replicas) <= set(replicas)
        node.cluster.place(topic, index, placement, elects=elects)
    except TopicRefused as refusal:
        row |= {"error_code": refusal.error, "error_message": str(refusal) or None}
    return row


def _topic_with(node: HandlerContext, name: str, index: int) -> Topic:
    """The topic with this partition. Raises `TopicRefused`."""
    topic = node.topics.get(name)
    if topic is None:
        raise TopicRefused(_E.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if topic.partition(index) is None:
        problem = f"Unable to find partition {name}:{index}."
        raise TopicRefused(_E.UNKNOWN_TOPIC_OR_PARTITION, problem)
    return topic


def _new_replicas(
    node: HandlerContext, before: ReplicaPlacement, replicas: list[int], may_change: bool
) -> list[int]:
    """The nodes that a reassignment names. Raises `TopicRefused`."""
    check_replicas(replicas, node.cluster.registered_ids)
    count = len(before.replicas)
    if len(replicas) != count and not may_change:
        problem = f"The replication factor is changed from {count} to {len(replicas)}"
        raise TopicRefused(_E.INVALID_REPLICATION_FACTOR, problem)
    return replicas


# ---- elections


def elect_leaders(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Elect leaders of partitions, null for all; of all, those without need are left out."""
    kind, asked = request.body["election_type"], request.body["topic_partitions"]
    if kind not in _UNAVAILABLE:
        text = f"Unknown election type {kind}"
        return _elected(_E.INVALID_REQUEST, _each_row(asked or (), (_E.INVALID_REQUEST, text)))
    if asked is None:
        return _elected(_E.NONE, [_elected_of(node, topic, kind) for topic in node.topics])
    rows = [
        {
            "topic": topic["topic"],
            "partition_result": [
                _row(index, *_election(node, topic["topic"], index, kind))
                for index in topic["partitions"]
            ],
        }
        for topic in asked
    ]
    return _elected(_E.NONE, rows)


def _elected(error: ErrorCode, rows: list[Value]) -> Value:
    return {"error_code": error, "replica_election_results": rows}


def _each_row(asked: Iterable[Value], problem: tuple[ErrorCode, str]) -> list[Value]:
    return [
        {
            "topic": topic["topic"],
            "partition_result": [_row(index, *problem) for index in topic["partitions"]],
        }
        for topic in asked
    ]


def _row(index: int, error: ErrorCode, text: str | None) -> Value:
    return {"partition_id": index, "error_code": error, "error_message": text}


def _elected_of(node: HandlerContext, topic: Topic, kind: int) -> Value:
    found = [_election(node, topic.name, index, kind) for index in range(len(topic.partitions))]
    rows = [_row(index, *each) for index, each in enumerate(found) if each is not _NOT_NEEDED]
    return {"topic": topic.name, "partition_result": rows}


def _election(
    node: HandlerContext, name: str, index: int, kind: int
) -> tuple[ErrorCode, str | None]:
    """`ReplicationControlManager.electLeader`."""
    topic = node.topics.get(name)
    if topic is None:
        return _E.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if topic.partition(index) is None:
        return _E.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    before = topic.placements[index]
    if before.is_led and (kind == UNCLEAN or before.leader_id == before.replicas[0]):
        return _NOT_NEEDED
    running = node.cluster.brokers
    is_unclean = kind == UNCLEAN
    after = before.settle(running, 1, is_unclean=True) if is_unclean else before.prefer()
    if after == before:
        return _UNAVAILABLE[kind]
    node.cluster.place(topic, index, after)
    return _ELECTED


# ---- log directories


def alter_replica_log_dirs(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Move replicas to a directory of the node: to the only one, where they are."""
    wanted = {
        (topic["name"], index): directory["path"]
        for directory in request.body["dirs"]
        for topic in directory["topics"]
        for index in topic["partitions"]
    }
    rows = [
        (name, {"partition_index": index, "error_code": _error_of_move(node, path, name, index)})
        for (name, index), path in wanted.items()
    ]
    return {"results": topic_rows(rows, "topic_name")}


def _error_of_move(node: HandlerContext, path: str, name: str, index: int) -> ErrorCode:
    if path != node.cluster.log_dir:
        return _E.LOG_DIR_NOT_FOUND
    if len(name) > MAX_NAME_CHARS:
        return _E.INVALID_TOPIC_EXCEPTION
    topic = node.topics.get(name)
    if topic is None or topic.partition(index) is None:
        return _E.UNKNOWN_TOPIC_OR_PARTITION
    is_here = node.config.node_id in topic.placements[index].replicas
    return _E.NONE if is_here else _E.REPLICA_NOT_AVAILABLE


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: refuse_without_time(alter_partition_reassignments),
        ApiKey.ELECT_LEADERS: refuse_without_time(elect_leaders),
        ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    }
)
