"""Judges whether the model of a client's release explains its requests: a lazily determinised
observer.

Theory of operation. The judge keeps the set of candidates, the client states that agree with
everything observed so far. Before each request it closes the set under the client's internal steps,
and keeps the candidates that send this request. If no candidate is left, the model allows no such
client: a divergence. At the end some candidate must agree with the outcomes that the application
received.

A request that is written and never arrives is rare, and makes many candidates. So a run is judged
with such requests only if it is not explained without them.

Candidates are kept in the order in which they were found, never in the order of hashes, so the
judgement is a function of the trace alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.adapters.clients import internal_steps
from conformance.adapters.clients.batches import of_partition, record_numbers
from conformance.adapters.clients.candidate import ENDED, Candidate
from conformance.adapters.clients.internal_steps import StepRule, Unmodelled
from conformance.adapters.clients.record_order import renumber_records
from conformance.adapters.clients.requests import can_initialize, next_batches, send_batch
from conformance.adapters.clients.run_plan import PARTITIONS, Send
from conformance.adapters.clients.trace import (
    UNFINISHED,
    ClientTrace,
    ConnectionOpened,
    ProduceRequested,
    ProducerIdRequested,
    RequestEvent,
    WireBatch,
)
from conformance.adapters.clients.trace_index import FAILED, SILENT, STORED, TraceIndex
from model.idempotent.client import Client
from model.idempotent.configuration import (
    USUAL,
    Bounds,
    Budgets,
    Configuration,
    Retries,
    Variant,
)
from model.idempotent.messages import Batch
from model.idempotent.scopes import begun_client

MAX_CANDIDATES: Final = 10_000
"""The most candidates; a run that needs more stays undecided."""

EXPLAINED: Final = "explained"
DIVERGES: Final = "diverges"
UNDECIDED: Final = "undecided"

IN_FLIGHT: Final = "in flight"

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClientJudgement:
    """The judgement of a run.

    `requests` counts the explained requests; `rules` are the rules of the model that explain them.
    `position` is the event that is not explained, and `rule` its kind. `observed` and `expected`
    have the fields in which it differs from the nearest event that the model allows; `allowed`
    describes all allowed events as text. `client` is the model's client at the end of an explained
    run.
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


class TooManyCandidates(Exception):
    """More candidates than MAX_CANDIDATES."""


def configuration_for(variant: Variant, trace: ClientTrace) -> Configuration:
    """The model's configuration, as large as a real client needs."""
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
        faults=replace(USUAL, timeouts=1),
    )
    return Configuration(replace(variant, retries=retries), bounds, Budgets())


def judge_trace(variant: Variant, trace: ClientTrace) -> ClientJudgement:
    """Judge a run by the model of a variant."""
    if trace.problem not in ("", UNFINISHED):
        return ClientJudgement(UNDECIDED, 0, why=trace.problem)
    k = configuration_for(variant, trace)
    trace = renumber_records(trace)
    steps = internal_steps.INTERNAL
    try:
        simple = ClientObserver(k, trace, steps).judge()
        if simple.verdict != DIVERGES:
            return simple
        lossy = ClientObserver(k, trace, (*steps, internal_steps.lose_request)).judge()
    except Unmodelled as error:
        return ClientJudgement(UNDECIDED, 0, why=str(error))
    is_no_better = lossy.verdict == DIVERGES and lossy.position <= simple.position
    return simple if is_no_better else lossy


