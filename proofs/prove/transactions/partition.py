"""Clauses about the log of one partition: its epochs, open transactions, and the markers that end
them."""

from __future__ import annotations

from model.transactions.leader import Kind, ProducerStateEntry, Stored
from proofs.prove.engine.induction import invariant
from proofs.prove.transactions.symbolic_state import NONE, TransactionsState

LOGGED = ("log_has_epochs",)
MARKED = (*LOGGED, "last_marker_is_last")
EXACT = (*MARKED, "first_offset_is_exact")

# Places of the log


def is_marker(stored: Stored) -> bool:
    """Whether the entry is a marker of our transactional id."""
    return stored.kind == Kind.COMMIT or stored.kind == Kind.ABORT


def is_data(stored: Stored) -> bool:
    """Whether the entry is a record of our transactional id."""
    return stored.kind == Kind.DATA


def is_ours(stored: Stored) -> bool:
    """Whether the entry is a record or a marker of our transactional id."""
    return is_data(stored) or is_marker(stored)


def in_log(s: TransactionsState, i: int) -> bool:
    """Whether the log has this offset."""
    return 0 <= i < len(s.log)


def has_data(s: TransactionsState, i: int) -> bool:
    """Whether a record of our transactional id is at this offset."""
    return in_log(s, i) and is_data(s.log[i])


def entry(s: TransactionsState, p: int) -> ProducerStateEntry:
    """The leader's state entry of a producer id."""
    return s.leader.producers[p]


def is_open(s: TransactionsState, p: int) -> bool:
    """Whether the producer id has a transaction open here."""
    return entry(s, p).current_txn_first_offset != NONE


def is_open_at(s: TransactionsState, i: int) -> bool:
    """Whether the entry at an offset belongs to a transaction that is open here."""
    p = s.log[i].producer_id
    return is_open(s, p) and entry(s, p).current_txn_first_offset <= i


# Clauses


@invariant()
def log_has_epochs(s: TransactionsState) -> bool:
    """What the leader knows of a producer id has the last epoch that it wrote."""
    return len(s.log) >= 0 and all(
        0 <= at.producer_epoch <= entry(s, at.producer_id).producer_epoch
        for at in s.log
        if is_ours(at)
    )


@invariant(needs=LOGGED)
def epochs_rise_in_the_log(s: TransactionsState) -> bool:
    """No epoch of a producer id is behind a later one in the log."""
    return all(
        a.producer_epoch <= b.producer_epoch
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if i < j and is_ours(a) and is_ours(b) and a.producer_id == b.producer_id
    )


@invariant(needs=LOGGED)
def last_marker_is_last(s: TransactionsState) -> bool:
    """The last marker of a producer id is one, and none is behind it."""
    return all(
        NONE <= s.last_marker(p) < len(s.log)
        and (s.last_marker(p) < 0 or is_marker_of(s.log[s.last_marker(p)], p))
        and (not (in_log(s, i) and is_marker_of(s.log[i], p)) or i <= s.last_marker(p))
        for p in s.producer_ids
        for i in s.offsets
    )


def is_marker_of(stored: Stored, p: int) -> bool:
    """Whether the entry is a marker of a producer id."""
    return is_marker(stored) and stored.producer_id == p


@invariant(needs=MARKED)
def first_offset_is_exact(s: TransactionsState) -> bool:
    """current_txn_first_offset is where the first record stands behind the last marker of the
    producer id: -1 if there is none. So a marker closes what is open, and at most one is."""
    return all(
        entry(s, p).current_txn_first_offset >= NONE
        and (not is_open(s, p) or is_unmarked(s, p, entry(s, p).current_txn_first_offset))
        and (not is_unmarked(s, p, i) or is_open(s, p))
        and (not (is_unmarked(s, p, i) and is_open(s, p)) or is_open_before(s, p, i))
        for p in s.producer_ids
        for i in s.offsets
    )


def is_unmarked(s: TransactionsState, p: int, i: int) -> bool:
    """Whether a record of a producer id is at an offset after the producer id's last marker."""
    return has_data(s, i) and s.log[i].producer_id == p and s.last_marker(p) < i


def is_open_before(s: TransactionsState, p: int, i: int) -> bool:
    """Whether the open transaction of a producer id begins at an offset or before it."""
    return entry(s, p).current_txn_first_offset <= i


@invariant(needs=LOGGED)
def others_are_in_the_log(s: TransactionsState) -> bool:
    """What another transactional id has open began in this log."""
    return NONE <= s.leader.other_first_offset < len(s.log)


@invariant(needs=EXACT)
def ended_is_exact(s: TransactionsState) -> bool:
    """What is not open was ended by a marker of its producer id behind it."""
    return all(
        (i < len(s.log) or s.ended(i) == NONE)
        and (not has_data(s, i) or (s.ended(i) == NONE) == is_open_at(s, i))
        and (not has_data(s, i) or s.ended(i) == NONE or is_ended_behind(s, i))
        for i in s.offsets
    )


def is_ended_behind(s: TransactionsState, i: int) -> bool:
    """Whether the marker that ended a record is one of its producer id, after the record."""
    at = s.ended(i)
    return at > i and in_log(s, at) and is_marker_of(s.log[at], s.log[i].producer_id)


@invariant(needs=("ended_is_exact", "last_marker_is_last"))
def ended_by_the_first(s: TransactionsState) -> bool:
    """No marker of a record's producer id stands between the record and the one that ended it."""
    return all(
        s.ended(i) != NONE and s.ended(i) <= j
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if i < j and is_data(a) and is_marker_of(b, a.producer_id)
    )
