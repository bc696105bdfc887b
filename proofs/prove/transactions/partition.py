"""What holds of the log of one partition: epochs, open transactions, stable offsets, and whose
marker ends what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model.transactions.coordinator import TransactionState as Txn
from model.transactions.leader import Kind
from proofs.lift.dag import Node, conjunction, disjunction, ite
from proofs.lift.evaluate import Evaluator
from proofs.lift.values import Rec, Scalars
from proofs.prove.composition import Worlds
from proofs.prove.smt import Formula, ProofObligation, obligation
from proofs.prove.transactions.coordinator import (
    COMPLETE,
    PLACE,
    RULES,
    P,
    images,
    inside,
    is_prepared,
)
from proofs.prove.transactions.state import (
    HERE,
    NONE,
    Image,
    TransactionsState,
    both_are,
    is_before,
    pair,
)
from proofs.prove.transactions.steps import Transactions, wanted
from proofs.prove.unknowns import Unknowns, bound, number

I, J = bound("i"), bound("j")  # noqa: E741


def log(s: TransactionsState, offset: Node) -> Scalars:
    """What stands at an offset."""
    found: Scalars = s.leader.log.at(offset)
    return found


def end(s: TransactionsState) -> Node:
    """Where the log ends."""
    result: Node = s.leader.log.length
    return result


def entry(s: TransactionsState, producer_id: Node) -> Scalars:
    """What the leader knows of a producer id."""
    found: Scalars = s.leader.producers.at(producer_id)
    return found


def in_log(s: TransactionsState, offset: Node) -> Node:
    """There is such an offset."""
    return (offset >= 0) & (offset < end(s))


def is_marker(stored: Scalars) -> Node:
    """It ends a transaction of ours."""
    return stored.kind.eq(Kind.COMMIT) | stored.kind.eq(Kind.ABORT)


def is_data(stored: Scalars) -> Node:
    """A record of a transaction of ours."""
    return stored.kind.eq(Kind.DATA)


def is_ours(stored: Scalars) -> Node:
    """A record or a marker of a producer id of ours."""
    return is_data(stored) | is_marker(stored)


def is_open(s: TransactionsState, producer_id: Node) -> Node:
    """The producer id has a transaction open here."""
    return ~entry(s, producer_id).current_txn_first_offset.eq(NONE)


# The leader by itself


def log_has_epochs(s: TransactionsState) -> Formula:
    """What the leader knows of a producer id has the last epoch that it wrote."""
    stored = log(s, I)
    mine = in_log(s, I) & is_ours(stored)
    known = entry(s, stored.producer_id).producer_epoch
    valid = (stored.producer_epoch >= 0) & (stored.producer_epoch <= known)
    return (I,), (end(s) >= 0) & mine.implies(valid)


def epochs_rise_in_the_log(s: TransactionsState) -> Formula:
    """No epoch of a producer id is behind a later one in the log."""
    a, b = log(s, I), log(s, J)
    both = in_log(s, I) & in_log(s, J) & (I < J)
    mine = is_ours(a) & is_ours(b)
    same = a.producer_id.eq(b.producer_id)
    rises = a.producer_epoch <= b.producer_epoch
    return (I, J), (both & mine & same).implies(rises)


def last_marker_is_last(s: TransactionsState) -> Formula:
    """The last marker of a producer id is one, and none is behind it."""
    at = s.last_marker(P)
    stored = log(s, at)
    there = is_marker(stored) & stored.producer_id.eq(P)
    later = in_log(s, I) & is_marker(log(s, I)) & log(s, I).producer_id.eq(P)
    facts = (at >= NONE) & (at < end(s)) & (at >= 0).implies(there) & later.implies(at >= I)
    return (P, I), facts


def first_offset_is_exact(s: TransactionsState) -> Formula:
    """current_txn_first_offset is where the first record stands behind the last marker of the
    producer id: -1 if there is none. So a marker closes what is open, and at most one is."""
    first, last = entry(s, P).current_txn_first_offset, s.last_marker(P)
    stored, other = log(s, first), log(s, I)
    there = (last < first) & in_log(s, first) & is_data(stored) & stored.producer_id.eq(P)
    mine = in_log(s, I) & is_data(other) & other.producer_id.eq(P)
    behind = mine & (last < I)
    opened = is_open(s, P)
    facts = (
        (first >= NONE)
        & opened.implies(there)
        & behind.implies(opened)
        & (behind & opened).implies(first <= I)
    )
    return (P, I), facts


def others_are_in_the_log(s: TransactionsState) -> Formula:
    """What another transactional id has open began in this log."""
    first = s.leader.other_first_offset
    return (), (first >= NONE) & (first < end(s))


# What is stable


def first_open(evaluator: Evaluator, _k: Any, leader: Rec) -> Node:
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


def stable_offsets(worlds: Worlds) -> Iterator[ProofObligation]:
    """The last stable offset passes no open transaction, and never goes back."""
    assert isinstance(worlds, Transactions)
    exact = [f(worlds.before) for f in (first_offset_is_exact, others_are_in_the_log)]
    for step in worlds.steps():
        evaluator = worlds.evaluator()
        rule = worlds.model.leader.last_stable_offset
        leaders = (step.before.leader, step.after.leader)
        before, after = (evaluator.call(rule, [worlds.k, leader]) for leader in leaders)
        assumed = [*exact, *step.assumed, *evaluator.choices]
        first = entry(step.after, P).current_txn_first_offset
        other = step.after.leader.other_first_offset
        passes = is_open(step.after, P).implies(after <= first) & (
            other.eq(NONE) | (after <= other)
        )
        name = f"transactions/{step.rule}/last_stable_offset"
        yield obligation(f"{name}_passes_nothing_open", assumed, ((P,), passes))
        yield obligation(f"{name}_never_goes_back", assumed, ((), before <= after))
    yield below_is_decided(worlds)
    yield stable_is_first_open(worlds)


def below_is_decided(worlds: Transactions) -> ProofObligation:
    """What stands below the last stable offset has its marker."""
    s, evaluator = worlds.before, worlds.evaluator()
    stable = evaluator.call(worlds.model.leader.last_stable_offset, [worlds.k, s.leader])
    below = in_log(s, I) & is_data(log(s, I)) & (stable > I)
    assumed = [first_offset_is_exact(s), ended_is_exact(s), *evaluator.choices]
    decided = ~s.ended(I).eq(NONE)
    return obligation(
        "transactions/always/what_is_stable_is_decided", assumed, ((I,), below.implies(decided))
    )


def late_markers(worlds: Worlds) -> Iterator[ProofObligation]:
    """KIP-1228: no marker, however late, closes a transaction with a batch of its own epoch, or of
    a later one."""
    assert isinstance(worlds, Transactions)
    step = next(step for step in worlds.steps() if step.rule == "any_marker_arrives")
    marker = worlds.unknowns.record(worlds.model.messages.Marker, "marker")
    stored = log(step.before, I)
    mine = (
        in_log(step.before, I)
        & is_data(stored)
        & stored.producer_id.eq(marker.producer_id)
        & is_open(step.before, marker.producer_id)
        & ~is_open(step.after, marker.producer_id)
    )
    newer = stored.producer_epoch < marker.producer_epoch
    assumed = [log_has_epochs(step.before), kip_1228(), *step.assumed]
    yield obligation(
        "transactions/any_marker_arrives/closes_older_only", assumed, ((I,), mine.implies(newer))
    )


def kip_1228() -> Formula:
    """V2 is spoken, and a marker must be newer than what it closes: 4.2 and later."""
    newer = RULES["Variant", "marker_epoch"] >= 1
    return (), newer & RULES["Variant", "requests"].eq(2)


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


# The leader and its coordinator


def leaders_ask() -> Formula:
    """Leaders ask the coordinator before the first write of a transaction: 3.6 and later."""
    asks = RULES["Variant", "verification"].eq(1)
    return (), asks | RULES["Variant", "requests"].eq(2)


def in_transaction(image: Scalars) -> Node:
    """A transaction is open, or is being ended."""
    return image.state.eq(Txn.ONGOING) | is_prepared(image)


def partitions_are_in_transactions(s: TransactionsState) -> Formula:
    """Only an open transaction has partitions; what is known to be in it is in the log, and stays
    in whatever is on its way."""
    there: Node = s.known("known").partitions.at(PLACE)

    def has(image: Image) -> Node:
        kept: Node = image.partitions.at(PLACE)
        same = image.producer_id.eq(s.known("known").producer_id)
        return there.implies(kept & same) & kept.implies(in_transaction(image))

    return (PLACE,), inside(PLACE).implies(images(s, has))


def no_write_outside(s: TransactionsState) -> Formula:
    """What is open at a partition is open at the coordinator too: nothing hangs."""

    def covers(image: Image) -> Node:
        mine = image.producer_id.eq(P)
        there: Node = image.partitions.at(HERE)
        return in_transaction(image) & mine & there

    return (P,), is_open(s, P).implies(images(s, covers))


def who_waits_begins(s: TransactionsState) -> Formula:
    """Who waits for a pair waits for an image in which no transaction is open."""
    waits = s.coordinator.is_appending & (s.awaited > 0)
    return (), waits.implies(~in_transaction(s.known("image")))


def open_is_not_older(s: TransactionsState) -> Formula:
    """What is open here has no older pair than InitProducerId told last: what is older is over."""
    reign = (s.reign_id, s.reign_epoch)
    older = is_before((P, entry(s, P).producer_epoch), reign)
    return (P,), is_open(s, P).implies(~older)


def nothing_older_is_written(s: TransactionsState) -> Formula:
    """After InitProducerId has told a pair, no batch of an older one comes into the log: nothing
    older becomes visible but what was there, and is decided."""
    return (), ~s.trespassed


def no_fence_fails(s: TransactionsState) -> Formula:
    """At level 2 a fence that fails leaves nothing in memory: a transaction that is open in the
    log, or on its way there, has the present pair."""
    known = s.known("known")

    def present(image: Scalars) -> Node:
        return image.state.eq(Txn.ONGOING).implies(both_are(pair(image), pair(known)))

    return (), images(s, present) & ~s.coordinator.unlogged_fence


def open_has_present_epoch(s: TransactionsState) -> Formula:
    """What is open here has the epoch of the coordinator's transaction; what ends it, the next."""
    mine = entry(s, P).producer_epoch

    def present(image: Scalars) -> Node:
        ongoing, epoch = image.state.eq(Txn.ONGOING), image.producer_epoch
        return ongoing.implies(mine.eq(epoch)) & is_prepared(image).implies((mine + 1).eq(epoch))

    return (P,), is_open(s, P).implies(images(s, present))


