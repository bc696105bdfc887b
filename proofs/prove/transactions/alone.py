"""One instance that is alone, and on time: nobody ever tells it that it is fenced.

Theory of operation. Here the rules of the world move the world as they stand, with one instance,
its coordinator, and the partition of each step, which is any: what is so of the leader here is so
of each. Nothing of the instance is late; markers may be, and answers may be lost. What the
coordinator knows then is what the instance expects (`in_step`): of its first pair, or of the next
that it asks for (`is_asking`); or nothing yet of the transaction that it is in, if any (`is_next`);
or that, perhaps on its way to the log (`is_coming`, `is_registered`); or its end, of which the
instance has not heard (`is_ended`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from inspect import signature
from typing import Any

from proofs.lift import dag
from proofs.lift.containers import FocusMap
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec
from proofs.prove.clauses import Formula, implies
from proofs.prove.transactions.client import (
    ABORTABLE,
    ABORTING,
    COMMITTING,
    FATAL,
    IN,
    IN_TRANSACTION,
    INITIALIZING,
    NOTHING,
    QUEUED,
    READY,
    UNINITIALIZED,
    one_of,
)
from proofs.prove.transactions.coordinator import (
    ABSENT,
    COMPLETE,
    EMPTY,
    EPOCHS_END,
    EXHAUSTED,
    ONGOING,
    OUTCOME,
    PLACE,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    RULES,
    SIZES,
    TERM,
    E,
    P,
    counts,
    inside,
    is_prepared,
    is_unlogged,
    some,
)
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.state import (
    HERE,
    NONE,
    State,
    any_leader,
    both_are,
    is_before,
    with_ghosts,
)
from proofs.prove.transactions.steps import Transactions, merged, pair
from proofs.prove.unknowns import number
from proofs.prove.worlds import Composition, WorldStep

PARTITION = number("partition")
"""The partition of a step."""
ASKED = const(2)
APPENDS = SIZES["Bounds", "appends"]
CHOICES = {
    "instance": ZERO,
    "partition": PARTITION,
    **{n: dag.leaf(n, 0, 1) for n in ("heard", "waits")},
}


@dataclass(frozen=True, slots=True)
class Lone(State):
    """A state with the only instance in it; a partition that is not out of its transaction, and one
    that it has asked to add, if there are any."""

    client: Rec
    works_at: Node
    asked_at: Node


class Alone(Transactions):
    """The rules of the world, with one instance of which nothing is late."""

    before: Lone

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        client = self.unknowns.record(model.client.Client, "w.clients", (ZERO,))
        self.before = lone(self.before, client, "")

    def initial(self) -> Lone:
        """Nobody has begun."""
        return lone(super().initial(), self.world.fields["clients"].at(ZERO), "")

    def named(self, name: str) -> WorldStep:
        """A rule of the world; or what is late of markers."""
        return self.rule(name) if name in self.model.rules else super().named(name)

    def rule(self, name: str) -> WorldStep:
        """A rule of the world, at any partition."""
        evaluator, before = self.evaluator(), self.before
        function = self.model.rules[name]
        names = list(signature(function).parameters)[2:]
        there = any_leader(self.model, self.unknowns, PARTITION)
        nobody = self.world.fields["leaders"].at(PARTITION)
        world = Rec(
            self.world.cls,
            {
                **self.world.fields,
                "clients": MapValue((before.client,)),
                "coordinator": before.coordinator,
                "leaders": FocusMap(PARTITION, there, nobody),
            },
        )
        after = evaluator.call(function, [self.k, world, *(CHOICES[n] for n in names)]).fields
        here = merged(evaluator, dag.eq(PARTITION, HERE), after["leaders"].value, before.leader)
        moved = with_ghosts(
            before,
            coordinator=after["coordinator"],
            leader=before.leader if after["leaders"].value is there else here,
        )
        alike = (formula(with_ghosts(before, leader=there)) for formula in OF_LEADERS)
        state = lone(moved, after["clients"].slots[0], "'")
        return self.told(name, evaluator, state, ((), inside(PARTITION)), *alike)

    def told(
        self, name: str, evaluator: UnboundedEvaluator, after: State, *more: Formula
    ) -> WorldStep:
        """The step; partitions stand for those that there are."""
        assert isinstance(after, Lone)
        return super().told(name, evaluator, after, *more, *chosen(after))


def lone(state: State, client: Rec, mark: str) -> Lone:
    """A state, and the only instance in it."""
    known: dict[str, Any] = {f.name: getattr(state, f.name) for f in fields(State)}
    works_at, asked_at = (number(f"{name}{mark}") for name in ("works_at", "asked_at"))
    return Lone(**known, client=client, works_at=works_at, asked_at=asked_at)


def chosen(s: Lone) -> tuple[Formula, ...]:
    """If any partition works, `works_at` does; if any was asked for, `asked_at` was."""
    return tuple(
        ((PLACE,), implies(inside(PLACE), does(s, PLACE), dag.both(inside(at), does(s, at))))
        for does, at in ((works, s.works_at), (is_asked, s.asked_at))
    )


def at_place(s: Lone, place: Node) -> dict[str, Any]:
    """A partition as the client sees it."""
    return dict(s.client.fields["partitions"].at(place).fields)


def works(s: Lone, place: Node) -> Node:
    """It is in the transaction, or to be added."""
    return dag.negate(dag.eq(at_place(s, place)["membership"], ZERO))


def is_asked(s: Lone, place: Node) -> Node:
    """A request was sent that adds it, and was not answered."""
    return dag.eq(at_place(s, place)["membership"], ASKED)


# What the coordinator knows, as the instance expects it


def speaks_v2() -> Node:
    """Clients speak V2."""
    return dag.eq(RULES["Variant", "requests"], const(2))


def in_turn() -> Formula:
    """Where V2 is spoken, a coordinator that is busy says so first (KAFKA-18660); where V1 is,
    epochs do not end: two answers that are lost at the last one would fence who asks again."""
    busy_first = dag.eq(RULES["Variant", "pending"], ZERO)
    return (), dag.ite(speaks_v2(), busy_first, dag.negate(EPOCHS_END))


def is_finished(image: dict[str, Any]) -> Node:
    """No transaction is open, and the next one can begin."""
    return one_of(image["state"], (EMPTY, *COMPLETE))


def is_complete(image: dict[str, Any]) -> Node:
    """CompleteCommit or CompleteAbort."""
    return one_of(image["state"], COMPLETE)


def is_ongoing(image: dict[str, Any]) -> Node:
    """A transaction is open."""
    return dag.eq(image["state"], ONGOING)


def next_pair(image: dict[str, Any]) -> tuple[Node, Node]:
    """The producer id and epoch of the next transaction: with V2, once this one is ended."""
    rotates = dag.both(is_prepared(image), some(image["next_producer_id"]))
    return (
        dag.ite(rotates, image["next_producer_id"], image["producer_id"]),
        dag.ite(rotates, ZERO, image["producer_epoch"]),
    )


def is_exhausted(epoch: Node) -> Node:
    """No client may use a later epoch, and none does."""
    return dag.both(EPOCHS_END, dag.eq(EXHAUSTED, epoch))


def own(s: Lone) -> tuple[Node, Node]:
    """What the instance uses."""
    return pair(s.client.fields)


def becomes(s: Lone, *says: Node) -> Node:
    """What is on its way, if anything is, is one of these."""
    return implies(counts(s, "image"), dag.disjunction(says))


def completes(s: Lone) -> Node:
    """What is on its way completes what is prepared."""
    known, image = s.known("known"), s.known("image")
    return dag.both(is_prepared(known), is_complete(image))


def is_ending(s: Lone, image: dict[str, Any], commit: Node, abort: Node) -> Node:
    """The end that the instance asks for, in one of its states; with V2 it is one epoch ahead, or
    behind the last the next producer id's."""
    state = s.client.fields["state"]
    asked = dag.either(
        dag.both(dag.eq(state, COMMITTING), dag.eq(image["state"], commit)),
        dag.both(dag.eq(state, ABORTING), dag.eq(image["state"], abort)),
    )
    (my_id, my_epoch), last = own(s), is_exhausted(own(s)[1])
    same_id = dag.eq(image["producer_id"], my_id)
    turns = dag.eq(some(image["next_producer_id"]), last)
    bumped = dag.conjunction(
        (
            same_id,
            dag.eq(image["producer_epoch"], dag.add(my_epoch, const(1))),
            implies(is_prepared(image), turns),
        )
    )
    turned = dag.conjunction(
        (
            is_complete(image),
            last,
            dag.eq(image["previous_producer_id"], my_id),
            dag.eq(image["producer_epoch"], ZERO),
        )
    )
    ahead = dag.ite(speaks_v2(), dag.either(bumped, turned), both_are(pair(image), own(s)))
    return dag.both(asked, ahead)


