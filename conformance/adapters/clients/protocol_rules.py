"""The protocol's rules for any idempotent producer, checked on the messages of a run.

The model of the Java client is one way to keep these rules. A client that the model does not
explain, but that keeps them all, differs from the Java client only in its policy: when it asks for
a producer id, which batches it retries and when, which records share a batch.

Each rule is a function that returns its first breach. Sources: KIP-98 (ids, epochs, sequences),
KIP-360 (epochs that a client takes by itself), KAFKA-5494 (five batches in flight).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from conformance.adapters.clients.record_order import renumber_records
from conformance.adapters.clients.trace import (
    ALL_REPLICAS,
    ClientTrace,
    ConnectionClosed,
    ConnectionCut,
    ProduceAnswered,
    ProduceRequested,
    ProducerIdAnswered,
    WireBatch,
    produce_requests,
)
from impl.protocol.errors import ErrorCode

MOST_IN_FLIGHT: Final = 5
"""The number of a producer's batches that a leader remembers:
ProducerStateEntry.NUM_BATCHES_TO_RETAIN."""

MAY_BE_STORED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)
"""Answers after which a batch may be in the log."""

Numbering = tuple[int, int, int]
"""A partition, a producer id and an epoch: each such triple has its own sequences."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that the event at `position` breaks: the expected and the observed values, by
    field."""

    rule: str
    position: int
    expected: Mapping[str, Any]
    observed: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch in one request. `ended` is the position of its answer, or of the end of its
    connection; `error` is the answer's code, None if no answer came."""

    position: int
    batch: WireBatch
    ended: int
    error: int | None

    @property
    def numbering(self) -> Numbering:
        """The triple within which its sequences count."""
        b = self.batch
        return b.partition, b.producer_id, b.producer_epoch

    def numbered_records(self) -> Iterator[tuple[int, int]]:
        """The sequence of each record, and its number."""
        yield from enumerate(self.batch.records, start=self.batch.base_sequence)

    def is_refused(self, position: int) -> bool:
        """Whether the client knows at this position that this attempt stored nothing."""
        return self.ended < position and self.error is not None and self.error not in MAY_BE_STORED

    def breaks(self, rule: str, field: str, expected: Any, observed: Any) -> Breach:
        """The breach of a rule by this batch."""
        path = f"partition[{self.batch.partition}].batch.{field}"
        return Breach(rule, self.position, {path: expected}, {path: observed})


def attempts_of(trace: ClientTrace) -> list[SentBatch]:
    """All batches of all requests, in the order in which they arrived."""
    return [
        SentBatch(position, batch, *end_of(trace, position, event, batch.partition))
        for position, event in enumerate(trace.events)
        if isinstance(event, ProduceRequested)
        for batch in event.batches
    ]


def end_of(
    trace: ClientTrace, position: int, request: ProduceRequested, partition: int
) -> tuple[int, int | None]:
    """The position and error of the answer to a request's part for one partition, or the position
    at which the answer was lost."""
    for number in range(position + 1, len(trace.events)):
        event = trace.events[number]
        if event.connection != request.connection:
            continue
        if isinstance(event, ConnectionCut | ConnectionClosed):
            return number, None
        if isinstance(event, ProduceAnswered) and event.correlation_id == request.correlation_id:
            return number, {row.partition: row.error for row in event.partitions}.get(partition)
    return len(trace.events), None


# The rules


def ids_are_given(trace: ClientTrace, attempts: Iterable[SentBatch]) -> Breach | None:
    """A batch has a producer id that InitProducerId gave, at the epoch that came with it or at a
    later one, which a client takes by itself (KIP-360)."""
    for attempt in attempts:
        batch = attempt.batch
        given = [
            event.producer_epoch
            for event in trace.events[: attempt.position]
            if isinstance(event, ProducerIdAnswered)
            and not event.error
            and event.producer_id == batch.producer_id
        ]
        if not given:
            return attempt.breaks(
                "ids_are_given", "producer_id", "one that was given", batch.producer_id
            )
        if batch.producer_epoch < min(given):
            return attempt.breaks(
                "ids_are_given", "producer_epoch", f"{min(given)} or later", batch.producer_epoch
            )
    return None


def epochs_never_go_back(_: ClientTrace, attempts: Iterable[SentBatch]) -> Breach | None:
    """At a partition, the epochs of a producer id only grow: a leader fences what is older."""
    newest: dict[tuple[int, int], int] = {}
    for attempt in attempts:
        partition, producer_id, epoch = attempt.numbering
        known = newest.setdefault((partition, producer_id), epoch)
        if epoch < known:
            return attempt.breaks(
                "epochs_never_go_back", "producer_epoch", f"{known} or later", epoch
            )
        newest[partition, producer_id] = epoch
    return None


