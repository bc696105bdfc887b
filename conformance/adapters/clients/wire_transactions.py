"""Cuts a transactional run into transactions, as the coordinator receives them.

A span ends where EndTxn or InitProducerId is answered without an error: everything after it belongs
to the next transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from conformance.adapters.clients.protocol_rules import Breach, SentBatch, attempts_of
from conformance.adapters.clients.trace import (
    ClientTrace,
    ConnectionClosed,
    ConnectionCut,
    CoordinatorAnswered,
    CoordinatorRequested,
    ProduceRequested,
    ProducerIdAnswered,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

FIRST_OF_V2: Final = {
    "PRODUCE": 12,
    ApiKey.TXN_OFFSET_COMMIT.name: 5,
    ApiKey.END_TXN.name: 5,
}
"""Versions from which a request needs no prior addition to its transaction (KIP-890)."""

STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request of a transaction. `ended` is the position of its answer, or of the end of its
    connection; `error` is the answer's code, None if no answer came."""

    position: int
    event: CoordinatorRequested
    ended: int
    error: int | None

    def breaks(self, rule: str, field: str, expected: object, observed: object) -> Breach:
        """The breach of a rule by this request."""
        path = f"{self.event.api}.{field}"
        return Breach(rule, self.position, {path: expected}, {path: observed})


@dataclass(slots=True)
class WireTransaction:
    """The messages of a client within one transaction, in order."""

    first: int
    last: int
    batches: list[SentBatch] = field(default_factory=list)
    requests: list[SentRequest] = field(default_factory=list)

    def of(self, *apis: ApiKey) -> Iterator[SentRequest]:
        """The requests of these APIs."""
        names = {api.name for api in apis}
        return (request for request in self.requests if request.event.api in names)

    def accepted(self, api: ApiKey, position: int) -> Iterator[SentRequest]:
        """Requests of an API that were answered without an error before a position."""
        return (r for r in self.of(api) if r.error == ErrorCode.NONE and r.ended < position)


def spans_of(trace: ClientTrace) -> list[WireTransaction]:
    """The transactions of a run; the last may be unfinished."""
    ends = [n for n, event in enumerate(trace.events) if ends_span(event)]
    places = [-1, *ends, len(trace.events)]
    batches, requests = attempts_of(trace), requests_of(trace)
    return [
        WireTransaction(
            first,
            last,
            [b for b in batches if first < b.position <= last],
            [r for r in requests if first < r.position <= last],
        )
        for first, last in pairwise(places)
    ]


def ends_span(event: object) -> bool:
    """Whether a transaction ends here, as far as its client knows."""
    if isinstance(event, CoordinatorAnswered):
        return event.api == ApiKey.END_TXN.name and event.error == ErrorCode.NONE
    return isinstance(event, ProducerIdAnswered) and event.error == ErrorCode.NONE


def requests_of(trace: ClientTrace) -> list[SentRequest]:
    """All requests of transactions, in the order in which they arrived."""
    return [
        SentRequest(position, event, *end_of_request(trace, position, event))
        for position, event in enumerate(trace.events)
        if isinstance(event, CoordinatorRequested)
    ]


def end_of_request(
    trace: ClientTrace, position: int, request: CoordinatorRequested
) -> tuple[int, int | None]:
    """The position and error of the answer to a request, or the position at which the answer was
    lost."""
    for number in range(position + 1, len(trace.events)):
        event = trace.events[number]
        if event.connection != request.connection:
            continue
        if isinstance(event, ConnectionCut | ConnectionClosed):
            return number, None
        if isinstance(event, CoordinatorAnswered) and (
            event.correlation_id == request.correlation_id
        ):
            return number, event.error
    return len(trace.events), None


def is_v1(trace: ClientTrace, batch: SentBatch) -> bool:
    """Whether a batch may be sent only after its partition was added to the transaction."""
    event = trace.events[batch.position]
    assert isinstance(event, ProduceRequested)
    return event.version < FIRST_OF_V2["PRODUCE"]


def transactions_in(batches: Sequence[SentBatch], known: dict[tuple[int, int], int]) -> set[int]:
    """The application's transactions with records in these batches."""
    return {
        known[batch.batch.partition, number]
        for batch in batches
        for number in batch.batch.records
        if (batch.batch.partition, number) in known
    }
