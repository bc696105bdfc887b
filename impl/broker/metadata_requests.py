"""The requests about topics: Metadata, CreateTopics, DeleteTopics, DescribeProducers.

Sources: `KafkaApis.handleTopicMetadataRequest`, `ReplicationControlManager.createTopics`,
`deleteTopics`, `ReplicaManager.activeProducerState`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.cluster_requests import NOT_REQUESTED, cluster_operations
from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.broker.topic_settings import TopicRefused, describe_settings, named_values
from impl.broker.topics import INTERNAL_TOPICS, Topic
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from impl.security.acls import ResourceType

TOPIC_IDS_FROM: Final = 12
"""The first Metadata version whose requests may name topics by id."""

DELETE_BY_ID_FROM: Final = 6

_TEXTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}


def metadata(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """All topics, or the requested ones; a missing one may be created."""
    body, asked = request.body, request.body["topics"]
    if asked is None or (request.version == 0 and not asked):
        rows = [topic_row(topic) for topic in node.topics]
    else:
        may_create = node.config.auto_create_topics and body["allow_auto_topic_creation"]
        rows = [_metadata_topic(node, request.version, topic, may_create) for topic in asked]
    return {
        "brokers": [
            broker.address(request.session.listener) for broker in node.cluster.brokers.values()
        ],
        "cluster_id": node.cluster.cluster_id,
        "controller_id": node.cluster.controller_id,
        "topics": [_with_operations(node, request, row) for row in rows],
        "cluster_authorized_operations": cluster_operations(node, request)
        if body["include_cluster_authorized_operations"]
        else NOT_REQUESTED,
    }


def _with_operations(node: HandlerContext, request: DecodedRequest, row: Value) -> Value:
    """A topic's row with what the sender may do, if it asks for that."""
    if row["error_code"] or not request.body["include_topic_authorized_operations"]:
        return row
    operations = node.authorized_operations(request, ResourceType.TOPIC, row["name"])
    return row | {"topic_authorized_operations": operations}


def _metadata_topic(node: HandlerContext, version: int, asked: Value, may_create: bool) -> Value:
    name, topic_id = asked["name"], asked["topic_id"]
    if topic_id != ZERO_UUID or name is None:
        if version < TOPIC_IDS_FROM:
            return _no_topic(ErrorCode.INVALID_REQUEST, name or "", topic_id)
        found = node.topics.find(topic_id)
        if isinstance(found, ErrorCode):
            return _no_topic(found, None, topic_id)
        return topic_row(found)
    topic = node.topics.get(name)
    if topic is None and may_create:
        try:
            topic = _auto_create(node, name)
        except TopicRefused as refusal:
            return _no_topic(refusal.error, name, ZERO_UUID)
    if topic is None:
        return _no_topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, ZERO_UUID)
    return topic_row(topic)


def _auto_create(node: HandlerContext, name: str) -> Topic:
    if name in INTERNAL_TOPICS:
        return node.coordinators.internal_topic(name)
    return node.topics.create(name, node.config.num_partitions, {})


def _no_topic(error: ErrorCode, name: str | None, topic_id: bytes) -> Value:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": []}


def topic_row(topic: Topic) -> Value:
    """A topic as Metadata and DescribeTopicPartitions show it."""
    placed = zip(topic.partitions, topic.leader_ids, strict=True)
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": ErrorCode.NONE,
                "partition_index": index,
                "leader_id": node_id,
                "leader_epoch": leader.leader_epoch,
                "replica_nodes": [node_id],
                "isr_nodes": [node_id],
            }
            for index, (leader, node_id) in enumerate(placed)
        ],
    }


