"""What is always true: the guarantees, and the helper clauses that make them inductive.

A clause is a formula over some numbers, for all of which it holds in every state. The guarantees
come first; the rest says what a reader would nod at: what was sent has its place in its epoch,
what is in flight is in order, what is remembered is in the log, and a leader that replays a
prefix of the log remembers as much of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from proofs.lift import containers, dag
from proofs.lift.containers import FocusMap
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.values import Rec, Seq
from proofs.prove.regimes import LARGEST_BATCH
from proofs.prove.state import PRODUCER, P, State, Stored, stored
from proofs.prove.unknowns import number

Formula = tuple[tuple[Node, ...], Node]
ONE = const(1)


@dataclass(frozen=True, slots=True)
class Clause:
    """A named formula: bound numbers, and what holds for all of them.

    `uses` are the clauses and cuts that its induction stands on, itself among them; `follows` if
    it needs no induction, for they imply it. A clause about every prefix of the log has
    `of_prefix`, what it says of the prefix of one length.
    """

    name: str
    says: str
    formula: Callable[[State], Formula]
    uses: frozenset[str] = frozenset()
    of_prefix: Callable[[State, Node], Formula] | None = None
    follows: bool = False


AT, NEXT, LENGTH = number("i"), number("j"), number("length")
R, F, B, POSITION, RECORD = (number(name) for name in ("r", "f", "b", "at", "record"))
E1, C1, F1 = (number(f"{name}1") for name in ("epoch", "count", "first"))
E2, C2, F2 = (number(f"{name}2") for name in ("epoch", "count", "first"))


def implies(*parts: Node) -> Node:
    """All but the last imply the last."""
    return dag.either(dag.negate(dag.conjunction(parts[:-1])), parts[-1])


def conjuncts(node: Node) -> tuple[Node, ...]:
    """What must all hold, in order."""
    found: list[Node] = []
    left = [node]
    while left:
        part = left.pop()
        if part.op == "and":
            left.extend(reversed(part.args))
        else:
            found.append(part)
    return tuple(found)


def within(node: Node, lo: Node, hi: Node) -> Node:
    """lo <= node <= hi."""
    return dag.both(dag.le(lo, node), dag.le(node, hi))


def in_log(state: State, place: Node) -> Node:
    """A place of the log."""
    return dag.both(dag.le(ZERO, place), dag.lt(place, state.log.length))


def mine(state: State, place: Node) -> Node:
    """A place of the log with a batch of p."""
    return dag.both(in_log(state, place), stored(state, place).mine)


def pair(state: State) -> tuple[Node, Stored, Stored]:
    """Two places i < j of p, and what stands there."""
    both = dag.conjunction((mine(state, AT), mine(state, NEXT), dag.lt(AT, NEXT)))
    return both, stored(state, AT), stored(state, NEXT)


def slots(sequence: Any) -> list[tuple[Node, dict[str, Any]]]:
    """Each slot of a bounded tuple: whether it is used, and its fields."""
    return [
        (dag.lt(const(i), sequence.length), slot.fields) for i, slot in enumerate(sequence.slots)
    ]


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch of p as the clauses see it: `begin` and `end` are positions in its epoch."""

    epoch: Node
    begin: Node
    count: Node
    first: Node

    @property
    def end(self) -> Node:
        """The position after its last record."""
        return dag.add(self.begin, self.count)

    @property
    def last(self) -> Node:
        """The record after its last."""
        return dag.add(self.first, self.count)

    def same_as(self, other: Sent) -> Node:
        """Equal positions and equal records."""
        return dag.conjunction(
            (
                dag.eq(self.begin, other.begin),
                dag.eq(self.count, other.count),
                dag.eq(self.first, other.first),
            )
        )

    def before(self, other: Sent) -> Node:
        """Positions and records are all before the other's."""
        return dag.both(dag.le(self.end, other.begin), dag.le(self.last, other.first))

    def placed(self, other: Sent) -> Node:
        """The same, or one wholly before the other."""
        return dag.disjunction((self.same_as(other), self.before(other), other.before(self)))


def batch_at(state: State, epoch: Node, count: Node, first: Node) -> Sent:
    """The batch of an epoch that has these records."""
    return Sent(epoch, state.position(epoch, first), count, first)


