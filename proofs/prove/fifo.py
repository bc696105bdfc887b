"""FIFO: where responses arrive in the order of their batches, no batch is refused.

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

from itertools import pairwise

from proofs.lift.dag import ZERO, Node, conjunction, const, disjunction, ite, leaf
from proofs.lift.values import Scalars
from proofs.prove.clauses import (
    C1,
    E1,
    F1,
    NEXT,
    R,
    flying,
    has_record,
    known_now,
    place_of,
    slots,
    within,
)
from proofs.prove.smt import Formula
from proofs.prove.state import LogEntry, ProofState, stored

NO_SEQUENCE = const(-1)


# What is so


def asks_for_nothing(state: ProofState) -> Node:
    """No partition asks for a new epoch."""
    return ~disjunction(state.client.bump_for.bits)


def nothing_to_recover(state: ProofState) -> Formula:
    """No partition asks for a new epoch, or has a batch of unknown outcome; none is given up."""
    entries = state.client.partitions.slots
    resolved = (entry.unresolved_sequence.eq(NO_SEQUENCE) for entry in entries)
    none_given_up = state.entry.given_up.length.eq(0)
    return (), conjunction((asks_for_nothing(state), none_given_up, *resolved))


def first_epoch(state: ProofState) -> Formula:
    """The producer is in its first epoch."""
    return (), state.client.producer_epoch.eq(0)


def positions_are_records(state: ProofState) -> Formula:
    """In flight, a batch begins where the one before ended; positions are numbers of records."""
    facts = [state.next_position.eq(state.entry.records_sent)]
    batches = flying(state)
    count = state.in_flight.length
    for i, (used, sent, _) in enumerate(batches, 1):
        facts.append(used.implies(sent.begin.eq(sent.first)))
        facts.append(count.eq(i).implies(sent.end.eq(state.next_position)))
    for (_, before, _), (used, sent, _) in pairwise(batches):
        facts.append(used.implies(sent.begin.eq(before.end)))
    return (), conjunction(facts)


def sent_in_first_epoch(state: ProofState) -> Formula:
    """What was sent was sent in the first epoch, each record at its number."""
    facts = E1.eq(0) & state.position(E1, F1).eq(F1)
    return (E1, C1, F1), state.sent(E1, C1, F1).implies(facts)


def head(state: ProofState) -> Node:
    """The first record that is not finished."""
    first = state.in_flight.slots[0].batch.first_record
    some = state.in_flight.length > 0
    return ite(some, first, state.entry.records_sent)


def acknowledged_in_order(state: ProofState) -> Formula:
    """All records before the first unfinished one are acknowledged."""
    return (R,), ((R >= 0) & (head(state) > R)).implies(state.acknowledged(R))


def requests_in_order(state: ProofState) -> Formula:
    """Those in flight that await an answer come first; the first of them were handled."""
    facts = [within(state.handled, 0, state.in_flight.length)]
    batches = slots(state.in_flight)
    for i, (used, slot) in enumerate(batches):
        handled = i < state.handled
        facts.append((used & handled).implies(slot.outstanding))
    for (_, before), (used, slot) in pairwise(batches):
        facts.append((used & slot.outstanding).implies(before.outstanding))
    return (), conjunction(facts)


def reaches(state: ProofState, position: Node) -> Node:
    """The log has all of the producer's epoch before a position."""
    known = known_now(state)
    newest = stored(state, place_of(state, known.newest))
    some = (known.window.length > 0) & known.epoch.eq(0)
    return some & (position <= newest.end)


def handled_is_stored(state: ProofState) -> Formula:
    """What was handled and not yet answered is stored."""
    facts = (
        (i < state.handled).implies(reaches(state, sent.end))
        for i, (_, sent, _) in enumerate(flying(state))
    )
    return (), conjunction(facts)


# Guarantees


def no_false_error(state: ProofState) -> Formula:
    """No request is refused in its turn, and no partition asks for a new epoch."""
    return (), ~state.refused & asks_for_nothing(state)


def bumps_have_causes(state: ProofState) -> Formula:
    """No producer begins an epoch, or asks for one."""
    return (), first_epoch(state)[1] & asks_for_nothing(state)


def acked_once(state: ProofState) -> Formula:
    """What was acknowledged is in the log once, over all epochs."""
    only = NEXT.eq(state.place(R))
    return (R, NEXT), (state.acknowledged(R) & has_record(state, NEXT, R)).implies(only)