class ClientObserver:
    """The candidates that explain one trace."""

    def __init__(self, k: Configuration, trace: ClientTrace, steps: tuple[StepRule, ...]) -> None:
        self.k = k
        self.trace = trace
        self.steps = steps
        self.index = TraceIndex(trace)
        self.candidates: tuple[Candidate, ...] = (Candidate(begun_client(k, 0), ()),)
        self.requests = 0
        self.most_states = 1
        self.rules: set[str] = set()
        self._reached_by: dict[Candidate, tuple[str, Candidate] | None] = {}

    def judge(self) -> ClientJudgement:
        """Judge the whole trace. Raises Unmodelled."""
        try:
            for position, event in enumerate(self.trace.events):
                self.index.advance(position, event)
                if isinstance(event, ConnectionOpened):
                    self.candidates = tuple(
                        replace(c, received=(*c.received, 0)) for c in self.candidates
                    )
                elif isinstance(event, ProduceRequested | ProducerIdRequested):
                    before = list(self.close_under_steps())
                    self.candidates = tuple(dict.fromkeys(self.explain_request(before, event)))
                    if not self.candidates:
                        return self.diverge_at(position, event, before)
                    self.requests += 1
                    if isinstance(event, ProduceRequested):
                        self.index.note_request(event)
            return self.judge_outcomes()
        except TooManyCandidates:
            return self.judgement(UNDECIDED, why=f"more than {MAX_CANDIDATES:,} explanations")

    def judgement(self, verdict: str, **more: Any) -> ClientJudgement:
        """The judgement so far."""
        rules = frozenset(self.rules)
        return ClientJudgement(verdict, self.requests, rules, self.most_states, **more)

    # Internal steps

    def close_under_steps(self) -> Iterator[Candidate]:
        """All candidates after any internal steps, breadth first. Raises TooManyCandidates."""
        may_lose = internal_steps.lose_request in self.steps
        reached = self._reached_by = dict.fromkeys(
            internal_steps.close_idle(self.index, c, may_lose) for c in self.candidates
        )
        waiting = deque(reached)
        yield from list(reached)
        while waiting:
            before = waiting.popleft()
            for rule, stepped in self.step(before):
                after = internal_steps.close_idle(self.index, stepped, may_lose)
                if after not in reached and internal_steps.is_timely(
                    self.index, before.client, after.client
                ):
                    reached[after] = (rule, before)
                    self.most_states = max(self.most_states, len(reached))
                    if len(reached) > MAX_CANDIDATES:
                        raise TooManyCandidates
                    waiting.append(after)
                    yield after

    def step(self, candidate: Candidate) -> Iterator[tuple[str, Candidate]]:
        """The candidates one internal step later, with the rules of the steps."""
        for step in self.steps:
            yield from step(self.k, self.index, candidate)

    def credit_rules(self, candidate: Candidate) -> None:
        """Count the rules on the way to a candidate that explains what was observed."""
        step = self._reached_by[candidate]
        while step is not None:
            rule, candidate = step
            self.rules.add(rule)
            step = self._reached_by[candidate]

    # Requests

    def explain_request(
        self, candidates: Iterable[Candidate], event: RequestEvent
    ) -> Iterator[Candidate]:
        """The candidates after they have sent this request, of those that may send it."""
        connection = event.connection
        for candidate in candidates:
            if candidate.received[connection] == ENDED:
                continue
            if isinstance(event, ProducerIdRequested):
                if can_initialize(candidate, event):
                    self.credit_rules(candidate)
                    yield replace(candidate, initializing_on=connection)
            elif internal_steps.is_only_connection(self.index, candidate, connection):
                for rules, after in self.send_batches(candidate, event.batches):
                    self.credit_rules(candidate)
                    self.rules |= rules
                    yield after

    def send_batches(
        self, candidate: Candidate, batches: tuple[WireBatch, ...]
    ) -> Iterator[tuple[set[str], Candidate]]:
        """The candidates after they have sent the batches of a request, one after the other."""
        if not batches:
            yield set(), candidate
            return
        for rule, after in send_batch(self.k, self.index, candidate, batches[0]):
            for rules, last in self.send_batches(after, batches[1:]):
                yield {rule} | rules, last

    # Ends

    def diverge_at(
        self, position: int, event: RequestEvent, before: list[Candidate]
    ) -> ClientJudgement:
        """The judgement that no candidate sends this request."""
        if isinstance(event, ProduceRequested):
            rule, allowed = "produce", self.allowed_batches(before, event.batches)
            observed, expected = compare_with_nearest(event.batches, allowed)
        else:
            rule, allowed = "init_producer_id", self.allowed_batches(before, ())
            observed, expected = {"request": "InitProducerId"}, {"request": "none"}
        return self.judgement(
            DIVERGES,
            position=position,
            rule=rule,
            observed=observed,
            expected=expected,
            allowed=tuple(sorted(format_batch(*row) for row in allowed)),
        )

    def allowed_batches(
        self, candidates: Iterable[Candidate], batches: tuple[WireBatch, ...]
    ) -> tuple[tuple[int, Batch], ...]:
        """The batches that candidates may send; new ones have the size of those that were sent."""
        counts = {batch.partition: len(batch.records) for batch in batches}
        allowed = (
            (partition, batch)
            for candidate in candidates
            for partition in range(self.k.bounds.partitions)
            for batch in next_batches(self.k, candidate, partition, counts.get(partition, 1))
        )
        return tuple(dict.fromkeys(allowed))

    def judge_outcomes(self) -> ClientJudgement:
        """The judgement at the end: some candidate must agree with the outcomes that the
        application received. In a run that timed out, these are the outcomes received so far."""
        self.index.finish()
        told = {s: self.index.outcome(s.partition, s.number) for s in self.trace.plan.sends}
        if self.trace.problem:
            told = {send: outcome for send, outcome in told.items() if outcome != SILENT}
        nearest: dict[Send, str] = {}
        for candidate in self.close_under_steps():
            ends = {send: outcome_in(candidate, send) for send in told}
            wrong = {send: end for send, end in ends.items() if end != told[send]}
            if not wrong:
                self.credit_rules(candidate)
                return self.judgement(EXPLAINED, client=candidate.client)
            if not nearest or len(wrong) < len(nearest):
                nearest = wrong
        paths = {send: f"partition[{send.partition}].record[{send.number}]" for send in nearest}
        return self.judgement(
            DIVERGES,
            position=len(self.trace.events),
            rule="outcome",
            observed={path: told[send] for send, path in paths.items()},
            expected={path: nearest[send] for send, path in paths.items()},
        )


