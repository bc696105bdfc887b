"""What is always true: the promises, and the helper clauses that make them inductive.

A clause is a formula over some numbers, for all of which it holds in every state. The promises
come first; the rest says what a reader would nod at: what was sent has its place in its epoch,
what is in flight is in order, what is remembered is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.prove.state import MAX_SEQUENCE, State, Stored, number, stored

Formula = tuple[tuple[Node, ...], Node]


@dataclass(frozen=True, slots=True)
class Clause:
    """A named formula: bound numbers, and what holds for all of them."""

    name: str
    says: str
    formula: Callable[[State], Formula]


AT, NEXT = number("i"), number("j")
R, Q, F, B = (number(name) for name in ("r", "q", "f", "b"))
E1, S1, C1, F1 = (number(f"{name}1") for name in ("epoch", "base", "count", "first"))
E2, S2, C2, F2 = (number(f"{name}2") for name in ("epoch", "base", "count", "first"))


def implies(*parts: Node) -> Node:
    """All but the last imply the last."""
    return dag.either(dag.negate(dag.conjunction(parts[:-1])), parts[-1])


def in_log(state: State, position: Node) -> Node:
    """A position of the log."""
    return dag.both(dag.le(ZERO, position), dag.lt(position, state.log.length))


def mine(state: State, position: Node) -> Node:
    """A position of the log with a batch of p."""
    return dag.both(in_log(state, position), stored(state, position).mine)


def pair(state: State) -> tuple[Node, Stored, Stored]:
    """Two positions i < j of p, and what stands there."""
    both = dag.conjunction((mine(state, AT), mine(state, NEXT), dag.lt(AT, NEXT)))
    return both, stored(state, AT), stored(state, NEXT)


def slots(sequence: Any) -> list[tuple[Node, dict[str, Any]]]:
    """Each slot of a bounded tuple: whether it is used, and its fields."""
    return [
        (dag.lt(const(i), sequence.length), slot.fields) for i, slot in enumerate(sequence.slots)
    ]


def flying(state: State) -> list[tuple[Node, dict[str, Node]]]:
    """Each in-flight slot: whether it is used, and its batch's fields."""
    return [(used, fields["batch"].fields) for used, fields in slots(state.in_flight)]


def end(batch: dict[str, Node]) -> Node:
    """The sequence after a batch's last."""
    return dag.add(batch["base_sequence"], batch["record_count"])


def last(batch: dict[str, Node]) -> Node:
    """The record after a batch's last."""
    return dag.add(batch["first_record"], batch["record_count"])


def apart(a: tuple[Node, Node], b: tuple[Node, Node]) -> Node:
    """Two intervals (begin, end) do not meet."""
    return dag.either(dag.le(a[1], b[0]), dag.le(b[1], a[0]))


# Promises


def at_most_once(state: State) -> Formula:
    """No record stands twice in the log under one epoch of p."""
    both, a, b = pair(state)
    disjoint = apart((a.first, a.last), (b.first, b.last))
    return (AT, NEXT), implies(both, dag.eq(a.epoch, b.epoch), disjoint)


def order_kept(state: State) -> Formula:
    """Under one epoch records stand in the order of their sends."""
    both, a, b = pair(state)
    return (AT, NEXT), implies(both, dag.eq(a.epoch, b.epoch), dag.le(a.last, b.first))


def acked_is_stored(state: State) -> Formula:
    """An acknowledged record stands in the log, below the high watermark."""
    position = state.place(R)
    at = stored(state, position)
    held = dag.conjunction(
        (
            mine(state, position),
            dag.le(at.first, R),
            dag.lt(R, at.last),
            dag.le(at.end_offset, state.high_watermark),
        )
    )
    return (R,), implies(state.acknowledged(R), held)


def no_gap(state: State) -> Formula:
    """Each batch begins at 0, or where an earlier batch of its epoch ended."""
    before = state.previous(NEXT)
    a, b = stored(state, before), stored(state, NEXT)
    follows = dag.conjunction(
        (mine(state, before), dag.lt(before, NEXT), dag.eq(a.epoch, b.epoch), dag.eq(a.end, b.base))
    )
    return (NEXT,), implies(mine(state, NEXT), dag.either(dag.eq(b.base, ZERO), follows))


def remembers_five(state: State) -> Formula:
    """Of the producer's epoch the leader remembers five batches, or all of them."""
    at = stored(state, AT)
    first = state.window.slots[0].fields
    begin = dag.sub(first["last_sequence"], first["offset_delta"])
    known_epoch = dag.eq(at.epoch, state.known.fields["producer_epoch"])
    whole = dag.either(dag.eq(state.window.length, const(5)), dag.le(begin, at.base))
    return (AT,), implies(mine(state, AT), known_epoch, whole)


# The client


def epochs_rise(state: State) -> Formula:
    """The partition's epoch is not ahead of the producer's."""
    epoch, entry = state.client.fields["producer_epoch"], state.entry.fields["producer_epoch"]
    return (), dag.both(dag.le(ZERO, entry), dag.le(entry, epoch))


