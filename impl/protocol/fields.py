"""Values and shapes that fields of several messages share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, TypeVar

CONSUMER_REPLICA: Final = -1
"""The replica id of a consumer. Followers send their broker id, debugging tools -2."""

NO_PRODUCER_ID: Final = -1
INVALID_OFFSET: Final = -1

T = TypeVar("T")
Topic = TypeVar("Topic", str, bytes)
"""A topic's name, or its id."""

TopicPartition = tuple[str, int]
"""(topic, partition)."""

TopicIdPartition = tuple[bytes, int]
"""(topic id, partition)."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The epochs with which a member joins, leaves, and leaves its place to its next instance."""


class CoordinatorType(IntEnum):
    """`key_type` of FindCoordinator. `FindCoordinatorRequest.CoordinatorType`."""

    GROUP = 0
    TRANSACTION = 1


class Isolation(IntEnum):
    """`isolation_level` of Fetch and ListOffsets. `IsolationLevel`."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Timestamp(IntEnum):
    """Special timestamps of ListOffsets. `ListOffsetsRequest`."""

    LATEST = -1
    EARLIEST = -2
    MAX = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


def group_by_topic(items: Iterable[tuple[Topic, T]]) -> dict[Topic, list[T]]:
    """The second parts of (topic, item) pairs by topic, in the order given."""
    groups: dict[Topic, list[T]] = {}
    for topic, item in items:
        groups.setdefault(topic, []).append(item)
    return groups


def topic_rows(
    items: Iterable[tuple[Topic, object]], name: str = "name", partitions: str = "partitions"
) -> list[dict[str, Any]]:
    """A row for each topic of (topic, item) pairs, with these names of its two fields."""
    return [{name: topic, partitions: found} for topic, found in group_by_topic(items).items()]


def place_rows(places: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    """A row for each topic, in order, with `topic_id` and `partitions`."""
    return topic_rows(sorted(places), name="topic_id")
