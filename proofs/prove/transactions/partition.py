"""What holds of the log of one partition: epochs, open transactions, stable offsets, and whose
marker ends what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.evaluate import Evaluator
from proofs.lift.values import Rec
from proofs.prove.clauses import Formula, implies
from proofs.prove.smt import Obligation, obligation
from proofs.prove.transactions.coordinator import (
    COMPLETE,
    ONGOING,
    PLACE,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    RULES,
    P,
    images,
    inside,
    is_prepared,
)
from proofs.prove.transactions.state import HERE, NONE, State, is_before
from proofs.prove.transactions.steps import Transactions, wanted
from proofs.prove.unknowns import Unknowns, number
from proofs.prove.worlds import Worlds

I, J = number("i"), number("j")  # noqa: E741
DATA, COMMIT, ABORT, OTHER = (const(i) for i in range(4))


def log(s: State, offset: Node) -> dict[str, Node]:
    """What stands at an offset."""
    return dict(s.leader.fields["log"].at(offset).fields)


def end(s: State) -> Node:
    """Where the log ends."""
    result: Node = s.leader.fields["log"].length
    return result


def entry(s: State, producer_id: Node) -> dict[str, Node]:
    """What the leader knows of a producer id."""
    return dict(s.leader.fields["producers"].at(producer_id).fields)


def in_log(s: State, offset: Node) -> Node:
    """There is such an offset."""
    return dag.both(dag.le(ZERO, offset), dag.lt(offset, end(s)))


def is_marker(stored: dict[str, Node]) -> Node:
    """It ends a transaction of ours."""
    return dag.either(dag.eq(stored["kind"], COMMIT), dag.eq(stored["kind"], ABORT))


def is_data(stored: dict[str, Node]) -> Node:
    """A record of a transaction of ours."""
    return dag.eq(stored["kind"], DATA)


def is_ours(stored: dict[str, Node]) -> Node:
    """A record or a marker of a producer id of ours."""
    return dag.either(is_data(stored), is_marker(stored))


def is_open(s: State, producer_id: Node) -> Node:
    """The producer id has a transaction open here."""
    return dag.negate(dag.eq(entry(s, producer_id)["current_txn_first_offset"], NONE))


# The leader by itself


def log_has_epochs(s: State) -> Formula:
    """What the leader knows of a producer id has the last epoch that it wrote."""
    stored = log(s, I)
    mine = dag.both(in_log(s, I), is_ours(stored))
    known = entry(s, stored["producer_id"])["producer_epoch"]
    valid = dag.both(
        dag.le(ZERO, stored["producer_epoch"]), dag.le(stored["producer_epoch"], known)
    )
    return (I,), dag.both(dag.le(ZERO, end(s)), implies(mine, valid))


def epochs_rise_in_the_log(s: State) -> Formula:
    """No epoch of a producer id is behind a later one in the log."""
    a, b = log(s, I), log(s, J)
    both = dag.both(dag.both(in_log(s, I), in_log(s, J)), dag.lt(I, J))
    mine = dag.both(is_ours(a), is_ours(b))
    same = dag.eq(a["producer_id"], b["producer_id"])
    rises = dag.le(a["producer_epoch"], b["producer_epoch"])
    return (I, J), implies(dag.conjunction((both, mine, same)), rises)


def last_marker_is_last(s: State) -> Formula:
    """The last marker of a producer id is one, and none is behind it."""
    at = s.last_marker(P)
    stored = log(s, at)
    there = dag.conjunction((is_marker(stored), dag.eq(stored["producer_id"], P)))
    later = dag.conjunction(
        (in_log(s, I), is_marker(log(s, I)), dag.eq(log(s, I)["producer_id"], P))
    )
    facts = dag.conjunction(
        (
            dag.le(NONE, at),
            dag.lt(at, end(s)),
            implies(dag.le(ZERO, at), there),
            implies(later, dag.le(I, at)),
        )
    )
    return (P, I), facts


def first_offset_is_exact(s: State) -> Formula:
    """current_txn_first_offset is where the first record stands behind the last marker of the
    producer id: -1 if there is none. So a marker closes what is open, and at most one is."""
    first, last = entry(s, P)["current_txn_first_offset"], s.last_marker(P)
    stored, other = log(s, first), log(s, I)
    there = dag.conjunction(
        (
            dag.lt(last, first),
            in_log(s, first),
            is_data(stored),
            dag.eq(stored["producer_id"], P),
        )
    )
    mine = dag.conjunction((in_log(s, I), is_data(other), dag.eq(other["producer_id"], P)))
    behind = dag.both(mine, dag.lt(last, I))
    opened = is_open(s, P)
    facts = dag.conjunction(
        (
            dag.le(NONE, first),
            implies(opened, there),
            implies(behind, opened),
            implies(dag.both(behind, opened), dag.le(first, I)),
        )
    )
    return (P, I), facts


def others_are_in_the_log(s: State) -> Formula:
    """What another transactional id has open began in this log."""
    first = s.leader.fields["other_first_offset"]
    return (), dag.both(dag.le(NONE, first), dag.lt(first, end(s)))


# What is stable


def first_open(evaluator: Evaluator, _k: Any, leader: Rec) -> Node:
    """What the text's sum over offsets comes to, in a log of any length: the first offset of the
    earliest open transaction, or the log's end."""
    place = len(evaluator.choices)
    least, owner = number(f"stable[{place}]"), number(f"owner[{place}]")
    length = leader.fields["log"].length

    def first(producer_id: Node) -> Node:
        known: Node = leader.fields["producers"].at(producer_id).fields["current_txn_first_offset"]
        return known

    none_before = dag.either(dag.eq(first(P), NONE), dag.le(least, first(P)))
    some_one = dag.either(dag.eq(least, length), dag.eq(least, first(owner)))
    evaluator.choices.append(((P,), none_before))
    bounds = dag.both(dag.le(ZERO, least), dag.le(least, length))
    evaluator.choices.append(((), dag.both(bounds, some_one)))
    return least


