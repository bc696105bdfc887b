"""Theorems about single rules: what they do with any sequence, and with a batch that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, const
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.prove.clauses import Formula, within
from proofs.prove.regimes import MAX_SEQUENCE, NO_WRAP
from proofs.prove.smt import Obligation, obligation
from proofs.prove.state import Builder, P
from proofs.prove.unknowns import number

WRAPPING = replace(NO_WRAP, assumptions=(), says="any sequence, wrapping after any last one")
"""What single rules do, whatever the last sequence is."""


def wrapping_evaluator(model: Model, k: Any) -> Evaluator:
    """An evaluator in which the last sequence is any number."""
    return Builder(model, k, WRAPPING).evaluator()


def wrap_lemmas(model: Model, k: Any) -> Iterator[Obligation]:
    """The successor of every sequence is accepted; what was added can be taken off again."""
    evaluator = wrapping_evaluator(model, k)
    sequence, count = number("sequence"), number("count")
    following = evaluator.call(model.messages.increment_sequence, [k, sequence, count])
    back = evaluator.call(model.messages.decrement_sequence, [k, following, count])
    successor = evaluator.call(model.messages.increment_sequence, [k, sequence, const(1)])
    accepted = evaluator.call(model.leader.in_sequence, [k, sequence, successor])
    assumed: list[Formula] = [
        ((), within(sequence, ZERO, MAX_SEQUENCE)),
        ((), within(count, const(1), MAX_SEQUENCE)),
    ]
    yield obligation(
        "increment_sequence/stays_in_range", assumed, ((), within(following, ZERO, MAX_SEQUENCE))
    )
    yield obligation("decrement_sequence/undoes_increment", assumed, ((), dag.eq(back, sequence)))
    yield obligation("in_sequence/accepts_the_successor", assumed, ((), accepted))


def duplicate_lemmas(model: Model, k: Any) -> Iterator[Obligation]:
    """A remembered batch is answered with its offset, and nothing changes."""
    builder = Builder(model, k, WRAPPING)
    leader = builder.leader()
    known = leader.fields["producers"].value
    batch = builder.batch("batch")
    fields = {**batch.fields, "producer_id": P}
    evaluator = builder.evaluator()
    request = builder.record(model.messages.ProduceRequest, "request")
    request = type(request)(request.cls, {"batch": type(batch)(batch.cls, fields)})
    step = evaluator.call(model.leader.on_produce, [k, leader, request])
    answer, after = step.fields["sends"].slots[0].fields, step.fields["actor"].fields
    last = evaluator.call(model.messages.last_sequence, [k, type(batch)(batch.cls, fields)])
    assumed: list[Formula] = [
        ((), dag.eq(fields["producer_epoch"], known.fields["producer_epoch"])),
        ((), dag.le(ZERO, fields["producer_epoch"])),
        ((), within(fields["base_sequence"], ZERO, MAX_SEQUENCE)),
        ((), within(fields["record_count"], const(1), MAX_SEQUENCE)),
    ]
    for i, slot in enumerate(known.fields["batches"].slots):
        remembered = slot.fields
        delta = dag.sub(fields["record_count"], const(1))
        same = dag.conjunction(
            (
                dag.lt(const(i), known.fields["batches"].length),
                dag.eq(last, remembered["last_sequence"]),
                dag.eq(delta, remembered["offset_delta"]),
            )
        )
        answered = dag.both(
            dag.eq(answer["error"], ZERO), dag.eq(after["log"].length, leader.fields["log"].length)
        )
        name = f"on_produce/duplicate_{i}_is_answered"
        yield obligation(name, [*assumed, ((), same)], ((), answered))
