"""No false error: where answers come in the order of their batches, none is refused.

Theory of operation. Of one open connection three things matter: the batches in flight that await an
answer are its requests, in their order; the first `handled` of them were handled, their answers are
on their way; the next to be handled is the next of them. So when a request is handled in its turn,
all before it are stored: its batch comes next, or is stored, and behind it no others than those in
flight with it, fewer than a leader remembers. Nobody is refused, nobody begins an epoch, and in the
one epoch that there is a record's number is its position. What comes late, from connections that
broke, may be anything that was sent.

A step at another partition is such a step, too: of this partition it touches nothing, and of the
client `bump_for` alone, where by the same theorem it puts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.prove.clauses import (
    C1,
    E1,
    F1,
    NEXT,
    ONE,
    Formula,
    R,
    flying,
    has_record,
    implies,
    known_now,
    place_of,
    slots,
    within,
)
from proofs.prove.state import State, Stored, stored

NO_SEQUENCE = const(-1)


# What is so


def asks_for_nothing(state: State) -> Node:
    """No partition asks for a new epoch."""
    return dag.negate(dag.disjunction(state.client.fields["bump_for"].bits))


def nothing_to_recover(state: State) -> Formula:
    """No partition asks for a new epoch, or has a batch of unknown outcome; none is given up."""
    entries = [entry.fields for entry in state.client.fields["partitions"].slots]
    resolved = (dag.eq(entry["unresolved_sequence"], NO_SEQUENCE) for entry in entries)
    none_given_up = dag.eq(state.entry.fields["given_up"].length, ZERO)
    return (), dag.conjunction((asks_for_nothing(state), none_given_up, *resolved))


def first_epoch(state: State) -> Formula:
    """The producer is in its first epoch."""
    return (), dag.eq(state.client.fields["producer_epoch"], ZERO)


def positions_are_records(state: State) -> Formula:
    """In flight, a batch begins where the one before ended; positions are numbers of records."""
    facts = [dag.eq(state.next_position, state.entry.fields["records_sent"])]
    batches = flying(state)
    count = state.in_flight.length
    for i, (used, sent, _) in enumerate(batches, 1):
        facts.append(implies(used, dag.eq(sent.begin, sent.first)))
        facts.append(implies(dag.eq(count, const(i)), dag.eq(sent.end, state.next_position)))
    for (_, before, _), (used, sent, _) in pairwise(batches):
        facts.append(implies(used, dag.eq(sent.begin, before.end)))
    return (), dag.conjunction(facts)


def sent_in_first_epoch(state: State) -> Formula:
    """What was sent was sent in the first epoch, each record at its number."""
    facts = dag.both(dag.eq(E1, ZERO), dag.eq(state.position(E1, F1), F1))
    return (E1, C1, F1), implies(state.sent(E1, C1, F1), facts)


def head(state: State) -> Node:
    """The first record that is not finished."""
    first = state.in_flight.slots[0].fields["batch"].fields["first_record"]
    some = dag.lt(ZERO, state.in_flight.length)
    return dag.ite(some, first, state.entry.fields["records_sent"])


def acknowledged_in_order(state: State) -> Formula:
    """All records before the first unfinished one are acknowledged."""
    return (R,), implies(dag.le(ZERO, R), dag.lt(R, head(state)), state.acknowledged(R))


def requests_in_order(state: State) -> Formula:
    """Those in flight that await an answer come first; the first of them were handled."""
    facts = [within(state.handled, ZERO, state.in_flight.length)]
    batches = slots(state.in_flight)
    for i, (used, slot) in enumerate(batches):
        handled = dag.lt(const(i), state.handled)
        facts.append(implies(used, handled, slot["outstanding"]))
    for (_, before), (used, slot) in pairwise(batches):
        facts.append(implies(used, slot["outstanding"], before["outstanding"]))
    return (), dag.conjunction(facts)


def reaches(state: State, position: Node) -> Node:
    """The log has all of the producer's epoch before a position."""
    known = known_now(state)
    newest = stored(state, place_of(state, known.newest))
    some = dag.both(dag.lt(ZERO, known.window.length), dag.eq(known.epoch, ZERO))
    return dag.both(some, dag.le(position, newest.end))


def handled_is_stored(state: State) -> Formula:
    """What was handled and not yet answered is stored."""
    facts = (
        implies(dag.lt(const(i), state.handled), reaches(state, sent.end))
        for i, (_, sent, _) in enumerate(flying(state))
    )
    return (), dag.conjunction(facts)


# Guarantees


def no_false_error(state: State) -> Formula:
    """No request is refused in its turn, and no partition asks for a new epoch."""
    return (), dag.both(dag.negate(state.refused), asks_for_nothing(state))


def bumps_have_causes(state: State) -> Formula:
    """No producer begins an epoch, or asks for one."""
    return (), dag.both(first_epoch(state)[1], asks_for_nothing(state))


