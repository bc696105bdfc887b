"""Guarantees that others rest on, or that stand beside them.

Theory of operation. What a solver can read is asked in the guarantee's own words: its text is
evaluated on the state, so the goal is the guarantee. What speaks of all of a log, or of any record,
is a formula that says the same; that it does is checked on every state of scopes, also of those in
which the guarantee is broken.

Where no record fails, one error must not be heard: that a batch is of an older epoch. A connection
carries requests in the order of their sends, and epochs only rise. So no request is of an older
epoch than the one before it, and none than what is left of connections that broke: what the leader
knows of is not newer than the request that it handles in its turn.
"""

from __future__ import annotations

from itertools import pairwise

from proofs.lift.containers import contains
from proofs.lift.dag import Node, conjunction, ite
from proofs.prove.clauses import AT, R, flying, known_now, mine, place_of
from proofs.prove.fifo import IN_TURN
from proofs.prove.smt import Formula
from proofs.prove.state import ProofState, stored

# Sequences in flight


def neighbours_follow(state: ProofState) -> Formula:
    """In flight, what has the next records has the next positions, and so has what is sent next."""
    batches, sent_so_far = flying(state), state.entry.records_sent
    facts = [
        (used & sent.last.eq(sent_so_far)).implies(sent.end.eq(state.next_position))
        for used, sent, _ in batches
    ]
    facts += [
        (used & before.last.eq(sent.first)).implies(before.end.eq(sent.begin))
        for (_, before, _), (used, sent, _) in pairwise(batches)
    ]
    return (), conjunction(facts)


def sequences_follow(state: ProofState) -> Formula:
    """Of what a producer has in flight each batch begins where the one before ends, and the next
    begins where the last ends: no sequence is left out, and none is given twice."""
    return (), state.text.guaranteed("sequences_follow", state.client)


# Leaders


def remembers_the_newest(state: ProofState) -> Formula:
    """The leader remembers the newest batch of p in its log."""
    known = known_now(state)
    end_offset = known.newest.last_offset + 1
    newest = place_of(state, known.newest)
    some = known.window.length > 0
    remembered = some & end_offset.eq(stored(state, AT).end_offset)
    is_newest = ~(mine(state, newest) & (newest > AT))
    return (AT,), (mine(state, AT) & is_newest).implies(remembered)


# What fails


def epochs_in_turn(state: ProofState) -> Formula:
    """The leader knows of no newer epoch than what comes in its turn has, nor that of any newer
    than the client's partition has."""
    epoch = state.entry.producer_epoch
    facts = (known_now(state).epoch <= state.epoch_in_turn) & (state.epoch_in_turn <= epoch)
    return (), facts


def nobody_is_fenced(state: ProofState) -> Formula:
    """No request is refused in its turn for an older epoch."""
    return (), ~state.fenced


def nothing_fails(state: ProofState) -> Formula:
    """The application hears of no record that it has failed."""
    return (R,), ~contains(state.entry.failed, R)


# What is assumed of the network


def arrives_as_sent(state: ProofState, epoch: Node) -> Formula:
    """What comes in its turn is of no older epoch than what came before it, what is late of no
    newer one."""
    in_turn = state.epoch_in_turn <= epoch
    late = epoch <= state.epoch_in_turn
    return (), ite(IN_TURN, in_turn, late)
