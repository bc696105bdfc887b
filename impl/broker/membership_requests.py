"""Handlers of classic groups: JoinGroup ... LeaveGroup, and those that list and delete groups.

Four rules:

1. The group's coordinator answers; any other node answers NOT_COORDINATOR, one that loads the
   group's partition COORDINATOR_LOAD_IN_PROGRESS.
2. JoinGroup and SyncGroup of a classic group wait for the other members.
3. Groups that only commit offsets are described as empty, and can be deleted.
4. A consumer group (KIP-848) with members takes those of this protocol, too, and answers them at
   once; an empty one is replaced by a classic group.

Sources: `KafkaApis.handleJoinGroupRequest` and its siblings, `GroupCoordinatorService`;
release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from impl.broker.consumer_group_requests import describable_topics
from impl.broker.handler import Handler, HandlerContext
from impl.broker.memberships import GroupAnswer
from impl.broker.outputs import DEFERRED, DecodedRequest, Deferred
from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.consumer_group import ConsumerGroup
from impl.coordinator.consumer_group_messages import GroupRefusal
from impl.coordinator.group_messages import (
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from impl.coordinator.offsets_groups import NO_MEMBER, GroupState
from impl.protocol.consumer_protocol import CONSUMER_PROTOCOL
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey
from impl.security.acls import ResourceType

KNOWN_MEMBER_FROM: Final = 4
"""The first JoinGroup version whose clients are sent their id first (KIP-394)."""
SKIP_ASSIGNMENT_FROM: Final = 9
"""The first JoinGroup version whose leader can be told to keep the assignment (KIP-814)."""
NULL_PROTOCOL_FROM: Final = 7
"""The first JoinGroup version whose answer may lack a protocol."""
PROTOCOL_REQUIRED_FROM: Final = 5
"""The first SyncGroup version that has to name the protocol (KIP-559)."""
SEVERAL_LEAVE_FROM: Final = 3
NOT_FOUND_FROM: Final = 6
"""The first DescribeGroups version that says that a group does not exist (KIP-1043)."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The types of groups (KIP-848)."""


def _error(node: HandlerContext, group_id: str) -> ErrorCode:
    """Why this node does not serve the group."""
    found = node.coordinators.offsets.find(group_id, may_be_empty=False)
    return found if isinstance(found, ErrorCode) else ErrorCode.NONE


# ---- members