def is_next(s: Lone) -> Node:
    """What the instance does next is not known to the coordinator yet."""
    known, image = s.known("known"), s.known("image")
    rests = dag.either(is_finished(known), is_prepared(known))
    same = both_are(next_pair(image), own(s))
    return dag.conjunction(
        (rests, both_are(next_pair(known), own(s)), becomes(s, dag.both(completes(s), same)))
    )


def is_coming(s: Lone, *states: Node) -> Node:
    """What the instance does next is on its way to the log: a partition, or an abort of nothing."""
    known, image = s.known("known"), s.known("image")
    rests = dag.conjunction((counts(s, "image"), is_finished(known), both_are(pair(known), own(s))))
    adds = dag.both(is_ongoing(image), both_are(pair(image), own(s)))
    aborts = dag.both(
        dag.eq(image["state"], PREPARE_ABORT),
        is_ending(s, image, PREPARE_COMMIT, PREPARE_ABORT),
    )
    return dag.both(rests, dag.either(adds, dag.both(speaks_v2(), aborts)))


def is_registered(s: Lone) -> Node:
    """The instance's transaction is open at the coordinator, or its end is on its way."""
    known, image = s.known("known"), s.known("image")
    goes_on = dag.both(is_ongoing(image), both_are(pair(image), own(s)))
    ends = is_ending(s, image, PREPARE_COMMIT, PREPARE_ABORT)
    return dag.conjunction(
        (is_ongoing(known), both_are(pair(known), own(s)), becomes(s, goes_on, ends))
    )


