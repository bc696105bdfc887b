"""Handlers of the cluster as a whole: DescribeCluster, UpdateFeatures, DescribeQuorum,
UnregisterBroker.

`transaction.version` is the one feature that changes. All updates of a request are made, or none.
The quorum has one voter, the controller; the other nodes are its observers.

Sources: `AuthHelper.computeDescribeClusterResponse`, `FeatureControlManager.updateFeatures`,
`KafkaRaftClient.handleDescribeQuorumRequest`, `ClusterControlManager.unregisterBroker`; answers of
4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.broker.releases import (
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    supported_levels,
)
from impl.log.checkpoint_files import METADATA
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from impl.security.acls import CLUSTER_NAME, AclOperation, ResourceType

BROKER_ENDPOINT: Final = 1
CONTROLLER_ENDPOINT: Final = 2
"""Whose addresses DescribeCluster asks for; before version 1 the brokers' (KIP-919)."""

NOT_REQUESTED: Final = -(2**31)

UPGRADE_TYPE_FROM: Final = 1
NO_ROWS_FROM: Final = 2
"""The first UpdateFeatures version whose answer has no row for each feature."""


def describe_cluster(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The nodes that run. Controllers have no addresses of their own here."""
    body = request.body
    if body["endpoint_type"] == CONTROLLER_ENDPOINT:
        problem = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of"
            " type CONTROLLER"
        )
        return _no_cluster(ErrorCode.MISMATCHED_ENDPOINT_TYPE, problem)
    if body["endpoint_type"] != BROKER_ENDPOINT:
        problem = f"Unsupported endpoint type {body['endpoint_type']}"
        return _no_cluster(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, problem)
    with_operations = body["include_cluster_authorized_operations"]
    return {
        "error_code": ErrorCode.NONE,
        "cluster_id": node.cluster.cluster_id,
        "controller_id": node.cluster.controller_id,
        "brokers": [
            {"broker_id": node_id} | broker.address(request.session.listener)
            for node_id, broker in node.cluster.brokers.items()
        ],
        "cluster_authorized_operations": cluster_operations(node, request)
        if with_operations
        else NOT_REQUESTED,
    }


def cluster_operations(node: HandlerContext, request: DecodedRequest) -> int:
    """What the sender may do with the cluster; 0 if it may not even describe it."""
    if not node.is_allowed(request, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return node.authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME)


def _no_cluster(error: ErrorCode, problem: str) -> Value:
    return {"error_code": error, "error_message": problem, "cluster_id": "", "brokers": []}


class UpgradeType(IntEnum):
    """`FeatureUpdate.UpgradeType`."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Change the level of `transaction.version` (KIP-584)."""
    updates = request.body["feature_updates"]
    for update in updates:
        kind = _upgrade_type(request.version, update)
        problem = _explain_refusal(node, update["feature"], update["max_version_level"], kind)
        if problem:
            text = (
                "The update failed for all features since the following feature had an error: "
                + problem
            )
            error = ErrorCode.INVALID_UPDATE_VERSION
            return {"error_code": error, "error_message": text, "results": []}
    for update in () if request.body["validate_only"] else updates:
        if update["feature"] == TRANSACTION_VERSION:
            node.cluster.set_transaction_version(update["max_version_level"])
    rows = [
        {"feature": row["feature"], "error_code": ErrorCode.NONE, "error_message": "NONE"}
        for row in updates
        if request.version < NO_ROWS_FROM
    ]
    return {"error_code": ErrorCode.NONE, "results": rows}


def _upgrade_type(version: int, update: Value) -> int:
    if version >= UPGRADE_TYPE_FROM:
        return int(update["upgrade_type"])
    may_fall = update["allow_downgrade"]
    return UpgradeType.SAFE_DOWNGRADE if may_fall else UpgradeType.UPGRADE


def _explain_refusal(node: HandlerContext, feature: str, level: int, kind: int) -> str:
    """Why a feature cannot have this level; "" if it can."""
    problem = _explain_level(node, feature, level, kind)
    if problem:
        return f"Invalid update version {level} for feature {feature}. {problem}"
    now = supported_levels(node.config.release)[feature][-1]
    if feature == METADATA_VERSION and level < now:
        return f"Unsupported {feature} downgrade from {now} to {level}. {_LOSSY[UpgradeType(kind)]}"
    return ""


_LOSSY: Final = {
    UpgradeType.SAFE_DOWNGRADE: "Refusing to perform the requested downgrade because it might"
    " delete metadata information.",
    UpgradeType.UNSAFE_DOWNGRADE: "Unsafe metadata downgrade is not supported in this version.",
}


def _explain_level(node: HandlerContext, feature: str, level: int, kind: int) -> str:
    controller = f"Local controller {node.cluster.controller_id}"
    supported = supported_levels(node.config.release).get(feature)
    if kind not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if supported is None:
        if level == 0:
            return f"Feature {feature} not found."
        return f"{controller} does not support this feature."
    if level not in supported:
        return f"{controller} only supports versions {supported[0]}-{supported[-1]}"
    now = node.transaction_version if feature == TRANSACTION_VERSION else supported[-1]
    if feature == GROUP_VERSION and level < now and kind != UpgradeType.UPGRADE:
        return f"{controller} serves groups of both protocols at any level."
    if level < now and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if level > now and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return ""


# ---- the quorum and its brokers

_QUORUM_EPOCH: Final = 1
_CONTROLLER_LISTENER: Final = "CONTROLLER"


def describe_quorum(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The quorum, if nothing but its partition is asked for. `DescribeQuorumRequest`."""
    topics = request.body["topics"]
    asked = [
        (topic["topic_name"], row["partition_index"])
        for topic in topics
        for row in topic["partitions"]
    ]
    is_known = asked == [METADATA]
    rows = [
        {
            "topic_name": topic["topic_name"],
            "partitions": [
                _quorum_row(node, now_ms) if is_known else _no_quorum_row(row["partition_index"])
                for row in topic["partitions"]
            ],
        }
        for topic in topics
    ]
    return {
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "topics": rows,
        "nodes": [_controller_row(node, request)] if is_known else [],
    }


def _quorum_row(node: HandlerContext, now_ms: int) -> Value:
    end_offset = node.topics.version
    states = [
        {
            "replica_id": node_id,
            "replica_directory_id": ZERO_UUID,
            "log_end_offset": end_offset,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }
        for node_id in node.cluster.brokers
    ]
    leader_id = node.cluster.controller_id
    return {
        "partition_index": METADATA.partition,
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "leader_id": leader_id,
        "leader_epoch": _QUORUM_EPOCH,
        "high_watermark": end_offset,
        "current_voters": [state for state in states if state["replica_id"] == leader_id],
        "observers": [state for state in states if state["replica_id"] != leader_id],
    }


def _no_quorum_row(index: int) -> Value:
    return {
        "partition_index": index,
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "error_message": "This server does not host this topic-partition.",
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }


def _controller_row(node: HandlerContext, request: DecodedRequest) -> Value:
    """The controller answers on the listener of the broker that it is."""
    controller = node.cluster.brokers[node.cluster.controller_id]
    address = controller.address(request.session.listener)
    listener = {"name": _CONTROLLER_LISTENER, "host": address["host"], "port": address["port"]}
    return {"node_id": controller.node_id, "listeners": [listener]}


def unregister_broker(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """A broker that runs would come back at once: it is not unregistered before it is stopped."""
    broker_id = request.body["broker_id"]
    if broker_id in node.cluster.brokers:
        problem = f"Broker ID {broker_id} runs: stop it, and it is not registered any more"
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": problem}
    if broker_id in node.cluster.registered_ids:
        node.cluster.unregister(broker_id)
        return {"error_code": ErrorCode.NONE, "error_message": None}
    problem = f"Broker ID {broker_id} is not currently registered"
    return {"error_code": ErrorCode.BROKER_ID_NOT_REGISTERED, "error_message": problem}


def allocate_producer_ids(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """A request of another broker to the controller. `ControllerApis`."""
    body = request.body
    block = node.controller.allocate(body["broker_id"], body["broker_epoch"])
    if isinstance(block, ErrorCode):
        return {"error_code": block, "producer_id_start": 0, "producer_id_len": 0}
    return {
        "error_code": ErrorCode.NONE,
        "producer_id_start": block.first_producer_id,
        "producer_id_len": block.size,
    }


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster,
        ApiKey.UPDATE_FEATURES: update_features,
        ApiKey.DESCRIBE_QUORUM: describe_quorum,
        ApiKey.UNREGISTER_BROKER: unregister_broker,
    }
)