def flying(state: State) -> list[tuple[Node, Sent, dict[str, Node]]]:
    """Each in-flight slot: whether it is used, its batch, and the batch's fields."""
    found = []
    for used, fields in slots(state.in_flight):
        batch = fields["batch"].fields
        epoch = state.entry.fields["producer_epoch"]
        sent = batch_at(state, epoch, batch["record_count"], batch["first_record"])
        found.append((used, sent, batch))
    return found


def sent_one(state: State) -> tuple[Node, Sent]:
    """Any batch, and whether it was sent."""
    return state.sent(E1, C1, F1), batch_at(state, E1, C1, F1)


def apart(a: tuple[Node, Node], b: tuple[Node, Node]) -> Node:
    """Two intervals (begin, end) do not meet."""
    return dag.either(dag.le(a[1], b[0]), dag.le(b[1], a[0]))


# Guarantees


def at_most_once(state: State) -> Formula:
    """No record stands twice in the log under one epoch of p."""
    both, a, b = pair(state)
    disjoint = apart((a.first, a.last), (b.first, b.last))
    return (AT, NEXT), implies(both, dag.eq(a.epoch, b.epoch), disjoint)


def order_within_epoch(state: State) -> Formula:
    """Under one epoch records stand in the order of their sends."""
    both, a, b = pair(state)
    return (AT, NEXT), implies(both, dag.eq(a.epoch, b.epoch), dag.le(a.last, b.first))


def has_record(state: State, place: Node, record: Node) -> Node:
    """At this place stands a batch of p with this record."""
    at = stored(state, place)
    return dag.conjunction((mine(state, place), dag.le(at.first, record), dag.lt(record, at.last)))


def acked_is_replicated(state: State) -> Formula:
    """An acknowledged record stands in the log, below the high watermark."""
    place = state.place(R)
    below = dag.le(stored(state, place).end_offset, state.high_watermark)
    return (R,), implies(state.acknowledged(R), dag.both(has_record(state, place, R), below))


def acked_is_stored(state: State) -> Formula:
    """An acknowledged record stands in the log, and a success says where its batch stands."""
    bound, told = answers_are_true(state)
    held = implies(state.acknowledged(RECORD), has_record(state, state.place(RECORD), RECORD))
    return (*bound, RECORD), dag.both(held, told)


def no_gap(state: State) -> Formula:
    """Each batch begins where the one before it in its epoch ended; the first begins at 0."""
    before = state.previous(NEXT)
    a, b = stored(state, before), stored(state, NEXT)

    def is_earlier(place: Node) -> Node:
        same_epoch = dag.eq(stored(state, place).epoch, b.epoch)
        return dag.conjunction((mine(state, place), dag.lt(place, NEXT), same_epoch))

    begins = dag.both(dag.eq(b.begin, ZERO), dag.negate(is_earlier(AT)))
    is_last = implies(is_earlier(AT), dag.le(AT, before))
    follows = dag.conjunction((is_earlier(before), dag.eq(a.end, b.begin), is_last))
    return (AT, NEXT), implies(mine(state, NEXT), dag.either(begins, follows))


# The client


def epochs_rise(state: State) -> Formula:
    """The partition's epoch is of the producer's id, and not ahead of the producer's."""
    client, entry = state.client.fields, state.entry.fields
    return (), dag.conjunction(
        (
            dag.eq(client["producer_id"], P),
            dag.eq(client["producer"], PRODUCER),
            dag.eq(entry["producer_id"], P),
            within(entry["producer_epoch"], ZERO, client["producer_epoch"]),
        )
    )


def in_flight_in_order(state: State) -> Formula:
    """Batches in flight are of the partition's epoch, in order, none empty, all before the next."""
    facts = []
    entry = state.entry.fields
    begin = (ZERO, ZERO)
    for used, sent, batch in flying(state):
        facts.append(implies(used, dag.eq(batch["producer_epoch"], entry["producer_epoch"])))
        facts.append(implies(used, dag.le(ONE, sent.count)))
        facts.append(implies(used, dag.le(begin[0], sent.begin)))
        facts.append(implies(used, dag.le(begin[1], sent.first)))
        facts.append(implies(used, dag.le(sent.end, state.next_position)))
        facts.append(implies(used, dag.le(sent.last, entry["records_sent"])))
        begin = (sent.end, sent.last)
    facts.append(dag.le(ZERO, state.next_position))
    facts.append(dag.le(ZERO, entry["records_sent"]))
    return (), dag.conjunction(facts)


