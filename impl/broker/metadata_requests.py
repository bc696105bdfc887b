"""The requests about topics: Metadata, CreateTopics, DeleteTopics, DescribeProducers.

Sources: `KafkaApis.handleTopicMetadataRequest`, `ReplicationControlManager.createTopics`,
`deleteTopics`, `ReplicaManager.activeProducerState`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from impl.broker.cluster import BrokerEndPoint
from impl.broker.cluster_requests import NOT_REQUESTED, cluster_operations
from impl.broker.controller_requests import refuse_without_time
from impl.broker.handler import Handler, HandlerContext
from impl.broker.node_views import topic_layers
from impl.broker.outputs import DecodedRequest
from impl.broker.refusals import refuse_request
from impl.broker.replicas import ReplicaPlacement, check_replicas, check_running, misplaced
from impl.broker.setting_views import ConfigSource, SettingView, find_all_places
from impl.broker.topic_refused import TopicRefused
from impl.broker.topic_settings import (
    describe_settings,
    log_config,
    named_values,
)
from impl.broker.topics import INTERNAL_TOPICS, Topic, explain_name, is_legal_name
from impl.log.checkpoint_files import METADATA
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from impl.security.acls import ResourceType

TOPIC_IDS_FROM: Final = 12
"""The first Metadata version whose requests may name topics by id."""

DELETE_BY_ID_FROM: Final = 6
DELETION_DISABLED_FROM: Final = 3
"""The first version of DeleteTopics with this error."""
NO_LEADER: Final = -1

MAX_REQUEST_PARTITIONS: Final = 10_000
"""How many partitions one CreateTopics may create: `MAX_PARTITIONS_PER_BATCH`."""

_BOTH: Final = "You may not specify both topic name and topic id."
_NEITHER: Final = "Neither topic name nor id were specified."
_TEXTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}


def metadata(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """All topics, or the requested ones; a missing one may be created."""
    body, asked = request.body, request.body["topics"]
    refusal = _refusal_of_ids(request.version, asked or ())
    if refusal:
        return refuse_request(request.api_key, request.version, body, refusal)
    if asked is None or (request.version == 0 and not asked):
        rows = [topic_row(node, topic) for topic in node.topics]
    else:
        rows = _metadata_topics(node, request)
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
    if row["name"] is None or not request.body["include_topic_authorized_operations"]:
        return row
    operations = node.authorized_operations(request, ResourceType.TOPIC, row["name"])
    return row | {"topic_authorized_operations": operations}


def _refusal_of_ids(version: int, asked: Iterable[Value]) -> ErrorCode:
    """Before version 12 topics are named; from 12 on one without a name needs an id.

    QUIRK: without both, it is an error of the server.
    """
    has_ids = any(row["topic_id"] != ZERO_UUID for row in asked)
    lacks_names = any(row["name"] is None for row in asked)
    if version < TOPIC_IDS_FROM:
        return ErrorCode.INVALID_REQUEST if has_ids or lacks_names else ErrorCode.NONE
    return ErrorCode.UNKNOWN_SERVER_ERROR if lacks_names and not has_ids else ErrorCode.NONE


def _metadata_topics(node: HandlerContext, request: DecodedRequest) -> list[Value]:
    """Each topic once: by name, or all by id if one has an id."""
    asked = request.body["topics"]
    ids = dict.fromkeys(row["topic_id"] for row in asked if row["topic_id"] != ZERO_UUID)
    if ids:
        return [_metadata_of_id(node, topic_id) for topic_id in ids]
    may_create = node.config.auto_create_topics and request.body["allow_auto_topic_creation"]
    names = dict.fromkeys(row["name"] for row in asked)
    return [_metadata_of_name(node, name, may_create) for name in names]


def _metadata_of_id(node: HandlerContext, topic_id: bytes) -> Value:
    found = node.topics.find(topic_id)
    if isinstance(found, ErrorCode):
        return _no_topic(found, None, topic_id)
    return topic_row(node, found)


def _metadata_of_name(node: HandlerContext, name: str, may_create: bool) -> Value:
    topic = node.topics.get(name)
    if topic is None and may_create:
        with suppress(TopicRefused):  # the controller refuses after Kafka has answered
            topic = _auto_create(node, name)
    if topic is None:
        return _no_topic(_error_of_missing(name), name, ZERO_UUID)
    return topic_row(node, topic)


def _error_of_missing(name: str) -> ErrorCode:
    """What a client learns of a topic that is not there."""
    if is_legal_name(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def _auto_create(node: HandlerContext, name: str) -> Topic:
    if name in INTERNAL_TOPICS:
        return node.coordinators.internal_topic(name)
    me = node.config
    factor = me.default_replication_factor
    return node.topics.create(name, me.num_partitions, {}, replication_factor=factor)


def _no_topic(error: ErrorCode, name: str | None, topic_id: bytes) -> Value:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": []}


def topic_row(node: HandlerContext, topic: Topic) -> Value:
    """A topic as Metadata and DescribeTopicPartitions show it."""
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            _partition_row(index, leader.leader_epoch, placement, node.cluster.brokers)
            for index, (leader, placement) in enumerate(
                zip(topic.partitions, topic.placements, strict=True)
            )
        ],
    }


def _partition_row(
    index: int, leader_epoch: int, placement: ReplicaPlacement, alive: Mapping[int, BrokerEndPoint]
) -> Value:
    """`KRaftMetadataCache.partitionMetadata`."""
    is_led = placement.is_led
    return {
        "error_code": ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": index,
        "leader_id": placement.leader_id if is_led else NO_LEADER,
        "leader_epoch": leader_epoch,
        "replica_nodes": list(placement.replicas),
        "isr_nodes": list(placement.in_sync),
        "offline_replicas": [node_id for node_id in placement.replicas if node_id not in alive],
    }


def create_topics(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Create topics; a name that is requested twice is refused once."""
    body = request.body
    unique = {asked["name"]: asked for asked in body["topics"]}
    counted = [asked for asked in body["topics"] if asked["name"] != METADATA.topic]
    if _total_partitions(counted, node.config.num_partitions) > MAX_REQUEST_PARTITIONS:
        text = "Excessively large number of partitions per request."
        error = ErrorCode.POLICY_VIOLATION
        refused = {"error_code": error, "error_message": text}
        return {"topics": [{"name": name} | refused for name in unique]}
    names = Counter(asked["name"] for asked in body["topics"])
    rows = []
    for asked in unique.values():
        try:
            if names[asked["name"]] > 1:
                raise TopicRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            rows.append(_create_topic(node, asked, body["validate_only"]))
        except TopicRefused as refusal:
            name, error, text = asked["name"], refusal.error, str(refusal)
            rows.append({"name": name, "error_code": error, "error_message": text})
    return {"topics": rows}


