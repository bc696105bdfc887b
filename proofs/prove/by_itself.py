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

from proofs.lift import dag
from proofs.lift.containers import contains
from proofs.lift.dag import ZERO, Node
from proofs.prove.clauses import (
    AT,
    ONE,
    Formula,
    R,
    flying,
    implies,
    known_now,
    mine,
    place_of,
)
from proofs.prove.in_turn import IN_TURN
from proofs.prove.state import State, stored

# Sequences in flight


def neighbours_follow(state: State) -> Formula:
    """In flight, what has the next records has the next positions, and so has what is sent next."""
    batches, sent_so_far = flying(state), state.entry.fields["records_sent"]
    facts = [
        implies(used, dag.eq(sent.last, sent_so_far), dag.eq(sent.end, state.next_position))
        for used, sent, _ in batches
    ]
    facts += [
        implies(used, dag.eq(before.last, sent.first), dag.eq(before.end, sent.begin))
        for (_, before, _), (used, sent, _) in pairwise(batches)
    ]
    return (), dag.conjunction(facts)


def sequences_follow(state: State) -> Formula:
    """Of what a producer has in flight each batch begins where the one before ends, and the next
    begins where the last ends: no sequence is left out, and none is given twice."""
    return (), state.text.guaranteed("sequences_follow", state.client)


# Leaders


def remembers_the_newest(state: State) -> Formula:
    """The leader remembers the newest batch of p in its log."""
    known = known_now(state)
    end_offset = dag.add(known.newest["last_offset"], ONE)
    newest = place_of(state, known.newest)
    some = dag.lt(ZERO, known.window.length)
    remembered = dag.both(some, dag.eq(end_offset, stored(state, AT).end_offset))
    is_newest = dag.negate(dag.both(mine(state, newest), dag.lt(AT, newest)))
    return (AT,), implies(mine(state, AT), is_newest, remembered)


# What fails


def epochs_in_turn(state: State) -> Formula:
    """The leader knows of no newer epoch than what comes in its turn has, nor that of any newer
    than the client's partition has."""
    epoch = state.entry.fields["producer_epoch"]
    facts = dag.both(
        dag.le(known_now(state).epoch, state.epoch_in_turn), dag.le(state.epoch_in_turn, epoch)
    )
    return (), facts


def nobody_is_fenced(state: State) -> Formula:
    """No request is refused in its turn for an older epoch."""
    return (), dag.negate(state.fenced)


def nothing_fails(state: State) -> Formula:
    """The application hears of no record that it has failed."""
    return (R,), dag.negate(contains(state.entry.fields["failed"], R))


# What is assumed of the network


def arrives_as_sent(state: State, epoch: Node) -> Formula:
    """What comes in its turn is of no older epoch than what came before it, what is late of no
    newer one."""
    in_turn = dag.le(state.epoch_in_turn, epoch)
    late = dag.le(epoch, state.epoch_in_turn)
    return (), dag.ite(IN_TURN, in_turn, late)
