"""The steps of one client, at the partition of the theorems and at any other partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from proofs.lift import containers
from proofs.lift.dag import FALSE, TRUE, ZERO, Node, const, disjunction, ite, leaf
from proofs.lift.source import Model
from proofs.lift.values import Rec, Scalars
from proofs.prove.engine.induction import Lemma, ProofStep
from proofs.prove.engine.smt import Formula
from proofs.prove.engine.step_evaluator import StepEvaluator
from proofs.prove.engine.unknowns import Predicate, number
from proofs.prove.idempotent import clauses, fifo
from proofs.prove.idempotent.sequence_arithmetic import NO_WRAP, SequenceArithmetic
from proofs.prove.idempotent.symbolic_state import (
    RECORDS_IN,
    REPLICAS,
    Builder,
    Seen,
    SymbolicState,
    resets,
)

HERE, ELSEWHERE = ZERO, const(1)
"""The partition of the theorems, and any other one; clients identify partitions by number."""
IN_TURN = leaf("in_turn", 0, 1, is_bool=True)
"""Whether a request comes from the open connection; otherwise it is late, from a broken one."""
COUNTED = "sequences_suffice"
"""An assumption: the limit of the sequence arithmetic on the number of records."""
IN_TIME, IN_ORDER, TAKEN = "nothing_times_out", "answers_in_order", "nothing_is_rejected"
"""Assumptions: no batch is given up; only leaders refuse; an open connection is in order."""
KEEPS_BATCHES = (*clauses.CLIENT, "nothing_to_recover", "first_epoch", IN_TIME)
"""The clauses and assumptions by which no batch is lost with its connection."""
OVERDUE = leaf("overdue", 0, 1)
"""Whether time is up: for the batch that is answered, or for the oldest batch when a connection
breaks."""


class ClientSteps:
    """The client's steps from any state of one model in one configuration and regime."""

    def __init__(self, model: Model, k: Any, regime: SequenceArithmetic = NO_WRAP) -> None:
        self.model = model
        self.k = k
        self.regime = regime
        self.builder = Builder(model, k, regime)
        self.lifter = self.builder.lifter
        self.before = self.builder.state()
        self.seen = Seen(self.before)
        self.elsewhere = self.builder.state_elsewhere()

    def outcome(
        self, rule: str, evaluator: StepEvaluator, assumed: Sequence[Node], **changes: Any
    ) -> ProofStep:
        """Return the step, with the guards that the evaluator met and the sequence regime."""
        guards = [limit.condition for limit in evaluator.limits if not limit.by_scope]
        after = self.before.changed(**changes)
        replicas = REPLICAS >= 1
        formulas = tuple(((), node) for node in (*guards, *assumed, replicas) if node is not TRUE)
        given = ((COUNTED, ((), self.counted(after))),)
        return ProofStep(
            rule,
            self.before,
            after,
            formulas,
            prefixes=(self.before.log.length,),
            given=given,
            taken=tuple(evaluator.taken),
            edits=frozenset(evaluator.edits),
        )

    def counted(self, after: SymbolicState) -> Node:
        """Return that an epoch has no more records than there are sequences, unless sequences
        wrap."""
        if self.regime.wraps:
            return TRUE
        return after.next_position <= self.regime.max_sequence

    # The client

    def send_new(self) -> ProofStep:
        """Send a new batch, at the next position of the epoch."""
        evaluator, client, batch = self.sending(self.model.client.send_new, RECORDS_IN)
        before = self.before
        entry, epoch = before.entry, batch.producer_epoch
        begin = ite(entry.producer_epoch.eq(epoch), before.next_position, 0)
        after = begin + batch.record_count

        def position(e: Node, first: Node) -> Node:
            here = e.eq(epoch) & first.eq(batch.first_record)
            return ite(here, begin, before.position(e, first))

        step = self.outcome(
            "send_new",
            evaluator,
            [RECORDS_IN >= 1],
            client=client,
            sent=with_batch(before.sent, batch),
            numbered=with_batch(before.numbered, batch),
            position=position,
            next_position=after,
        )
        sent = Seen(step.after).placed(epoch, batch.record_count, batch.first_record)
        fits = self.lifter.formula(clauses.fits, self.seen, sent)
        return replace(step, given=(*step.given, (COUNTED, fits)))

    def send_again(self) -> ProofStep:
        """Send a batch again."""
        evaluator, client, batch = self.sending(self.model.client.send_again)
        sent = with_batch(self.before.sent, batch)
        return self.outcome("send_again", evaluator, [], client=client, sent=sent)

    def sending(
        self, function: Callable[..., Any], *arguments: Node, partition: Node = HERE
    ) -> tuple[StepEvaluator, Rec, Scalars]:
        """Return the client after a rule that sends one request, with the request's batch."""
        evaluator = self.builder.evaluator()
        step = evaluator.call(function, [self.k, self.before.client, partition, *arguments])
        request = step.sends.slots[0].batch
        return evaluator, step.actor, request

    def bump_epoch(self) -> ProofStep:
        """Begin the next epoch; if batches in flight are rewritten, their positions begin at 0."""
        evaluator = self.builder.evaluator()
        before = self.before
        client = evaluator.call(self.model.recovery.bump_epoch, [self.k, before.client])
        due = evaluator.call(self.model.recovery.resolved, [self.k, before.client])
        rewritten = containers.contains(due.bump_for, ZERO)
        epoch = client.producer_epoch
        begins, begin, numbered = [], ZERO, before.numbered
        for i, slot in enumerate(before.entry.in_flight.slots):
            used = i < before.entry.in_flight.length
            batch = slot.batch.changed(producer_epoch=epoch)
            numbered = with_batch(numbered, batch, rewritten & used)
            begins.append((rewritten & used, batch.first_record, begin))
            begin = begin + ite(used, batch.record_count, 0)

        def position(e: Node, first: Node) -> Node:
            found = before.position(e, first)
            for renumbered, record, at in begins:
                here = renumbered & e.eq(epoch) & first.eq(record)
                found = ite(here, at, found)
            return found

        return self.outcome(
            "bump_epoch",
            evaluator,
            [],
            client=client,
            numbered=numbered,
            position=position,
            next_position=ite(rewritten, begin, before.next_position),
        )

    def expire_batch(self) -> ProofStep:
        """Give up a batch whose time is up."""
        call = self.model.recovery.expire_batch
        step = self.moved("expire_batch", call, HERE, number("expired"))
        return replace(step, given=(*step.given, (IN_TIME, ((), FALSE))))

    def resolve_sequences(self) -> ProofStep:
        """Resolve a batch of unknown outcome, after everything in flight has ended."""
        return self.moved("resolve_sequences", self.model.recovery.resolve_sequences)

    def moved(self, rule: str, function: Callable[..., Any], *arguments: Node) -> ProofStep:
        """Apply a rule of the client that sends nothing."""
        evaluator = self.builder.evaluator()
        client = evaluator.call(function, [self.k, self.before.client, *arguments])
        return self.outcome(rule, evaluator, [], client=client)

    def answered(
        self, answer: Rec, *, partition: Node = HERE, overdue: Node = OVERDUE
    ) -> tuple[StepEvaluator, Rec]:
        """Return the client after an answer of the leader of a partition."""
        evaluator = self.builder.evaluator()
        arguments = [self.k, self.before.client, partition, answer, overdue]
        return evaluator, evaluator.call(self.model.responses.on_answer, arguments)

    def on_success(self) -> ProofStep:
        """Receive an answer without error, once the high watermark permits it."""
        answer = self.builder.record(self.model.messages.ProduceResponse, "answer")
        answer = answer.changed(error=ZERO)
        required = answer.required_offset
        base_offset, first = answer.base_offset, answer.first_record
        given = self.before.answers(first, base_offset, required)
        released = required <= self.seen.high_watermark
        evaluator, client = self.answered(answer)
        before, told = self.before, self.before.changed(client=client)

        def now_place(r: Node) -> Node:
            now, was = (containers.contains(e.acknowledged, r) for e in (told.entry, before.entry))
            news = now & ~was
            return ite(news, before.told(first, base_offset, required), before.place(r))

        step = self.outcome(
            "on_success",
            evaluator,
            [given, released],
            client=client,
            place=now_place,
            handled=before.handled - 1,
        )
        is_first = self.lifter.formula(fifo.answers_the_first, self.seen, first)
        return replace(step, given=(*step.given, (IN_ORDER, is_first)))

    def any_error(self) -> tuple[Rec, list[Node]]:
        """Return any answer, with the condition that it is an error other than
        MESSAGE_TOO_LARGE."""
        answer = self.builder.record(self.model.messages.ProduceResponse, "answer")
        too_large = const(self.model.messages.Error.MESSAGE_TOO_LARGE)
        return answer, [~answer.error.eq(0), ~answer.error.eq(too_large)]

    def on_error(self) -> ProofStep:
        """Receive any error except MESSAGE_TOO_LARGE, for any batch, at any time."""
        answer, assumed = self.any_error()
        evaluator, client = self.answered(answer)
        step = self.outcome("on_error", evaluator, assumed, client=client)
        return replace(step, given=(*step.given, *self.heard(answer.error, self.before)))

    def heard(self, error: Node, state: SymbolicState) -> Iterator[tuple[str, Formula]]:
        """Yield assumptions by name: an error that the client receives exists, and a leader gave it
        to a request in turn."""
        errors = self.model.messages.Error
        yield IN_ORDER, ((), state.refused)
        yield IN_TIME, ((), OVERDUE.eq(0))
        yield TAKEN, ((), ~error.eq(errors.INVALID_TIMESTAMP))
        is_known = disjunction(error.eq(known) for known in errors)
        fences = error.eq(errors.INVALID_PRODUCER_EPOCH)
        yield "errors_were_answered", ((), is_known & fences.implies(state.fenced))

    def on_disconnect(self) -> ProofStep:
        """Break a connection."""
        step = self.disconnected("on_disconnect", HERE, OVERDUE)
        in_time = (IN_TIME, ((), OVERDUE.eq(0)))
        epoch = self.before.entry.producer_epoch
        after = step.after.changed(handled=ZERO, epoch_in_turn=epoch)
        return replace(step, after=after, given=(*step.given, in_time))

    def disconnected(self, rule: str, partition: Node, overdue: Node) -> ProofStep:
        """Break a connection. If a producer would recover by another producer id, each clause uses
        the clauses that keep the producer from losing a batch: a lemma, proved once, says that no
        batch is lost, and the effects of a lost batch are not evaluated."""
        function = self.model.responses.on_disconnect
        if not resets(self.k.variant):
            return self.moved(rule, function, partition, overdue)
        lost: list[Node] = []
        evaluator = self.builder.evaluator(
            **dict.fromkeys(("on_lost_answer", "on_lost_late_answer"), not_reached(lost))
        )
        client = evaluator.call(function, [self.k, self.before.client, partition, overdue])
        step = self.outcome(rule, evaluator, [], client=client)
        none_is_lost = Lemma("nothing_is_lost", ((), ~disjunction(lost)), KEEPS_BATCHES)
        return replace(step, lemmas=(none_is_lost,), recalls=(none_is_lost.name,))

    # The client at any other partition, which shares the producer's id and epoch

    def at_other_partition(self) -> Iterator[ProofStep]:
        """Yield the client's steps at another partition. The theorem holds of each partition, so
        also of that one."""
        client, expire = self.model.client, self.model.recovery.expire_batch
        out_of_time = (IN_TIME, ((), FALSE))
        for rule, function, *arguments in (
            ("send_new", client.send_new, RECORDS_IN),
            ("send_again", client.send_again),
        ):
            evaluator, after, _ = self.sending(function, *arguments, partition=ELSEWHERE)
            yield self.outcome(f"{rule}_elsewhere", evaluator, [RECORDS_IN >= 1], client=after)
        expired = number("expired")
        for step, *given in (
            (self.moved("expire_batch_elsewhere", expire, ELSEWHERE, expired), out_of_time),
            (self.disconnected("on_disconnect_elsewhere", ELSEWHERE, ZERO),),
            (self.disconnected("on_late_disconnect_elsewhere", ELSEWHERE, const(1)), out_of_time),
        ):
            yield replace(step, given=(*step.given, *given), elsewhere=self.elsewhere)
        yield self.success_elsewhere()
        yield self.error_elsewhere()

    def success_elsewhere(self) -> ProofStep:
        """Receive an answer without error at another partition."""
        answer = self.builder.record(self.model.messages.ProduceResponse, "answer")
        answer = answer.changed(error=ZERO)
        evaluator, client = self.answered(answer, partition=ELSEWHERE, overdue=ZERO)
        step = self.outcome("on_success_elsewhere", evaluator, [], client=client)
        return replace(step, elsewhere=self.elsewhere)

    def error_elsewhere(self) -> ProofStep:
        """Receive any error except MESSAGE_TOO_LARGE at another partition."""
        answer, assumed = self.any_error()
        evaluator, client = self.answered(answer, partition=ELSEWHERE)
        step = self.outcome("on_error_elsewhere", evaluator, assumed, client=client)
        given = self.heard(answer.error, self.elsewhere)
        return replace(step, given=(*step.given, *given), elsewhere=self.elsewhere)


def not_reached(paths: list[Node]) -> Callable[..., Any]:
    """Return a contract for a rule of a fold that is never applied; it notes the path that leads to
    it."""

    def contract(evaluator: StepEvaluator, _k: Any, folded: Any, _item: Any) -> Any:
        paths.append(evaluator.path)
        return folded

    return contract


def with_batch(known: Predicate, batch: Scalars, where: Node = TRUE) -> Callable[..., Node]:
    """Return the known batches, with this one if `where` holds."""

    def now(epoch: Node, count: Node, first: Node) -> Node:
        same = (
            where
            & epoch.eq(batch.producer_epoch)
            & count.eq(batch.record_count)
            & first.eq(batch.first_record)
        )
        return known(epoch, count, first) | same

    return now