def in_flight_in_order(state: State) -> Formula:
    """Batches in flight are of the partition's epoch, in order, none empty, all numbered."""
    facts = []
    entry = state.entry.fields
    begin = (ZERO, ZERO)
    for used, batch in flying(state):
        facts.append(implies(used, dag.eq(batch["producer_epoch"], entry["producer_epoch"])))
        facts.append(implies(used, dag.le(const(1), batch["record_count"])))
        facts.append(implies(used, dag.le(begin[0], batch["base_sequence"])))
        facts.append(implies(used, dag.le(begin[1], batch["first_record"])))
        facts.append(implies(used, dag.le(end(batch), entry["next_sequence"])))
        facts.append(implies(used, dag.le(last(batch), entry["records_sent"])))
        begin = (end(batch), last(batch))
    facts.append(dag.le(ZERO, entry["next_sequence"]))
    facts.append(dag.le(ZERO, entry["records_sent"]))
    return (), dag.conjunction(facts)


def in_flight_is_mine(state: State) -> Formula:
    """Batches in flight carry the producer's id."""
    producer_id = state.client.fields["producer_id"]
    return (), dag.conjunction(
        implies(used, dag.eq(batch["producer_id"], producer_id)) for used, batch in flying(state)
    )


# What was sent


def sent_is_numbered(state: State) -> Formula:
    """Of what was sent no batch is empty, none is ahead of the client."""
    entry = state.entry.fields
    facts = dag.conjunction(
        (
            dag.le(const(1), C1),
            dag.le(ZERO, S1),
            dag.le(ZERO, F1),
            dag.le(ZERO, E1),
            dag.le(E1, entry["producer_epoch"]),
            dag.le(dag.add(S1, C1), MAX_SEQUENCE),
            dag.le(dag.add(F1, C1), entry["records_sent"]),
            implies(
                dag.eq(E1, entry["producer_epoch"]),
                dag.le(dag.add(S1, C1), entry["next_sequence"]),
            ),
        )
    )
    return (E1, S1, C1, F1), implies(state.sent(E1, S1, C1, F1), facts)


def sent_once_numbered(state: State) -> Formula:
    """Under one epoch two sent batches are the same, or one wholly before the other."""
    same = dag.conjunction((dag.eq(S1, S2), dag.eq(C1, C2), dag.eq(F1, F2)))
    before = dag.both(dag.le(dag.add(S1, C1), S2), dag.le(dag.add(F1, C1), F2))
    after = dag.both(dag.le(dag.add(S2, C2), S1), dag.le(dag.add(F2, C2), F1))
    either = dag.disjunction((same, before, after))
    both = dag.both(state.sent(E1, S1, C1, F1), state.sent(E2, S2, C2, F2))
    bound = (E1, S1, C1, F1, E2, S2, C2, F2)
    return bound, implies(both, dag.eq(E1, E2), either)


def batches_stay_whole(state: State) -> Formula:
    """A batch in flight has the records that it had whenever it was sent, or shares none."""
    facts = []
    for used, batch in flying(state):
        same = dag.both(dag.eq(batch["first_record"], F1), dag.eq(batch["record_count"], C1))
        disjoint = apart((batch["first_record"], last(batch)), (F1, dag.add(F1, C1)))
        facts.append(implies(used, dag.either(same, disjoint)))
    return (E1, S1, C1, F1), implies(state.sent(E1, S1, C1, F1), dag.conjunction(facts))


def in_flight_has_its_place(state: State) -> Formula:
    """A batch in flight and a sent one of its epoch are the same, or one is wholly before."""
    facts = []
    for used, batch in flying(state):
        same = dag.conjunction(
            (
                dag.eq(batch["base_sequence"], S1),
                dag.eq(batch["record_count"], C1),
                dag.eq(batch["first_record"], F1),
            )
        )
        before = dag.both(
            dag.le(end(batch), S1),
            dag.le(last(batch), F1),
        )
        after = dag.both(
            dag.le(dag.add(S1, C1), batch["base_sequence"]),
            dag.le(dag.add(F1, C1), batch["first_record"]),
        )
        facts.append(implies(used, dag.disjunction((same, before, after))))
    current = dag.eq(E1, state.entry.fields["producer_epoch"])
    return (E1, S1, C1, F1), implies(state.sent(E1, S1, C1, F1), current, dag.conjunction(facts))


# The log


def log_was_sent(state: State) -> Formula:
    """What p has in the log, p sent."""
    at = stored(state, AT)
    return (AT,), implies(mine(state, AT), state.sent(at.epoch, at.base, at.count, at.first))


def log_rises(state: State) -> Formula:
    """Epochs of p never fall along the log; within one, each batch is after the one before."""
    both, a, b = pair(state)
    rises = implies(dag.eq(a.epoch, b.epoch), dag.le(a.end, b.base))
    return (AT, NEXT), implies(both, dag.both(dag.le(a.epoch, b.epoch), rises))