def is_ended(s: Lone) -> Node:
    """The end that the instance asks for is known, or complete."""
    known, image = s.known("known"), s.known("image")
    prepared = is_ending(s, known, PREPARE_COMMIT, PREPARE_ABORT)
    complete = is_ending(s, known, *COMPLETE)
    done = dag.both(completes(s), is_ending(s, image, *COMPLETE))
    return dag.both(dag.either(prepared, complete), becomes(s, done))


def is_bumped(s: Lone, image: dict[str, Any]) -> Node:
    """The next epoch that the instance has asked for, or the next producer id."""
    my_id, my_epoch = own(s)
    before = dag.eq(image["previous_producer_id"], my_id)
    mine = dag.either(dag.eq(image["producer_id"], my_id), dag.both(before, is_exhausted(my_epoch)))
    last = dag.eq(image["last_producer_epoch"], my_epoch)
    return dag.conjunction((dag.eq(image["state"], EMPTY), last, mine))


def is_asking(s: Lone) -> Node:
    """What the coordinator knows while the instance asks for its first pair, or for the next."""
    known, image = s.known("known"), s.known("image")
    nobody = dag.both(dag.eq(known["state"], ABSENT), dag.negate(counts(s, "image")))
    there = dag.both(dag.eq(known["state"], EMPTY), becomes(s, dag.eq(image["state"], EMPTY)))
    first = dag.both(dag.eq(own(s)[0], NONE), dag.either(nobody, there))
    rests = dag.either(is_finished(known), is_prepared(known))
    old = dag.both(completes(s), both_are(pair(image), own(s)))
    new = dag.both(is_finished(known), is_bumped(s, image))
    begins = dag.conjunction((rests, both_are(pair(known), own(s)), becomes(s, old, new)))
    bumped = dag.both(is_bumped(s, known), becomes(s, is_bumped(s, image)))
    again = dag.conjunction((some(own(s)[0]), dag.negate(speaks_v2()), dag.either(begins, bumped)))
    return dag.either(first, again)


# Clauses


