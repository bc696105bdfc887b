"""The theorems, and the obligations that prove each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.evaluate import Evaluator
from proofs.lift.text import Model
from proofs.prove.clauses import HELPERS, PROMISED, Clause, Formula
from proofs.prove.smt import Obligation, obligation
from proofs.prove.state import MAX_SEQUENCE, Builder, P, number
from proofs.prove.steps import Steps, initial

NO_WRAP = "fewer than 2^31 records per epoch"
WRAPS = "any sequence, wrapping after the last"

ASSUMPTIONS = {
    "no_wrap": "no epoch of a producer has more records than there are sequences",
    "replay_rebuilds_the_entry": (
        "what a new leader makes of its prefix of the log is what `proofs.prove.steps.REBUILT`"
        " says; checked on every state of the scopes that fail over"
    ),
    "high_watermark_survives": (
        "a new leader has all below the high watermark (acks=all, no unclean election)"
    ),
}


@dataclass(frozen=True, slots=True)
class Theorem:
    """What is proved: `clause` in every state, or `lemmas` about single rules.

    `variant` is the text of the variant it needs; `answered_by` names the promises whose broken
    trace answers a failure.
    """

    name: str
    says: str
    variant: str
    regime: str
    assumptions: tuple[str, ...]
    answered_by: tuple[str, ...]
    clause: Clause | None = None
    lemmas: Callable[[Model, Any], Iterator[Obligation]] | None = None

    @property
    def uses(self) -> tuple[str, ...]:
        """The helper clauses below it."""
        return tuple(clause.name for clause in HELPERS) if self.clause else ()


# Lemmas


def wrapping_evaluator(model: Model, k: Any) -> Evaluator:
    """An evaluator in which the last sequence is any number."""
    return Evaluator(model, k, overrides={("Layout", "max_sequence"): MAX_SEQUENCE})


def within(node: Node, lo: Node, hi: Node) -> Node:
    """lo <= node <= hi."""
    return dag.both(dag.le(lo, node), dag.le(node, hi))


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
    builder = Builder(model)
    leader = builder.leader()
    known = leader.fields["producers"].value
    batch = builder.batch("batch")
    fields = {**batch.fields, "producer_id": P}
    evaluator = wrapping_evaluator(model, k)
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


THEOREMS: tuple[Theorem, ...] = (
    Theorem(
        "at_most_once",
        PROMISED["at_most_once"].says,
        "4.3.1",
        NO_WRAP,
        ("no_wrap", "replay_rebuilds_the_entry"),
        ("at_most_once",),
        PROMISED["at_most_once"],
    ),
    Theorem(
        "order_kept",
        PROMISED["order_kept"].says,
        "4.3.1",
        NO_WRAP,
        ("no_wrap", "replay_rebuilds_the_entry"),
        ("order_kept",),
        PROMISED["order_kept"],
    ),
    Theorem(
        "acked_is_stored",
        PROMISED["acked_is_stored"].says,
        "4.3.1",
        NO_WRAP,
        ("no_wrap", "replay_rebuilds_the_entry", "high_watermark_survives"),
        ("acked_is_stored",),
        PROMISED["acked_is_stored"],
    ),
    Theorem(
        "no_gap",
        PROMISED["no_gap"].says,
        "first_sequence=strict",
        NO_WRAP,
        ("no_wrap", "replay_rebuilds_the_entry"),
        ("no_gap",),
        PROMISED["no_gap"],
    ),
    Theorem(
        "remembers_five",
        PROMISED["remembers_five"].says,
        "restart_window=full",
        NO_WRAP,
        ("no_wrap", "replay_rebuilds_the_entry"),
        ("acked_once", "no_false_error"),
        PROMISED["remembers_five"],
    ),
    Theorem(
        "sequences_wrap",
        "After the last sequence comes 0: it is accepted, and first sequences are derived rightly.",
        "4.3.1",
        WRAPS,
        (),
        ("no_false_error", "no_gap"),
        lemmas=wrap_lemmas,
    ),
    Theorem(
        "duplicate_is_answered",
        "Each remembered batch that comes again is answered without error; nothing is appended.",
        "4.3.1",
        WRAPS,
        (),
        ("no_false_error", "acked_once"),
        lemmas=duplicate_lemmas,
    ),
)


@dataclass(frozen=True, slots=True)
class Duty:
    """An obligation, and the theorems that need it."""

    obligation: Obligation
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All obligations of some theorems, each question once; `unchanged` need no solver."""

    duties: tuple[Duty, ...]
    unchanged: tuple[str, ...]


def setting(model: Model, variant: str) -> Any:
    """The setting of the proofs: five in flight, five remembered, two partitions."""
    layout = model.setting.Layout(
        partitions=2, in_flight=5, records=0, log=0, max_epoch=1, max_batch=1, max_sequence=1
    )
    return model.setting.Setting(
        variant=model.variants.parse(variant), layout=layout, budgets=model.setting.Budgets()
    )


def inductive(model: Model, k: Any, clause: Clause) -> Iterator[tuple[str, Obligation | None]]:
    """(name, obligation) of the helpers and of `clause`; None where nothing changes.

    The helpers are inductive by themselves; the promise stands on them.
    """
    steps = Steps(model, k)
    clauses = (*HELPERS, clause)
    before = [c.formula(steps.before) for c in clauses]
    first = initial(model, k)
    for c in clauses:
        yield f"initial/{c.name}", obligation(f"initial/{c.name}", [], c.formula(first))
    for step in steps.all():
        for c, hypothesis in zip(clauses, before, strict=True):
            name = f"{step.rule}/{c.name}"
            goal = c.formula(step.after)
            if goal == hypothesis:
                yield name, None
            else:
                known = before if c is clause else before[:-1]
                yield name, obligation(name, [*known, *step.assumed], goal)


def needs(model: Model, theorem: Theorem, variant: str) -> Iterator[tuple[str, Obligation | None]]:
    """(name, obligation or None where nothing changes) of a theorem."""
    k = setting(model, variant)
    if theorem.lemmas is not None:
        for lemma in theorem.lemmas(model, k):
            yield lemma.name, lemma
    if theorem.clause is not None:
        yield from inductive(model, k, theorem.clause)


def plan(model: Model, theorems: tuple[Theorem, ...], under: Callable[[Theorem], str]) -> Plan:
    """The obligations of the theorems, each under the variant that `under` says."""
    duties: dict[str, Duty] = {}
    unchanged: dict[str, None] = {}
    for theorem in theorems:
        for name, found in needs(model, theorem, under(theorem)):
            if found is None:
                unchanged[f"{under(theorem)}: {name}"] = None
            else:
                known = duties.get(found.text)
                before = known.needed_by if known else ()
                duties[found.text] = Duty(found, (*before, theorem.name))
    return Plan(tuple(duties.values()), tuple(unchanged))
