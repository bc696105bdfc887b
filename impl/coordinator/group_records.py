"""The records of groups in `__consumer_offsets`: a group's last generation and its assignments.

Keys are written in version 2, values in version 3; values of versions 0 to 4 are read.
Source: `GroupCoordinatorRecordHelpers.newGroupMetadataRecord`; release 4.3.1.
"""

from __future__ import annotations

from typing import Final

from impl.coordinator.classic_group import ClassicGroup, GroupMember
from impl.coordinator.offsets_groups import GroupState
from impl.protocol.errors import UnknownRecordVersion
from impl.protocol.message_form import Value
from impl.protocol.state_records import decode_record, encode_record

KEY: Final = "GROUP_METADATA_KEY"
VALUE: Final = "GROUP_METADATA_VALUE"
KEY_VERSION: Final = 2
VALUE_VERSION: Final = 3

NO_TIMESTAMP: Final = -1
"""In records before version 2."""


def encode_group_key(group_id: str) -> bytes:
    """The key of a group's records. Raises `EncodeError`."""
    return encode_record(KEY, KEY_VERSION, {"group": group_id})


def decode_group_key(data: bytes) -> str | None:
    """The group id, None for a record of another kind. Raises `DecodeError`."""
    try:
        _, body = decode_record(KEY, data)
    except UnknownRecordVersion:
        return None
    group_id: str = body["group"]
    return group_id


def encode_group(group: ClassicGroup) -> bytes:
    """A group's value; without members, only its generation. Raises `EncodeError`."""
    since_ms = group.state_timestamp_ms
    return encode_record(
        VALUE,
        VALUE_VERSION,
        {
            "protocol_type": group.protocol_type or "",
            "generation": group.generation_id,
            "protocol": group.protocol_name,
            "leader": group.leader,
            "current_state_timestamp": NO_TIMESTAMP if since_ms is None else since_ms,
            "members": [_member_row(group, member) for member in group.members.values()],
        },
    )


def _member_row(group: ClassicGroup, member: GroupMember) -> Value:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout": member.rebalance_timeout_ms,
        "session_timeout": member.session_timeout_ms,
        "subscription": member.metadata(group.protocol_name),
        "assignment": member.assignment,
    }


def decode_group(group_id: str, data: bytes) -> ClassicGroup:
    """The group of a value: stable if it has members, else empty. Raises `DecodeError`."""
    _, body = decode_record(VALUE, data)
    since_ms = body["current_state_timestamp"]
    group = ClassicGroup(
        group_id,
        GroupState.STABLE if body["members"] else GroupState.EMPTY,
        generation_id=body["generation"],
        protocol_type=body["protocol_type"] or None,
        protocol_name=body["protocol"],
        state_timestamp_ms=None if since_ms == NO_TIMESTAMP else since_ms,
    )
    for row in body["members"]:
        group.add(_decode_member(row, body["protocol"] or ""))
    group.leader = body["leader"]
    group.read_topics()
    return group


def _decode_member(row: Value, protocol: str) -> GroupMember:
    """In version 0 members have as long to rejoin as their session lasts."""
    session_ms, rebalance_ms = row["session_timeout"], row["rebalance_timeout"]
    return GroupMember(
        row["member_id"],
        row["group_instance_id"],
        row["client_id"],
        session_ms if rebalance_ms < 0 else rebalance_ms,
        session_ms,
        ((protocol, row["subscription"]),),
        row["assignment"],
        row["client_host"],
    )