def create_topics(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Create topics; a name that is requested twice is refused once."""
    body = request.body
    names = Counter(asked["name"] for asked in body["topics"])
    rows = []
    for asked in {asked["name"]: asked for asked in body["topics"]}.values():
        try:
            if names[asked["name"]] > 1:
                raise TopicRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            rows.append(_create_topic(node, asked, body["validate_only"]))
        except TopicRefused as refusal:
            name, error, text = asked["name"], refusal.error, str(refusal)
            rows.append({"name": name, "error_code": error, "error_message": text})
    return {"topics": rows}


def _create_topic(node: HandlerContext, asked: Value, validate_only: bool) -> Value:
    node.topics.check_name(asked["name"])
    configs = named_values(asked["configs"], ErrorCode.INVALID_CONFIG)
    leader_ids = _placement(asked, node.topics.node_ids)
    partitions = len(leader_ids) or _partition_count(asked, node.config.num_partitions)
    topic = node.topics.create(
        asked["name"], partitions, configs, leader_ids=leader_ids, validate_only=validate_only
    )
    described = [
        {
            "name": setting.name,
            "value": setting.value,
            "read_only": False,
            "config_source": setting.source,
            "is_sensitive": False,
        }
        for setting in describe_settings(topic.configs, node.topics.config)
    ]
    return {
        "name": topic.name,
        "topic_id": ZERO_UUID if validate_only else topic.topic_id,
        "error_code": ErrorCode.NONE,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": described,
    }


def _placement(asked: Value, node_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Where a CreateTopics row wants its partitions; () where it leaves that open.

    Raises `TopicRefused`.
    """
    assignments = asked["assignments"]
    if not assignments:
        return ()
    if asked["num_partitions"] != -1 or asked["replication_factor"] != -1:
        problem = "with assignments, num_partitions and replication_factor are -1"
        raise TopicRefused(ErrorCode.INVALID_REQUEST, problem)
    placed = {row["partition_index"]: row["broker_ids"] for row in assignments}
    is_dense = placed.keys() == set(range(len(assignments)))
    if not is_dense or any(len(ids) != 1 or ids[0] not in node_ids for ids in placed.values()):
        brokers = ", ".join(map(str, node_ids))
        problem = f"partitions count from 0, each on one broker of {brokers}"
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return tuple(placed[index][0] for index in range(len(placed)))


def _partition_count(asked: Value, default: int) -> int:
    """How many partitions a CreateTopics row wants. Raises `TopicRefused`."""
    count, factor = asked["num_partitions"], asked["replication_factor"]
    if factor not in (-1, 1):
        problem = f"replication factor {factor}; a partition has one replica here"
        raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if count == 0 or count < -1:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, f"{count} partitions")
    return default if count == -1 else int(count)


def delete_topics(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """By name, from version 6 on also by id. `ReplicationControlManager.deleteTopics`."""
    body = request.body
    if request.version >= DELETE_BY_ID_FROM:
        asked = [(row["name"], row["topic_id"]) for row in body["topics"]]
    else:
        asked = [(name, ZERO_UUID) for name in body["topic_names"]]
    return {"responses": [_delete_topic(node, name, topic_id) for name, topic_id in asked]}


def _delete_topic(node: HandlerContext, name: str | None, topic_id: bytes) -> Value:
    row: Value = {"name": name, "topic_id": topic_id}
    if (name is None) == (topic_id == ZERO_UUID):
        return row | {"error_code": ErrorCode.INVALID_REQUEST}
    topic = node.topics.find(topic_id if name is None else name)
    if isinstance(topic, ErrorCode):
        return row | {"error_code": topic, "error_message": _TEXTS.get(topic)}
    if topic.is_internal:
        problem = "coordinators keep their state in it"
        return row | {"error_code": ErrorCode.INVALID_REQUEST, "error_message": problem}
    try:
        node.topics.delete(topic)
    except TopicRefused as refusal:
        return row | {"error_code": refusal.error, "error_message": str(refusal)}
    return {"name": topic.name, "topic_id": topic.topic_id, "error_code": ErrorCode.NONE}


def describe_producers(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The producer state of partitions."""
    rows = []
    for asked in request.body["topics"]:
        topic = node.topics.get(asked["name"])
        described = [_describe_partition(node, topic, i) for i in asked["partition_indexes"]]
        rows.append({"name": asked["name"], "partitions": described})
    return {"topics": rows}


def _describe_partition(node: HandlerContext, topic: Topic | None, index: int) -> Value:
    leader = node.leader(topic, index)
    if isinstance(leader, ErrorCode):
        refused = {"error_code": leader, "error_message": _TEXTS.get(leader)}
        return refused | {"partition_index": index, "active_producers": []}
    producers = [
        {
            "producer_id": producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": entry.current_txn_first_offset,
        }
        for producer_id, entry in leader.producers.items()
    ]
    return {"partition_index": index, "error_code": ErrorCode.NONE, "active_producers": producers}


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.METADATA: metadata,
        ApiKey.CREATE_TOPICS: create_topics,
        ApiKey.DELETE_TOPICS: delete_topics,
        ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    }
)
