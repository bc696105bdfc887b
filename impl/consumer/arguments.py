"""Validates the consumer's arguments. Each function raises `InvalidArgumentError`.

Source: `ConsumerConfig`, `KafkaConsumer.assign`, `seek`, `commitSync`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from impl.client.arguments import check_offset, parse_partition
from impl.client.errors import InvalidArgumentError
from impl.protocol.fields import TopicPartition


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


def parse_offsets(offsets: Any) -> dict[TopicPartition, int]:
    """Checked offsets by (topic, partition)."""
    if not isinstance(offsets, Mapping):
        raise InvalidArgumentError("offsets", "must map (topic, partition) to an offset", offsets)
    for offset in offsets.values():
        check_offset(offset)
    return {parse_partition(place): offset for place, offset in offsets.items()}
