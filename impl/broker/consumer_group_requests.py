"""Handlers of consumer groups (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe.

Sources: `KafkaApis.handleConsumerGroupHeartbeat`, `handleConsumerGroupDescribe`,
`GroupCoordinatorService.consumerGroupHeartbeat`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest
from impl.coordinator.consumer_group import ConsumerGroup, ConsumerGroupMember, read_places
from impl.coordinator.consumer_group_messages import GroupRefusal, HeartbeatRequest
from impl.coordinator.server_assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    TopicIdPartition,
    place_rows,
)
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey
from impl.security.acls import AclOperation, ResourceType

MEMBER_ID_FROM: Final = 1
"""The first ConsumerGroupHeartbeat version whose members make their ids themselves (KIP-1082)."""
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""`member_type` of a member, by the protocol that it uses."""


def consumer_group_heartbeat(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """A member joins, lives or leaves."""
    coordinators = node.coordinators
    try:
        _check(request)
        found = coordinators.offsets.find(request.body["group_id"], may_be_empty=False)
        if isinstance(found, ErrorCode):
            raise GroupRefusal(found)
        answer = coordinators.consumer_groups.heartbeat(
            _read(node, request, now_ms), describable_topics(node, request), now_ms
        )
    except GroupRefusal as refusal:
        return {"error_code": refusal.error, "error_message": refusal.text}
    row: Value = {
        "error_code": ErrorCode.NONE,
        "member_id": answer.member_id,
        "member_epoch": answer.member_epoch,
        "heartbeat_interval_ms": answer.heartbeat_interval_ms,
    }
    if answer.assignment is not None:
        row["assignment"] = {"topic_partitions": place_rows(answer.assignment)}
    return row


def describable_topics(node: HandlerContext, request: DecodedRequest) -> Callable[[str], bool]:
    """Whether the client may know of a topic, by its name."""
    return lambda name: node.is_allowed(request, AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _check(request: DecodedRequest) -> None:
    """Raises `GroupRefusal`. `throwIfConsumerGroupHeartbeatRequestIsInvalid`."""
    body = request.body
    epoch, assignor = body["member_epoch"], body["server_assignor"]
    names_itself = request.version >= MEMBER_ID_FROM or epoch > 0 or epoch == LEAVE_EPOCH
    is_silent = body["subscribed_topic_names"] is None and body["subscribed_topic_regex"] is None
    joins = epoch == JOIN_EPOCH
    problems = {
        "MemberId can't be empty.": names_itself and not body["member_id"],
        "GroupId can't be empty.": not body["group_id"],
        "InstanceId can't be empty.": body["instance_id"] == "",
        "RackId can't be empty.": body["rack_id"] == "",
        "RebalanceTimeoutMs must be provided in first request.": joins
        and body["rebalance_timeout_ms"] == -1,
        "TopicPartitions must be empty when (re-)joining.": joins
        and body["topic_partitions"] != [],
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
        " (re-)joining.": joins and is_silent,
        "InstanceId can't be null.": epoch == STATIC_LEAVE_EPOCH and body["instance_id"] is None,
        "MemberEpoch is invalid.": epoch < STATIC_LEAVE_EPOCH,
    }
    for text, is_wrong in problems.items():
        if is_wrong:
            raise GroupRefusal(ErrorCode.INVALID_REQUEST, text)
    if assignor is not None and assignor not in ASSIGNORS:
        there_are = ", ".join(ASSIGNORS)
        text = f"ServerAssignor {assignor} is not supported. Supported assignors: {there_are}."
        raise GroupRefusal(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def _read(node: HandlerContext, request: DecodedRequest, now_ms: int) -> HeartbeatRequest:
    body = request.body
    names, rows = body["subscribed_topic_names"], body["topic_partitions"]
    new_id = node.coordinators.memberships.new_consumer_id
    return HeartbeatRequest(
        body["group_id"],
        body["member_id"] or new_id(now_ms),
        body["member_epoch"],
        body["instance_id"],
        body["rack_id"],
        body["rebalance_timeout_ms"],
        None if names is None else frozenset(names),
        body["subscribed_topic_regex"],
        body["server_assignor"],
        None if rows is None else frozenset(read_places(rows)),
        request.client_id,
        request.session.client_host,
    )


# ---- ConsumerGroupDescribe


def consumer_group_describe(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Groups, what their members have, and what these are to have."""
    return {"groups": [_describe(node, request, name) for name in request.body["group_ids"]]}


def _describe(node: HandlerContext, request: DecodedRequest, group_id: str) -> Value:
    found = node.coordinators.offsets.find(group_id, may_be_empty=False)
    if isinstance(found, ErrorCode):
        return {"error_code": found, "group_id": group_id}
    group = found.consumer_groups.get(group_id)
    if group is None:
        is_classic = node.coordinators.memberships.find(group_id) is not None
        text = f"Group {group_id} {'is not a consumer group' if is_classic else 'not found'}."
        error = ErrorCode.GROUP_ID_NOT_FOUND
        return {"error_code": error, "error_message": text, "group_id": group_id}
    row: Value = {
        "error_code": ErrorCode.NONE,
        "group_id": group_id,
        "group_state": group.state.value,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.preferred_assignor(DEFAULT_ASSIGNOR),
        "members": [_describe_member(node, group, member) for member in group.members.values()],
    }
    if request.body["include_authorized_operations"]:
        operations = node.authorized_operations(request, ResourceType.GROUP, group_id)
        row["authorized_operations"] = operations
    return row


def _describe_member(
    node: HandlerContext, group: ConsumerGroup, member: ConsumerGroupMember
) -> Value:
    """A member still has what it has not revoked."""
    target = group.target.get(member.member_id, frozenset())
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "subscribed_topic_regex": member.regex,
        "assignment": _named(node, (*member.assigned, *member.revoking)),
        "target_assignment": _named(node, target),
        "member_type": CLASSIC_MEMBER if member.classic else CONSUMER_MEMBER,
    }


def _named(node: HandlerContext, places: Iterable[TopicIdPartition]) -> Value:
    """Rows with the names of topics; those that are gone are left out."""
    rows = []
    for row in place_rows(places):
        topic = node.topics.find(row["topic_id"])
        if not isinstance(topic, ErrorCode):
            rows.append(row | {"topic_name": topic.name})
    return {"topic_partitions": rows}


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    }
)
"""These are in Kafka since 3.7, and on by default since 4.0."""
