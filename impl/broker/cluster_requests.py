"""Handlers of the cluster as a whole: DescribeCluster, UpdateFeatures.

`transaction.version` is the one feature. All updates of a request are made, or none.

Sources: `AuthHelper.computeDescribeClusterResponse`, `FeatureControlManager.updateFeatures`;
answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.broker.releases import TRANSACTION_VERSION, newest_levels
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
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
    return node.authorized_operations(request, ResourceType.CLUSTER)


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
                f"Invalid update version {update['max_version_level']} for feature"
                f" {update['feature']}. {problem}"
            )
            error = ErrorCode.INVALID_UPDATE_VERSION
            return {"error_code": error, "error_message": text, "results": []}
    if updates and not request.body["validate_only"]:
        node.cluster.set_transaction_version(updates[-1]["max_version_level"])
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
    controller = f"Local controller {node.cluster.controller_id}"
    now, newest = node.transaction_version, newest_levels(node.config.release).get(feature)
    if feature != TRANSACTION_VERSION or newest is None:
        return f"{controller} does not support this feature."
    if kind not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if level > newest:
        return f"{controller} only supports versions 0-{newest}"
    if level < now and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if level > now and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return ""


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.DESCRIBE_CLUSTER: describe_cluster,
        ApiKey.UPDATE_FEATURES: update_features,
    }
)