def offsets_rise(state: State) -> Formula:
    """Offsets are given once; the high watermark is within the log; nothing stored is empty."""
    a, b = stored(state, AT), stored(state, NEXT)
    positions = dag.conjunction((in_log(state, AT), in_log(state, NEXT), dag.lt(AT, NEXT)))
    return (AT, NEXT), implies(positions, dag.le(a.end_offset, b.offset))


def nothing_stored_is_empty(state: State) -> Formula:
    """Each stored batch has a record and an offset."""
    at = stored(state, AT)
    return (AT,), implies(
        in_log(state, AT), dag.both(dag.le(const(1), at.count), dag.le(ZERO, at.offset))
    )


def watermark_within_log(state: State) -> Formula:
    """The high watermark does not pass the log's end, nor does either go below 0."""
    length = state.log.length
    end_offset = stored(state, dag.sub(length, const(1))).end_offset
    log_end = dag.ite(dag.lt(ZERO, length), end_offset, ZERO)
    return (), dag.conjunction(
        (
            dag.le(ZERO, length),
            dag.le(ZERO, state.high_watermark),
            dag.le(state.high_watermark, log_end),
        )
    )


# What the leader knows


def entry_has_last_epoch(state: State) -> Formula:
    """The leader knows an epoch of p that no batch of p in the log exceeds."""
    known = state.known.fields["producer_epoch"]
    return (AT,), implies(mine(state, AT), dag.le(stored(state, AT).epoch, known))


def known_means_remembered(state: State) -> Formula:
    """A known epoch comes with a remembered batch, an unknown one (-1) with none."""
    known = state.known.fields["producer_epoch"]
    some = dag.lt(ZERO, state.window.length)
    return (), dag.conjunction((dag.le(const(-1), known), dag.eq(dag.le(ZERO, known), some)))


def is_at(state: State, position: Node, slot: dict[str, Node]) -> Node:
    """The remembered batch is the one that stands at the position."""
    at = stored(state, position)
    return dag.conjunction(
        (
            mine(state, position),
            dag.eq(at.epoch, state.known.fields["producer_epoch"]),
            dag.eq(dag.sub(at.end, const(1)), slot["last_sequence"]),
            dag.eq(dag.sub(at.end_offset, const(1)), slot["last_offset"]),
            dag.eq(dag.sub(at.count, const(1)), slot["offset_delta"]),
        )
    )


def window_is_log(state: State) -> Formula:
    """Each remembered batch stands in the log."""
    facts = []
    for (used, slot), candidates in zip(slots(state.window), state.candidates, strict=True):
        somewhere = dag.disjunction(is_at(state, position, slot) for position in candidates)
        facts.append(implies(used, somewhere))
    return (), dag.conjunction(facts)


def window_rises(state: State) -> Formula:
    """Remembered batches are in sequence order."""
    facts = []
    before: tuple[Node, dict[str, Node]] | None = None
    for used, slot in slots(state.window):
        if before is not None:
            begin = dag.sub(slot["last_sequence"], slot["offset_delta"])
            facts.append(implies(used, dag.lt(before[1]["last_sequence"], begin)))
        before = (used, slot)
    return (), dag.conjunction(facts)


def newest_is_last(state: State) -> Formula:
    """No batch of p in the log, of the known epoch, is after the newest remembered."""
    at = stored(state, AT)
    known = dag.eq(at.epoch, state.known.fields["producer_epoch"])
    facts = []
    for i, (_, slot) in enumerate(slots(state.window)):
        newest = dag.eq(state.window.length, const(i + 1))
        facts.append(implies(newest, dag.le(dag.sub(at.end, const(1)), slot["last_sequence"])))
    return (AT,), implies(mine(state, AT), known, dag.conjunction(facts))


def answers_are_true(state: State) -> Formula:
    """A success says where the batch stands; q is the position."""
    at = stored(state, Q)
    facts = dag.conjunction(
        (mine(state, Q), dag.eq(at.first, F), dag.eq(at.offset, B), dag.eq(at.end_offset, R))
    )
    return (F, B, R, Q), implies(state.answers(F, B, R, Q), facts)


HELPERS: tuple[Clause, ...] = tuple(
    Clause(function.__name__, (function.__doc__ or "").strip(), function)
    for function in (
        epochs_rise,
        in_flight_in_order,
        in_flight_is_mine,
        sent_is_numbered,
        sent_once_numbered,
        batches_stay_whole,
        in_flight_has_its_place,
        log_was_sent,
        log_rises,
        offsets_rise,
        nothing_stored_is_empty,
        watermark_within_log,
        entry_has_last_epoch,
        known_means_remembered,
        window_is_log,
        window_rises,
        newest_is_last,
        answers_are_true,
    )
)

PROMISED: dict[str, Clause] = {
    function.__name__: Clause(function.__name__, (function.__doc__ or "").strip(), function)
    for function in (at_most_once, order_kept, acked_is_stored, no_gap, remembers_five)
}