def join_group(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value | Deferred:
    """Answered when all members have joined."""
    body, memberships = request.body, node.coordinators.memberships
    error = _error(node, body["group_id"])
    if not error and not memberships.groups.is_session_valid(body["session_timeout_ms"]):
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    if error:
        return _join_row(request, JoinAnswer(0, error, body["member_id"]))
    asked, mixed = _read_join(request), node.coordinators.consumer_groups.get(body["group_id"])
    if mixed is not None and mixed.members:
        return _join_row(request, _join_consumers(node, request, mixed, asked, now_ms))
    error = ErrorCode.NONE if mixed is None else _make_classic(node, mixed, asked, now_ms)
    if error:
        return _join_row(request, JoinAnswer(0, error, body["member_id"]))

    def answer(joined: GroupAnswer) -> None:
        assert isinstance(joined, JoinAnswer)
        node.answer(request, _join_row(request, joined))

    number = memberships.await_answer(answer)
    memberships.perform(memberships.groups.join(number, asked, now_ms), now_ms)
    return DEFERRED


def _read_join(request: DecodedRequest) -> JoinRequest:
    body = request.body
    rebalance_ms = body["rebalance_timeout_ms"]
    return JoinRequest(
        body["group_id"],
        body["member_id"],
        body["group_instance_id"],
        request.client_id,
        body["session_timeout_ms"],
        body["session_timeout_ms"] if rebalance_ms < 0 else rebalance_ms,
        body["protocol_type"],
        tuple((row["name"], row["metadata"]) for row in body["protocols"]),
        request.version >= KNOWN_MEMBER_FROM,
        request.version >= SKIP_ASSIGNMENT_FROM,
        request.session.client_host,
    )


def _join_consumers(
    node: HandlerContext,
    request: DecodedRequest,
    group: ConsumerGroup,
    asked: JoinRequest,
    now_ms: int,
) -> JoinAnswer:
    """Join a consumer group. QUIRK: a refusal does not say the member id."""
    may_describe = describable_topics(node, request)
    try:
        return node.coordinators.consumer_groups.join(group, asked, may_describe, now_ms)
    except GroupRefusal as refusal:
        return JoinAnswer(0, refusal.error, NO_MEMBER)


def _make_classic(
    node: HandlerContext, group: ConsumerGroup, asked: JoinRequest, now_ms: int
) -> ErrorCode:
    """Remove an empty consumer group for a new member of a classic one."""
    if asked.member_id != NO_MEMBER:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return node.coordinators.consumer_groups.remove_empty(group, now_ms)


def _join_row(request: DecodedRequest, joined: JoinAnswer) -> Value:
    protocol_name = joined.protocol_name
    if not protocol_name:
        protocol_name = None if request.version >= NULL_PROTOCOL_FROM else ""
    return {
        "error_code": joined.error,
        "generation_id": joined.generation_id,
        "protocol_type": joined.protocol_type,
        "protocol_name": protocol_name,
        "leader": joined.leader,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [member._asdict() for member in joined.members],
    }


def sync_group(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value | Deferred:
    """Answered when the leader has brought the assignments."""
    body, memberships = request.body, node.coordinators.memberships
    error = _error(node, body["group_id"])
    is_named = body["protocol_type"] is not None and body["protocol_name"] is not None
    if not error and request.version >= PROTOCOL_REQUIRED_FROM and not is_named:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error:
        return {"error_code": error, "assignment": b""}
    asked = SyncRequest(
        body["group_id"],
        body["generation_id"],
        body["member_id"],
        body["group_instance_id"],
        body["protocol_type"],
        body["protocol_name"],
        {row["member_id"]: row["assignment"] for row in body["assignments"]},
    )

    mixed = node.coordinators.consumer_groups.get(asked.group_id)
    if mixed is not None:
        return _sync_row(_sync_consumers(node, mixed, asked, now_ms))

    def answer(synced: GroupAnswer) -> None:
        assert not isinstance(synced, JoinAnswer)
        node.answer(request, _sync_row(synced))

    number = memberships.await_answer(answer)
    memberships.perform(memberships.groups.sync(number, asked, now_ms), now_ms)
    return DEFERRED


def _sync_consumers(
    node: HandlerContext, group: ConsumerGroup, asked: SyncRequest, now_ms: int
) -> SyncAnswer:
    try:
        return node.coordinators.consumer_groups.sync(group, asked, now_ms)
    except GroupRefusal as refusal:
        return SyncAnswer(0, refusal.error)


def _sync_row(synced: SyncAnswer) -> Value:
    return {
        "error_code": synced.error,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol_name,
        "assignment": synced.assignment,
    }


def heartbeat(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """A member is alive; REBALANCE_IN_PROGRESS asks it to rejoin."""
    body, memberships = request.body, node.coordinators.memberships
    error = _error(node, body["group_id"])
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # The member is not harmed by it: it asks again. `GroupCoordinatorService.heartbeat`.
        return {"error_code": ErrorCode.NONE}
    identity = MemberIdentity(body["member_id"], body["group_instance_id"])
    mixed = node.coordinators.consumer_groups.get(body["group_id"])
    generation_id = body["generation_id"]
    if not error and mixed is not None:
        error = _beat_consumers(node, mixed, generation_id, identity, now_ms)
    elif not error:
        error = memberships.groups.heartbeat(body["group_id"], generation_id, identity, now_ms)
    return {"error_code": error}


def _beat_consumers(
    node: HandlerContext,
    group: ConsumerGroup,
    generation_id: int,
    identity: MemberIdentity,
    now_ms: int,
) -> ErrorCode:
    try:
        return node.coordinators.consumer_groups.beat(group, generation_id, identity, now_ms)
    except GroupRefusal as refusal:
        return refusal.error


def leave_group(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """One member, from version 3 on several, dynamic or static."""
    body = request.body
    is_old = request.version < SEVERAL_LEAVE_FROM
    error = _error(node, body["group_id"])
    if error:
        return {"error_code": error, "members": []}
    identities = [
        MemberIdentity(row["member_id"], row["group_instance_id"]) for row in body["members"]
    ]
    if is_old:
        identities = [MemberIdentity(body["member_id"])]
    errors = _leave(node, body["group_id"], identities, now_ms)
    rows = [
        identity._asdict() | {"error_code": error}
        for identity, error in zip(identities, errors, strict=True)
    ]
    return {"error_code": errors[0] if is_old else ErrorCode.NONE, "members": rows}


def _leave(
    node: HandlerContext, group_id: str, identities: Sequence[MemberIdentity], now_ms: int
) -> list[ErrorCode]:
    mixed = node.coordinators.consumer_groups.get(group_id)
    if mixed is None:
        memberships = node.coordinators.memberships
        errors, effects = memberships.groups.leave(group_id, identities, now_ms)
        memberships.perform(effects, now_ms)
        return errors
    try:
        return node.coordinators.consumer_groups.leave(mixed, identities, now_ms)
    except GroupRefusal as refusal:
        return [refusal.error] * len(identities)


# ---- groups


def _groups(node: HandlerContext) -> Iterable[ClassicGroup | ConsumerGroup]:
    """The groups of this node, and those that only commit offsets, as empty ones."""
    coordinators = node.coordinators
    known = coordinators.memberships.groups.groups
    yield from known.values()
    yield from coordinators.consumer_groups
    for offsets in coordinators.offsets.partitions.values():
        for group_id in sorted(offsets.groups - offsets.consumer_groups.keys() if offsets else ()):
            if group_id not in known:
                yield ClassicGroup(group_id)


def _find(node: HandlerContext, group_id: str) -> ClassicGroup | ConsumerGroup | None:
    consumers = node.coordinators.consumer_groups.get(group_id)
    return consumers or node.coordinators.memberships.find(group_id)


def list_groups(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """All groups of this node, or those in some states. Filters ignore case."""
    states = {text.lower() for text in request.body["states_filter"]}
    types = {text.lower() for text in request.body["types_filter"]}
    if any(offsets is None for offsets in node.coordinators.offsets.partitions.values()):
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    rows = [
        row
        for row in map(_list, _groups(node))
        if not states or row["group_state"].lower() in states
        if not types or row["group_type"] in types
    ]
    return {"error_code": ErrorCode.NONE, "groups": rows}


def _list(group: ClassicGroup | ConsumerGroup) -> Value:
    return {
        "group_id": group.group_id,
        "protocol_type": group.protocol_type or "",
        "group_state": group.state.value,
        "group_type": CLASSIC if isinstance(group, ClassicGroup) else CONSUMER,
    }


def describe_groups(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The state of groups, and their members."""
    rows = [_describe(node, request, group_id) for group_id in request.body["groups"]]
    if request.body["include_authorized_operations"]:
        for row in rows:
            if not row["error_code"]:
                operations = node.authorized_operations(
                    request, ResourceType.GROUP, row["group_id"]
                )
                row["authorized_operations"] = operations
    return {"groups": rows}


def _describe(node: HandlerContext, request: DecodedRequest, group_id: str) -> Value:
    error = _error(node, group_id) if group_id else ErrorCode.NONE
    group = None if error else _find(node, group_id)
    if isinstance(group, ClassicGroup):
        return _describe_group(group)
    message = None
    if not error and request.version >= NOT_FOUND_FROM:
        why = "not found" if group is None else "is not a classic group"
        error, message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}."
    is_missing = error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group_id,
        "group_state": GroupState.DEAD.value if is_missing else "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }


def _describe_group(group: ClassicGroup) -> Value:
    """Metadata of members are those of the protocol in use, which only a stable group has."""
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return {
        "error_code": ErrorCode.NONE,
        "group_id": group.group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": protocol or "",
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata(protocol),
                "member_assignment": member.assignment,
            }
            for member in group.members.values()
        ],
    }


def delete_groups(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Delete groups without members, with their offsets."""
    rows = [
        {"group_id": group_id, "error_code": _delete_group(node, group_id, now_ms)}
        for group_id in dict.fromkeys(request.body["groups_names"])
    ]
    return {"results": rows}


def _delete_group(node: HandlerContext, group_id: str, now_ms: int) -> ErrorCode:
    memberships = node.coordinators.memberships
    error = _error(node, group_id) if group_id else ErrorCode.GROUP_ID_NOT_FOUND
    if error:
        return error
    group = _find(node, group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    tombstones = node.coordinators.offsets.forget_group(group_id, now_ms=now_ms)
    error = memberships.append(*tombstones, now_ms)
    if not error:
        memberships.groups.remove(group_id)
    return error


def offset_delete(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Delete offsets of topics that no member subscribes to (KIP-496)."""
    body = request.body
    group_id = body["group_id"]
    error = _error(node, group_id)
    group = None if error else _find(node, group_id)
    if not error and group is None:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    if group is not None and group.members and group.protocol_type != CONSUMER_PROTOCOL:
        error = ErrorCode.NON_EMPTY_GROUP
    if error or group is None:
        return {"error_code": error, "topics": []}
    subscribed = group.subscribed_topics
    topics, deleted = [], []
    for asked in (row for row in body["topics"] if row["partitions"]):
        name, rows = asked["name"], []
        topic = node.topics.get(name)
        for index in (row["partition_index"] for row in asked["partitions"]):
            if topic is None or topic.partition(index) is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed is None or name in subscribed:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                error = ErrorCode.NONE
                deleted.append((name, index))
            rows.append({"partition_index": index, "error_code": error})
        topics.append({"name": name, "partitions": rows})
    tombstones = node.coordinators.offsets.forget_offsets(group_id, deleted, now_ms=now_ms)
    refused = ErrorCode.NONE
    if tombstones is not None:
        refused = node.coordinators.memberships.append(*tombstones, now_ms)
    return {"error_code": refused, "topics": [] if refused else topics}


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.JOIN_GROUP: join_group,
        ApiKey.SYNC_GROUP: sync_group,
        ApiKey.HEARTBEAT: heartbeat,
        ApiKey.LEAVE_GROUP: leave_group,
        ApiKey.LIST_GROUPS: list_groups,
        ApiKey.DESCRIBE_GROUPS: describe_groups,
        ApiKey.DELETE_GROUPS: delete_groups,
        ApiKey.OFFSET_DELETE: offset_delete,
    }
)