def stable_offsets(worlds: Worlds) -> Iterator[Obligation]:
    """The last stable offset passes no open transaction, and never goes back."""
    assert isinstance(worlds, Transactions)
    exact = [f(worlds.before) for f in (first_offset_is_exact, others_are_in_the_log)]
    for step in worlds.steps():
        evaluator = worlds.evaluator()
        rule = worlds.model.leader.last_stable_offset
        leaders = (step.before.leader, step.after.leader)
        before, after = (evaluator.call(rule, [worlds.k, leader]) for leader in leaders)
        assumed = [*exact, *step.assumed, *evaluator.choices]
        first = entry(step.after, P)["current_txn_first_offset"]
        other = step.after.leader.fields["other_first_offset"]
        passes = dag.both(
            implies(is_open(step.after, P), dag.le(after, first)),
            dag.either(dag.eq(other, NONE), dag.le(after, other)),
        )
        name = f"transactions/{step.rule}/last_stable_offset"
        yield obligation(f"{name}_passes_nothing_open", assumed, ((P,), passes))
        yield obligation(f"{name}_never_goes_back", assumed, ((), dag.le(before, after)))
    yield below_is_decided(worlds)
    yield stable_is_first_open(worlds)


def below_is_decided(worlds: Transactions) -> Obligation:
    """What stands below the last stable offset has its marker."""
    s, evaluator = worlds.before, worlds.evaluator()
    stable = evaluator.call(worlds.model.leader.last_stable_offset, [worlds.k, s.leader])
    below = dag.conjunction((in_log(s, I), is_data(log(s, I)), dag.lt(I, stable)))
    assumed = [first_offset_is_exact(s), ended_is_exact(s), *evaluator.choices]
    decided = dag.negate(dag.eq(s.ended(I), NONE))
    return obligation(
        "transactions/always/what_is_stable_is_decided", assumed, ((I,), implies(below, decided))
    )


