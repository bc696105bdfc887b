"""Order over all epochs: what a producer numbers again keeps its place.

Theory of operation. A batch is numbered when it is first sent, and again, in the same order, when
an epoch begins while it is in flight. So a record that was sent in an early epoch, before which
another still was in flight, had that other before it there, too: where an epoch is whole in the
log, the other has a copy before it. These clauses speak of `numbered`, a ghost that only grows:
not of what was sent, for a batch may be numbered again before it is sent.
"""

from __future__ import annotations

from proofs.lift.dag import Node, conjunction
from proofs.prove.clauses import (
    AT,
    C1,
    C2,
    E1,
    E2,
    F1,
    F2,
    NEXT,
    SentBatch,
    batch_at,
    flying,
    in_flight_is_placed,
    in_flight_is_whole,
    is_epoch_in_use,
    mine,
    pair,
    within,
)
from proofs.prove.smt import Formula
from proofs.prove.state import ProofState, stored


def numbered_one(state: ProofState) -> tuple[Node, SentBatch]:
    """Any batch, and whether it was numbered."""
    return state.numbered(E1, C1, F1), batch_at(state, E1, C1, F1)


def numbered_is_known(state: ProofState) -> Formula:
    """Of what was numbered no batch is empty, none is ahead of the client."""
    entry = state.entry
    was, batch = numbered_one(state)
    current = batch.epoch.eq(entry.producer_epoch)
    facts = (
        (batch.count >= 1)
        & (batch.begin >= 0)
        & (batch.first >= 0)
        & within(batch.epoch, 0, entry.producer_epoch)
        & (batch.last <= entry.records_sent)
        & current.implies(batch.end <= state.next_position)
    )
    return (E1, C1, F1), was.implies(facts)


def in_flight_was_numbered(state: ProofState) -> Formula:
    """A batch in flight was numbered in the partition's epoch."""
    facts = [
        used.implies(state.numbered(sent.epoch, sent.count, sent.first))
        for used, sent, _ in flying(state)
    ]
    return (), conjunction(facts)


def sent_was_numbered(state: ProofState) -> Formula:
    """What was sent was numbered."""
    return (E1, C1, F1), state.sent(E1, C1, F1).implies(state.numbered(E1, C1, F1))


def numbered_stays_whole(state: ProofState) -> Formula:
    """A batch in flight has the records that it had whenever it was numbered, or shares none."""
    was, other = numbered_one(state)
    return (E1, C1, F1), was.implies(in_flight_is_whole(state, other))


def in_flight_keeps_its_place(state: ProofState) -> Formula:
    """A batch in flight and a numbered one of its epoch are the same, or one is wholly before."""
    was, other = numbered_one(state)
    return (E1, C1, F1), (was & is_epoch_in_use(state)).implies(in_flight_is_placed(state, other))


def numbered_once(state: ProofState) -> Formula:
    """Under one epoch two numbered batches are the same, or one wholly before the other."""
    a, b = batch_at(state, E1, C1, F1), batch_at(state, E1, C2, F2)
    both = state.numbered(E1, C1, F1) & state.numbered(E1, C2, F2)
    return (E1, C1, F1, C2, F2), both.implies(a.placed(b))


def in_flight_was_there_before(state: ProofState) -> Formula:
    """A batch in flight was numbered in each epoch in which a later record was sent."""
    was = state.sent(E1, C1, F1)
    facts = [
        (used & (sent.first < F1)).implies(state.numbered(E1, sent.count, sent.first))
        for used, sent, _ in flying(state)
    ]
    return (E1, C1, F1), was.implies(conjunction(facts))


def sent_was_there_before(state: ProofState) -> Formula:
    """What was sent was numbered in each earlier epoch in which a later record was sent."""
    both = state.sent(E1, C1, F1) & state.sent(E2, C2, F2)
    crossed = (E1 < E2) & (F2 < F1)
    return (E1, C1, F1, E2, C2, F2), (both & crossed).implies(state.numbered(E1, C2, F2))


def order_kept(state: ProofState) -> Formula:
    """Records stand in the order of their sends: within an epoch each, over all epochs the first
    copy of each."""
    both, a, b = pair(state)
    place = state.cover(a.epoch, state.position(a.epoch, b.first))
    copy = stored(state, place)
    earlier = mine(state, place) & (copy.first <= b.first) & (b.first < copy.last)
    here = (a.epoch < b.epoch) & (place < NEXT) & earlier
    return (AT, NEXT), (both & (b.first < a.first)).implies(here)
