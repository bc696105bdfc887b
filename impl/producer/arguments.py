"""Validates the arguments of the application's calls.

1. An invalid argument is refused before anything changes, and before anything is waited for.
2. Whether a topic, partition or group exists is not checked here: the brokers answer that.

Theory of operation: each function raises `InvalidArgumentError`. `size_upper_bound_bytes` in
`batch` sees each record first, and calls `invalid_record` only if something is wrong.
Source: `ProducerRecord`, `Topic.validate`, `OffsetAndMetadata`, `ConsumerGroupMetadata`,
`KafkaProducer.throwIfInvalidGroupMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from impl.client.arguments import (
    GroupMetadata,
    OffsetAndMetadata,
    check_integer,
    parse_offsets,
)
from impl.client.errors import InvalidArgumentError
from impl.settings import LONG_MAX

BYTES: Final = (bytes, bytearray)
"""The types of keys and values."""


def check_timestamp_ms(timestamp_ms: object) -> None:
    """Check a record's timestamp. Raises `InvalidArgumentError`."""
    check_integer("timestamp_ms", timestamp_ms, greatest=LONG_MAX)


def check_key_and_value(key: object, value: object) -> None:
    """Check a record's key and value. Raises `InvalidArgumentError`."""
    for name, content in (("key", key), ("value", value)):
        if content is not None and not isinstance(content, BYTES):
            raise InvalidArgumentError(name, "must be bytes or None: serialize it", content)


def invalid_record(key: object, value: object, headers: object) -> InvalidArgumentError:
    """The error of a record whose size cannot be computed."""
    try:
        check_key_and_value(key, value)
    except InvalidArgumentError as error:
        return error
    return InvalidArgumentError("headers", "must be a sequence of (str, bytes or None)", headers)


def parse_group_offsets(
    offsets: Mapping[tuple[str, int], int | OffsetAndMetadata], group: str | GroupMetadata
) -> tuple[dict[tuple[str, int], OffsetAndMetadata], GroupMetadata]:
    """The arguments of send_offsets_to_transaction, completed and checked.

    Raises `InvalidArgumentError`.
    """
    metadata = GroupMetadata(group) if isinstance(group, str) else group
    _check_group(metadata)
    return parse_offsets(offsets), metadata


def _check_group(group: object) -> None:
    if not isinstance(group, GroupMetadata):
        raise InvalidArgumentError("group", "must be a group id or GroupMetadata", group)
    texts = [group.group_id, group.member_id, group.group_instance_id or ""]
    if not all(isinstance(text, str) for text in texts) or not group.group_id:
        raise InvalidArgumentError("group", "must have a group_id, and strings", group)
    check_integer("generation_id", group.generation_id, least=-1)
    if group.generation_id > 0 and not group.member_id:
        raise InvalidArgumentError("member_id", "must be given with a generation_id", "")
