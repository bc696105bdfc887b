"""A single instance whose requests are never delayed is never fenced.

Theory of operation. Here the rules of the world move the world as they stand, with one instance,
its coordinator, and the partition of each step, which is any: what is so of the leader here is so
of each. Nothing of the instance is late; markers may be, and answers may be lost. What the
coordinator knows then is what the instance expects (`in_step`): of its first pair, or of the next
that it asks for (`is_asking`); or nothing yet of the transaction that it is in, if any (`is_next`);
or that, perhaps on its way to the log (`is_coming`, `is_registered`); or its end, of which the
instance has not heard (`is_ended`).
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature

from model.transactions.client_state import ClientState as Client
from model.transactions.client_state import Membership, Write
from model.transactions.coordinator import TransactionState as Txn
from proofs.lift.containers import FocusMap
from proofs.lift.dag import ZERO, Node, Operand, conjunction, const, disjunction, ite, leaf
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Scalars
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.client import (
    are_witnesses,
    has_begun,
    is_asked,
    one_of,
    own_pair,
    there,
    witnesses,
    works,
)
from proofs.prove.transactions.coordinator import (
    COMPLETE,
    EPOCHS_END,
    EXHAUSTED,
    OUTCOME,
    PLACE,
    PREPARED,
    RULES,
    SIZES,
    TERM,
    E,
    P,
    counts,
    inside,
    is_complete,
    is_ongoing,
    is_prepared,
    is_same,
    is_unlogged,
    some,
)
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.state import (
    HERE,
    NONE,
    TransactionsState,
    WithClient,
    any_leader,
    both_are,
    extend,
    is_before,
    pair,
    with_ghosts,
)
from proofs.prove.transactions.steps import Transactions, merged
from proofs.prove.unknowns import number

PARTITION = number("partition")
"""The partition of a step."""
APPENDS = SIZES["Bounds", "appends"]
CHOICES = {
    "instance": ZERO,
    "partition": PARTITION,
    **{n: leaf(n, 0, 1) for n in ("heard", "waits")},
}


@dataclass(frozen=True, slots=True)
class SoleInstanceState(WithClient):
    """A state with the only instance in it; a partition that is not out of its transaction, and one
    that it has asked to add, if there are any."""

    works_at: Node
    asked_at: Node


class SoleInstanceSteps(Transactions):
    """The rules of the world, with one instance of which nothing is late."""

    before: SoleInstanceState

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        client = self.unknowns.record(model.client.Client, "w.clients", (ZERO,))
        self.before = extend(SoleInstanceState, self.before, client=client, **witnesses(""))

    def initial(self) -> SoleInstanceState:
        """Nobody has begun."""
        client = self.world.clients.at(ZERO)
        return extend(SoleInstanceState, super().initial(), client=client, **witnesses(""))

    def named(self, name: str) -> ProofStep:
        """A rule of the world; or what is late of markers."""
        return self.rule(name) if name in self.model.rules else super().named(name)

    def rule(self, name: str) -> ProofStep:
        """A rule of the world, at any partition."""
        evaluator, before = self.evaluator(), self.before
        function = self.model.rules[name]
        names = list(signature(function).parameters)[2:]
        there = any_leader(self.model, self.unknowns, PARTITION)
        nobody = self.world.leaders.at(PARTITION)
        world = Rec(
            self.world.cls,
            {
                **self.world.fields,
                "clients": MapValue((before.client,)),
                "coordinator": before.coordinator,
                "leaders": FocusMap(PARTITION, there, nobody),
            },
        )
        after = evaluator.call(function, [self.k, world, *(CHOICES[n] for n in names)])
        here = merged(evaluator, PARTITION.eq(HERE), after.leaders.value, before.leader)
        moved = with_ghosts(
            before,
            coordinator=after.coordinator,
            leader=before.leader if after.leaders.value is there else here,
        )
        alike = (formula(with_ghosts(before, leader=there)) for formula in OF_LEADERS)
        state = with_ghosts(moved, client=after.clients.slots[0], **witnesses("'"))
        return self.make_step(name, evaluator, state, ((), inside(PARTITION)), *alike)

    def make_step(
        self, name: str, evaluator: UnboundedEvaluator, after: TransactionsState, *more: Formula
    ) -> ProofStep:
        """The step; partitions stand for those that there are."""
        assert isinstance(after, SoleInstanceState)
        return super().make_step(name, evaluator, after, *more, *are_witnesses(after))


# What the coordinator knows, as the instance expects it


def speaks_v2() -> Node:
    """Clients speak V2."""
    return RULES["Variant", "requests"].eq(2)


def in_turn() -> Formula:
    """Where V2 is spoken, a coordinator that is busy says so first (KAFKA-18660); where V1 is,
    epochs do not end: two answers that are lost at the last one would fence who asks again."""
    busy_first = RULES["Variant", "pending"].eq(0)
    return (), ite(speaks_v2(), busy_first, ~EPOCHS_END)


def is_finished(image: Scalars) -> Node:
    """No transaction is open, and the next one can begin."""
    return one_of(image.state, (Txn.EMPTY, *COMPLETE))


def next_pair(image: Scalars) -> tuple[Node, Node]:
    """The producer id and epoch of the next transaction: with V2, once this one is ended."""
    rotates = is_prepared(image) & some(image.next_producer_id)
    return (
        ite(rotates, image.next_producer_id, image.producer_id),
        ite(rotates, 0, image.producer_epoch),
    )


def is_exhausted(epoch: Node) -> Node:
    """No client may use a later epoch, and none does."""
    return EPOCHS_END & EXHAUSTED.eq(epoch)


def becomes(s: SoleInstanceState, *says: Node) -> Node:
    """What is on its way, if anything is, is one of these."""
    return counts(s, "image").implies(disjunction(says))


def completes(s: SoleInstanceState) -> Node:
    """What is on its way completes what is prepared."""
    known, image = s.known("known"), s.known("image")
    return is_prepared(known) & is_complete(image)


def is_ending(s: SoleInstanceState, image: Scalars, commit: Operand, abort: Operand) -> Node:
    """The end that the instance asks for, in one of its states; with V2 it is one epoch ahead, or
    behind the last the next producer id's."""
    state: Node = s.client.state
    commits = state.eq(Client.COMMITTING) & image.state.eq(commit)
    aborts = state.eq(Client.ABORTING) & image.state.eq(abort)
    (my_id, my_epoch), last = own_pair(s), is_exhausted(own_pair(s)[1])
    same_id = image.producer_id.eq(my_id)
    turns = some(image.next_producer_id).eq(last)
    bumped = same_id & image.producer_epoch.eq(my_epoch + 1) & is_prepared(image).implies(turns)
    turned = (
        is_complete(image)
        & last
        & image.previous_producer_id.eq(my_id)
        & image.producer_epoch.eq(0)
    )
    ahead = ite(speaks_v2(), bumped | turned, both_are(pair(image), own_pair(s)))
    return (commits | aborts) & ahead


