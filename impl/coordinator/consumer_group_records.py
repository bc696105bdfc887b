"""The records of consumer groups in `__consumer_offsets`: values to bytes and back.

A key's version says what its value is about (`RecordKind`); a value is in version 0.
Source: `GroupCoordinatorRecordHelpers.newConsumerGroup*`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.coordinator.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerGroupMember,
    GroupRecord,
    RecordKind,
    ResolvedRegex,
)
from impl.protocol.fields import TopicIdPartition, place_rows
from impl.protocol.message_form import Value
from impl.protocol.state_records import decode_record, encode_record

VALUE_VERSION: Final = 0


class _Schema(NamedTuple):
    """The names of a kind's key and value, and of the key's second field, "" if it has one."""

    key: str
    value: str
    name: str = ""


_MEMBER_ID: Final = "member_id"
_SCHEMAS: Final[Mapping[int, _Schema]] = MappingProxyType(
    {
        RecordKind.GROUP: _Schema("CONSUMER_GROUP_METADATA_KEY", "CONSUMER_GROUP_METADATA_VALUE"),
        RecordKind.TOPICS: _Schema("CONSUMER_GROUP_PARTITION_METADATA_KEY", ""),
        RecordKind.MEMBER: _Schema(
            "CONSUMER_GROUP_MEMBER_METADATA_KEY",
            "CONSUMER_GROUP_MEMBER_METADATA_VALUE",
            _MEMBER_ID,
        ),
        RecordKind.TARGET_EPOCH: _Schema(
            "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY",
            "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE",
        ),
        RecordKind.TARGET: _Schema(
            "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY",
            "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE",
            _MEMBER_ID,
        ),
        RecordKind.CURRENT: _Schema(
            "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY",
            "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE",
            _MEMBER_ID,
        ),
        RecordKind.REGEX: _Schema(
            "CONSUMER_GROUP_REGULAR_EXPRESSION_KEY",
            "CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE",
            "regular_expression",
        ),
    }
)


def encode_group_record(group_id: str, record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record, None for a tombstone. Raises `EncodeError`."""
    schema = _SCHEMAS[record.kind]
    fields = {"group_id": group_id} | ({schema.name: record.name} if schema.name else {})
    key = encode_record(schema.key, record.kind, fields)
    if record.value is None:
        return key, None
    return key, encode_record(schema.value, VALUE_VERSION, dict(record.value))


def decode_consumer_group_record(key: bytes, value: bytes | None) -> tuple[str, GroupRecord] | None:
    """The group and its record; None for a record of another kind. Raises `DecodeError`."""
    schema = _SCHEMAS.get(int.from_bytes(key[:2], "big"))
    if schema is None:
        return None
    version, fields = decode_record(schema.key, key)
    body: Value | None = None
    if value is not None:  # the value of TOPICS, which 4.1 replaced, is not read
        body = decode_record(schema.value, value)[1] if schema.value else {}
    name = fields[schema.name] if schema.name else ""
    return fields["group_id"], GroupRecord(RecordKind(version), name, body)


# ---- the records of a group


def epoch_record(epoch: int, metadata_hash: int) -> GroupRecord:
    """The group's epoch, and the hash of its topics."""
    return GroupRecord(RecordKind.GROUP, "", {"epoch": epoch, "metadata_hash": metadata_hash})


def member_record(member: ConsumerGroupMember) -> GroupRecord:
    """What a member wants."""
    value = {
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "subscribed_topic_regex": member.regex,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "server_assignor": member.assignor,
        "classic_member_metadata": member.classic and _classic_row(member.classic),
    }
    return GroupRecord(RecordKind.MEMBER, member.member_id, value)


def _classic_row(classic: ClassicMetadata) -> dict[str, Any]:
    protocols = [{"name": name, "metadata": metadata} for name, metadata in classic.protocols]
    return {"session_timeout_ms": classic.session_timeout_ms, "supported_protocols": protocols}


def target_epoch_record(epoch: int, now_ms: int) -> GroupRecord:
    """The epoch of the target assignment, and when it was made."""
    value = {"assignment_epoch": epoch, "assignment_timestamp": now_ms}
    return GroupRecord(RecordKind.TARGET_EPOCH, "", value)


def target_record(member_id: str, places: Iterable[TopicIdPartition]) -> GroupRecord:
    """What a member is to have."""
    return GroupRecord(RecordKind.TARGET, member_id, {"topic_partitions": place_rows(places)})


def current_record(member: ConsumerGroupMember) -> GroupRecord:
    """What a member has, and its epoch."""
    value = {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": member.state,
        "assigned_partitions": _epoch_rows(member.assigned),
        "partitions_pending_revocation": _epoch_rows(member.revoking),
    }
    return GroupRecord(RecordKind.CURRENT, member.member_id, value)


def regex_record(regex: str, resolved: ResolvedRegex) -> GroupRecord:
    """The topics that a regular expression matches."""
    value = {
        "topics": sorted(resolved.topics),
        "version": resolved.version,
        "timestamp": resolved.timestamp_ms,
    }
    return GroupRecord(RecordKind.REGEX, regex, value)


def member_tombstones(*member_ids: str) -> Iterator[GroupRecord]:
    """Members leave."""
    for kind in (RecordKind.CURRENT, RecordKind.TARGET, RecordKind.MEMBER):
        for member_id in member_ids:
            yield GroupRecord(kind, member_id)


def group_tombstones(group: ConsumerGroup) -> Iterator[GroupRecord]:
    """A group is no more, nor are its members. `createGroupTombstoneRecords`."""
    yield from member_tombstones(*group.members)
    yield GroupRecord(RecordKind.TARGET_EPOCH)
    for regex in group.regexes:
        yield GroupRecord(RecordKind.REGEX, regex)
    yield GroupRecord(RecordKind.TOPICS)
    yield GroupRecord(RecordKind.GROUP)


def _epoch_rows(places: Mapping[TopicIdPartition, int]) -> list[dict[str, Any]]:
    rows = place_rows(places)
    for row in rows:
        topic_id = row["topic_id"]
        row["assignment_epochs"] = [places[topic_id, index] for index in row["partitions"]]
    return rows
