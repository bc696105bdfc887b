"""The steps of the proofs: each rule of an actor, applied to any state and any input.

A step has what may be assumed (the rule's guards, that a message was sent, that an answer was
given) and the state after it. Both come from evaluating the model's text. Limits of scopes are
ignored: epochs, records and the log have no bound here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from proofs.lift import containers
from proofs.lift.containers import FocusMap, FunctionSeq, PredicateSet
from proofs.lift.dag import FALSE, ZERO, Node, ite
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, SetValue
from proofs.prove.engine.induction import ClauseFormulas, Lemma, ProofStep
from proofs.prove.engine.step_evaluator import StepEvaluator
from proofs.prove.engine.unknowns import never, number, within
from proofs.prove.idempotent import auxiliary, clauses, fifo, step_lemmas
from proofs.prove.idempotent.clause_forms import of_replay
from proofs.prove.idempotent.clause_groups import HELPERS
from proofs.prove.idempotent.client_steps import IN_ORDER, IN_TURN, TAKEN, ClientSteps
from proofs.prove.idempotent.sequence_arithmetic import NO_WRAP, SequenceArithmetic
from proofs.prove.idempotent.symbolic_state import PRODUCER, Builder, P, Seen, SymbolicState

FOLDED = number("folded")
"""The number of batches that a replay has processed."""


class IdempotentSteps(ClientSteps):
    """All steps from any state of one model in one configuration and regime."""

    @cached_property
    def formulas(self) -> ClauseFormulas:
        """The formulas of the clauses."""
        return ClauseFormulas(self.lifter)

    @cached_property
    def initial(self) -> SymbolicState:
        """The initial state."""
        return initial(self.model, self.k, self.regime)

    @cached_property
    def all(self) -> tuple[ProofStep, ...]:
        """Every step."""
        return (
            self.send_new(),
            self.send_again(),
            self.bump_epoch(),
            self.expire_batch(),
            self.resolve_sequences(),
            self.on_success(),
            self.on_error(),
            self.on_disconnect(),
            self.on_produce,
            self.on_produce_of_others(),
            self.on_refused("on_produce_without_replicas", IN_ORDER),
            self.on_refused("on_invalid_produce", TAKEN),
            self.on_produce_then_unreplicated(),
            self.advance_high_watermark(),
            self.restart(),
            self.fail_over(),
            *self.at_other_partition(),
        )

    # The leader

    def produced(
        self, batch: Rec, rule: Callable[..., Any], *arguments: Node
    ) -> tuple[StepEvaluator, Rec, Rec]:
        """Return the leader and its answer after a batch."""
        request = Rec(self.model.messages.ProduceRequest, {"batch": batch})
        evaluator = self.builder.evaluator()
        step = evaluator.call(rule, [self.k, self.before.leader, request, *arguments])
        return evaluator, step.actor, step.sends.slots[0]

    def any_batch(self) -> tuple[Rec, Node]:
        """Return any batch of p, and the position at which it begins."""
        batch = self.builder.batch("batch")
        begin = self.before.position(batch.producer_epoch, batch.first_record)
        sequence = self.regime.sequence(begin)
        return batch.changed(producer_id=P, producer=PRODUCER, base_sequence=sequence), begin

    @cached_property
    def on_produce(self) -> ProofStep:
        """Any request that p sent arrives."""
        batch, begin = self.any_batch()
        was_sent = self.before.sent(batch.producer_epoch, batch.record_count, batch.first_record)
        evaluator, leader, answer = self.produced(batch, self.model.leader.on_produce)
        appended = self.before.log.length < leader.log.length
        error, epoch = answer.error, batch.producer_epoch
        is_refused = ~error.eq(0)
        fences = error.eq(self.model.messages.Error.INVALID_PRODUCER_EPOCH)
        step = self.outcome(
            "on_produce",
            evaluator,
            [was_sent, *self.near(batch, begin)],
            leader=leader,
            **self.now_answered(answer, batch, begin),
            previous=self.now_previous(),
            handled=self.before.handled + ite(IN_TURN, 1, 0),
            refused=self.before.refused | IN_TURN & is_refused,
            fenced=self.before.fenced | IN_TURN & fences,
            epoch_in_turn=ite(IN_TURN, epoch, self.before.epoch_in_turn),
            **self.now_stored(batch, begin, appended),
        )
        given = (
            (IN_ORDER, fifo.is_next_in_turn, (IN_TURN, batch)),
            ("connections_keep_order", fifo.overtakes_nothing, (begin,)),
            ("requests_come_as_sent", auxiliary.arrives_as_sent, (IN_TURN, epoch)),
        )
        assumed = ((n, self.lifter.formula(f, self.seen, *of)) for n, f, of in given)
        cuts = tuple(self.cuts(Seen(step.after), batch, begin, answer))
        return replace(step, lemmas=cuts, given=(*step.given, *assumed), grows=True)

    def on_refused(self, rule: str, excluded_by: str) -> ProofStep:
        """Any request arrives, and a rule of the leader that does not read it refuses it."""
        batch, _ = self.any_batch()
        evaluator, leader, _ = self.produced(batch, getattr(self.model.leader, rule))
        step = self.outcome(
            rule,
            evaluator,
            [],
            leader=leader,
            handled=self.before.handled + ite(IN_TURN, 1, 0),
            refused=self.before.refused | IN_TURN,
        )
        return replace(step, given=(*step.given, (excluded_by, ((), FALSE))))

    def on_produce_then_unreplicated(self) -> ProofStep:
        """Any request that p sent arrives, and is answered as usual or with an error, since the
        network of the proofs may answer any request with an error. (So the obligations are those of
        `on_produce`, unless the leader does something else.)"""
        batch, _ = self.any_batch()
        rules = self.model.leader
        evaluator, leader, answer = self.produced(
            batch, rules.on_produce_then_unreplicated, number("timed_out")
        )
        *_, usual = self.produced(batch, rules.on_produce)
        is_usual = ~answer.error.eq(0) | containers.equal(answer, usual)
        same = self.on_produce
        return replace(
            same,
            rule="on_produce_then_unreplicated",
            after=same.after.changed(leader=leader),
            lemmas=(*same.lemmas, Lemma("answers_as_usual", ((), is_usual), ())),
            given=(*same.given, (IN_ORDER, ((), FALSE))),
            taken=tuple(evaluator.taken),
        )

    def cuts(self, after: Seen, batch: Rec, begin: Node, answer: Rec) -> Iterator[Lemma]:
        """Yield the lemmas about the request, each with those before it."""
        before, rules = self.seen, step_lemmas
        if self.regime.wraps:
            yield Lemma.of(self.lifter, rules.window_is_near, before)
        table: tuple[tuple[Callable[..., bool], tuple[Any, ...]], ...] = (
            (rules.first_sequence_is_derived, (before,)),
            (rules.sequence_names_batch, (before, batch, begin)),
            (rules.sequence_names_records, (before, batch)),
            (rules.accepted_follows, (before, after, batch, begin)),
            (rules.below_is_stored, (before, batch, begin)),
            (rules.duplicate_is_the_same, (before, after, batch, begin, answer)),
            (rules.newest_is_appended, (before, after, batch)),
            (rules.follows_in_sequence, (before, batch, begin)),
            (fifo.head_is_stored, (before,)),
            (fifo.begins_within, (before, IN_TURN, begin)),
            (fifo.remembered_is_placed, (before,)),
            (fifo.window_begins_epoch, (before,)),
            (fifo.is_remembered, (before, IN_TURN, begin, batch)),
            (fifo.is_answered, (IN_TURN, answer)),
            (fifo.is_stored_then, (before, after, IN_TURN, begin, batch)),
        )
        for function, arguments in table:
            yield Lemma.of(self.lifter, function, *arguments)

    def near(self, batch: Rec, begin: Node) -> tuple[Node, ...]:
        """Return that the request is near its log's end, if sequences wrap."""
        if not self.regime.wraps:
            return ()
        return (self.lifter.node(step_lemmas.is_near, self.seen, batch, begin),)

    def now_stored(self, batch: Rec, begin: Node, appended: Node) -> dict[str, Callable[..., Any]]:
        """Return the ghosts after an append of `batch` at the log's end; `appended` says whether a
        batch of p is appended. (Otherwise no clause reads these values of the ghosts.)"""
        before = self.before
        length = before.log.length
        offset = self.lifter.node(clauses.end_offset, self.seen, length)
        new = Rec(self.model.leader.StoredBatch, {"batch": batch, "base_offset": offset})
        others = before.leader.producers.elsewhere
        known = FocusMap(P, before.history(length), others)
        more = before.text.replayed(known, new).value
        end = offset + batch.record_count
        shapes = self.builder.shapes

        def history(places: Node) -> Rec:
            here = places.eq(length + 1)
            result: Rec = containers.merge(shapes, here, more, before.history(places))
            return result

        def where(ends_at: Node) -> Node:
            return ite(ends_at.eq(end), length, before.where(ends_at))

        def begins(place: Node) -> Node:
            return ite(place.eq(length), begin, before.begins(place))

        def cover(epoch: Node, position: Node) -> Node:
            same = epoch.eq(batch.producer_epoch)
            here = appended & same & (begin <= position)
            return ite(here, length, before.cover(epoch, position))

        return {"history": history, "where": where, "begins": begins, "cover": cover}

    def now_answered(self, answer: Rec, batch: Rec, begin: Node) -> dict[str, Callable[..., Node]]:
        """Return the answers, with this one if it is a success, and the place of its batch."""
        before = self.before
        place = self.lifter.node(step_lemmas.place_answered, self.seen, answer, batch, begin)

        def is_this(first: Node, base: Node, required: Node) -> Node:
            result: Node = (
                answer.error.eq(0)
                & first.eq(answer.first_record)
                & base.eq(answer.base_offset)
                & required.eq(answer.required_offset)
            )
            return result

        return {
            "answers": lambda *key: before.answers(*key) | is_this(*key),
            "told": lambda *key: ite(is_this(*key), place, before.told(*key)),
        }

    def now_previous(self) -> Callable[[Node], Node]:
        """Return `previous` after an append: the batch at the log's old end follows the newest
        remembered one."""
        previous, length = self.before.previous, self.before.log.length
        newest = self.lifter.node(clauses.newest, self.seen, self.seen.known)
        return lambda j: ite(j.eq(length), newest, previous(j))

    def on_produce_of_others(self) -> ProofStep:
        """Any batch of any other producer arrives."""
        batch = self.builder.batch("other")
        theirs = ~batch.producer_id.eq(P)
        some = batch.record_count >= 1
        evaluator, leader, _ = self.produced(batch, self.model.leader.on_produce)
        step = self.outcome(
            "on_produce_of_others",
            evaluator,
            [theirs, some],
            leader=leader,
            **self.now_stored(batch, ZERO, FALSE),
        )
        return replace(step, grows=True)

    def advance_high_watermark(self) -> ProofStep:
        """The followers catch up."""
        evaluator = self.builder.evaluator()
        call = self.model.leader.advance_high_watermark
        leader = evaluator.call(call, [self.k, self.before.leader])
        return self.outcome("advance_high_watermark", evaluator, [], leader=leader)

    def restart(self) -> ProofStep:
        """The broker restarts from its log and snapshot."""
        evaluator = self.builder.evaluator()
        leader = evaluator.call(self.model.leader.restart, [self.k, self.before.leader])
        step = self.outcome("restart", evaluator, [], leader=leader)
        return replace(step, given=(*step.given, ("no_restart", ((), FALSE))))

    def fail_over(self) -> ProofStep:
        """A replica with any prefix of the log becomes leader.

        The replica replays this prefix. An induction over the prefix, whose two lemmas are about
        the model's own text, shows that the result is the history at the prefix' length. Answers
        that the old leader held back are lost with its connections, and so are those about batches
        that the new leader lacks.
        """
        before, lemmas = self.before, list[Lemma]()
        evaluator = self.builder.evaluator(
            fold=lambda ev, *arguments: self.folded(ev, lemmas, *arguments)
        )
        kept = number("kept")
        leader = evaluator.call(self.model.leader.fail_over, [self.k, before.leader, kept])
        answers = before.answers
        high_watermark = leader.high_watermark
        after = before.changed(
            leader=leader,
            handled=ZERO,
            answers=lambda f, b, r: answers(f, b, r) & (r <= high_watermark),
        )
        chosen = within(kept, 0, before.log.length)
        end = self.lifter.node(clauses.end_offset, Seen(after), after.log.length)
        survives = self.seen.high_watermark <= end
        return ProofStep(
            "fail_over",
            before,
            after,
            (((), chosen),),
            prefixes=(kept, FOLDED),
            recalls=tuple(c.name for c in HELPERS if c.subject is of_replay),
            lemmas=tuple(lemmas),
            given=(("high_watermark_survives", ((), survives)),),
            taken=tuple(evaluator.taken),
            edits=frozenset(evaluator.edits),
        )

    def folded(
        self,
        evaluator: StepEvaluator,
        lemmas: list[Lemma],
        k: Any,
        step: Callable[..., Any],
        items: FunctionSeq,
        start: FocusMap,
    ) -> FocusMap:
        """Return fold(k, step, items, start): the history after these batches, by induction.

        The lemmas say that the history begins as `start`, and that one more item is one more in the
        history.
        """
        history, i = self.before.history, FOLDED
        so_far = FocusMap(P, history(i), start.elsewhere)
        following = evaluator.call(step, [k, so_far, items.at(i)])
        more = (i >= 0) & (i < items.length)
        grows = containers.equal(history(i + 1), following.value)
        begins = containers.equal(history(ZERO), start.value)
        lemmas.append(Lemma("fold_begins", ((), begins), ("history_is_replay",)))
        grows = more.implies(grows)
        lemmas.append(Lemma("fold_grows", ((), grows), ("history_is_replay",)))
        return FocusMap(P, history(items.length), start.elsewhere)