def is_next(s: SoleInstanceState) -> Node:
    """What the instance does next is not known to the coordinator yet."""
    known, image = s.known("known"), s.known("image")
    rests = is_finished(known) | is_prepared(known)
    same = both_are(next_pair(image), own_pair(s))
    return rests & both_are(next_pair(known), own_pair(s)) & becomes(s, completes(s) & same)


def is_coming(s: SoleInstanceState, *states: Node) -> Node:
    """What the instance does next is on its way to the log: a partition, or an abort of nothing."""
    known, image = s.known("known"), s.known("image")
    rests = counts(s, "image") & is_finished(known) & both_are(pair(known), own_pair(s))
    adds = is_ongoing(image) & both_are(pair(image), own_pair(s))
    aborts = image.state.eq(Txn.PREPARE_ABORT) & is_ending(s, image, *PREPARED)
    return rests & (adds | speaks_v2() & aborts)


def is_registered(s: SoleInstanceState) -> Node:
    """The instance's transaction is open at the coordinator, or its end is on its way."""
    known, image = s.known("known"), s.known("image")
    goes_on = is_ongoing(image) & both_are(pair(image), own_pair(s))
    ends = is_ending(s, image, *PREPARED)
    return is_ongoing(known) & both_are(pair(known), own_pair(s)) & becomes(s, goes_on, ends)


def is_ended(s: SoleInstanceState) -> Node:
    """The end that the instance asks for is known, or complete."""
    known, image = s.known("known"), s.known("image")
    prepared = is_ending(s, known, *PREPARED)
    complete = is_ending(s, known, *COMPLETE)
    done = completes(s) & is_ending(s, image, *COMPLETE)
    return (prepared | complete) & becomes(s, done)