def late_markers(worlds: Worlds) -> Iterator[Obligation]:
    """KIP-1228: no marker, however late, closes a transaction with a batch of its own epoch, or of
    a later one."""
    assert isinstance(worlds, Transactions)
    step = next(step for step in worlds.steps() if step.rule == "any_marker_arrives")
    marker = worlds.unknowns.record(worlds.model.messages.Marker, "marker").fields
    stored = log(step.before, I)
    mine = dag.conjunction(
        (
            in_log(step.before, I),
            is_data(stored),
            dag.eq(stored["producer_id"], marker["producer_id"]),
            is_open(step.before, marker["producer_id"]),
            dag.negate(is_open(step.after, marker["producer_id"])),
        )
    )
    newer = dag.lt(stored["producer_epoch"], marker["producer_epoch"])
    assumed = [log_has_epochs(step.before), kip_1228(), *step.assumed]
    yield obligation(
        "transactions/any_marker_arrives/closes_older_only", assumed, ((I,), implies(mine, newer))
    )


def kip_1228() -> Formula:
    """V2 is spoken, and a marker must be newer than what it closes: 4.2 and later."""
    newer = dag.le(const(1), RULES["Variant", "marker_epoch"])
    return (), dag.both(newer, dag.eq(RULES["Variant", "requests"], const(2)))


SOME = 4
"""Offsets, in the lemma of what the sum over offsets comes to."""


def stable_is_first_open(worlds: Transactions) -> Obligation:
    """What `first_open` stands for: the text's own sum, in logs of up to SOME offsets with two
    producer ids."""
    cls, rules = worlds.model.configuration, worlds.model.leader
    bounds = cls.Bounds(producer_ids=2, log=SOME)
    k = cls.Configuration(variant=worlds.k.variant, bounds=bounds, budgets=worlds.k.budgets)
    leader = Unknowns(bounds).record(rules.Leader, "small")
    evaluator = Evaluator(worlds.model, k)
    found = evaluator.call(rules.first_open, [k, leader])
    length = leader.fields["log"].length
    firsts = [e.fields["current_txn_first_offset"] for e in leader.fields["producers"].slots]
    valid = [dag.both(dag.le(NONE, f), dag.lt(f, length)) for f in firsts]
    opened = [dag.negate(dag.eq(f, NONE)) for f in firsts]
    before = [implies(o, dag.le(found, f)) for o, f in zip(opened, firsts, strict=True)]
    among = [dag.both(o, dag.eq(found, f)) for o, f in zip(opened, firsts, strict=True)]
    goal = dag.both(
        dag.conjunction(before), dag.either(dag.eq(found, length), dag.disjunction(among))
    )
    name = "transactions/first_open/is_the_earliest"
    return obligation(name, [((), dag.conjunction(valid))], ((), goal))


# The leader and its coordinator


def leaders_ask() -> Formula:
    """Leaders ask the coordinator before the first write of a transaction: 3.6 and later."""
    asks = dag.eq(RULES["Variant", "verification"], const(1))
    return (), dag.either(asks, dag.eq(RULES["Variant", "requests"], const(2)))


def in_transaction(image: dict[str, Any]) -> Node:
    """A transaction is open, or is being ended."""
    return dag.either(dag.eq(image["state"], ONGOING), is_prepared(image))


def partitions_are_in_transactions(s: State) -> Formula:
    """Only an open transaction has partitions; what is known to be in it is in the log, and stays
    in whatever is on its way."""
    there = s.known("known")["partitions"].at(PLACE)

    def has(image: dict[str, Any]) -> Node:
        kept: Node = image["partitions"].at(PLACE)
        same = dag.eq(image["producer_id"], s.known("known")["producer_id"])
        return dag.both(implies(kept, in_transaction(image)), implies(there, dag.both(kept, same)))

    return (PLACE,), implies(inside(PLACE), images(s, has))


def no_write_outside(s: State) -> Formula:
    """What is open at a partition is open at the coordinator too: nothing hangs."""

    def covers(image: dict[str, Any]) -> Node:
        mine = dag.eq(image["producer_id"], P)
        there: Node = image["partitions"].at(HERE)
        return dag.conjunction((mine, in_transaction(image), there))

    return (P,), implies(is_open(s, P), images(s, covers))