def open_has_one_epoch(s: TransactionsState) -> Formula:
    """All that is open of one producer id is of one transaction."""
    stored = log(s, I)
    known = entry(s, stored.producer_id)
    opened = is_open(s, stored.producer_id) & (known.current_txn_first_offset <= I)
    mine = in_log(s, I) & is_data(stored) & opened
    return (I,), mine.implies(stored.producer_epoch.eq(known.producer_epoch))


def ended_is_exact(s: TransactionsState) -> Formula:
    """What is not open was ended by a marker of its producer id behind it."""
    stored, at = log(s, I), s.ended(I)
    marker = log(s, at)
    known = entry(s, stored.producer_id)
    opened = is_open(s, stored.producer_id) & (known.current_txn_first_offset <= I)
    there = (at > I) & in_log(s, at) & is_marker(marker) & marker.producer_id.eq(stored.producer_id)
    mine = in_log(s, I) & is_data(stored)
    never = at.eq(NONE)
    new = (end(s) <= I).implies(never)
    facts = never.eq(opened) & (never | there)
    return (I,), new & mine.implies(facts)


def ended_by_the_first(s: TransactionsState) -> Formula:
    """No marker of a record's producer id stands between the record and the one that ended it."""
    a, b = log(s, I), log(s, J)
    records = in_log(s, I) & is_data(a) & in_log(s, J) & is_marker(b)
    behind = (I < J) & a.producer_id.eq(b.producer_id)
    ended = ~s.ended(I).eq(NONE) & (s.ended(I) <= J)
    return (I, J), (records & behind).implies(ended)