def is_bumped(s: SoleInstanceState, image: Scalars) -> Node:
    """The next epoch that the instance has asked for, or the next producer id."""
    my_id, my_epoch = own_pair(s)
    before = image.previous_producer_id.eq(my_id)
    mine = image.producer_id.eq(my_id) | before & is_exhausted(my_epoch)
    last = image.last_producer_epoch.eq(my_epoch)
    return image.state.eq(Txn.EMPTY) & last & mine


def is_asking(s: SoleInstanceState) -> Node:
    """What the coordinator knows while the instance asks for its first pair, or for the next."""
    known, image = s.known("known"), s.known("image")
    nobody = known.state.eq(Txn.ABSENT) & ~counts(s, "image")
    there = known.state.eq(Txn.EMPTY) & becomes(s, image.state.eq(Txn.EMPTY))
    first = own_pair(s)[0].eq(NONE) & (nobody | there)
    rests = is_finished(known) | is_prepared(known)
    old = completes(s) & both_are(pair(image), own_pair(s))
    new = is_finished(known) & is_bumped(s, image)
    begins = rests & both_are(pair(known), own_pair(s)) & becomes(s, old, new)
    bumped = is_bumped(s, known) & becomes(s, is_bumped(s, image))
    again = some(own_pair(s)[0]) & ~speaks_v2() & (begins | bumped)
    return first | again


# Clauses


def in_step(s: SoleInstanceState) -> Formula:
    """The coordinator knows what the instance expects."""
    state, c = s.client.state, s.client
    nobody = s.known("known").state.eq(Txn.ABSENT) & ~counts(s, "image") & own_pair(s)[0].eq(NONE)
    asked = inside(s.asked_at) & is_asked(s, s.asked_at)
    added = asked & (is_coming(s) | is_registered(s))
    unstarted = is_next(s) | ~speaks_v2() & added
    unknown = speaks_v2() & (is_next(s) | is_coming(s))
    started = is_registered(s) | is_ended(s) | unknown
    begun = ite(c.is_started, started, unstarted)
    has_pair = state.eq(Client.READY) | has_begun(s)
    return (), (
        state.eq(Client.UNINITIALIZED).implies(nobody)
        & state.eq(Client.INITIALIZING).implies(is_asking(s))
        & state.eq(Client.READY).implies(is_next(s))
        & has_begun(s).implies(begun)
        & has_pair.implies(some(own_pair(s)[0]) & (own_pair(s)[1] >= 0))
        & (own_pair(s)[0] >= NONE)
    )


def ends_are_quiet(s: SoleInstanceState) -> Formula:
    """Once the end of a transaction is on its way, no batch is unfinished, and no partition is to
    be added."""
    ends = counts(s, "image") & is_prepared(s.known("image"))
    over = has_begun(s) & s.client.is_started & (ends | is_ended(s))
    at = there(s, PLACE)
    quiet = at.write.eq(Write.NONE) & one_of(at.membership, (ZERO, Membership.IN))
    return (PLACE,), (inside(PLACE) & over).implies(quiet)


def acked_is_registered(s: SoleInstanceState) -> Formula:
    """With V2, once a batch has its answer, the coordinator knows of the transaction."""
    works_on = one_of(s.client.state, (Client.IN_TRANSACTION, Client.COMMITTING))
    at = there(s, PLACE)
    acked = at.membership.eq(Membership.IN) & at.write.eq(Write.NONE)
    known = is_registered(s) | is_ended(s)
    started = works_on & s.client.is_started
    return (PLACE,), (inside(PLACE) & speaks_v2() & started & acked).implies(known)


def ends_have_work(s: SoleInstanceState) -> Formula:
    """A transaction that is ended by a request has a partition; with V2, once it has begun; and
    nothing is added there by a request."""
    state, started = s.client.state, s.client.is_started
    has = inside(s.works_at) & works(s, s.works_at)
    ending = one_of(state, (Client.COMMITTING, Client.ABORTING)) & ~started
    begun = has_begun(s) & started & speaks_v2()
    lives = has_begun(s) | state.eq(Client.READY)
    membership = there(s, PLACE).membership
    member = one_of(membership, (ZERO, Membership.IN))
    adds, write = one_of(membership, (const(1), Membership.ASKED)), there(s, PLACE).write
    facts = (
        ending.implies(has & ~speaks_v2()),
        begun.implies(has),
        state.eq(Client.ABORTABLE_ERROR).implies(started),
        speaks_v2().implies(~s.client.must_bump),
        state.eq(Client.READY).implies(~started),
        one_of(state, (Client.UNINITIALIZED, Client.INITIALIZING)).implies(~started),
        (inside(PLACE) & speaks_v2() & lives).implies(member),
        (inside(PLACE) & lives).implies(
            one_of(membership, (ZERO, const(1), Membership.ASKED, Membership.IN))
        ),
        (inside(PLACE) & state.eq(Client.IN_TRANSACTION) & adds).implies(write.eq(Write.QUEUED)),
    )
    return (PLACE,), conjunction(facts)