def who_waits_begins(s: State) -> Formula:
    """Who waits for a pair waits for an image in which no transaction is open."""
    waits = dag.both(s.coordinator.fields["is_appending"], dag.lt(ZERO, s.awaited))
    return (), implies(waits, dag.negate(in_transaction(s.known("image"))))


def open_is_not_older(s: State) -> Formula:
    """What is open here has no older pair than InitProducerId told last: what is older is over."""
    reign = (s.reign_id, s.reign_epoch)
    older = is_before((P, entry(s, P)["producer_epoch"]), reign)
    return (P,), implies(is_open(s, P), dag.negate(older))


def nothing_older_is_written(s: State) -> Formula:
    """After InitProducerId has told a pair, no batch of an older one comes into the log: nothing
    older becomes visible but what was there, and is decided."""
    return (), dag.negate(s.trespassed)


def no_fence_fails(s: State) -> Formula:
    """At level 2 a fence that fails leaves nothing in memory: a transaction that is open in the
    log, or on its way there, has the present pair."""
    known = s.known("known")

    def present(image: dict[str, Any]) -> Node:
        same = (dag.eq(image[f], known[f]) for f in ("producer_id", "producer_epoch"))
        return implies(dag.eq(image["state"], ONGOING), dag.conjunction(same))

    return (), dag.both(images(s, present), dag.negate(s.coordinator.fields["unlogged_fence"]))


def open_has_present_epoch(s: State) -> Formula:
    """What is open here has the epoch of the coordinator's transaction; what ends it, the next."""
    mine = entry(s, P)["producer_epoch"]

    def present(image: dict[str, Any]) -> Node:
        ongoing, epoch = dag.eq(image["state"], ONGOING), image["producer_epoch"]
        return dag.both(
            implies(ongoing, dag.eq(mine, epoch)),
            implies(is_prepared(image), dag.eq(dag.add(mine, const(1)), epoch)),
        )

    return (P,), implies(is_open(s, P), images(s, present))


def open_has_one_epoch(s: State) -> Formula:
    """All that is open of one producer id is of one transaction."""
    stored = log(s, I)
    known = entry(s, stored["producer_id"])
    opened = dag.both(
        is_open(s, stored["producer_id"]), dag.le(known["current_txn_first_offset"], I)
    )
    mine = dag.conjunction((in_log(s, I), is_data(stored), opened))
    return (I,), implies(mine, dag.eq(stored["producer_epoch"], known["producer_epoch"]))


def ended_is_exact(s: State) -> Formula:
    """What is not open was ended by a marker of its producer id behind it."""
    stored, at = log(s, I), s.ended(I)
    marker = log(s, at)
    known = entry(s, stored["producer_id"])
    opened = dag.both(
        is_open(s, stored["producer_id"]), dag.le(known["current_txn_first_offset"], I)
    )
    there = dag.conjunction(
        (
            dag.lt(I, at),
            in_log(s, at),
            is_marker(marker),
            dag.eq(marker["producer_id"], stored["producer_id"]),
        )
    )
    mine = dag.both(in_log(s, I), is_data(stored))
    never = dag.eq(at, NONE)
    new = implies(dag.le(end(s), I), never)
    facts = dag.both(dag.eq(never, opened), dag.either(never, there))
    return (I,), dag.both(new, implies(mine, facts))


def ended_by_the_first(s: State) -> Formula:
    """No marker of a record's producer id stands between the record and the one that ended it."""
    a, b = log(s, I), log(s, J)
    records = dag.conjunction((in_log(s, I), is_data(a), in_log(s, J), is_marker(b)))
    behind = dag.both(dag.lt(I, J), dag.eq(a["producer_id"], b["producer_id"]))
    ended = dag.both(dag.negate(dag.eq(s.ended(I), NONE)), dag.le(s.ended(I), J))
    return (I, J), implies(dag.both(records, behind), ended)


