"""The last stable offset passes no open transaction, and never goes back."""

from __future__ import annotations

from collections.abc import Iterator

from model.transactions.configuration import Configuration, MarkerEpoch
from model.transactions.messages import Marker, speaks_v2
from proofs.lift.dag import Node, conjunction, disjunction
from proofs.lift.evaluate import Evaluator
from proofs.lift.values import Rec
from proofs.prove.composition import Worlds
from proofs.prove.smt import ProofObligation, obligation
from proofs.prove.transactions.partition import (
    ended_is_exact,
    entry,
    first_offset_is_exact,
    is_data,
    is_open,
    log_has_epochs,
    others_are_in_the_log,
)
from proofs.prove.transactions.state import NONE, TransactionsState
from proofs.prove.transactions.steps import Transactions
from proofs.prove.unknowns import Unknowns, bound, number

P = bound("p")


def first_open(evaluator: Evaluator, _k: object, leader: Rec) -> Node:
    """What the text's sum over offsets comes to, in a log of any length: the first offset of the
    earliest open transaction, or the log's end."""
    place = len(evaluator.choices)
    least, owner = number(f"stable[{place}]"), number(f"owner[{place}]")
    length = leader.log.length

    def first(producer_id: Node) -> Node:
        known: Node = leader.producers.at(producer_id).current_txn_first_offset
        return known

    none_before = first(P).eq(NONE) | (least <= first(P))
    some_one = least.eq(length) | least.eq(first(owner))
    evaluator.choices.append(((P,), none_before))
    bounds = (least >= 0) & (least <= length)
    evaluator.choices.append(((), bounds & some_one))
    return least


def passes_nothing_open(s: TransactionsState, stable: int) -> bool:
    """An offset is behind no transaction that is open."""
    return all(
        stable <= entry(s, p).current_txn_first_offset for p in s.producer_ids if is_open(s, p)
    ) and (s.leader.other_first_offset == NONE or stable <= s.leader.other_first_offset)


def stable_is_decided(s: TransactionsState, stable: int) -> bool:
    """What stands below an offset has its marker."""
    return all(s.ended(i) != NONE for i, at in enumerate(s.log) if is_data(at) and stable > i)


def stable_offsets(worlds: Worlds) -> Iterator[ProofObligation]:
    """The last stable offset passes no open transaction, and never goes back."""
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
    yield stable_is_first_open(worlds)


def below_is_decided(worlds: Transactions) -> ProofObligation:
    """What stands below the last stable offset has its marker."""
    s, lifter, evaluator = worlds.before, worlds.lifter, worlds.evaluator()
    stable = evaluator.call(worlds.model.leader.last_stable_offset, [worlds.k, s.leader])
    exact = [lifter.formula(f, s) for f in (first_offset_is_exact, ended_is_exact)]
    return obligation(
        "transactions/always/what_is_stable_is_decided",
        [*exact, *evaluator.choices],
        lifter.formula(stable_is_decided, s, stable),
    )


def kip_1228(k: Configuration) -> bool:
    """V2 is spoken, and a marker must be newer than what it closes: 4.2 and later."""
    return k.variant.marker_epoch >= MarkerEpoch.NEWER and speaks_v2(k)


def closes_older_only(s: TransactionsState, after: TransactionsState, marker: Marker) -> bool:
    """No batch of a transaction that a marker closes has the marker's epoch, or a later one."""
    return all(
        at.producer_epoch < marker.producer_epoch
        for at in s.log
        if is_data(at)
        and at.producer_id == marker.producer_id
        and is_open(s, marker.producer_id)
        and not is_open(after, marker.producer_id)
    )


def late_markers(worlds: Worlds) -> Iterator[ProofObligation]:
    """KIP-1228: no marker, however late, closes a transaction with a batch of its own epoch, or of
    a later one."""
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


SOME = 4
"""Offsets, in the lemma of what the sum over offsets comes to."""


def stable_is_first_open(worlds: Transactions) -> ProofObligation:
    """What `first_open` stands for: the text's own sum, in logs of up to SOME offsets with two
    producer ids."""
    cls, rules = worlds.model.configuration, worlds.model.leader
    bounds = cls.Bounds(producer_ids=2, log=SOME)
    k = cls.Configuration(variant=worlds.k.variant, bounds=bounds, budgets=worlds.k.budgets)
    leader = Unknowns(bounds).record(rules.Leader, "small")
    evaluator = Evaluator(worlds.model, k)
    found = evaluator.call(rules.first_open, [k, leader])
    length = leader.log.length
    firsts = [e.current_txn_first_offset for e in leader.producers.slots]
    valid = [(f >= NONE) & (f < length) for f in firsts]
    opened = [~f.eq(NONE) for f in firsts]
    before = [o.implies(found <= f) for o, f in zip(opened, firsts, strict=True)]
    among = [o & found.eq(f) for o, f in zip(opened, firsts, strict=True)]
    goal = conjunction(before) & (found.eq(length) | disjunction(among))
    name = "transactions/first_open/is_the_earliest"
    return obligation(name, [((), conjunction(valid))], ((), goal))
