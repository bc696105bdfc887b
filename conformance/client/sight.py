"""What is known of a run at one point of it: what was seen before, and what is seen later.

A run is judged after its end, so that what a client did unseen can be told from what it did next:
a connection was not closed before the last request on it, nobody gave up a record that was stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from conformance.client.plan import PARTITIONS, RunPlan
from conformance.client.trace import (
    UNFINISHED,
    UNKNOWN,
    ClientTrace,
    Closed,
    Cut,
    Event,
    InitAnswer,
    InitProducerId,
    Opened,
    Produce,
    ProduceAnswer,
    Record,
    SentBatch,
)

STORED: Final = "stored"
FAILED: Final = "failed"
SILENT: Final = "silent"

Answers = list[ProduceAnswer | InitAnswer]


class Sight:
    """A trace, seen from one event after the other."""

    def __init__(self, trace: ClientTrace) -> None:
        self.plan: RunPlan = trace.plan
        self.now_us = 0
        self.answers: list[Answers] = []
        self.requests: dict[tuple[int, int], Produce] = {}
        self._outcomes = trace.outcomes
        self._ended_us = trace.ended_us
        self._to_node: list[bool] = []
        self._ended: set[int] = set()
        self._last_request: dict[int, int] = {}
        self._closed = {e.connection for e in trace.events if isinstance(e, Closed)}
        self._is_finished = trace.problem != UNFINISHED
        self._position = 0
        self._sent: list[list[tuple[int, SentBatch]]] = [[] for _ in range(PARTITIONS)]
        self._last_sent_us: dict[Record, int] = {}
        self._answered_us: dict[Record, tuple[int, int]] = {}
        self._created_us: dict[Record, int] = {}
        self._batches_of: dict[int, int] = defaultdict(int)
        for position, event in enumerate(trace.events):
            if isinstance(event, Produce | InitProducerId):
                self._last_request[event.connection] = position
            if isinstance(event, Produce):
                for batch in event.batches:
                    self._sent[batch.partition].append((position, batch))
        self._taken = {record for sent in self._sent for record in taken(b for _, b in sent)}
        self._largest = max((len(b.records) for sent in self._sent for _, b in sent), default=1)

    def comes(self, position: int, event: Event) -> None:
        """The next event."""
        self._position, self.now_us = position, event.at_us
        match event:
            case Opened():
                self.answers.append([])
                self._to_node.append(event.to_node)
            case ProduceAnswer() | InitAnswer():
                self.answers[event.connection].append(event)
                if isinstance(event, ProduceAnswer):
                    self._was_answered(event)
            case Cut() | Closed():
                self._ended.add(event.connection)
            case Produce():
                self.requests[event.connection, event.correlation_id] = event

    def ends(self) -> None:
        """The run is over: the application has heard all that it will hear."""
        self.now_us = self._ended_us

    def was_sent(self, event: Produce) -> None:
        """A request was explained."""
        self._batches_of[event.connection] += len(event.batches)
        for batch in event.batches:
            created_us = self.created_us(batch.partition, batch.records[0])
            sent_us = self._sent_us(event.connection, batch)
            for number in batch.records:
                self._last_sent_us[batch.partition, number] = sent_us
                self._created_us.setdefault((batch.partition, number), created_us)

    def _sent_us(self, connection: int, batch: SentBatch) -> int:
        """When a batch was sent, at the earliest: not before the last time, nor before what it was
        answered then, if it came again on the same connection. That it arrived later says nothing:
        the proxy reads when the machine lets it."""
        record = batch.partition, batch.records[0]
        answered_on, answered_us = self._answered_us.get(record, (connection, 0))
        heard_us = answered_us if answered_on == connection else 0
        return max(self.last_sent_us(*record), heard_us)

    def _was_answered(self, answer: ProduceAnswer) -> None:
        """When the answer to each record left."""
        for batch in self.requests[answer.connection, answer.correlation_id].batches:
            for number in batch.records:
                self._answered_us[batch.partition, number] = answer.connection, answer.at_us

    # Connections

    def may_have_ended(self, connection: int) -> bool:
        """Whether the client can know this connection as closed: it asked nothing on it later. In
        a run that was left before its end, not all that is closed was seen."""
        if self._last_request.get(connection, -1) >= self._position:
            return False
        seen = connection in self._ended or connection in self._closed
        return seen or not self._is_finished

    def is_asked(self, connection: int) -> bool:
        """Whether anything is ever asked on it."""
        return connection in self._last_request

    def carries_batches(self, connection: int) -> bool:
        """Whether batches were sent on it."""
        return self._batches_of[connection] > 0

    def beside(self, connection: int, partition: int, firsts: Collection[int]) -> list[Record]:
        """The batches of other partitions, by their first records, that were asked on a connection
        together with some of one partition."""
        return [
            (other.partition, other.records[0])
            for (asked_on, _), request in self.requests.items()
            if asked_on == connection
            and any(b.partition == partition and b.records[0] in firsts for b in request.batches)
            for other in request.batches
            if other.partition != partition
        ]

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
        """How many records a batch from `first` on can have had that nobody saw when it was sent:
        as many as when it is seen later; else all has failed, and it was no larger than others."""
        size = self._size_next_sent(partition, first)
        if size is not None:
            return [size]
        count = 0
        while count < self._largest and self.has_failed(partition, first + count):
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
        """When a record was last sent, at the earliest; when its batch was made, if never."""
        created_us = self.created_us(partition, number)
        return self._last_sent_us.get((partition, number), created_us)

    def created_us(self, partition: int, first: int) -> int:
        """When a batch was made, at the earliest; what is split keeps the time of the whole."""
        return self._created_us.get((partition, first), self.handed_us(partition, first))

    # Records

    def has(self, partition: int, number: int) -> str:
        """What the application was told of a record."""
        outcome = self._outcomes.get((partition, number))
        if outcome is None:
            return SILENT
        return FAILED if outcome.error else STORED

    def told_us(self, partition: int, number: int) -> int:
        """When the client told what became of a record, by its own clock; or UNKNOWN."""
        outcome = self._outcomes.get((partition, number))
        return UNKNOWN if outcome is None else outcome.at_us

    def has_failed(self, partition: int, number: int) -> bool:
        """Whether the application was told that the record failed."""
        return self.has(partition, number) == FAILED

    def is_taken(self, partition: int, number: int) -> bool:
        """Whether a part of a split batch takes the record later, KAFKA-9703."""
        return (partition, number) in self._taken

    def handed_us(self, partition: int, number: int) -> int:
        """When the application handed the record over, at the earliest."""
        outcome = self._outcomes.get((partition, number))
        return 0 if outcome is None else outcome.handed_us


def taken(batches: Iterable[SentBatch]) -> Iterator[Record]:
    """The records that a batch had not when it was sent before."""
    counts: dict[int, int] = {}
    for batch in batches:
        count = counts.setdefault(batch.records[0], len(batch.records))
        yield from ((batch.partition, number) for number in batch.records[count:])