def visible_as_decided(s: State) -> Formula:
    """The marker that ends a record is its own transaction's, and says what was decided of it: a
    record is visible if and only if its transaction commits."""
    stored, marker = log(s, I), log(s, s.ended(I))
    epoch = dag.add(stored["producer_epoch"], const(1))
    decided = s.decision(stored["producer_id"], epoch)
    says = dag.conjunction(
        (
            dag.eq(marker["producer_epoch"], epoch),
            dag.eq(dag.eq(marker["kind"], COMMIT), dag.eq(decided, const(1))),
            dag.eq(dag.eq(marker["kind"], ABORT), dag.eq(decided, ZERO)),
        )
    )
    mine = dag.both(in_log(s, I), is_data(stored))
    ended = dag.both(mine, dag.negate(dag.eq(s.ended(I), NONE)))
    return (I,), implies(ended, says)


# V1, whose pairs do not tell transactions apart

N = number("n")
COMPLETED = {PREPARE_COMMIT: COMPLETE[0], PREPARE_ABORT: COMPLETE[1]}


def log_comes_next(s: State) -> Formula:
    """What is on its way to the log, or there and not known, follows what is known: only what is
    open is prepared, and that is completed as it says."""
    now = s.known("known")["state"]

    def follows(image: dict[str, Any]) -> Node:
        state = image["state"]
        rows = [
            (
                implies(dag.eq(state, prepared), dag.eq(now, ONGOING)),
                dag.eq(dag.eq(state, complete), dag.eq(now, prepared)),
            )
            for prepared, complete in COMPLETED.items()
        ]
        return dag.conjunction(fact for row in rows for fact in row)

    logged = dag.either(dag.eq(s.known("log")["state"], now), images(s, follows, ("log",)))
    return (), dag.both(images(s, follows, ("image",)), logged)


def turns_are_prepared_once(s: State) -> Formula:
    """What is prepared is the present transaction, as it says; before that nothing is decided of
    it, and nothing of those to come."""
    known, outcome = s.known("known"), s.outcome_of(s.turn)
    commits = dag.ite(dag.eq(known["state"], PREPARE_COMMIT), const(1), ZERO)
    now = dag.eq(outcome, dag.ite(is_prepared(known), commits, NONE))
    later = implies(dag.lt(s.turn, N), dag.eq(s.outcome_of(N), NONE))
    return (N,), dag.both(now, later)


def commits_are_wanted(s: State) -> Formula:
    """Only a transaction that its application wants to commit is prepared so, or is on its way."""

    def asked(image: dict[str, Any]) -> Node:
        return implies(dag.eq(image["state"], PREPARE_COMMIT), dag.eq(wanted(s.turn), const(1)))

    decided = implies(dag.eq(s.outcome_of(N), const(1)), dag.eq(wanted(N), const(1)))
    return (N,), dag.both(images(s, asked), decided)


def open_is_of_this_turn(s: State) -> Formula:
    """What is open here is of the present transaction."""
    stored = log(s, I)
    known = entry(s, stored["producer_id"])
    opened = dag.both(
        is_open(s, stored["producer_id"]), dag.le(known["current_txn_first_offset"], I)
    )
    mine = dag.conjunction((in_log(s, I), is_data(stored), opened))
    return (I,), implies(mine, dag.eq(s.turn_of(I), s.turn))


def visible_as_wanted(s: State) -> Formula:
    """The marker that ends a record says what was decided of the record's own transaction; and of
    no transaction was a commit decided that its application did not want."""
    marker = log(s, s.ended(I))
    decided = s.outcome_of(s.turn_of(I))
    says = dag.conjunction(
        (
            dag.le(s.turn_of(I), s.turn),
            dag.eq(dag.eq(marker["kind"], COMMIT), dag.eq(decided, const(1))),
            dag.eq(dag.eq(marker["kind"], ABORT), dag.eq(decided, ZERO)),
        )
    )
    mine = dag.both(in_log(s, I), is_data(log(s, I)))
    ended = dag.both(mine, dag.negate(dag.eq(s.ended(I), NONE)))
    return (I,), implies(ended, says)
