"""The arguments of send_offsets_to_transaction.

1. All of them are judged before the first request is made of them: none is half sent.
2. Whether the group, the topic and the partition exist, brokers say.

Source: `OffsetAndMetadata`, `ConsumerGroupMetadata`, `KafkaProducer.throwIfInvalidGroupMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from impl.producer.arguments import check_integer, check_partition, check_topic
from impl.producer.errors import InvalidArgumentError
from impl.producer.txn_requests import GroupMetadata, OffsetAndMetadata
from impl.settings import INT_MAX, LONG_MAX


def checked_offsets(
    offsets: Mapping[tuple[str, int], int | OffsetAndMetadata], group: str | GroupMetadata
) -> tuple[dict[tuple[str, int], OffsetAndMetadata], GroupMetadata]:
    """The arguments of send_offsets_to_transaction in their full form.

    Raises `InvalidArgumentError`.
    """
    metadata = GroupMetadata(group) if isinstance(group, str) else group
    _check_group(metadata)
    if not isinstance(offsets, Mapping):
        raise InvalidArgumentError("offsets", "must map (topic, partition) to an offset", offsets)
    return {_place(place): _offset(offset) for place, offset in offsets.items()}, metadata


def _check_group(group: object) -> None:
    if not isinstance(group, GroupMetadata):
        raise InvalidArgumentError("group", "must be a group id or GroupMetadata", group)
    texts = [group.group_id, group.member_id, group.group_instance_id or ""]
    if not all(isinstance(text, str) for text in texts) or not group.group_id:
        raise InvalidArgumentError("group", "must have a group_id, and strings", group)
    check_integer("generation_id", group.generation_id, -1, INT_MAX)
    if group.generation_id > 0 and not group.member_id:
        raise InvalidArgumentError("member_id", "must be given with a generation_id", "")


def _place(place: Any) -> tuple[str, int]:
    if not isinstance(place, tuple) or len(place) != 2:
        raise InvalidArgumentError("offsets", "must have (topic, partition) as keys", place)
    check_topic(place[0])
    check_partition(place[1])
    return place


def _offset(offset: object) -> OffsetAndMetadata:
    full = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)  # type: ignore[arg-type]
    check_integer("offset", full.offset, 0, LONG_MAX)
    check_integer("leader_epoch", full.leader_epoch, -1, INT_MAX)
    if not isinstance(full.metadata, str):
        raise InvalidArgumentError("metadata", "must be a string", full.metadata)
    return full
