"""An assigned partition: what is delivered next, what is fetched next, and from which node.

Source: `SubscriptionState.TopicPartitionState`, `FetchPosition` of Kafka 4.3.1.
"""

from __future__ import annotations

from typing import NamedTuple

from impl.client.connection import Body
from impl.consumer.returned_records import ReturnedRecords
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import NO_PARTITION_LEADER_EPOCH


class LogEnds(NamedTuple):
    """The ends of a log as the last Fetch answer had them, at `timestamp_ms`; -1 if it did not."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    timestamp_ms: int

    @classmethod
    def of(cls, row: Body, now_ms: int) -> LogEnds:
        """Those of a partition's row."""
        return cls(
            row["high_watermark"], row["last_stable_offset"], row["log_start_offset"], now_ms
        )


class AssignedPartition:
    """An assigned partition at one position; `assign` and `seek` replace it.

    `position`: the next record to deliver, None if unknown. `fetch_offset`: the next to fetch.
    `position_epoch` and `fetch_epoch` are the leader epochs of the records before them, -1 if
    unknown. `leader_epoch` is that of the leader whose log has what was fetched, -1 until one is
    known. `waiting` counts answers that were fetched and not taken. `returned` has the records that
    the application got since the position was assigned or sought.
    """

    __slots__ = (
        "_nearest",
        "_nearest_until_s",
        "fetch_epoch",
        "fetch_offset",
        "leader_epoch",
        "place",
        "position",
        "position_epoch",
        "returned",
        "waiting",
    )

    def __init__(
        self, place: TopicPartition, position: int | None, epoch: int = NO_PARTITION_LEADER_EPOCH
    ) -> None:
        self.place = place
        self.leader_epoch = NO_PARTITION_LEADER_EPOCH
        self.waiting = 0
        self._nearest: int | None = None
        self._nearest_until_s = 0.0
        self.position = self.fetch_offset = position
        self.position_epoch = self.fetch_epoch = epoch
        self.returned = ReturnedRecords(position)

    def set_position(self, position: int, epoch: int) -> None:
        """Deliver and fetch from here on."""
        self.position = self.fetch_offset = position
        self.position_epoch = self.fetch_epoch = epoch
        self.returned = ReturnedRecords(position, self.returned.is_of_new_topic)

    def of_new_topic(self) -> AssignedPartition:
        """Of the topic that was created again with this name: its position is unknown."""
        new = AssignedPartition(self.place, None)
        new.returned = ReturnedRecords(None, is_of_new_topic=True)
        return new

    def fetched_again(self) -> AssignedPartition:
        """The same position, of which nothing was fetched ahead."""
        again = AssignedPartition(self.place, self.position, self.position_epoch)
        again.returned = self.returned
        return again

    def deliver_to(self, offset: int, epoch: int) -> None:
        """Records before this offset are delivered; `epoch` is -1 if there were none."""
        self.position = offset
        if epoch != NO_PARTITION_LEADER_EPOCH:
            self.position_epoch = epoch

    def fetch_to(self, offset: int, epoch: int) -> None:
        """One more answer waits: records before this offset are fetched."""
        self.waiting += 1
        self.fetch_offset = offset
        if epoch != NO_PARTITION_LEADER_EPOCH:
            self.fetch_epoch = epoch

    # ---- which replica

    def nearest_replica(self, now_s: float) -> int | None:
        """The node that the leader has named, while that holds."""
        return self._nearest if now_s < self._nearest_until_s else None

    def read_from(self, node_id: int, until_s: float) -> None:
        """Fetch from this node for a while."""
        self._nearest, self._nearest_until_s = node_id, until_s

    def forget_replica(self) -> bool:
        """Fetch from the leader; whether that was otherwise."""
        was_elsewhere, self._nearest = self._nearest is not None, None
        return was_elsewhere
