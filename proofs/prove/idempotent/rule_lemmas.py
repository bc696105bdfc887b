"""Theorems about single rules: their results for any sequence, and for a batch that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from proofs.lift.dag import const
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.unknowns import number, within
from proofs.prove.idempotent.sequence_arithmetic import MAX_SEQUENCE, NO_WRAP
from proofs.prove.idempotent.symbolic_state import Builder, P

WRAPPING = replace(NO_WRAP, assumptions=(), says="any sequence, wrapping after any last one")
"""The regime of single rules: the last sequence is any number."""


def wrapping_evaluator(model: Model, k: Any) -> Evaluator:
    """Return an evaluator in which the last sequence is any number."""
    return Builder(model, k, WRAPPING).evaluator()


def wrap_lemmas(model: Model, k: Any) -> Iterator[ProofObligation]:
    """Prove that the successor of every sequence is accepted, and that subtraction reverses
    addition."""
    evaluator = wrapping_evaluator(model, k)
    sequence, count = number("sequence"), number("count")
    following = evaluator.call(model.messages.increment_sequence, [k, sequence, count])
    back = evaluator.call(model.messages.decrement_sequence, [k, following, count])
    successor = evaluator.call(model.messages.increment_sequence, [k, sequence, const(1)])
    accepted = evaluator.call(model.leader.in_sequence, [k, sequence, successor])
    assumed: list[Formula] = [
        ((), within(sequence, 0, MAX_SEQUENCE)),
        ((), within(count, 1, MAX_SEQUENCE)),
    ]
    yield obligation(
        "increment_sequence/stays_in_range", assumed, ((), within(following, 0, MAX_SEQUENCE))
    )
    yield obligation("decrement_sequence/undoes_increment", assumed, ((), back.eq(sequence)))
    yield obligation("in_sequence/accepts_the_successor", assumed, ((), accepted))


def duplicate_lemmas(model: Model, k: Any) -> Iterator[ProofObligation]:
    """Prove that a remembered batch is answered with its offset, and that nothing changes."""
    builder = Builder(model, k, WRAPPING)
    leader = builder.leader()
    known = leader.producers.value
    batch = builder.batch("batch").changed(producer_id=P)
    evaluator = builder.evaluator()
    request = Rec(model.messages.ProduceRequest, {"batch": batch})
    step = evaluator.call(model.leader.on_produce, [k, leader, request])
    answer, after = step.sends.slots[0], step.actor
    last = evaluator.call(model.messages.last_sequence, [k, batch])
    assumed: list[Formula] = [
        ((), batch.producer_epoch.eq(known.producer_epoch)),
        ((), batch.producer_epoch >= 0),
        ((), within(batch.base_sequence, 0, MAX_SEQUENCE)),
        ((), within(batch.record_count, 1, MAX_SEQUENCE)),
    ]
    for i, remembered in enumerate(known.batches.slots):
        delta = batch.record_count - 1
        same = (
            (i < known.batches.length)
            & last.eq(remembered.last_sequence)
            & delta.eq(remembered.offset_delta)
        )
        answered = answer.error.eq(0) & after.log.length.eq(leader.log.length)
        name = f"on_produce/duplicate_{i}_is_answered"
        yield obligation(name, [*assumed, ((), same)], ((), answered))
