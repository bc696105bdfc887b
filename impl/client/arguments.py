"""Validates arguments of the application's calls, for the producer and the consumer.

Each function raises `InvalidArgumentError`, whose message names the argument, what it may be, and
what it is. Source: `ProducerRecord`, `Topic.validate`, `KafkaConsumer.assign`, `seek`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter, signature
from typing import Any, Final, NamedTuple

from impl.client.errors import InvalidArgumentError, UnknownSettingError
from impl.coordinator.metadata import TopicPartition as NamedPartition
from impl.protocol.fields import TopicPartition
from impl.settings import INT_MAX, LONG_MAX

MAX_TOPIC_BYTES: Final = 249
"""The longest topic name. `Topic.MAX_NAME_LENGTH`."""

MAX_TEXT_BYTES: Final = 32_767
"""The longest string in a request."""


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read; `leader_epoch` is -1 if unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """The consumer whose offsets are committed. `group_id` alone is for manual assignment.

    `ConsumerGroupMetadata`, KIP-447.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def refuse_unknown(client: type, unknown: Mapping[str, object]) -> None:
    """Raise `UnknownSettingError` if a constructor was given names that it does not have."""
    parameters = signature(client).parameters.values()
    known = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    for name in unknown:
        raise UnknownSettingError(client.__name__, name, known)


def check_integer(name: str, value: object, *, least: int = 0, greatest: int = INT_MAX) -> None:
    """Check an integer and its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= greatest:
        raise InvalidArgumentError(name, f"must be an integer from {least} to {greatest}", value)


def check_text(name: str, value: object, greatest_bytes: int = MAX_TEXT_BYTES) -> None:
    """Check a non-empty string and its size."""
    try:
        size_bytes = len(value.encode()) if isinstance(value, str) else 0
    except UnicodeEncodeError:
        size_bytes = 0
    if not 0 < size_bytes <= greatest_bytes:
        may_be = f"must be a string of 1 to {greatest_bytes} bytes in UTF-8"
        raise InvalidArgumentError(name, may_be, value)


def check_topic(topic: object) -> None:
    """Check a topic name."""
    check_text("topic", topic, MAX_TOPIC_BYTES)


def check_partition(partition: object) -> None:
    """Check a partition index."""
    check_integer("partition", partition)


def check_offset(offset: object) -> None:
    """Check an offset."""
    check_integer("offset", offset, greatest=LONG_MAX)


def parse_partition(place: Any, name: str = "partition") -> TopicPartition:
    """A checked (topic, partition); `name` is the argument that holds it."""
    if not isinstance(place, tuple) or len(place) != 2:
        raise InvalidArgumentError(name, "must have the form (topic, partition)", place)
    check_topic(place[0])
    check_partition(place[1])
    return NamedPartition(*place)


def check_callable(name: str, value: object) -> None:
    """Check a function, or None."""
    if value is not None and not callable(value):
        raise InvalidArgumentError(name, "must be callable, or None", value)


def check_boolean(name: str, value: object) -> None:
    """Check a switch: "no" would be true."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(name, "must be True or False", value)


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Check that a setting has one of these values."""
    choices = list(known)
    if value not in choices:
        raise InvalidArgumentError(name, f"must be one of {', '.join(choices)}", value)


def parse_partitions(places: Any) -> list[TopicPartition]:
    """Checked (topic, partition) pairs."""
    if not isinstance(places, Iterable) or isinstance(places, str):
        raise InvalidArgumentError("partitions", "must be pairs (topic, partition)", places)
    return [parse_partition(place) for place in places]


def parse_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Checked offsets by (topic, partition).

    Each is an integer, an `OffsetAndMetadata`, or another client's tuple of the same form.
    """
    if not isinstance(offsets, Mapping):
        raise InvalidArgumentError("offsets", "must map (topic, partition) to an offset", offsets)
    return {
        parse_partition(place, "offsets"): _parse_offset(offset)
        for place, offset in offsets.items()
    }


def _parse_offset(offset: Any) -> OffsetAndMetadata:
    is_tuple = isinstance(offset, tuple) and 0 < len(offset) <= len(OffsetAndMetadata._fields)
    full = OffsetAndMetadata(*offset) if is_tuple else OffsetAndMetadata(offset)
    check_offset(full.offset)
    check_integer("leader_epoch", full.leader_epoch, least=-1)
    if not isinstance(full.metadata, str):
        raise InvalidArgumentError("metadata", "must be a string", full.metadata)
    return full