def _total_partitions(topics: list[Value], default: int) -> int:
    """How many partitions a request wants to create.

    `ReplicationControlManager.validateTotalNumberOfPartitions`.
    """
    counts = (
        len(asked["assignments"])
        or (default if asked["num_partitions"] == -1 else max(0, asked["num_partitions"]))
        for asked in topics
    )
    return sum(counts)


def _create_topic(node: HandlerContext, asked: Value, validate_only: bool) -> Value:
    node.topics.check_name(asked["name"])
    configs = named_values(asked["configs"], ErrorCode.INVALID_CONFIG, "topic configs")
    log_config(node.topics.config, configs)  # settings are refused before numbers
    replicas = _assigned_replicas(node, asked)
    count, factor = (len(replicas), 1) if replicas else _numbers(node, asked)
    topic = node.topics.create(
        asked["name"],
        count,
        configs,
        replication_factor=factor,
        replicas=replicas,
        validate_only=validate_only,
    )
    described = [
        {
            "name": setting.name,
            "value": _as_written(setting),
            "read_only": False,
            "config_source": setting.source,
            "is_sensitive": False,
        }
        for setting in describe_settings(
            topic.configs, node.topics.config, topic_layers(node), find_all_places
        )
    ]
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": ErrorCode.NONE,
        "num_partitions": count,
        "replication_factor": topic.replication_factor,
        "configs": described,
    }


def _as_written(setting: SettingView) -> str | None:
    """QUIRK: the value of a changed setting of brokers as it was sent."""
    places = setting.synonyms
    is_changed = bool(places) and places[0].source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    return places[0].value if is_changed else setting.value


