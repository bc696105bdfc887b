"""Visibility with V1: transactions are counted, because their pairs do not tell them apart."""

from __future__ import annotations

from model.transactions.coordinator import TransactionState as Txn
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.coordinator import is_ongoing, is_prepared
from proofs.prove.transactions.partition import EXACT, is_data, is_open_at
from proofs.prove.transactions.symbolic_state import NONE, Image, TransactionsState
from proofs.prove.transactions.visibility import says
from proofs.prove.transactions.writes import KNOWN, OUTSIDE

TURNS = (*OUTSIDE, *EXACT, "log_comes_next", "turns_are_prepared_once")


@invariant(needs=KNOWN)
def log_comes_next(s: TransactionsState) -> bool:
    """What is on its way to the log, or there and not known, follows what is known: only what is
    open is prepared, and that is completed as it says."""
    return all(comes_next(s, image) for image in s.on_its_way) and (
        s.logged.state == s.known.state or comes_next(s, s.logged)
    )


def comes_next(s: TransactionsState, image: Image) -> bool:
    """Whether an image is prepared only if what is known is open, and complete only if what is
    known is prepared with the same outcome."""
    now = s.known.state
    then = image.state
    return (
        (then != Txn.PREPARE_COMMIT or is_ongoing(s.known))
        and (then == Txn.COMPLETE_COMMIT) == (now == Txn.PREPARE_COMMIT)
        and (then != Txn.PREPARE_ABORT or is_ongoing(s.known))
        and (then == Txn.COMPLETE_ABORT) == (now == Txn.PREPARE_ABORT)
    )


@invariant(needs=(*KNOWN, "log_comes_next"))
def turns_are_prepared_once(s: TransactionsState) -> bool:
    """What is prepared is the present transaction, as it says; before that nothing is decided of
    it, and nothing of those to come."""
    commits = 1 if s.known.state == Txn.PREPARE_COMMIT else 0
    return s.outcome_of(s.turn) == (commits if is_prepared(s.known) else NONE) and all(
        s.outcome_of(n) == NONE for n in s.turns if s.turn < n
    )


@invariant(needs=(*KNOWN, "turns_are_prepared_once"))
def commits_are_wanted(s: TransactionsState) -> bool:
    """Only a transaction that its application wants to commit is prepared so, or is on its way."""
    return all(
        s.wanted(s.turn) == 1 for image in s.images if image.state == Txn.PREPARE_COMMIT
    ) and all(s.wanted(n) == 1 for n in s.turns if s.outcome_of(n) == 1)


@invariant(needs=TURNS)
def open_is_of_this_turn(s: TransactionsState) -> bool:
    """What is open here is of the present transaction."""
    return all(
        s.turn_of(i) == s.turn for i, at in enumerate(s.log) if is_data(at) and is_open_at(s, i)
    )


@guarantee(needs=(*TURNS, "open_is_of_this_turn", "ended_is_exact"))
def visible_as_wanted(s: TransactionsState) -> bool:
    """The marker that ends a record says what was decided of the record's own transaction; and of
    no transaction was a commit decided that its application did not want."""
    return all(
        s.turn_of(i) <= s.turn and says(s, i, s.outcome_of(s.turn_of(i)))
        for i, at in enumerate(s.log)
        if is_data(at) and s.ended(i) != NONE
    )
