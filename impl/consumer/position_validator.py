"""Checks, when a partition has another leader, that its log still has what was read (KIP-320).

1. A position is checked by OffsetForLeaderEpoch: where do the records end that have the epoch of
   the last one that was fetched?
2. If they end before the position, records that were delivered are lost. `auto_offset_reset` goes
   on at that end, or without one where it leads; with "none" it is a `LogTruncationError`.
3. If only records are lost that nobody has seen, they are fetched again.
4. A position without an epoch, after a `seek`, cannot be checked, and is taken as it is.

Source: `SubscriptionState.maybeCompleteValidation`, `OffsetsForLeaderEpochUtils` of Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from impl.client.connection import Body
from impl.consumer.assigned_partition import AssignedPartition
from impl.consumer.consumer_requests import ConsumerRequests, only_row
from impl.consumer.errors import LogTruncationError
from impl.protocol.fields import CONSUMER_REPLICA, TopicPartition
from impl.protocol.record_batch import INVALID_OFFSET, NO_PARTITION_LEADER_EPOCH
from impl.protocol.schemas import ApiKey

_log = logging.getLogger(__name__)

CONSUMERS_MAY_ASK_FROM: Final = 3
"""The first version that asks for the right to describe a topic, not to change the cluster."""


class PositionValidator:
    """Validates the positions of one consumer."""

    def __init__(
        self,
        requests: ConsumerRequests,
        reset_position: Callable[[TopicPartition], Awaitable[int | None]],
    ) -> None:
        """`reset_position` finds where `auto_offset_reset` leads; None for nowhere."""
        self._requests = requests
        self._reset_position = reset_position

    def is_due(self, part: AssignedPartition) -> bool:
        """Whether its leader is another one; one that cannot be checked is taken for the same."""
        epoch = self._leader_epoch(part)
        if epoch == part.leader_epoch:
            return False
        _, newest = self._requests.cluster.served.get(ApiKey.OFFSET_FOR_LEADER_EPOCH, (0, -1))
        if part.fetch_epoch != NO_PARTITION_LEADER_EPOCH and newest >= CONSUMERS_MAY_ASK_FROM:
            return True
        part.leader_epoch = epoch
        return False

    async def validate(self, part: AssignedPartition) -> AssignedPartition:
        """The same, or where to go on. Raises `LogTruncationError`, as `ConsumerRequests`."""
        epoch = self._leader_epoch(part)
        row = await self._ask(part, epoch)
        assert part.position is not None
        assert part.fetch_offset is not None
        end: int | None = row["end_offset"]
        if end == INVALID_OFFSET or row["leader_epoch"] == NO_PARTITION_LEADER_EPOCH:
            end = None
        if end is not None and end >= part.fetch_offset:
            part.leader_epoch = epoch
            return part
        if end is not None and end >= part.position:
            return part.fetched_again()
        return await self._go_on(part, end, row["leader_epoch"])

    async def _go_on(
        self, part: AssignedPartition, end: int | None, epoch: int
    ) -> AssignedPartition:
        assert part.position is not None
        error = LogTruncationError(part.place, part.position, end)
        reset = await self._reset_position(part.place)
        if reset is None:
            raise error
        _log.warning("%s; goes on at %d", error, reset if end is None else end)
        if end is None:
            return AssignedPartition(part.place, reset)
        return AssignedPartition(part.place, end, epoch)

    def _leader_epoch(self, part: AssignedPartition) -> int:
        return self._requests.cluster.leader_epochs.get(part.place, NO_PARTITION_LEADER_EPOCH)

    async def _ask(self, part: AssignedPartition, leader_epoch: int) -> Body:
        topic, index = part.place
        asked = {
            "partition": index,
            "current_leader_epoch": leader_epoch,
            "leader_epoch": part.fetch_epoch,
        }
        body = {
            "replica_id": CONSUMER_REPLICA,
            "topics": [{"topic": topic, "partitions": [asked]}],
        }
        answer = await self._requests.ask_leader(part.place, ApiKey.OFFSET_FOR_LEADER_EPOCH, body)
        row = only_row(answer, f"OffsetForLeaderEpoch of {part.place}")
        self._requests.check(row["error_code"], f"OffsetForLeaderEpoch of {part.place}")
        return row
