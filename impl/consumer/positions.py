"""Where a consumer begins to read, and what brokers know of offsets.

1. A position is the group's committed offset, or without one where `auto_offset_reset` leads. A
   topic that was created again has none: what is found was committed for the topic before.
2. A committed offset has the leader epoch of the record before it, which is validated.

Source: `OffsetFetcher`, `SubscriptionState` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from impl.client.arguments import OffsetAndMetadata
from impl.client.connection import Body
from impl.consumer.assigned_partition import AssignedPartition
from impl.consumer.consumer_requests import ConsumerRequests, only_row
from impl.consumer.errors import NoOffsetForPartitionError
from impl.consumer.offset_requests import OffsetRequests
from impl.protocol.fields import CONSUMER_REPLICA, Isolation, Timestamp, TopicPartition
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey


class OffsetAndTimestamp(NamedTuple):
    """A record's offset and timestamp, ms."""

    offset: int
    timestamp: int


class Positions:
    """Finds offsets for one consumer."""

    def __init__(
        self,
        requests: ConsumerRequests,
        committed: OffsetRequests,
        isolation_level: Isolation,
        reset: Timestamp | None,
    ) -> None:
        """`reset` is the timestamp of `auto_offset_reset`, None for "none"."""
        self._requests = requests
        self._committed = committed
        self._isolation = isolation_level
        self._reset = reset

    async def find(self, part: AssignedPartition) -> OffsetAndMetadata:
        """Where to begin. Raises `NoOffsetForPartitionError`, as `list`."""
        place, is_new = part.place, part.returned.is_of_new_topic
        if self._requests.group_id is not None and not is_new:
            committed = await self._committed.fetch(place)
            if committed is not None:
                return committed
        offset = await self.reset(place)
        if offset is None:
            why = "is of a topic that was created again" if is_new else "has no committed offset"
            problem = f"{place} {why}, and auto_offset_reset is none"
            raise NoOffsetForPartitionError(f"{problem}: seek one")
        return OffsetAndMetadata(offset)

    async def reset(self, place: TopicPartition) -> int | None:
        """Where `auto_offset_reset` leads, None for nowhere."""
        if self._reset is None:
            return None
        offset: int = (await self._find_row(place, self._reset))["offset"]
        return offset

    async def list(
        self, places: Iterable[TopicPartition], timestamp: Timestamp
    ) -> dict[TopicPartition, int]:
        """The offset of each at this special timestamp. Raises `KafkaTimeoutError`,
        `RefusedError`.
        """
        rows = await self._find_rows(dict.fromkeys(places, int(timestamp)))
        return {place: row["offset"] for place, row in rows.items()}

    async def first_since(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `Consumer.offsets_for_times`. Raises as `list`."""
        rows = await self._find_rows(timestamps)
        found = {p: OffsetAndTimestamp(r["offset"], r["timestamp"]) for p, r in rows.items()}
        return {place: None if f.offset == INVALID_OFFSET else f for place, f in found.items()}

    async def _find_rows(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Body]:
        self._requests.topics.update(topic for topic, _ in timestamps)
        rows = await asyncio.gather(*(self._find_row(*asked) for asked in timestamps.items()))
        return dict(zip(timestamps, rows, strict=True))

    async def _find_row(self, place: TopicPartition, timestamp: int) -> Body:
        """The row of a ListOffsets answer."""

        async def attempt() -> Body:
            row = {"partition_index": place[1], "timestamp": timestamp}
            body = {
                "replica_id": CONSUMER_REPLICA,
                "isolation_level": self._isolation,
                "topics": [{"name": place[0], "partitions": [row]}],
            }
            answer = await self._requests.ask_leader(place, ApiKey.LIST_OFFSETS, body)
            answered = only_row(answer, f"ListOffsets of {place}")
            self._requests.check(answered["error_code"], f"ListOffsets of {place}")
            return answered

        return await self._requests.retry_until_timeout(attempt, f"ListOffsets of {place}")