def sequences_follow(_: ClientTrace, attempts: Iterable[SentBatch]) -> Breach | None:
    """Sequences begin at 0 and leave none out, at each partition and epoch."""
    following: dict[Numbering, int] = defaultdict(int)
    for attempt in attempts:
        first, known = attempt.batch.base_sequence, following[attempt.numbering]
        if first > known:
            return attempt.breaks("sequences_follow", "base_sequence", f"{known} at most", first)
        following[attempt.numbering] = max(known, first + len(attempt.batch.records))
    return None


def sequences_name_one_record(_: ClientTrace, attempts: Iterable[SentBatch]) -> Breach | None:
    """A sequence stays that of one record, until each attempt to store it was refused, or the
    leader says that it has forgotten the producer (UNKNOWN_PRODUCER_ID)."""
    for attempt, sent in with_what_may_be_stored(attempts):
        named = dict(sent)
        for sequence, record in attempt.numbered_records():
            if named.get(sequence, record) != record:
                known, seen = (f"{r} at sequence {sequence}" for r in (named[sequence], record))
                return attempt.breaks("sequences_name_one_record", "records", known, seen)
    return None


def records_keep_their_sequence(_: ClientTrace, attempts: Iterable[SentBatch]) -> Breach | None:
    """Within an epoch, a record that may be stored is not sent at another sequence."""
    for attempt, sent in with_what_may_be_stored(attempts):
        named = {record: sequence for sequence, record in sent}
        for sequence, record in attempt.numbered_records():
            if named.get(record, sequence) != sequence:
                known, seen = (f"{n} of record {record}" for n in (named[record], sequence))
                return attempt.breaks("records_keep_their_sequence", "sequence", known, seen)
    return None


def with_what_may_be_stored(
    attempts: Iterable[SentBatch],
) -> Iterator[tuple[SentBatch, list[tuple[int, int]]]]:
    """Each attempt, with the sequences and records of earlier ones that may be stored."""
    before: dict[Numbering, list[SentBatch]] = defaultdict(list)
    for attempt in attempts:
        known = before[attempt.numbering]
        forgotten = forgotten_at(known, attempt.position)
        yield (
            attempt,
            [
                named
                for other in known
                if other.position > forgotten and not other.is_refused(attempt.position)
                for named in other.numbered_records()
            ],
        )
        known.append(attempt)


def forgotten_at(attempts: Iterable[SentBatch], position: int) -> int:
    """The last of these attempts that a leader without state of the producer had answered before
    this position; -1 if there is none."""
    unknown = ErrorCode.UNKNOWN_PRODUCER_ID
    places = [a.position for a in attempts if a.error == unknown and a.ended < position]
    return max(places, default=-1)


def waits_for_all_replicas(trace: ClientTrace, _: Iterable[SentBatch]) -> Breach | None:
    """A producer asks for acks=all: what its leader alone has answered is lost with it, and the
    sequences behind it are then refused for ever."""
    for position, event in produce_requests(trace):
        if event.acks != ALL_REPLICAS:
            rule, path = "waits_for_all_replicas", "request.acks"
            return Breach(rule, position, {path: ALL_REPLICAS}, {path: event.acks})
    return None


def few_are_in_flight(_: ClientTrace, attempts: Iterable[SentBatch]) -> Breach | None:
    """At most five batches for a partition wait for their answers: a leader remembers no more."""
    sent: list[SentBatch] = []
    for attempt in attempts:
        sent.append(attempt)
        waiting = {
            other.batch.base_sequence
            for other in sent
            if other.ended > attempt.position and other.numbering == attempt.numbering
        }
        if len(waiting) > MOST_IN_FLIGHT:
            return attempt.breaks(
                "few_are_in_flight", "in_flight", f"{MOST_IN_FLIGHT} at most", len(waiting)
            )
    return None


Rule = Callable[[ClientTrace, Iterable[SentBatch]], Breach | None]

RULES: Final[tuple[Rule, ...]] = (
    ids_are_given,
    epochs_never_go_back,
    sequences_follow,
    sequences_name_one_record,
    records_keep_their_sequence,
    few_are_in_flight,
    waits_for_all_replicas,
)

BESIDE_THE_MODEL: Final = (waits_for_all_replicas,)
"""Rules about behaviour that no model of a client has: a run that the model explains may break
them."""


def first_breach(trace: ClientTrace, rules: Iterable[Rule] = RULES) -> Breach | None:
    """The first request that breaks one of the rules, None if all are kept."""
    ordered = renumber_records(trace)
    attempts = attempts_of(ordered)
    found = [breach for rule in rules if (breach := rule(ordered, attempts)) is not None]
    return min(found, key=lambda breach: breach.position, default=None)