def fits(state: State, sent: Sent) -> Node:
    """A batch is as small as the regime has it."""
    if state.regime.wraps:
        return dag.le(sent.count, const(LARGEST_BATCH))
    return dag.le(sent.end, state.regime.max_sequence)


def in_flight_is_numbered(state: State) -> Formula:
    """Sequences are those of the positions, of batches in flight and of the next."""
    sequence = state.regime.sequence
    facts = [dag.eq(state.entry.fields["next_sequence"], sequence(state.next_position))]
    for used, sent, batch in flying(state):
        facts.append(implies(used, dag.eq(batch["base_sequence"], sequence(sent.begin))))
        facts.append(implies(used, fits(state, sent)))
    return (), dag.conjunction(facts)


def in_flight_is_mine(state: State) -> Formula:
    """Batches in flight carry the producer and its id."""
    return (), dag.conjunction(
        implies(used, dag.both(dag.eq(b["producer_id"], P), dag.eq(b["producer"], PRODUCER)))
        for used, _, b in flying(state)
    )


# What was sent


def sent_is_numbered(state: State) -> Formula:
    """Of what was sent no batch is empty, none is ahead of the client."""
    entry = state.entry.fields
    was, sent = sent_one(state)
    facts = dag.conjunction(
        (
            dag.le(ONE, sent.count),
            dag.le(ZERO, sent.begin),
            dag.le(ZERO, sent.first),
            within(sent.epoch, ZERO, entry["producer_epoch"]),
            fits(state, sent),
            dag.le(sent.last, entry["records_sent"]),
            implies(
                dag.eq(sent.epoch, entry["producer_epoch"]), dag.le(sent.end, state.next_position)
            ),
        )
    )
    return (E1, C1, F1), implies(was, facts)


def sent_once_numbered(state: State) -> Formula:
    """Under one epoch two sent batches are the same, or one wholly before the other."""
    a, b = batch_at(state, E1, C1, F1), batch_at(state, E1, C2, F2)
    both = dag.both(state.sent(E1, C1, F1), state.sent(E1, C2, F2))
    return (E1, C1, F1, C2, F2), implies(both, a.placed(b))


def in_flight_is_whole(state: State, other: Sent) -> Node:
    """A batch in flight has the records of the other, or shares none."""
    facts = []
    for used, sent, _ in flying(state):
        same = dag.both(dag.eq(sent.first, other.first), dag.eq(sent.count, other.count))
        disjoint = apart((sent.first, sent.last), (other.first, other.last))
        facts.append(implies(used, dag.either(same, disjoint)))
    return dag.conjunction(facts)


def in_flight_is_placed(state: State, other: Sent) -> Node:
    """A batch in flight is the other, or one is wholly before."""
    return dag.conjunction([implies(used, sent.placed(other)) for used, sent, _ in flying(state)])


def is_epoch_in_use(state: State) -> Node:
    """The epoch is the one that the client writes the partition with."""
    return dag.eq(E1, state.entry.fields["producer_epoch"])


def batches_stay_whole(state: State) -> Formula:
    """A batch in flight has the records that it had whenever it was sent, or shares none."""
    was, other = sent_one(state)
    return (E1, C1, F1), implies(was, in_flight_is_whole(state, other))


def in_flight_has_its_place(state: State) -> Formula:
    """A batch in flight and a sent one of its epoch are the same, or one is wholly before."""
    was, other = sent_one(state)
    return (E1, C1, F1), implies(was, is_epoch_in_use(state), in_flight_is_placed(state, other))


# The log


def log_is_whole(state: State) -> Formula:
    """Of an epoch in the log each position before the end of any of its batches stands in the log,
    there or before."""
    at = stored(state, AT)
    place = state.cover(at.epoch, POSITION)
    found = stored(state, place)
    facts = dag.conjunction(
        (
            within(place, ZERO, AT),
            found.mine,
            dag.eq(found.epoch, at.epoch),
            dag.both(dag.le(found.begin, POSITION), dag.lt(POSITION, found.end)),
        )
    )
    inside = dag.both(dag.le(ZERO, POSITION), dag.lt(POSITION, at.end))
    return (AT, POSITION), implies(mine(state, AT), inside, facts)