def who_waits_is_answered(s: SoleInstanceState) -> Formula:
    """Where the instance waits for an append, the answer is of what it asks for, or has asked for
    before it aborts."""
    c, image, state = s.coordinator, s.known("image"), s.client.state
    answer = c.answer
    begins = (
        state.eq(Client.INITIALIZING)
        & image.state.eq(Txn.EMPTY)
        & both_are(pair(answer), pair(image))
    )
    asks = inside(s.asked_at) & is_asked(s, s.asked_at)
    has_asked = state.eq(Client.ABORTING) & s.client.is_started
    adds = has_begun(s) & is_ongoing(image) & (asks | has_asked)
    told = speaks_v2().implies(both_are(pair(answer), next_pair(image)))
    ends = (
        one_of(state, (Client.COMMITTING, Client.ABORTING))
        & s.client.is_started
        & is_prepared(image)
        & told
    )
    waits = answer.error.eq(0) & (begins | adds & ~speaks_v2() | ends)
    nobody = c.requester.eq(NONE)
    busy = counts(s, "image") & c.requester.eq(0)
    return (), (nobody | busy) & (nobody | waits)


def log_is_memory(s: TransactionsState) -> Formula:
    """What is known is in the log."""
    known, log = s.known("known"), s.known("log")
    kept = one_of(log.next_producer_id, (NONE, known.next_producer_id))
    return (), is_unlogged(s, log) | is_same(known, log) & kept


def epochs_are_usable(s: TransactionsState) -> Formula:
    """Only what is prepared with V2 has the last epoch, and then it names the producer id that is
    to come; what is on its way is not behind what is known, and with V2 an end is ahead."""

    def usable(image: Scalars) -> Node:
        ends = is_prepared(image) & speaks_v2()
        epoch = image.producer_epoch
        few = EPOCHS_END.implies(epoch <= EXHAUSTED)
        turns = few | some(image.next_producer_id)
        return ends & (epoch > 0) & turns | few & image.next_producer_id.eq(NONE)

    known, image = s.known("known"), s.known("image")
    now, then = next_pair(known), next_pair(image)
    ends = is_ongoing(known) & speaks_v2() & ~is_ongoing(image)
    moves = ~is_before(then, now) & ends.implies(is_before(now, then))
    facts = (usable(image), moves, image.producer_epoch >= 0, APPENDS)
    coming = counts(s, "image").implies(conjunction(facts))
    return (), usable(known) & coming


def markers_are_not_ahead(s: TransactionsState) -> Formula:
    """No marker that was ever sent is ahead of what comes next."""
    sent = s.sent(P, E, OUTCOME, TERM)
    behind = ~is_before(next_pair(s.known("known")), (P, E))
    return (P, E, OUTCOME, TERM), sent.implies(behind)


def written_is_not_ahead(s: TransactionsState) -> Formula:
    """No epoch that a leader knows is ahead of what comes next; and with V2 what is open is open at
    the coordinator, or behind that."""
    known, here = s.known("known"), (P, entry(s, P).producer_epoch)
    behind = ~is_before(next_pair(known), here)
    opened = is_ongoing(known) & both_are(here, pair(known))
    known_there = is_before(here, next_pair(known)) | opened
    nothing = here[1].eq(NONE) & ~is_open(s, P)
    something = behind & (speaks_v2() & is_open(s, P)).implies(known_there)
    return (P,), (P >= 0).implies(nothing | something)


def no_false_fencing(s: SoleInstanceState) -> Formula:
    """The instance is never told that it is fenced."""
    return (), ~s.client.state.eq(Client.FATAL_ERROR)


OF_LEADERS = (written_is_not_ahead,)
"""What is so of each leader."""