def outcome_in(candidate: Candidate, send: Send) -> str:
    """The outcome of a record in a candidate; a record that was never sent has failed."""
    entry = candidate.client.partitions[send.partition]
    if send.number in entry.acknowledged:
        return STORED
    if send.number in entry.failed or send.number >= entry.records_sent:
        return FAILED
    skipped = of_partition(candidate.unhandled, send.partition)
    awaited = (b.batch for b in entry.in_flight if b.batch.first_record not in skipped)
    return IN_FLIGHT if any(send.number in record_numbers(b) for b in awaited) else SILENT


# Differences


def fields_of(producer_id: int, epoch: int, sequence: int, records: Iterable[int]) -> Fields:
    """A batch as named fields."""
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "records": ", ".join(map(str, records)),
    }


def model_fields(batch: Batch) -> Fields:
    """A batch of the model as named fields."""
    numbers = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return fields_of(*numbers, record_numbers(batch))


def compare_with_nearest(
    batches: tuple[WireBatch, ...], allowed: Iterable[tuple[int, Batch]]
) -> tuple[Fields, Fields]:
    """The fields in which a batch differs from the nearest allowed one, observed and expected, for
    the batch that differs in most fields."""
    differences: list[tuple[Fields, Fields]] = []
    for b in batches:
        seen = fields_of(b.producer_id, b.producer_epoch, b.base_sequence, b.records)
        others = [model_fields(batch) for partition, batch in allowed if partition == b.partition]
        if not others:
            return {"request": "Produce"}, {"request": "none"}
        nearest = min(others, key=lambda other: sum(seen[at] != other[at] for at in seen))
        paths = {
            at: f"partition[{b.partition}].batch.{at}" for at in seen if seen[at] != nearest[at]
        }
        differences.append(
            (
                {path: seen[at] for at, path in paths.items()},
                {path: nearest[at] for at, path in paths.items()},
            )
        )
    observed, expected = max(differences, key=lambda row: len(row[0]))
    if not observed:
        return {"request": "Produce"}, {"request": "not on this connection, or not together"}
    return observed, expected


def format_batch(partition: int, batch: Batch) -> str:
    """A batch that may be sent to a partition, as text."""
    fields = model_fields(batch)
    return f"partition {partition}: " + ", ".join(f"{at} {fields[at]}" for at in fields)