def in_step(s: Lone) -> Formula:
    """The coordinator knows what the instance expects."""
    state, c = s.client.fields["state"], s.client.fields
    nobody = dag.conjunction(
        (
            dag.eq(s.known("known")["state"], ABSENT),
            dag.negate(counts(s, "image")),
            dag.eq(own(s)[0], NONE),
        )
    )
    asked = dag.both(inside(s.asked_at), is_asked(s, s.asked_at))
    added = dag.both(asked, dag.either(is_coming(s), is_registered(s)))
    unstarted = dag.either(is_next(s), dag.both(dag.negate(speaks_v2()), added))
    unknown = dag.both(speaks_v2(), dag.either(is_next(s), is_coming(s)))
    started = dag.disjunction((is_registered(s), is_ended(s), unknown))
    begun = dag.ite(c["is_started"], started, unstarted)
    has_pair = dag.either(dag.eq(state, READY), has_begun_alone(s))
    return (), dag.conjunction(
        (
            implies(dag.eq(state, UNINITIALIZED), nobody),
            implies(dag.eq(state, INITIALIZING), is_asking(s)),
            implies(dag.eq(state, READY), is_next(s)),
            implies(has_begun_alone(s), begun),
            implies(has_pair, dag.both(some(own(s)[0]), dag.le(ZERO, own(s)[1]))),
            dag.le(NONE, own(s)[0]),
        )
    )


def has_begun_alone(s: Lone) -> Node:
    """A transaction is there, and the client is not finished."""
    return one_of(s.client.fields["state"], (IN_TRANSACTION, COMMITTING, ABORTING, ABORTABLE))


def ends_are_quiet(s: Lone) -> Formula:
    """Once the end of a transaction is on its way, no batch is unfinished, and no partition is to
    be added."""
    ends = dag.both(counts(s, "image"), is_prepared(s.known("image")))
    over = dag.conjunction(
        (has_begun_alone(s), s.client.fields["is_started"], dag.either(ends, is_ended(s)))
    )
    at = at_place(s, PLACE)
    quiet = dag.both(dag.eq(at["write"], NOTHING), one_of(at["membership"], (ZERO, IN)))
    return (PLACE,), implies(inside(PLACE), over, quiet)


def acked_is_registered(s: Lone) -> Formula:
    """With V2, once a batch has its answer, the coordinator knows of the transaction."""
    works_on = one_of(s.client.fields["state"], (IN_TRANSACTION, COMMITTING))
    at = at_place(s, PLACE)
    acked = dag.both(dag.eq(at["membership"], IN), dag.eq(at["write"], NOTHING))
    known = dag.either(is_registered(s), is_ended(s))
    started = dag.both(works_on, s.client.fields["is_started"])
    return (PLACE,), implies(inside(PLACE), speaks_v2(), started, acked, known)


def ends_have_work(s: Lone) -> Formula:
    """A transaction that is ended by a request has a partition; with V2, once it has begun; and
    nothing is added there by a request."""
    state, started = s.client.fields["state"], s.client.fields["is_started"]
    has = dag.both(inside(s.works_at), works(s, s.works_at))
    ending = dag.both(one_of(state, (COMMITTING, ABORTING)), dag.negate(started))
    begun = dag.conjunction((has_begun_alone(s), started, speaks_v2()))
    lives = dag.either(has_begun_alone(s), dag.eq(state, READY))
    membership = at_place(s, PLACE)["membership"]
    member = one_of(membership, (ZERO, IN))
    adds, write = one_of(membership, (const(1), ASKED)), at_place(s, PLACE)["write"]
    facts = (
        implies(ending, dag.both(has, dag.negate(speaks_v2()))),
        implies(begun, has),
        implies(dag.eq(state, ABORTABLE), started),
        implies(speaks_v2(), dag.negate(s.client.fields["must_bump"])),
        implies(dag.eq(state, READY), dag.negate(started)),
        implies(one_of(state, (UNINITIALIZED, INITIALIZING)), dag.negate(started)),
        implies(inside(PLACE), speaks_v2(), lives, member),
        implies(inside(PLACE), lives, one_of(membership, (ZERO, const(1), ASKED, IN))),
        implies(inside(PLACE), dag.eq(state, IN_TRANSACTION), adds, dag.eq(write, QUEUED)),
    )
    return (PLACE,), dag.conjunction(facts)