def initial(model: Model, k: Any, regime: SequenceArithmetic = NO_WRAP) -> SymbolicState:
    """Return the state in which nothing was sent, stored or known."""
    builder = Builder(model, k, regime)
    state = builder.state()
    evaluator = builder.evaluator()
    unknown = builder.nothing()
    entry = evaluator.lift(model.scopes.fresh_entry(0, 0))
    nobody = PredicateSet(lambda r: FALSE)
    begun = {"producer_id": P, "acknowledged": nobody, "failed": nobody}
    entry = entry.changed(**begun)
    client = Rec(
        model.client.Client,
        {
            "producer": PRODUCER,
            "producer_id": P,
            "producer_epoch": ZERO,
            "bump_for": SetValue((FALSE, FALSE)),
            "fatal": FALSE,
            "partitions": MapValue((entry, entry)),
        },
    )
    leader = Rec(
        model.leader.Leader,
        {
            **state.leader.fields,
            "log": FunctionSeq(ZERO, state.log.at),
            "high_watermark": ZERO,
            "producers": FocusMap(P, unknown, unknown),
        },
    )
    return state.changed(
        client=client,
        leader=leader,
        next_position=ZERO,
        handled=ZERO,
        refused=FALSE,
        fenced=FALSE,
        epoch_in_turn=ZERO,
        sent=never(FALSE),
        numbered=never(FALSE),
        answers=never(FALSE),
        history=lambda length: unknown,
    )