def _assigned_replicas(node: HandlerContext, asked: Value) -> list[list[int]]:
    """Where a CreateTopics row wants its partitions; [] where it leaves that open.

    Raises `TopicRefused`.
    """
    assignments = asked["assignments"]
    if not assignments:
        return []
    for field, name in (
        ("replication_factor", "replication factor"),
        ("num_partitions", "numPartitions"),
    ):
        if asked[field] != -1:
            problem = f"A manual partition assignment was specified, but {name} was not set to -1."
            raise TopicRefused(ErrorCode.INVALID_REQUEST, problem)
    placed: dict[int, list[int]] = {}
    factor = None
    for row in assignments:
        index = row["partition_index"]
        if index in placed:
            problem = f"Found multiple manual partition assignments for partition {index}"
            raise misplaced(problem)
        check_replicas(row["broker_ids"], node.cluster.registered_ids, factor)
        check_running(row["broker_ids"], node.cluster.brokers, index)
        factor = len(row["broker_ids"])
        placed[index] = row["broker_ids"]
    if placed.keys() != set(range(len(placed))):
        raise misplaced("partitions should be a consecutive 0-based integer sequence")
    return [placed[index] for index in range(len(placed))]


def _numbers(node: HandlerContext, asked: Value) -> tuple[int, int]:
    """How many partitions a CreateTopics row wants, and replicas. Raises `TopicRefused`."""
    count, factor = asked["num_partitions"], asked["replication_factor"]
    if factor == 0 or factor < -1:
        problem = "Replication factor must be larger than 0, or -1 to use the default value."
        raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if count == 0 or count < -1:
        problem = "Number of partitions was set to an invalid non-positive value."
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, problem)
    me = node.config
    return (
        me.num_partitions if count == -1 else int(count),
        me.default_replication_factor if factor == -1 else int(factor),
    )


def delete_topics(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """By name, from version 6 on also by id. `ReplicationControlManager.deleteTopics`."""
    body = request.body
    if request.version >= DELETE_BY_ID_FROM:
        asked = [(row["name"], row["topic_id"]) for row in body["topics"]]
    else:
        asked = [(name, ZERO_UUID) for name in body["topic_names"]]
    if not node.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED
        if request.version < DELETION_DISABLED_FROM:
            error = ErrorCode.INVALID_REQUEST
        rows = [
            {"name": name, "topic_id": topic_id, "error_code": error} for name, topic_id in asked
        ]
        return {"responses": rows}
    times = Counter(asked)
    return {
        "responses": [
            _delete_topic(node, name, topic_id)
            if times[name, topic_id] == 1
            else _refuse_repeated(name, topic_id)
            for name, topic_id in times
        ]
    }


def _refuse_repeated(name: str | None, topic_id: bytes) -> Value:
    what = "name" if topic_id == ZERO_UUID else "id"
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": ErrorCode.INVALID_REQUEST,
        "error_message": f"Duplicate topic {what}.",
    }


def _delete_topic(node: HandlerContext, name: str | None, topic_id: bytes) -> Value:
    row: Value = {"name": name, "topic_id": topic_id}
    if (name is None) == (topic_id == ZERO_UUID):
        text = _NEITHER if name is None else _BOTH
        return row | {"error_code": ErrorCode.INVALID_REQUEST, "error_message": text}
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
        name, indexes = asked["name"], asked["partition_indexes"]
        problem = explain_name(name)
        if problem:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
            described = [_no_producers(error, problem, index) for index in indexes]
        else:
            topic = node.topics.get(name)
            described = [_describe_partition(node, topic, index) for index in indexes]
        rows.append({"name": name, "partitions": described})
    return {"topics": rows}


def _no_producers(error: ErrorCode, text: str | None, index: int) -> Value:
    refused = {"error_code": error, "error_message": text}
    return refused | {"partition_index": index, "active_producers": []}


def _describe_partition(node: HandlerContext, topic: Topic | None, index: int) -> Value:
    leader = node.leader(topic, index)
    if isinstance(leader, ErrorCode):
        return _no_producers(leader, _TEXTS.get(leader) if topic is None else None, index)
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
        ApiKey.CREATE_TOPICS: refuse_without_time(create_topics),
        ApiKey.DELETE_TOPICS: refuse_without_time(delete_topics),
        ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    }
)