def log_was_sent(state: State) -> Formula:
    """What p has in the log, p sent."""
    at = stored(state, AT)
    facts = (
        dag.eq(at.producer, PRODUCER),
        state.sent(at.epoch, at.count, at.first),
        dag.eq(at.begin, state.position(at.epoch, at.first)),
    )
    return (AT,), implies(mine(state, AT), dag.conjunction(facts))


def log_is_numbered(state: State) -> Formula:
    """What p has in the log has the sequence of its position."""
    at = stored(state, AT)
    numbered = dag.eq(at.base_sequence, state.regime.sequence(at.begin))
    return (AT,), implies(mine(state, AT), numbered)


def log_rises(state: State) -> Formula:
    """Epochs of p never fall along the log; within one, each batch is after the one before."""
    both, a, b = pair(state)
    rises = implies(dag.eq(a.epoch, b.epoch), dag.le(a.end, b.begin))
    return (AT, NEXT), implies(both, dag.both(dag.le(a.epoch, b.epoch), rises))


def offsets_rise(state: State) -> Formula:
    """Offsets are given once."""
    a, b = stored(state, AT), stored(state, NEXT)
    places = dag.conjunction((in_log(state, AT), in_log(state, NEXT), dag.lt(AT, NEXT)))
    return (AT, NEXT), implies(places, dag.le(a.end_offset, b.offset))


def nothing_stored_is_empty(state: State) -> Formula:
    """Each stored batch has a record and an offset."""
    at = stored(state, AT)
    return (AT,), implies(
        in_log(state, AT), dag.both(dag.le(ONE, at.count), dag.le(ZERO, at.offset))
    )


def end_offset(state: State, length: Node) -> Node:
    """The offset after so many batches of the log."""
    last = stored(state, dag.sub(length, ONE)).end_offset
    return dag.ite(dag.lt(ZERO, length), last, ZERO)


def watermark_within_log(state: State) -> Formula:
    """The high watermark does not pass the log's end, nor does either go below 0."""
    length = state.log.length
    log_end = end_offset(state, length)
    return (), dag.both(dag.le(ZERO, length), within(state.high_watermark, ZERO, log_end))


