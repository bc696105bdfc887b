"""What each trace gets for itself at a broker: producer ids, and partitions for a while.

1. Every trace has producer ids of its own. The model's producer 0 is whatever InitProducerId said
   first, its epoch 0 the epoch that came with it; nothing absolute is asserted.
2. A partition is one trace's alone as long as this runs, and then the next one's. A leader's
   state is kept by producer id, so all that one trace leaves to the next is where the log ends;
   that is known exactly: what the trace stored. So offsets are compared exactly, and a hundred
   partitions serve a thousand traces. (Traces that share a partition at a time could compare
   offsets only with those that they have seen before; fresh partitions cost 2 ms each.)
3. A trace that ended in a difference leaves nobody knows what: its partitions are not used again.
   Nor are those that USES traces had, so that lists of producers stay short.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from conformance.kafka.admin import (
    ProducerIdentity,
    TopicPartition,
    await_leader,
    create_topic,
    init_producer_ids,
    log_start_offsets,
)
from conformance.kafka.connection import BrokerConnection

USES: Final = 32
"""Traces that a partition serves."""
MAX_PARTITIONS: Final = 1_000
"""Of one topic."""
IDS_AT_A_TIME: Final = 100


class BookedPartition(NamedTuple):
    """A partition of the broker, where its log began and ended, and how many traces had it."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    uses: int

    def told_start(self, offset: int) -> int:
        """The log's start in the numbers of a trace: 0 if it is where it was."""
        return 0 if offset == self.log_start_offset else offset - self.log_end_offset


class Left(NamedTuple):
    """What a trace leaves of a partition, in its own numbers: where the log starts and ends."""

    log_start_offset: int
    log_end_offset: int


class Booking(NamedTuple):
    """What one trace has: `producers` and `slots` by the model's numbers."""

    producers: tuple[ProducerIdentity, ...]
    slots: tuple[BookedPartition, ...]


class TopicForm(NamedTuple):
    """How topics are made: on which brokers each partition is, the leader first; its configs."""

    replicas: tuple[int, ...]
    configs: Mapping[str, str]


PLAIN: Final = TopicForm((), {})
"""One replica, wherever the cluster puts it."""


class BookingPool:
    """Gives bookings over a connection of its own.

    `traces` is how many will come, as far as that is known, `at_once` how many at a time; both
    for one partition each. `topic` are what its topics are created with, beside their names.
    Raises RequestRefused and WireError.
    """

    def __init__(
        self, connection: BrokerConnection, traces: int, at_once: int, topic: TopicForm = PLAIN
    ) -> None:
        self._connection = connection
        self._form = topic
        self._name = f"kafka-eos-{uuid.uuid4().hex[:12]}"
        self._topics: list[str] = []
        self._width = min(max(at_once, -(-traces // USES)), MAX_PARTITIONS)
        self._producers: deque[ProducerIdentity] = deque()
        self._slots: deque[BookedPartition] = deque()
        self._starts: Mapping[TopicPartition, int] = {}

    def take(self, producers: int, partitions: int) -> Booking:
        """So many of each."""
        if len(self._producers) < producers:
            self._producers += init_producer_ids(self._connection, max(producers, IDS_AT_A_TIME))
        while len(self._slots) < partitions:
            self._create()
        return Booking(
            tuple(self._producers.popleft() for _ in range(producers)),
            tuple(self._slots.popleft() for _ in range(partitions)),
        )

    def give_back(self, booking: Booking, left: Sequence[Left]) -> None:
        """A trace has ended as it should, and left this of each of its partitions."""
        for slot, (start, end) in zip(booking.slots, left, strict=True):
            if slot.uses + 1 < USES:
                base = slot.log_end_offset
                here = BookedPartition(
                    slot.topic,
                    slot.partition,
                    base + start if start else slot.log_start_offset,
                    base + end,
                    slot.uses + 1,
                )
                self._slots.append(here)

    def reconnect(self, connection: BrokerConnection) -> None:
        """The broker was away: go on over this connection once it leads all partitions again.

        A log may start earlier now: what was deleted from it is there again after a crash.
        """
        self._connection.close()
        self._connection = connection
        partitions = [(name, index) for name in self._topics for index in range(self._width)]
        await_leader(connection, partitions)
        self._starts = log_start_offsets(connection, partitions)
        self._slots = deque(self._restarted(slot) for slot in self._slots)

    def restarted(self, booking: Booking) -> Booking:
        """A booking after `reconnect`."""
        return booking._replace(slots=tuple(self._restarted(slot) for slot in booking.slots))

    def _restarted(self, slot: BookedPartition) -> BookedPartition:
        """With the log's start of now, unless it is the trace that has it that deleted more."""
        start = self._starts[slot.topic, slot.partition]
        return slot._replace(log_start_offset=start) if start <= slot.log_end_offset else slot

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _create(self) -> None:
        """One more topic."""
        topic = f"{self._name}-{len(self._topics)}"
        create_topic(
            self._connection,
            topic,
            self._width,
            replicas=self._form.replicas,
            configs=self._form.configs,
        )
        self._topics.append(topic)
        self._slots += [
            BookedPartition(topic, partition, 0, 0, 0) for partition in range(self._width)
        ]
