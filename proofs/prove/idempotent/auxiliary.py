"""Guarantees that other guarantees need, or that stand beside them.

For no record to fail, no client may receive the error that its batch has an older epoch. A
connection carries requests in the order in which they were sent, and epochs only rise. So no
request has an older epoch than the one before it, or than a request left from a broken connection.
The epoch that the leader knows is therefore never newer than that of the request which it handles
in turn.
"""

from __future__ import annotations

from itertools import pairwise

from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.idempotent import clauses
from proofs.prove.idempotent.clauses import APPENDS, CLIENT
from proofs.prove.idempotent.proof_state import ProofState

# Sequences in flight


@invariant(needs=CLIENT)
def neighbours_follow(s: ProofState) -> bool:
    """In flight, what has the next records has the next positions, and so has what is sent next."""
    return all(
        b.end == s.next_position for b in s.in_flight if b.last == s.entry.records_sent
    ) and all(a.end == b.begin for a, b in pairwise(s.in_flight) if a.last == b.first)


@guarantee(
    needs=(*CLIENT, "neighbours_follow", "in_flight_is_numbered", "sequences_are_remainders"),
    follows=True,
)
def sequences_follow(s: ProofState) -> bool:
    """Of what a producer has in flight each batch begins where the one before ends, and the next
    begins where the last ends: no sequence is left out, and none is given twice."""
    return s.sequences_follow


# Leaders


@guarantee(needs=APPENDS, follows=True)
def remembers_the_newest(s: ProofState) -> bool:
    """The leader remembers the newest batch of p in its log."""
    return all(
        len(s.known.window) > 0 and s.known.window[-1].last_offset + 1 == at.end_offset
        for i, at in enumerate(s.log)
        if at.is_ours and not is_behind(s, i)
    )


def is_behind(s: ProofState, place: int) -> bool:
    """Whether the newest remembered batch stands after this place."""
    newest = clauses.newest(s, s.known)
    return clauses.is_ours(s, newest) and newest > place


# Failures


@invariant(
    needs=(
        *CLIENT,
        "sent_is_numbered",
        "memory_is_sound",
        "window_is_log",
        "memory_has_last_epoch",
        "requests_come_as_sent",
    )
)
def epochs_in_turn(s: ProofState) -> bool:
    """The leader knows of no newer epoch than what comes in its turn has, nor that of any newer
    than the client's partition has."""
    return s.known.epoch <= s.epoch_in_turn <= s.entry.producer_epoch


@invariant(needs=("epochs_in_turn", "requests_come_as_sent"))
def nobody_is_fenced(s: ProofState) -> bool:
    """No request is refused in its turn for an older epoch."""
    return not s.fenced


@guarantee(
    needs=(
        "nobody_is_fenced",
        "errors_were_answered",
        "nothing_times_out",
        "nothing_is_rejected",
    )
)
def nothing_fails(s: ProofState) -> bool:
    """The application hears of no record that it has failed."""
    return not any(True for _ in s.failed)


# Assumptions about the network


def arrives_as_sent(s: ProofState, in_turn: bool, epoch: int) -> bool:
    """A request in turn has no older epoch than the requests before it; a late request has no newer
    one."""
    return s.epoch_in_turn <= epoch if in_turn else epoch <= s.epoch_in_turn
