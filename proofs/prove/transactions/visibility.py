"""Visibility with V2: each record is ended by a marker of its own transaction."""

from __future__ import annotations

from model.transactions.leader import Kind
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.coordinator import is_ongoing, is_prepared
from proofs.prove.transactions.decisions import DECIDED
from proofs.prove.transactions.partition import (
    EXACT,
    entry,
    is_data,
    is_open,
    is_open_at,
)
from proofs.prove.transactions.symbolic_state import NONE, TransactionsState, pair
from proofs.prove.transactions.writes import KNOWN, OUTSIDE

OPEN = (*OUTSIDE, *DECIDED, "no_fence_fails", *EXACT)
PRESENT = (*OPEN, "open_has_present_epoch", "decided_is_past")
SAID = ("prepared_is_decided", "markers_say_decisions", "outcomes_are_outcomes")
ENDED = (*PRESENT, *SAID, "open_has_one_epoch", "ended_is_exact")


@invariant(needs=KNOWN)
def no_fence_fails(s: TransactionsState) -> bool:
    """At level 2 a fence that fails leaves nothing in memory: a transaction that is open in the
    log, or on its way there, has the present pair."""
    return (
        all(pair(image) == pair(s.known) for image in s.images if is_ongoing(image))
        and not s.coordinator.unlogged_fence
    )


@invariant(needs=PRESENT)
def open_has_present_epoch(s: TransactionsState) -> bool:
    """What is open here has the epoch of the coordinator's transaction; what ends it, the next."""
    return all(
        all(
            (not is_ongoing(image) or entry(s, p).producer_epoch == image.producer_epoch)
            and (not is_prepared(image) or entry(s, p).producer_epoch + 1 == image.producer_epoch)
            for image in s.images
        )
        for p in s.producer_ids
        if is_open(s, p)
    )


@invariant(needs=PRESENT)
def open_has_one_epoch(s: TransactionsState) -> bool:
    """All that is open of one producer id is of one transaction."""
    return all(
        at.producer_epoch == entry(s, at.producer_id).producer_epoch
        for i, at in enumerate(s.log)
        if is_data(at) and is_open_at(s, i)
    )


@guarantee(needs=ENDED)
def visible_as_decided(s: TransactionsState) -> bool:
    """The marker that ends a record is its own transaction's, and says what was decided of it: a
    record is visible if and only if its transaction commits."""
    return all(
        s.log[s.ended(i)].producer_epoch == at.producer_epoch + 1
        and says(s, i, s.decision(at.producer_id, at.producer_epoch + 1))
        for i, at in enumerate(s.log)
        if is_data(at) and s.ended(i) != NONE
    )


def says(s: TransactionsState, i: int, outcome: int) -> bool:
    """Whether the marker that ends a record agrees with a decision: 1 is to commit, 0 to abort."""
    kind = s.log[s.ended(i)].kind
    return (kind == Kind.COMMIT) == (outcome == 1) and (kind == Kind.ABORT) == (outcome == 0)
