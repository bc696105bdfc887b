"""Proves that the last stable offset passes no open transaction and never goes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from model.transactions.configuration import Configuration, MarkerEpoch
from model.transactions.messages import Marker, speaks_v2
from proofs.lift.containers import FunctionSeq
from proofs.lift.dag import ZERO, Node, ite
from proofs.lift.evaluate import Evaluator
from proofs.prove.engine.composition import Worlds
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.unknowns import bound, number
from proofs.prove.transactions.partition import (
    ended_is_exact,
    entry,
    first_offset_is_exact,
    is_data,
    is_open,
    log_has_epochs,
    others_are_in_the_log,
)
from proofs.prove.transactions.steps import Transactions
from proofs.prove.transactions.symbolic_state import NONE, TransactionsState

P = bound("p")
"""Any producer id."""


def is_earliest(least: Node, owner: Node, entries: FunctionSeq, start: Node) -> tuple[Formula, ...]:
    """Return formulas which say that `least` is the first offset of all open transactions, or
    `start` if none began before it. `owner` is the entry with this offset."""

    def first(at: Node) -> Node:
        known: Node = entries.at(at).current_txn_first_offset
        return known

    inside = (P >= 0) & (entries.length > P)
    none_before = inside.implies(first(P).eq(NONE) | (least <= first(P)))
    is_key = (owner >= 0) & (entries.length > owner)
    owned = is_key & ~first(owner).eq(NONE) & least.eq(first(owner))
    return ((P,), none_before), ((), least <= start), ((), least.eq(start) | owned)


def fold_of_entries(
    evaluator: Evaluator, _k: object, _step: object, entries: FunctionSeq, start: Node
) -> Node:
    """Return the result of the text's fold over producers, for any number of producers."""
    place = len(evaluator.choices)
    least, owner = number(f"stable[{place}]"), number(f"owner[{place}]")
    evaluator.choices += is_earliest(least, owner, entries, start)
    # Producer ids outside of the entries have no open transaction.
    nobody = entries.at(P).current_txn_first_offset.eq(NONE)
    evaluator.choices.append(((P,), (P >= 0) & (entries.length > P) | nobody))
    return least


def fold_is_earliest(worlds: Transactions) -> Iterator[ProofObligation]:
    """Prove `fold_of_entries` by induction over the producers that are folded: its formula holds
    for no producer and, if it holds for some, also with one more."""
    asked: list[tuple[Callable[..., Any], FunctionSeq, Node]] = []

    def noted(_evaluator: object, _k: object, step: Any, entries: FunctionSeq, start: Node) -> Node:
        asked.append((step, entries, start))
        return start

    rules, leader = worlds.model.leader, worlds.before.leader
    evaluator = worlds.evaluator()
    evaluator.contracts["fold"] = noted
    evaluator.call(rules.first_open, [worlds.k, leader])
    (step, entries, start) = asked[0]
    count, least, owner = number("count"), number("least"), number("owner")
    one_more = worlds.evaluator().call(step, [worlds.k, least, entries.at(count)])
    none, some = (FunctionSeq(n, entries.at) for n in (ZERO, count))
    more = FunctionSeq(count + 1, entries.at)
    name = "transactions/first_open/fold"
    yield from posed(f"{name}_begins", [], is_earliest(start, owner, none, start))
    known = [*is_earliest(least, owner, some, start), ((), count >= 0)]
    now = ite(one_more.eq(least), owner, count)
    yield from posed(f"{name}_grows", known, is_earliest(one_more, now, more, start))


def posed(
    name: str, known: Sequence[Formula], goals: Sequence[Formula]
) -> Iterator[ProofObligation]:
    """Yield an obligation for each of the goals."""
    for number_, goal in enumerate(goals, 1):
        yield obligation(f"{name}/{number_}", known, goal)


def passes_nothing_open(s: TransactionsState, stable: int) -> bool:
    """Whether an offset is after the beginning of no open transaction."""
    return all(
        stable <= entry(s, p).current_txn_first_offset for p in s.producer_ids if is_open(s, p)
    ) and (s.leader.other_first_offset == NONE or stable <= s.leader.other_first_offset)


def stable_is_decided(s: TransactionsState, stable: int) -> bool:
    """Whether every record below an offset has its marker."""
    return all(s.ended(i) != NONE for i, at in enumerate(s.log) if is_data(at) and stable > i)


def stable_offsets(worlds: Worlds) -> Iterator[ProofObligation]:
    """Prove that the last stable offset passes no open transaction and never goes back."""
    assert isinstance(worlds, Transactions)
    lifter, rule = worlds.lifter, worlds.model.leader.last_stable_offset
    exact = [
        lifter.formula(f, worlds.before) for f in (first_offset_is_exact, others_are_in_the_log)
    ]
    for step in worlds.steps():
        evaluator = worlds.evaluator()
        leaders = (step.before.leader, step.after.leader)
        before, after = (evaluator.call(rule, [worlds.k, leader]) for leader in leaders)
        assumed = [*exact, *step.assumed, *evaluator.choices]
        passes = lifter.formula(passes_nothing_open, step.after, after)
        name = f"transactions/{step.rule}/last_stable_offset"
        yield obligation(f"{name}_passes_nothing_open", assumed, passes)
        yield obligation(f"{name}_never_goes_back", assumed, ((), before <= after))
    yield below_is_decided(worlds)
    yield from fold_is_earliest(worlds)


def below_is_decided(worlds: Transactions) -> ProofObligation:
    """Prove that every record below the last stable offset has its marker."""
    s, lifter, evaluator = worlds.before, worlds.lifter, worlds.evaluator()
    stable = evaluator.call(worlds.model.leader.last_stable_offset, [worlds.k, s.leader])
    exact = [lifter.formula(f, s) for f in (first_offset_is_exact, ended_is_exact)]
    return obligation(
        "transactions/always/what_is_stable_is_decided",
        [*exact, *evaluator.choices],
        lifter.formula(stable_is_decided, s, stable),
    )


def kip_1228(k: Configuration) -> bool:
    """Whether V2 is used and a marker must be newer than the transaction it closes: 4.2 and
    later."""
    return k.variant.marker_epoch >= MarkerEpoch.NEWER and speaks_v2(k)


def closes_older_only(s: TransactionsState, after: TransactionsState, marker: Marker) -> bool:
    """Whether each batch of a transaction that a marker closes has an epoch before the marker's."""
    return all(
        at.producer_epoch < marker.producer_epoch
        for at in s.log
        if is_data(at)
        and at.producer_id == marker.producer_id
        and is_open(s, marker.producer_id)
        and not is_open(after, marker.producer_id)
    )


def late_markers(worlds: Worlds) -> Iterator[ProofObligation]:
    """Prove KIP-1228: no marker, however late, closes a transaction with a batch of the marker's
    epoch or a later one."""
    assert isinstance(worlds, Transactions)
    step = next(step for step in worlds.steps() if step.rule == "any_marker_arrives")
    marker = worlds.unknowns.record(worlds.model.messages.Marker, "marker")
    lifter = worlds.lifter
    assumed = [lifter.formula(log_has_epochs, step.before), lifter.formula(kip_1228)]
    yield obligation(
        "transactions/any_marker_arrives/closes_older_only",
        [*assumed, *step.assumed],
        lifter.formula(closes_older_only, step.before, step.after, marker),
    )
