"""What is known of a run at one point of it: what was seen before, and what is seen later.

A run is judged after its end, so that what a client did unseen can be told from what it did next:
a connection was not closed before the last request on it, nobody gave up a record that was stored.
"""

from __future__ import annotations

from collections import defaultdict

from conformance.client.plan import PARTITIONS, RunPlan
from conformance.client.trace import (
    Closed,
    ClientTrace,
    Cut,
    Event,
    InitAnswer,
    InitProducerId,
    Opened,
    Produce,
    ProduceAnswer,
    SentBatch,
)

Answers = list[ProduceAnswer | InitAnswer]


class Sight:
    """A trace, seen from one event after the other."""

    def __init__(self, trace: ClientTrace) -> None:
        self.plan: RunPlan = trace.plan
        self.now_us = 0
        self.answers: list[Answers] = []
        self.requests: dict[tuple[int, int], Produce] = {}
        self._outcomes = trace.outcomes
        self._to_node: list[bool] = []
        self._ended: set[int] = set()
        self._last_request: dict[int, int] = {}
        self._closed = {e.connection for e in trace.events if isinstance(e, Closed)}
        self._position = 0
        self._sent: list[list[tuple[int, SentBatch]]] = [[] for _ in range(PARTITIONS)]
        self._last_sent_us: dict[tuple[int, int], int] = {}
        self._batches_of: dict[int, int] = defaultdict(int)
        for position, event in enumerate(trace.events):
            if isinstance(event, Produce | InitProducerId):
                self._last_request[event.connection] = position
            if isinstance(event, Produce):
                for batch in event.batches:
                    self._sent[batch.partition].append((position, batch))

    def comes(self, position: int, event: Event) -> None:
        """The next event."""
        self._position, self.now_us = position, event.at_us
        match event:
            case Opened():
                self.answers.append([])
                self._to_node.append(event.to_node)
            case ProduceAnswer() | InitAnswer():
                self.answers[event.connection].append(event)
            case Cut() | Closed():
                self._ended.add(event.connection)
            case Produce():
                self.requests[event.connection, event.correlation_id] = event

    def was_sent(self, event: Produce) -> None:
        """A request was explained."""
        self._batches_of[event.connection] += len(event.batches)
        for batch in event.batches:
            for number in batch.records:
                self._last_sent_us[batch.partition, number] = event.at_us

    # Connections

    def may_have_ended(self, connection: int) -> bool:
        """Whether the client can know this connection as closed: it asked nothing on it later."""
        if self._last_request.get(connection, -1) >= self._position:
            return False
        return connection in self._ended or connection in self._closed

    def carries_batches(self, connection: int) -> bool:
        """Whether batches were sent on it."""
        return self._batches_of[connection] > 0

    def is_to_node(self, connection: int) -> bool:
        """Whether it leads to the node, not only to where nodes are looked for."""
        return self._to_node[connection]

    # Batches

    def parts(self, partition: int, first: int, count: int) -> list[int]:
        """How many records each part of a batch had when it was sent next."""
        sizes, left = [], count
        while left:
            size = self._size_next_sent(partition, first + count - left)
            sizes.append(left if size is None or size > left else size)
            left -= sizes[-1]
        return sizes

    def counts(self, partition: int, first: int) -> list[int]:
        """How many records a batch from `first` on can have had that was not seen when it was
        sent: as many as when it is seen later; else all of it has failed."""
        size = self._size_next_sent(partition, first)
        if size is not None:
            return [size]
        count = 0
        while self.has_failed(partition, first + count):
            count += 1
        return list(range(1, count + 1))

    def _size_next_sent(self, partition: int, first: int) -> int | None:
        return next(
            (
                len(batch.records)
                for position, batch in self._sent[partition]
                if position >= self._position and batch.records[:1] == (first,)
            ),
            None,
        )

    def last_sent_us(self, partition: int, number: int) -> int:
        """When a record was last seen on its way; when it was handed over, if never."""
        handed = self.handed_us(partition, number)
        return self._last_sent_us.get((partition, number), handed)

    # Records

    def has_failed(self, partition: int, number: int) -> bool:
        """Whether the application was told that the record failed."""
        outcome = self._outcomes.get((partition, number))
        return outcome is not None and bool(outcome.error)

    def handed_us(self, partition: int, number: int) -> int:
        """When the application handed the record over, at the earliest."""
        outcome = self._outcomes.get((partition, number))
        return 0 if outcome is None else outcome.handed_us