# What is assumed of the network


def is_next_in_turn(state: ProofState, batch: Scalars) -> Formula:
    """A request that is handled in its turn is of the first batch that was not handled."""
    facts = [within(state.handled, 0, len(state.in_flight.slots) - 1)]
    for i, (used, slot) in enumerate(slots(state.in_flight)):
        own = slot.batch
        same = (getattr(batch, name).eq(getattr(own, name)) for name in BATCH)
        is_it = conjunction((used, slot.outstanding, *same))
        facts.append(state.handled.eq(i).implies(is_it))
    return (), IN_TURN.implies(conjunction(facts))


def overtakes_nothing(state: ProofState, begin: Node) -> Formula:
    """What arrives finds all stored that its producer numbered before it."""
    return (), begin.eq(0) | reaches(state, begin)


def answers_the_first(state: ProofState, first_record: Node) -> Formula:
    """An answer that arrives is of the first in flight, which was handled."""
    first = state.in_flight.slots[0].batch.first_record
    return (), (state.handled >= 1) & first.eq(first_record)


IN_TURN = leaf("in_turn", 0, 1, is_bool=True)
"""Whether a request comes from the open connection; else it is late, from one that broke."""
BATCH = ("producer_epoch", "record_count", "first_record")


# Cuts: what is so of a request that is handled in its turn


def head_is_stored(state: ProofState) -> Formula:
    """All before the first unfinished record is stored."""
    first = head(state)
    told = state.acknowledged(first - 1)
    return (), (first > 0).implies(told & reaches(state, first))


def begins_within(state: ProofState, begin: Node) -> Formula:
    """All before the request is stored."""
    nothing = begin.eq(0) & known_now(state).window.length.eq(0)
    return (), IN_TURN.implies(nothing | reaches(state, begin))


def remembered(state: ProofState) -> list[tuple[Node, LogEntry]]:
    """Each remembered batch: whether there is one, and what stands in the log."""
    window = slots(known_now(state).window)
    return [(used, stored(state, place_of(state, slot))) for used, slot in window]


def remembered_is_placed(state: ProofState) -> Formula:
    """A batch in flight and a remembered one are the same, or one is wholly before."""
    facts = []
    for used, at in remembered(state):
        for flies, sent, _ in flying(state):
            same = at.begin.eq(sent.begin) & at.count.eq(sent.count)
            apart = (at.end <= sent.begin) | (sent.end <= at.begin)
            records = at.begin.eq(at.first) & (at.count >= 1)
            within_sent = at.end <= state.next_position
            facts.append((used & flies).implies((same | apart) & records & within_sent))
    return (), conjunction(facts)


def window_begins_epoch(state: ProofState) -> Formula:
    """What is remembered begins with the epoch, or there are as many as can be."""
    known = known_now(state)
    _, oldest = remembered(state)[0]
    some = within(known.window.length, 1, len(known.window.slots) - 1)
    covered = state.cover(known.epoch, ZERO)
    is_first = covered.eq(place_of(state, known.window.slots[0]))
    return (), some.implies(is_first & (oldest.begin <= 0))


def is_remembered(state: ProofState, begin: Node, batch: Scalars) -> Formula:
    """A request in its turn that is stored already is remembered."""
    newest = stored(state, place_of(state, known_now(state).newest))
    some = known_now(state).window.length > 0
    found = disjunction(
        (
            used & at.begin.eq(begin) & at.count.eq(batch.record_count)
            for used, at in remembered(state)
        )
    )
    cases = [
        (IN_TURN & state.handled.eq(i) & some & (begin < newest.end)).implies(found)
        for i in range(len(state.in_flight.slots))
    ]
    return (), conjunction(cases)


def is_answered(answer: Scalars) -> Formula:
    """A request in its turn is answered without error."""
    return (), IN_TURN.implies(answer.error.eq(0))


def is_stored_then(before: ProofState, after: ProofState, begin: Node, batch: Scalars) -> Formula:
    """After a request in its turn, its batch is stored; no request takes anything away."""
    end = begin + batch.record_count
    newest = stored(before, place_of(before, known_now(before).newest))
    kept = reaches(before, newest.end).implies(reaches(after, newest.end))
    return (), kept & IN_TURN.implies(reaches(after, end))