def visible_as_decided(s: TransactionsState) -> Formula:
    """The marker that ends a record is its own transaction's, and says what was decided of it: a
    record is visible if and only if its transaction commits."""
    stored, marker = log(s, I), log(s, s.ended(I))
    epoch = stored.producer_epoch + 1
    decided = s.decision(stored.producer_id, epoch)
    says = (
        marker.producer_epoch.eq(epoch)
        & marker.kind.eq(Kind.COMMIT).eq(decided.eq(1))
        & marker.kind.eq(Kind.ABORT).eq(decided.eq(0))
    )
    mine = in_log(s, I) & is_data(stored)
    ended = mine & ~s.ended(I).eq(NONE)
    return (I,), ended.implies(says)


# V1, whose pairs do not tell transactions apart

N = bound("n")
COMPLETED = {Txn.PREPARE_COMMIT: COMPLETE[0], Txn.PREPARE_ABORT: COMPLETE[1]}


def log_comes_next(s: TransactionsState) -> Formula:
    """What is on its way to the log, or there and not known, follows what is known: only what is
    open is prepared, and that is completed as it says."""
    now = s.known("known").state

    def follows(image: Scalars) -> Node:
        state = image.state
        rows = [
            (
                state.eq(prepared).implies(now.eq(Txn.ONGOING)),
                state.eq(complete).eq(now.eq(prepared)),
            )
            for prepared, complete in COMPLETED.items()
        ]
        return conjunction(fact for row in rows for fact in row)

    logged = s.known("log").state.eq(now) | images(s, follows, ("log",))
    return (), images(s, follows, ("image",)) & logged