# What a leader knows: the leader now, and any that would replay a prefix of its log


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of p after the first `length` batches of the log."""

    epoch: Node
    window: Seq
    length: Node

    @property
    def newest(self) -> dict[str, Node]:
        """The batch remembered last."""
        chosen = dag.sub(self.window.length, ONE)
        first, *rest = (slot.fields for slot in self.window.slots)
        found = dict(first)
        for i, slot in enumerate(rest, 1):
            here = dag.eq(chosen, const(i))
            found = {name: dag.ite(here, slot[name], found[name]) for name in found}
        return found


def memory(entry: Rec, length: Node) -> Memory:
    """A producer state entry, with the length of the log that it is about."""
    return Memory(entry.fields["producer_epoch"], entry.fields["batches"], length)


def place_of(state: State, slot: dict[str, Node]) -> Node:
    """Where in the log a remembered batch stands."""
    return state.where(dag.add(slot["last_offset"], ONE))


def before_end(state: State, known: Memory, place: Node) -> Node:
    """A place of p among those that are known."""
    at = stored(state, place)
    return dag.conjunction((dag.le(ZERO, place), dag.lt(place, known.length), at.mine))


def memory_has_last_epoch(state: State, known: Memory) -> Formula:
    """No batch of p in the log has a later epoch than the one known."""
    at = stored(state, AT)
    return (AT,), implies(before_end(state, known, AT), within(at.epoch, ZERO, known.epoch))


def memory_is_sound(state: State, known: Memory) -> Formula:
    """A known epoch comes with a remembered batch, an unknown one (-1) with none."""
    some = dag.lt(ZERO, known.window.length)
    return (), dag.conjunction(
        (
            dag.le(const(-1), known.epoch),
            within(known.window.length, ZERO, const(len(known.window.slots))),
            dag.eq(dag.le(ZERO, known.epoch), some),
        )
    )


def window_is_log(state: State, known: Memory) -> Formula:
    """Each remembered batch stands in the log."""
    facts = []
    for used, slot in slots(known.window):
        place = place_of(state, slot)
        at = stored(state, place)
        facts += [
            implies(used, before_end(state, known, place)),
            implies(used, dag.eq(at.epoch, known.epoch)),
            implies(used, dag.eq(dag.sub(at.end_offset, ONE), slot["last_offset"])),
            implies(used, dag.eq(dag.sub(at.count, ONE), slot["offset_delta"])),
        ]
    return (), dag.conjunction(facts)


def window_is_numbered(state: State, known: Memory) -> Formula:
    """Of each remembered batch the sequence of its last position is remembered."""
    facts = []
    for used, slot in slots(known.window):
        at = stored(state, place_of(state, slot))
        last = state.regime.sequence(dag.sub(at.end, ONE))
        facts.append(implies(used, dag.eq(last, slot["last_sequence"])))
    return (), dag.conjunction(facts)


def window_has_no_gap(state: State, known: Memory) -> Formula:
    """Remembered batches follow each other, in the log and in their epoch."""
    facts = []
    remembered = slots(known.window)
    for (_, before), (used, slot) in pairwise(remembered):
        a, b = place_of(state, before), place_of(state, slot)
        facts.append(implies(used, dag.lt(a, b)))
        facts.append(implies(used, dag.eq(stored(state, a).end, stored(state, b).begin)))
    return (), dag.conjunction(facts)


def newest_is_last(state: State, known: Memory) -> Formula:
    """No batch of p in the log stands behind the newest remembered."""
    newest = place_of(state, known.newest)
    return (AT,), implies(before_end(state, known, AT), dag.le(AT, newest))


def remembers_all(state: State, known: Memory) -> Formula:
    """Of the known epoch five batches are remembered, or all that the log has."""
    oldest = place_of(state, known.window.slots[0].fields)
    whole = dag.either(
        dag.eq(known.window.length, const(len(known.window.slots))), dag.le(oldest, AT)
    )
    same = dag.eq(stored(state, AT).epoch, known.epoch)
    return (AT,), implies(before_end(state, known, AT), same, whole)


MemoryFormula = Callable[[State, Memory], Formula]


def known_now(state: State) -> Memory:
    """What the leader knows."""
    return memory(state.known, state.log.length)


def of_leader(function: MemoryFormula) -> Callable[[State], Formula]:
    """The formula, of what the leader knows."""
    return lambda state: function(state, known_now(state))


def of_replay(function: MemoryFormula) -> Callable[[State, Node], Formula]:
    """The formula, of what a replay of the prefix of a length gives."""

    def formula(state: State, length: Node) -> Formula:
        bound, body = function(state, memory(state.history(length), length))
        prefix = within(length, ZERO, state.log.length)
        return bound, dag.conjunction(implies(prefix, part) for part in conjuncts(body))

    return formula


def remembers_five(state: State) -> Formula:
    """Of the producer's epoch the leader remembers five batches, or all of them."""
    return remembers_all(state, known_now(state))


def replayed_once(state: State, places: Node) -> tuple[Rec, Rec]:
    """The history after one more batch, and what the model's own replay makes of it."""
    others = state.leader.fields["producers"].elsewhere
    producers = FocusMap(P, state.history(places), others)
    following = state.text.replayed(producers, state.log.at(places))
    return state.history(dag.add(places, ONE)), following.value


def history_is_replay(state: State, length: Node) -> Formula:
    """One batch more in the log is one replayed more; before the first nothing is known."""
    history, replay = replayed_once(state, length)
    more = dag.both(dag.le(ZERO, length), dag.lt(length, state.log.length))
    begins = containers.equal(state.history(ZERO), state.text.nothing)
    return (), dag.both(begins, implies(more, containers.equal(history, replay)))


def history_agrees(state: State) -> Formula:
    """The leader's epoch and newest batch are those that a replay of its whole log gives."""
    known, history = known_now(state), memory(state.history(state.log.length), state.log.length)
    some = dag.lt(ZERO, known.window.length)
    newest = dag.conjunction(
        dag.eq(known.newest[name], history.newest[name]) for name in known.newest
    )
    return (), dag.conjunction(
        (
            dag.eq(known.epoch, history.epoch),
            dag.eq(some, dag.lt(ZERO, history.window.length)),
            implies(some, newest),
        )
    )


# Answers


def answers_are_true(state: State) -> Formula:
    """A success says where the batch stands, if it says it (-1 is no offset)."""
    place = state.told(F, B, R)
    at = stored(state, place)
    facts = dag.conjunction(
        (
            mine(state, place),
            dag.eq(at.first, F),
            dag.either(dag.lt(B, ZERO), dag.eq(at.offset, B)),
            dag.le(at.end_offset, R),
        )
    )
    return (F, B, R), implies(state.answers(F, B, R), facts)
