"""The steps of the proofs: each rule of an actor, applied to any state and any input.

A step holds what may be assumed (the rule's own guards, that a message was sent, that an answer
was given) and the state after it, both made by evaluating the model's text. Limits of scopes are
left out: epochs, records and the log have no bound here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.lift import dag
from proofs.lift.containers import FocusMap, FunctionSeq, PredicateSet
from proofs.lift.dag import TRUE, ZERO, Node, const
from proofs.lift.evaluate import Evaluator
from proofs.lift.text import Model
from proofs.lift.values import MapValue, Rec, SetValue
from proofs.prove.clauses import (
    entry_has_last_epoch,
    known_means_remembered,
    newest_is_last,
    remembers_five,
    window_is_log,
    window_rises,
)
from proofs.prove.state import MAX_SEQUENCE, Builder, P, State, number

REBUILT = (
    entry_has_last_epoch,
    known_means_remembered,
    window_is_log,
    window_rises,
    newest_is_last,
    remembers_five,
)
"""The contract of a replay: what it makes of any prefix of the log."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One rule applied. `assumed` are formulas over the state before; `after` is the new state."""

    rule: str
    assumed: tuple[tuple[tuple[Node, ...], Node], ...]
    after: State


class Steps:
    """All steps from any state of one model in one setting."""

    def __init__(self, model: Model, k: Any) -> None:
        self.model = model
        self.k = k
        self.builder = Builder(model)
        self.before = self.builder.state()

    def evaluator(self, **contracts: Callable[..., Any]) -> Evaluator:
        """An evaluator in which sequences, replicas and workload are unknown."""
        return Evaluator(
            self.model,
            self.k,
            overrides={
                ("Layout", "max_sequence"): MAX_SEQUENCE,
                ("Layout", "replicas"): number("replicas"),
                ("Layout", "producers"): const(1),
            },
            contracts={
                "records_in": lambda ev, k, first: number("records_in"),
                **contracts,
            },
        )

    def all(self) -> tuple[StepOutcome, ...]:
        """Every step."""
        return (
            self.send_new(),
            self.send_again(),
            self.bump_epoch(),
            self.on_success(),
            self.on_error(),
            self.on_disconnect(),
            self.on_produce(),
            self.on_produce_of_others(),
            self.advance_high_watermark(),
            self.restart(),
            self.fail_over(),
        )

    def outcome(
        self, rule: str, evaluator: Evaluator, assumed: Sequence[Node], **changes: Any
    ) -> StepOutcome:
        """The step, with the guards that the evaluator met and the sequence regime."""
        guards = [limit.condition for limit in evaluator.limits if not limit.by_scope]
        after = self.before.changed(**changes)
        regime = dag.le(after.entry.fields["next_sequence"], MAX_SEQUENCE)
        replicas = dag.le(const(1), number("replicas"))
        formulas = [((), node) for node in (*guards, *assumed, regime, replicas)]
        return StepOutcome(rule, tuple(f for f in formulas if f[1] is not TRUE), after)

    # The client

    def sending(self, rule: str, function: Callable[..., Any]) -> StepOutcome:
        """A rule that sends one request."""
        evaluator = self.evaluator()
        step = evaluator.call(function, [self.k, self.before.client, ZERO])
        request = step.fields["sends"].slots[0].fields["batch"].fields
        sent = self.before.sent

        def now_sent(epoch: Node, base: Node, count: Node, first: Node) -> Node:
            same = dag.conjunction(
                (
                    dag.eq(epoch, request["producer_epoch"]),
                    dag.eq(base, request["base_sequence"]),
                    dag.eq(count, request["record_count"]),
                    dag.eq(first, request["first_record"]),
                )
            )
            return dag.either(sent(epoch, base, count, first), same)

        some = dag.le(const(1), number("records_in"))
        end = dag.add(request["base_sequence"], request["record_count"])
        below = dag.le(end, MAX_SEQUENCE)
        return self.outcome(
            rule, evaluator, [some, below], client=step.fields["actor"], sent=now_sent
        )

    def send_new(self) -> StepOutcome:
        """A new batch."""
        return self.sending("send_new", self.model.client.send_new)

    def send_again(self) -> StepOutcome:
        """A retry."""
        return self.sending("send_again", self.model.client.send_again)

    def bump_epoch(self) -> StepOutcome:
        """The next epoch."""
        evaluator = self.evaluator()
        client = evaluator.call(self.model.client.bump_epoch, [self.k, self.before.client])
        return self.outcome("bump_epoch", evaluator, [], client=client)

    def answered(self, answer: Rec) -> tuple[Evaluator, Rec]:
        """The client after an answer."""
        evaluator = self.evaluator()
        call = self.model.client.on_answer
        return evaluator, evaluator.call(call, [self.k, self.before.client, ZERO, answer])

    def on_success(self) -> StepOutcome:
        """An answer without error, once the high watermark lets it go; q is where it stands."""
        answer = self.builder.record(self.model.messages.ProduceResponse, "answer")
        first, position = answer.fields["first_record"], number("answer.position")
        answer = Rec(answer.cls, {**answer.fields, "error": ZERO})
        required = answer.fields["required_offset"]
        given = self.before.answers(first, answer.fields["base_offset"], required, position)
        released = dag.le(required, self.before.high_watermark)
        evaluator, client = self.answered(answer)
        before, told = self.before, self.before.changed(client=client)

        def now_place(r: Node) -> Node:
            news = dag.both(told.acknowledged(r), dag.negate(before.acknowledged(r)))
            return dag.ite(news, position, before.place(r))

        return self.outcome(
            "on_success", evaluator, [given, released], client=client, place=now_place
        )

    def on_error(self) -> StepOutcome:
        """Any error, for any batch, at any time."""
        answer = self.builder.record(self.model.messages.ProduceResponse, "answer")
        evaluator, client = self.answered(answer)
        is_error = dag.negate(dag.eq(answer.fields["error"], ZERO))
        return self.outcome("on_error", evaluator, [is_error], client=client)

    def on_disconnect(self) -> StepOutcome:
        """A connection breaks."""
        evaluator = self.evaluator()
        call = self.model.client.on_disconnect
        client = evaluator.call(call, [self.k, self.before.client, ZERO])
        return self.outcome("on_disconnect", evaluator, [], client=client)

    # The leader

    def produced(self, batch: Rec) -> tuple[Evaluator, Rec, Rec]:
        """The leader and its answer after a batch."""
        request = Rec(self.model.messages.ProduceRequest, {"batch": batch})
        evaluator = self.evaluator()
        call = self.model.leader.on_produce
        step = evaluator.call(call, [self.k, self.before.leader, request])
        return evaluator, step.fields["actor"], step.fields["sends"].slots[0]

    def on_produce(self) -> StepOutcome:
        """Any request that p sent arrives."""
        batch = self.builder.batch("batch")
        batch = Rec(batch.cls, {**batch.fields, "producer_id": P})
        b = batch.fields
        was_sent = self.before.sent(
            b["producer_epoch"], b["base_sequence"], b["record_count"], b["first_record"]
        )
        evaluator, leader, answer = self.produced(batch)
        return self.outcome(
            "on_produce",
            evaluator,
            [was_sent],
            leader=leader,
            answers=self.now_answered(answer),
            previous=self.now_previous(),
            candidates=self.now_candidates(),
        )

    def positions(self) -> tuple[Node, ...]:
        """Where the remembered batches stand."""
        return tuple(candidates[0] for candidates in self.before.candidates)

    def now_candidates(self) -> tuple[tuple[Node, ...], ...]:
        """After an append a remembered batch stands where one stood, or at the log's old end."""
        everywhere = (*self.positions(), self.before.log.length)
        return tuple(everywhere for _ in self.before.candidates)

    def now_answered(self, answer: Rec) -> Callable[..., Node]:
        """The answers, with this one if it is a success."""
        answers = self.before.answers
        fields = answer.fields
        position = self.before.log.length
        for i, slot in enumerate(self.before.window.slots):
            here = dag.both(
                dag.lt(const(i), self.before.window.length),
                dag.eq(dag.add(slot.fields["last_offset"], const(1)), fields["required_offset"]),
            )
            position = dag.ite(here, self.positions()[i], position)

        def now(first: Node, base: Node, required: Node, q: Node) -> Node:
            same = dag.conjunction(
                (
                    dag.eq(fields["error"], ZERO),
                    dag.eq(first, fields["first_record"]),
                    dag.eq(base, fields["base_offset"]),
                    dag.eq(required, fields["required_offset"]),
                    dag.eq(q, position),
                )
            )
            return dag.either(answers(first, base, required, q), same)

        return now

    def now_previous(self) -> Callable[[Node], Node]:
        """The batch at the log's old end follows the newest remembered one."""
        previous, length = self.before.previous, self.before.log.length
        newest = self.positions()[0]
        for i, position in enumerate(self.positions()):
            newest = dag.ite(dag.eq(self.before.window.length, const(i + 1)), position, newest)
        return lambda j: dag.ite(dag.eq(j, length), newest, previous(j))

    def on_produce_of_others(self) -> StepOutcome:
        """Any batch of any other producer arrives."""
        batch = self.builder.batch("other")
        theirs = dag.negate(dag.eq(batch.fields["producer_id"], P))
        some = dag.le(const(1), batch.fields["record_count"])
        evaluator, leader, _ = self.produced(batch)
        return self.outcome("on_produce_of_others", evaluator, [theirs, some], leader=leader)

    def advance_high_watermark(self) -> StepOutcome:
        """The followers catch up."""
        evaluator = self.evaluator()
        call = self.model.leader.advance_high_watermark
        leader = evaluator.call(call, [self.k, self.before.leader])
        return self.outcome("advance_high_watermark", evaluator, [], leader=leader)

    def restart(self) -> StepOutcome:
        """The broker comes back from its log and snapshot."""
        evaluator = self.evaluator()
        leader = evaluator.call(self.model.leader.restart, [self.k, self.before.leader])
        candidates = tuple(self.positions() for _ in self.before.candidates)
        return self.outcome("restart", evaluator, [], leader=leader, candidates=candidates)

    def fail_over(self) -> StepOutcome:
        """A replica leads with any prefix that the high watermark is within.

        What the replay makes of the prefix is assumed to be as `REBUILT` says (the contract
        `replay_rebuilds_the_entry`, checked in scope). Answers that the old leader held back are
        lost with its connections.
        """
        entry = self.builder.record(self.model.leader.ProducerStateEntry, "rebuilt")
        producers = self.before.leader.fields["producers"]

        def rebuilt(ev: Evaluator, *arguments: Any) -> Any:
            return FocusMap(P, entry, producers.elsewhere)

        evaluator = self.evaluator()
        evaluator.contracts["filled"] = lambda ev, size, value: producers
        evaluator.contracts["fold"] = rebuilt
        kept = number("kept")
        call = self.model.leader.fail_over
        leader = evaluator.call(call, [self.k, self.before.leader, kept])
        answers, high_watermark = self.before.answers, self.before.high_watermark
        after = self.before.changed(
            leader=leader,
            answers=lambda f, b, r, q: dag.both(answers(f, b, r, q), dag.le(r, high_watermark)),
            candidates=tuple((number(f"rebuilt.position[{i}]"),) for i in range(5)),
        )
        contract = tuple(formula(after) for formula in REBUILT)
        last = after.log.at(dag.sub(after.log.length, const(1))).fields
        end_offset = dag.add(last["base_offset"], last["batch"].fields["record_count"])
        log_end = dag.ite(dag.lt(ZERO, after.log.length), end_offset, ZERO)
        chosen = dag.conjunction(
            (
                dag.le(ZERO, kept),
                dag.le(kept, self.before.log.length),
                dag.le(high_watermark, log_end),
            )
        )
        return StepOutcome("fail_over", (((), chosen), *contract), after)


def initial(model: Model, k: Any) -> State:
    """Nothing sent, nothing stored, nothing known."""
    builder = Builder(model)
    state = builder.state()
    evaluator = Evaluator(model, k)
    unknown = evaluator.lift(model.leader.UNKNOWN_PRODUCER)
    entry = evaluator.lift(model.scopes.fresh_entry())
    entry = Rec(entry.cls, {**entry.fields, "acknowledged": PredicateSet(lambda r: dag.FALSE)})
    client = Rec(
        model.client.Client,
        {
            "producer_id": P,
            "producer_epoch": ZERO,
            "bump_for": SetValue((dag.FALSE, dag.FALSE)),
            "partitions": MapValue((entry, entry)),
        },
    )
    others = state.leader.fields["producers"].elsewhere
    leader = Rec(
        model.leader.Leader,
        {
            "log": FunctionSeq(ZERO, builder.stored_batch),
            "high_watermark": ZERO,
            "producers": FocusMap(P, unknown, others),
        },
    )
    return state.changed(client=client, leader=leader, sent=_never, answers=_never)


def _never(*_numbers: Node) -> Node:
    return dag.FALSE
