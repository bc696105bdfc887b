"""Is what a client sent explained by the model of its release? A lazily determinised observer.

Theory of operation. The judge keeps the set of client states that explain all that was seen so
far. Before each request it lets every state do what a client may do unseen (`moves`), then keeps
those that send what was sent. If none is left, the model allows no such client: a divergence. At
the end some state must agree with what the application was told.

That a request is written and never arrives is rare, and makes many states: only a run that nothing
else explains is asked again with it.

States are kept in the order in which they were found, never in that of their hashes: what is
reported of several explanations is a function of the trace alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.client import moves, quirks
from conformance.client.explanation import ENDED, Explanation
from conformance.client.moves import Moves, Unmodelled
from conformance.client.order import in_order
from conformance.client.plan import PARTITIONS, Send
from conformance.client.sight import FAILED, SILENT, STORED, Sight
from conformance.client.trace import (
    UNFINISHED,
    ClientTrace,
    InitProducerId,
    Opened,
    Produce,
    SentBatch,
)
from model.idempotent.client import Client, PartitionEntry
from model.idempotent.configuration import Bounds, Configuration, Retries, Variant
from model.idempotent.messages import Batch
from model.idempotent.scopes import begun_client

MAX_STATES: Final = 10_000
"""Beyond, a run stays undecided."""

EXPLAINED: Final = "explained"
DIVERGES: Final = "diverges"
UNDECIDED: Final = "undecided"

IN_FLIGHT: Final = "in flight"

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a run.

    `requests` are those that are explained, `rules` those by which they are. `position` is the
    event that nothing explains and `rule` what it is; `observed` and `expected` are the fields in
    which it differs from the nearest that the model allows, `allowed` is all of that, in words.
    `client` is the model's at the end, where all is explained.
    """

    verdict: str
    requests: int
    rules: frozenset[str] = frozenset()
    most_states: int = 1
    position: int = -1
    rule: str = ""
    observed: Fields = field(default_factory=dict)
    expected: Fields = field(default_factory=dict)
    allowed: tuple[str, ...] = ()
    why: str = ""
    client: Client | None = None


class TooManyStates(Exception):
    """More explanations than the limit."""


def configuration_for(variant: Variant, trace: ClientTrace) -> Configuration:
    """The model as large as a real client."""
    settings = trace.plan.settings
    retries = Retries.ENDLESS if settings.retries is None else Retries(settings.retries)
    bounds = Bounds(
        partitions=PARTITIONS,
        records=1 << 16,
        in_flight=settings.max_in_flight,
        max_batch=1 << 16,
        max_message=1,
        max_sequence=2**31 - 1,
        max_epoch=2**15 - 1,
        epochs_end=True,
        begun=False,
        without_producer_id=True,
        max_timeouts=1,
    )
    return Configuration(replace(variant, retries=retries), bounds)


def judged(variant: Variant, trace: ClientTrace) -> Judgement:
    """What became of a run under the model of a variant."""
    if trace.problem not in ("", UNFINISHED):
        return Judgement(UNDECIDED, 0, why=trace.problem)
    k = configuration_for(variant, trace)
    trace = in_order(trace)
    try:
        simple = Observer(k, trace, moves.UNSEEN).judged()
        if simple.verdict != DIVERGES:
            return simple
        with_losses = Observer(k, trace, (*moves.UNSEEN, moves.loses)).judged()
        if with_losses.verdict == DIVERGES and with_losses.position <= simple.position:
            return simple
        return with_losses
    except Unmodelled as error:
        return Judgement(UNDECIDED, 0, why=str(error))


