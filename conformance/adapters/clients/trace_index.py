"""A trace indexed by time: the observations before an event, and those after it.

A run is judged after its end, so later events reveal unobserved ones: a connection was open until
the last request on it; a record that was stored never expired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from conformance.adapters.clients.batches import BatchKey
from conformance.adapters.clients.run_plan import RunPlan
from conformance.adapters.clients.trace import (
    UNFINISHED,
    UNKNOWN,
    AnswerEvent,
    ClientTrace,
    ConnectionClosed,
    ConnectionCut,
    ConnectionEvent,
    ConnectionOpened,
    ProduceAnswered,
    ProduceRequested,
    ProducerIdAnswered,
    ProducerIdRequested,
    Record,
    WireBatch,
    sent_batches,
)

STORED: Final = "stored"
FAILED: Final = "failed"
SILENT: Final = "silent"


class TraceIndex:
    """A trace, advanced event by event. `now_us` is the time of the last event; `answers` has the
    responses of each connection so far, `requests` the Produce requests by correlation id."""

    def __init__(self, trace: ClientTrace) -> None:
        self.plan: RunPlan = trace.plan
        self.now_us = 0
        self.answers: list[list[AnswerEvent]] = []
        self.requests: dict[tuple[int, int], ProduceRequested] = {}
        self._trace = trace
        self._position = 0
        self._to_node: list[bool] = []
        self._ended: set[int] = set()
        self._closed = {e.connection for e in trace.events if isinstance(e, ConnectionClosed)}
        self._last_request = {
            event.connection: position
            for position, event in enumerate(trace.events)
            if isinstance(event, ProduceRequested | ProducerIdRequested)
        }
        self._sent = list(sent_batches(trace))
        self._appended = set(appended_records(trace))
        self._largest = max((len(b.records) for _, b in self._sent), default=1)
        self._batches_on: dict[int, int] = defaultdict(int)
        self._last_sent_us: dict[Record, int] = {}
        self._created_us: dict[Record, int] = {}
        self._answered_us: dict[Record, tuple[int, int]] = {}

    def advance(self, position: int, event: ConnectionEvent) -> None:
        """Take the next event."""
        self._position, self.now_us = position, event.at_us
        match event:
            case ConnectionOpened():
                self.answers.append([])
                self._to_node.append(event.to_node)
            case ProduceAnswered() | ProducerIdAnswered():
                self.answers[event.connection].append(event)
                if isinstance(event, ProduceAnswered):
                    self._note_answer(event)
            case ConnectionCut() | ConnectionClosed():
                self._ended.add(event.connection)
            case ProduceRequested():
                self.requests[event.connection, event.correlation_id] = event

    def finish(self) -> None:
        """Go to the end of the run: the application receives no more outcomes."""
        self.now_us = self._trace.ended_us

    def note_request(self, event: ProduceRequested) -> None:
        """Keep the times of a request that is explained."""
        self._batches_on[event.connection] += len(event.batches)
        for batch in event.batches:
            created_us = self.created_us(batch.partition, batch.records[0])
            sent_us = self._earliest_send_us(event.connection, batch)
            for number in batch.records:
                self._last_sent_us[batch.partition, number] = sent_us
                self._created_us.setdefault((batch.partition, number), created_us)

    def _earliest_send_us(self, connection: int, batch: WireBatch) -> int:
        """The earliest time at which a batch was sent: after its previous request, and after the
        response to that if it came on the same connection. The arrival time says nothing, because
        the proxy reads late on a busy machine."""
        record = batch.partition, batch.records[0]
        answered_on, answered_us = self._answered_us.get(record, (connection, 0))
        received_us = answered_us if answered_on == connection else 0
        return max(self.last_sent_us(*record), received_us)

    def _note_answer(self, answer: ProduceAnswered) -> None:
        for batch in self.requests[answer.connection, answer.correlation_id].batches:
            for number in batch.records:
                self._answered_us[batch.partition, number] = answer.connection, answer.at_us

    # Connections

    def may_have_ended(self, connection: int) -> bool:
        """Whether the client may know by now that a connection has ended: no later request uses it.
        In a run that timed out, not every end was observed."""
        if self._last_request.get(connection, -1) >= self._position:
            return False
        unobserved = self._trace.problem == UNFINISHED
        return unobserved or connection in self._ended or connection in self._closed

    def has_requests(self, connection: int) -> bool:
        """Whether any request uses a connection, at any time."""
        return connection in self._last_request

    def has_sent_batches(self, connection: int) -> bool:
        """Whether batches were sent on a connection so far."""
        return self._batches_on[connection] > 0

    def is_to_node(self, connection: int) -> bool:
        """Whether a connection leads to the node, not to the bootstrap address."""
        return self._to_node[connection]

    def requested_with(
        self, connection: int, partition: int, firsts: Collection[int]
    ) -> list[BatchKey]:
        """The batches of other partitions in the requests with some batches of one partition."""
        return [
            (other.partition, other.records[0])
            for (sent_on, _), request in self.requests.items()
            if sent_on == connection
            and any(b.partition == partition and b.records[0] in firsts for b in request.batches)
            for other in request.batches
            if other.partition != partition
        ]

    # Batches

    def part_sizes(self, partition: int, first: int, count: int) -> list[int]:
        """The number of records in each part of a split batch, as the parts are sent next."""
        sizes, left = [], count
        while left:
            size = self._next_size(partition, first + count - left)
            sizes.append(left if size is None or size > left else size)
            left -= sizes[-1]
        return sizes

    def possible_sizes(self, partition: int, first: int) -> list[int]:
        """The possible numbers of records in a batch from `first` on that was not yet observed. If
        the batch is observed later, its size is known. Otherwise all its records fail, and no batch
        is larger than the observed ones."""
        size = self._next_size(partition, first)
        if size is not None:
            return [size]
        count = 0
        while count < self._largest and self.has_failed(partition, first + count):
            count += 1
        return list(range(1, count + 1))

    def _next_size(self, partition: int, first: int) -> int | None:
        return next(
            (
                len(batch.records)
                for position, batch in self._sent
                if position >= self._position
                and batch.partition == partition
                and batch.records[:1] == (first,)
            ),
            None,
        )

    def last_sent_us(self, partition: int, number: int) -> int:
        """The earliest time at which a record was last sent; if it was never sent, its batch's
        creation."""
        created_us = self.created_us(partition, number)
        return self._last_sent_us.get((partition, number), created_us)

    def created_us(self, partition: int, first: int) -> int:
        """The earliest time at which a batch was created; parts have the time of the split
        batch."""
        return self._created_us.get((partition, first), self._handed_us(partition, first))

    # Records

    def outcome(self, partition: int, number: int) -> str:
        """The outcome of a record for the application: STORED, FAILED or SILENT."""
        outcome = self._trace.outcomes.get((partition, number))
        if outcome is None:
            return SILENT
        return FAILED if outcome.error else STORED

    def outcome_us(self, partition: int, number: int) -> int:
        """The time at which the application received a record's outcome, by the client's clock; or
        UNKNOWN."""
        outcome = self._trace.outcomes.get((partition, number))
        return UNKNOWN if outcome is None else outcome.at_us

    def has_failed(self, partition: int, number: int) -> bool:
        """Whether the application received a failure for a record."""
        return self.outcome(partition, number) == FAILED

    def is_appended_later(self, partition: int, number: int) -> bool:
        """Whether a part of a split batch takes the record, KAFKA-9703."""
        return (partition, number) in self._appended

    def _handed_us(self, partition: int, number: int) -> int:
        outcome = self._trace.outcomes.get((partition, number))
        return 0 if outcome is None else outcome.handed_us


def appended_records(trace: ClientTrace) -> Iterator[Record]:
    """The records that a batch did not have when it was first sent."""
    counts: dict[Record, int] = {}
    for _, batch in sent_batches(trace):
        count = counts.setdefault((batch.partition, batch.records[0]), len(batch.records))
        yield from ((batch.partition, number) for number in batch.records[count:])