def acked_once(state: State) -> Formula:
    """What was acknowledged is in the log once, over all epochs."""
    only = dag.eq(NEXT, state.place(R))
    return (R, NEXT), implies(state.acknowledged(R), has_record(state, NEXT, R), only)


# What is assumed of the network


def is_next_in_turn(state: State, batch: Mapping[str, Node]) -> Formula:
    """A request that is handled in its turn is of the first batch that was not handled."""
    facts = [within(state.handled, ZERO, const(len(state.in_flight.slots) - 1))]
    for i, (used, slot) in enumerate(slots(state.in_flight)):
        own = slot["batch"].fields
        same = (dag.eq(batch[name], own[name]) for name in BATCH)
        is_it = dag.conjunction((used, slot["outstanding"], *same))
        facts.append(implies(dag.eq(state.handled, const(i)), is_it))
    return (), implies(IN_TURN, dag.conjunction(facts))


def overtakes_nothing(state: State, begin: Node) -> Formula:
    """What arrives finds all stored that its producer numbered before it."""
    return (), dag.either(dag.eq(begin, ZERO), reaches(state, begin))


def answers_the_first(state: State, first_record: Node) -> Formula:
    """An answer that arrives is of the first in flight, which was handled."""
    first = state.in_flight.slots[0].fields["batch"].fields["first_record"]
    return (), dag.both(dag.le(ONE, state.handled), dag.eq(first, first_record))


IN_TURN = dag.leaf("in_turn", 0, 1, is_bool=True)
"""Whether a request comes from the open connection; else it is late, from one that broke."""
BATCH = ("producer_epoch", "record_count", "first_record")


# Cuts: what is so of a request that is handled in its turn


def head_is_stored(state: State) -> Formula:
    """All before the first unfinished record is stored."""
    first = head(state)
    told = state.acknowledged(dag.sub(first, ONE))
    return (), implies(dag.lt(ZERO, first), dag.both(told, reaches(state, first)))


def begins_within(state: State, begin: Node) -> Formula:
    """All before the request is stored."""
    nothing = dag.both(dag.eq(begin, ZERO), dag.eq(known_now(state).window.length, ZERO))
    return (), implies(IN_TURN, dag.either(nothing, reaches(state, begin)))


def remembered(state: State) -> list[tuple[Node, Stored]]:
    """Each remembered batch: whether there is one, and what stands in the log."""
    window = slots(known_now(state).window)
    return [(used, stored(state, place_of(state, slot))) for used, slot in window]


def remembered_is_placed(state: State) -> Formula:
    """A batch in flight and a remembered one are the same, or one is wholly before."""
    facts = []
    for used, at in remembered(state):
        for flies, sent, _ in flying(state):
            same = dag.both(dag.eq(at.begin, sent.begin), dag.eq(at.count, sent.count))
            apart = dag.either(dag.le(at.end, sent.begin), dag.le(sent.end, at.begin))
            records = dag.conjunction((dag.eq(at.begin, at.first), dag.le(ONE, at.count)))
            within_sent = dag.le(at.end, state.next_position)
            facts.append(
                implies(
                    used, flies, dag.conjunction((dag.either(same, apart), records, within_sent))
                )
            )
    return (), dag.conjunction(facts)


def window_begins_epoch(state: State) -> Formula:
    """What is remembered begins with the epoch, or there are as many as can be."""
    known = known_now(state)
    _, oldest = remembered(state)[0]
    some = within(known.window.length, ONE, const(len(known.window.slots) - 1))
    covered = state.cover(known.epoch, ZERO)
    is_first = dag.eq(covered, place_of(state, known.window.slots[0].fields))
    return (), implies(some, dag.both(is_first, dag.le(oldest.begin, ZERO)))


def is_remembered(state: State, begin: Node, batch: Mapping[str, Node]) -> Formula:
    """A request in its turn that is stored already is remembered."""
    newest = stored(state, place_of(state, known_now(state).newest))
    some = dag.lt(ZERO, known_now(state).window.length)
    found = dag.disjunction(
        dag.conjunction((used, dag.eq(at.begin, begin), dag.eq(at.count, batch["record_count"])))
        for used, at in remembered(state)
    )
    cases = [
        implies(IN_TURN, dag.eq(state.handled, const(i)), some, dag.lt(begin, newest.end), found)
        for i in range(len(state.in_flight.slots))
    ]
    return (), dag.conjunction(cases)


def is_answered(answer: Mapping[str, Node]) -> Formula:
    """A request in its turn is answered without error."""
    return (), implies(IN_TURN, dag.eq(answer["error"], ZERO))


def is_stored_then(before: State, after: State, begin: Node, batch: Mapping[str, Node]) -> Formula:
    """After a request in its turn, its batch is stored; no request takes anything away."""
    end = dag.add(begin, batch["record_count"])
    newest = stored(before, place_of(before, known_now(before).newest))
    kept = implies(reaches(before, newest.end), reaches(after, newest.end))
    return (), dag.both(kept, implies(IN_TURN, reaches(after, end)))