class Observer:
    """The states that explain one trace."""

    def __init__(self, k: Configuration, trace: ClientTrace, unseen: tuple[Moves, ...]) -> None:
        self.k = k
        self.trace = trace
        self.unseen = unseen
        self.sight = Sight(trace)
        self.states: tuple[Explanation, ...] = (Explanation(begun_client(k, 0), ()),)
        self.requests = 0
        self.most_states = 1
        self.rules: set[str] = set()
        self._came_by: dict[Explanation, tuple[str, Explanation] | None] = {}

    def judged(self) -> Judgement:
        """The whole trace. Raises Unmodelled."""
        try:
            for position, event in enumerate(self.trace.events):
                self.sight.comes(position, event)
                if isinstance(event, Opened):
                    self.states = tuple(replace(s, heard=(*s.heard, 0)) for s in self.states)
                elif isinstance(event, Produce | InitProducerId):
                    before = list(self.reachable(self.states))
                    self.states = tuple(dict.fromkeys(self.after(before, event)))
                    if not self.states:
                        return self.diverges(position, event, before)
                    self.requests += 1
                    if isinstance(event, Produce):
                        self.sight.was_sent(event)
            return self.ended()
        except TooManyStates:
            return self.judgement(UNDECIDED, why=f"more than {MAX_STATES:,} explanations")

    def judgement(self, verdict: str, **more: Any) -> Judgement:
        """So far."""
        judgement = Judgement(verdict, self.requests, frozenset(self.rules), self.most_states)
        return replace(judgement, **more)

    # Between what is seen

    def reachable(self, states: Iterable[Explanation]) -> Iterator[Explanation]:
        """All states that these may have become unseen, themselves first, then by the number of
        moves. Raises TooManyStates."""
        loses = moves.loses in self.unseen
        self._came_by = dict.fromkeys(moves.without_idle(self.sight, s, loses) for s in states)
        waiting = deque(self._came_by)
        yield from list(self._came_by)
        while waiting:
            state = waiting.popleft()
            for moves_of in self.unseen:
                for name, moved in moves_of(self.k, self.sight, state):
                    following = moves.without_idle(self.sight, moved, loses)
                    if following not in self._came_by and moves.is_timely(
                        self.sight, state.client, following.client
                    ):
                        self._came_by[following] = (name, state)
                        self.most_states = max(self.most_states, len(self._came_by))
                        if len(self._came_by) > MAX_STATES:
                            raise TooManyStates
                        waiting.append(following)
                        yield following

    def explains(self, state: Explanation) -> None:
        """The moves that led to a state which explains what was seen are among those of use."""
        step = self._came_by[state]
        while step is not None:
            name, state = step
            self.rules.add(name)
            step = self._came_by[state]

    # What is seen

    def after(
        self, states: Iterable[Explanation], event: Produce | InitProducerId
    ) -> Iterator[Explanation]:
        """The states that send this request."""
        for state in states:
            if state.heard[event.connection] == ENDED:
                continue
            if isinstance(event, InitProducerId):
                for following in moves.asks(state, event):
                    self.explains(state)
                    yield following
            elif moves.is_alone(self.sight, state, event.connection):
                for names, following in self.sent(state, event.batches):
                    self.explains(state)
                    self.rules |= names
                    yield following

    def sent(
        self, state: Explanation, batches: tuple[SentBatch, ...]
    ) -> Iterator[tuple[set[str], Explanation]]:
        """The states after each batch of a request, one after the other."""
        if not batches:
            yield set(), state
            return
        for name, following in moves.sends(self.k, self.sight, state, batches[0]):
            for names, last in self.sent(following, batches[1:]):
                yield {name} | names, last

    # Ends

    def diverges(
        self, position: int, event: Produce | InitProducerId, before: list[Explanation]
    ) -> Judgement:
        """Nothing sends this."""
        rule, allowed = "init_producer_id", self.allowed(before, ())
        observed: Fields = {"request": "InitProducerId"}
        expected: Fields = {"request": "none"}
        if isinstance(event, Produce):
            rule, allowed = "produce", self.allowed(before, event.batches)
            observed, expected = nearest(event.batches, allowed)
        words = tuple(sorted(in_words(batch) for batch in allowed))
        return self.judgement(
            DIVERGES,
            position=position,
            rule=rule,
            observed=observed,
            expected=expected,
            allowed=words,
        )

    def allowed(
        self, states: Iterable[Explanation], batches: tuple[SentBatch, ...]
    ) -> tuple[tuple[int, Batch], ...]:
        """What these states may send; new batches as large as those that were sent."""
        counts = {batch.partition: len(batch.records) for batch in batches}
        sendable = (
            (partition, batch)
            for state in states
            for partition in range(self.k.bounds.partitions)
            for batch in moves.sendable(self.k, state, partition, counts.get(partition, 1))
        )
        return tuple(dict.fromkeys(sendable))

    def ended(self) -> Judgement:
        """Some state must agree with what the application was told; in a run that was not waited
        for to its end, with as much as it was told."""
        self.sight.ends()
        sends = [
            s for s in self.trace.plan.sends if not self.trace.problem or self.told(s) != SILENT
        ]
        least: dict[Send, str] = {}
        for state in self.reachable(self.states):
            ends = {send: end_of(state, send) for send in sends}
            wrong = {send: end for send, end in ends.items() if end != self.told(send)}
            if not wrong:
                self.explains(state)
                return self.judgement(EXPLAINED, client=state.client)
            if not least or len(wrong) < len(least):
                least = wrong
        return self.judgement(
            DIVERGES,
            position=len(self.trace.events),
            rule="outcome",
            observed={name(send): self.told(send) for send in least},
            expected={name(send): end for send, end in least.items()},
        )

    def told(self, send: Send) -> str:
        """What the application was told of a record."""
        return self.sight.has(send.partition, send.number)