def who_waits_is_answered(s: Lone) -> Formula:
    """Where the instance waits for an append, the answer is of what it asks for, or has asked for
    before it aborts."""
    c, image, state = s.coordinator.fields, s.known("image"), s.client.fields["state"]
    answer = c["answer"].fields
    begins = dag.conjunction(
        (
            dag.eq(state, INITIALIZING),
            dag.eq(image["state"], EMPTY),
            both_are(pair(answer), pair(image)),
        )
    )
    asks = dag.both(inside(s.asked_at), is_asked(s, s.asked_at))
    has_asked = dag.both(dag.eq(state, ABORTING), s.client.fields["is_started"])
    adds = dag.conjunction((has_begun_alone(s), is_ongoing(image), dag.either(asks, has_asked)))
    told = implies(speaks_v2(), both_are(pair(answer), next_pair(image)))
    ends = dag.conjunction(
        (
            one_of(state, (COMMITTING, ABORTING)),
            s.client.fields["is_started"],
            is_prepared(image),
            told,
        )
    )
    waits = dag.both(
        dag.eq(answer["error"], ZERO),
        dag.disjunction((begins, dag.both(adds, dag.negate(speaks_v2())), ends)),
    )
    nobody = dag.eq(c["requester"], NONE)
    busy = dag.both(counts(s, "image"), dag.eq(c["requester"], ZERO))
    return (), dag.both(dag.either(nobody, busy), dag.either(nobody, waits))


def log_is_memory(s: State) -> Formula:
    """What is known is in the log."""
    known, log = s.known("known"), s.known("log")
    same = dag.conjunction(
        dag.eq(known[f], log[f]) for f in ("state", "producer_id", "producer_epoch")
    )
    kept = one_of(log["next_producer_id"], (NONE, known["next_producer_id"]))
    return (), dag.either(is_unlogged(s, log), dag.both(same, kept))


def epochs_are_usable(s: State) -> Formula:
    """Only what is prepared with V2 has the last epoch, and then it names the producer id that is
    to come; what is on its way is not behind what is known, and with V2 an end is ahead."""

    def usable(image: dict[str, Any]) -> Node:
        ends = dag.both(is_prepared(image), speaks_v2())
        epoch = image["producer_epoch"]
        few = implies(EPOCHS_END, dag.le(epoch, EXHAUSTED))
        turns = dag.either(few, some(image["next_producer_id"]))
        return dag.either(
            dag.conjunction((ends, dag.lt(ZERO, epoch), turns)),
            dag.both(few, dag.eq(image["next_producer_id"], NONE)),
        )

    known, image = s.known("known"), s.known("image")
    now, then = next_pair(known), next_pair(image)
    ends = dag.conjunction((is_ongoing(known), speaks_v2(), dag.negate(is_ongoing(image))))
    moves = dag.both(dag.negate(is_before(then, now)), implies(ends, is_before(now, then)))
    facts = (usable(image), moves, dag.le(ZERO, image["producer_epoch"]), APPENDS)
    coming = implies(counts(s, "image"), dag.conjunction(facts))
    return (), dag.both(usable(known), coming)


def markers_are_not_ahead(s: State) -> Formula:
    """No marker that was ever sent is ahead of what comes next."""
    sent = s.sent(P, E, OUTCOME, TERM)
    behind = dag.negate(is_before(next_pair(s.known("known")), (P, E)))
    return (P, E, OUTCOME, TERM), implies(sent, behind)


def written_is_not_ahead(s: State) -> Formula:
    """No epoch that a leader knows is ahead of what comes next; and with V2 what is open is open at
    the coordinator, or behind that."""
    known, here = s.known("known"), (P, entry(s, P)["producer_epoch"])
    behind = dag.negate(is_before(next_pair(known), here))
    opened = dag.both(is_ongoing(known), both_are(here, pair(known)))
    known_there = dag.either(is_before(here, next_pair(known)), opened)
    nothing = dag.both(dag.eq(here[1], NONE), dag.negate(is_open(s, P)))
    something = dag.both(behind, implies(speaks_v2(), is_open(s, P), known_there))
    return (P,), implies(dag.le(ZERO, P), dag.either(nothing, something))


def no_false_fencing(s: Lone) -> Formula:
    """The instance is never told that it is fenced."""
    return (), dag.negate(dag.eq(s.client.fields["state"], FATAL))


OF_LEADERS = (written_is_not_ahead,)
"""What is so of each leader."""