def turns_are_prepared_once(s: TransactionsState) -> Formula:
    """What is prepared is the present transaction, as it says; before that nothing is decided of
    it, and nothing of those to come."""
    known, outcome = s.known("known"), s.outcome_of(s.turn)
    commits = ite(known.state.eq(Txn.PREPARE_COMMIT), 1, 0)
    now = outcome.eq(ite(is_prepared(known), commits, NONE))
    later = (s.turn < N).implies(s.outcome_of(N).eq(NONE))
    return (N,), now & later


def commits_are_wanted(s: TransactionsState) -> Formula:
    """Only a transaction that its application wants to commit is prepared so, or is on its way."""

    def asked(image: Scalars) -> Node:
        return image.state.eq(Txn.PREPARE_COMMIT).implies(wanted(s.turn).eq(1))

    decided = s.outcome_of(N).eq(1).implies(wanted(N).eq(1))
    return (N,), images(s, asked) & decided


def open_is_of_this_turn(s: TransactionsState) -> Formula:
    """What is open here is of the present transaction."""
    stored = log(s, I)
    known = entry(s, stored.producer_id)
    opened = is_open(s, stored.producer_id) & (known.current_txn_first_offset <= I)
    mine = in_log(s, I) & is_data(stored) & opened
    return (I,), mine.implies(s.turn_of(I).eq(s.turn))


def visible_as_wanted(s: TransactionsState) -> Formula:
    """The marker that ends a record says what was decided of the record's own transaction; and of
    no transaction was a commit decided that its application did not want."""
    marker = log(s, s.ended(I))
    decided = s.outcome_of(s.turn_of(I))
    says = (
        (s.turn_of(I) <= s.turn)
        & marker.kind.eq(Kind.COMMIT).eq(decided.eq(1))
        & marker.kind.eq(Kind.ABORT).eq(decided.eq(0))
    )
    mine = in_log(s, I) & is_data(log(s, I))
    ended = mine & ~s.ended(I).eq(NONE)
    return (I,), ended.implies(says)