# Ends of records


def name(send: Send) -> str:
    """The record that is sent, in words."""
    return f"partition[{send.partition}].record[{send.number}]"


def end_of(state: Explanation, send: Send) -> str:
    """What became of a record. One that was never sent has failed: nobody waits for it."""
    entry = state.client.partitions[send.partition]
    if send.number in entry.acknowledged:
        return STORED
    if send.number in entry.failed or send.number >= entry.records_sent:
        return FAILED
    waits = is_in_flight(entry, send.number, quirks.of(state.unheard, send.partition))
    return IN_FLIGHT if waits else SILENT


def is_in_flight(entry: PartitionEntry, number: int, unheard: Collection[int]) -> bool:
    """Whether a record's batch is not finished, and something of it is still to come."""
    return any(
        b.batch.first_record <= number < b.batch.first_record + b.batch.record_count
        for b in entry.in_flight
        if b.batch.first_record not in unheard
    )


# What differs


def fields_of(producer_id: int, epoch: int, sequence: int, records: Iterable[int]) -> Fields:
    """A batch by its fields."""
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "records": ", ".join(map(str, records)),
    }


def seen_fields(sent: SentBatch) -> Fields:
    """A batch that was sent, by its fields."""
    return fields_of(sent.producer_id, sent.producer_epoch, sent.base_sequence, sent.records)


def model_fields(batch: Batch) -> Fields:
    """A batch of the model, by its fields."""
    records = range(batch.first_record, batch.first_record + batch.record_count)
    return fields_of(batch.producer_id, batch.producer_epoch, batch.base_sequence, records)


def nearest(
    batches: tuple[SentBatch, ...], allowed: Iterable[tuple[int, Batch]]
) -> tuple[Fields, Fields]:
    """The fields in which what was sent differs from the nearest that may be sent instead: for
    the batch with which most differs."""
    found: list[tuple[int, Fields, Fields]] = []
    for sent in batches:
        seen = seen_fields(sent)
        others = [model_fields(batch) for p, batch in allowed if p == sent.partition]
        differing = [[at for at in seen if seen[at] != other[at]] for other in others]
        if not others:
            return {"request": "Produce"}, {"request": "none"}
        paths, other = min(zip(differing, others, strict=True), key=lambda pair: len(pair[0]))
        where = {at: f"partition[{sent.partition}].batch.{at}" for at in paths}
        found.append(
            (
                len(paths),
                {where[at]: seen[at] for at in paths},
                {where[at]: other[at] for at in paths},
            )
        )
    _, observed, expected = max(found, key=lambda row: row[0])
    if not observed:
        return {"request": "Produce"}, {"request": "not on this connection, or not together"}
    return observed, expected


def in_words(sendable: tuple[int, Batch]) -> str:
    """What may be sent."""
    partition, batch = sendable
    fields = model_fields(batch)
    return f"partition {partition}: " + ", ".join(f"{at} {fields[at]}" for at in fields)
