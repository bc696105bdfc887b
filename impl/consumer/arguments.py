"""Validates the consumer's arguments. Each function raises `InvalidArgumentError`.

Source: `ConsumerConfig`, `KafkaConsumer.assign`, `seek`, `commitSync`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from impl.client.network_client import TopicPartition
from impl.consumer.errors import InvalidArgumentError
from impl.settings import INT_MAX, LONG_MAX


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Check that a setting has one of these values."""
    choices = list(known)
    if value not in choices:
        raise InvalidArgumentError(name, f"must be one of {', '.join(choices)}", value)


def check_integer(name: str, value: object, greatest: int = INT_MAX, *, least: int = 0) -> None:
    """Check an integer and its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= greatest:
        raise InvalidArgumentError(name, f"must be an integer from {least} to {greatest}", value)


def check_text(name: str, value: object) -> None:
    """Check a non-empty string."""
    if not _is_text(value):
        raise InvalidArgumentError(name, "must be a non-empty string", value)


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def check_offset(offset: object) -> None:
    """Check an offset."""
    check_integer("offset", offset, LONG_MAX)


def parse_partition(place: Any) -> TopicPartition:
    """A checked (topic, partition)."""
    if not isinstance(place, tuple) or len(place) != 2 or not _is_text(place[0]):
        raise InvalidArgumentError("partition", "must be a pair (topic, number)", place)
    check_integer("partition", place[1])
    return place


def parse_partitions(places: Any) -> list[TopicPartition]:
    """Checked (topic, partition) pairs."""
    if not isinstance(places, Iterable) or isinstance(places, str):
        raise InvalidArgumentError("partitions", "must be pairs (topic, number)", places)
    return [parse_partition(place) for place in places]


def parse_offsets(offsets: Any) -> dict[TopicPartition, int]:
    """Checked offsets by (topic, partition)."""
    if not isinstance(offsets, Mapping):
        raise InvalidArgumentError("offsets", "must map (topic, partition) to an offset", offsets)
    for offset in offsets.values():
        check_offset(offset)
    return {parse_partition(place): offset for place, offset in offsets.items()}
