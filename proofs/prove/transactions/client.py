"""What holds of an instance of the application: whose each pair is, what it was told, and that this
is what readers see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.prove.clauses import Formula, implies
from proofs.prove.transactions.coordinator import (
    ABSENT,
    COMPLETE,
    EPOCHS_END,
    MAX_EPOCH,
    ONGOING,
    OUTCOME,
    PLACE,
    E,
    P,
    images,
    inside,
    is_answer,
    is_prepared,
    some,
)
from proofs.prove.transactions.instances import Instance, T, is_of_group, its_pair, present
from proofs.prove.transactions.state import HERE, NONE, State, both_are, is_before
from proofs.prove.unknowns import number

N, SEQUENCE, U = number("number"), number("sequence"), number("u")
ONE = const(1)
UNINITIALIZED, INITIALIZING, READY, IN_TRANSACTION, COMMITTING, ABORTING, ABORTABLE, FATAL = (
    const(i) for i in range(8)
)
OUT, IN = const(0), const(3)
NOTHING, QUEUED, SENT = (const(i) for i in range(3))
CONCURRENT = const(51)
OPEN, COMMIT_ASKED, COMMITTED, ABORT_ASKED, ABORTED = (const(i) for i in range(5))


def one_of(node: Node, values: Iterable[Node]) -> Node:
    """It is one of them."""
    return dag.disjunction(dag.eq(node, value) for value in values)


def state_of(s: Instance) -> Node:
    """The client's state."""
    result: Node = s.client.fields["state"]
    return result


def there(s: Instance, place: Node) -> dict[str, Any]:
    """A partition as the client sees it."""
    return dict(s.client.fields["partitions"].at(place).fields)


def sent_here(s: Instance, transaction: Node) -> Node:
    """How many records of a transaction the application has sent to the partition here."""
    result: Node = there(s, HERE)["sent"].at(transaction)
    return result


def outcome(s: Instance, transaction: Node) -> Node:
    """What the application asked for a transaction, or was told."""
    result: Node = s.client.fields["outcomes"].at(transaction)
    return result


def own_pair(s: Instance) -> tuple[Node, Node]:
    """What the client holds."""
    return s.client.fields["producer_id"], s.client.fields["producer_epoch"]


def has_begun(s: Instance) -> Node:
    """A transaction is there, and the client is not finished."""
    return one_of(state_of(s), (IN_TRANSACTION, COMMITTING, ABORTING, ABORTABLE))


def is_started(s: Instance, transaction: Node) -> Node:
    """Something was sent in a transaction: it has its pair."""
    return some(s.its_id(transaction))


# What the client is


def client_speaks_v2(s: Instance) -> Formula:
    """A client of V2 has its pair from InitProducerId on, adds no partitions, and bumps nothing;
    where nothing was sent in a transaction, none is in it."""
    c, at = s.client.fields, there(s, PLACE)
    state = state_of(s)
    new = one_of(state, (UNINITIALIZED, INITIALIZING))
    idle = dag.either(one_of(state, (UNINITIALIZED, INITIALIZING, READY)), has_begun(s))
    rests = dag.conjunction(
        (
            dag.eq(at["membership"], OUT),
            dag.eq(at["write"], NOTHING),
            dag.eq(at["written"], ZERO),
            dag.eq(at["next_sequence"], ZERO),
        )
    )
    nobody = dag.both(*(dag.eq(field, NONE) for field in own_pair(s)))
    member = dag.either(dag.eq(at["membership"], OUT), dag.eq(at["membership"], IN))
    facts = (
        dag.negate(c["must_bump"]),
        dag.le(ZERO, c["begun"]),
        implies(new, dag.eq(c["begun"], ZERO)),
        implies(new, nobody),
        implies(dag.either(dag.eq(state, READY), has_begun(s)), some(c["producer_id"])),
        implies(has_begun(s), dag.lt(ZERO, c["begun"])),
        implies(dag.either(new, dag.eq(state, READY)), dag.negate(c["is_started"])),
        implies(one_of(state, (COMMITTING, ABORTING)), c["is_started"]),
        implies(dag.both(inside(PLACE), idle), member),
        implies(dag.conjunction((inside(PLACE), idle, dag.negate(c["is_started"]))), rests),
    )
    return (PLACE,), dag.conjunction(facts)


def writes_are_numbered(s: Instance) -> Formula:
    """Here a batch has its number for its sequence, also when it is sent again; a queued one will
    have. The group's offsets have none."""
    at = there(s, HERE)
    counted = dag.conjunction(
        (
            implies(dag.eq(at["write"], SENT), dag.eq(at["next_sequence"], at["written"])),
            implies(
                dag.eq(at["write"], QUEUED),
                dag.eq(at["next_sequence"], dag.sub(at["written"], ONE)),
            ),
            implies(
                dag.both(
                    dag.eq(at["write"], NOTHING),
                    one_of(state_of(s), (IN_TRANSACTION, COMMITTING)),
                ),
                dag.eq(at["next_sequence"], at["written"]),
            ),
        )
    )
    waits = dag.either(dag.eq(at["write"], QUEUED), dag.eq(at["write"], SENT))
    first = implies(waits, dag.lt(ZERO, at["written"]))
    known = dag.disjunction(dag.eq(at["write"], w) for w in (NOTHING, QUEUED, SENT))
    parts = (
        dag.le(ZERO, at["written"]),
        known,
        implies(has_begun(s), first),
        implies(dag.both(has_begun(s), dag.negate(is_of_group())), counted),
    )
    return (), dag.conjunction(parts)


def sent_is_counted(s: Instance) -> Formula:
    """What the application has sent in the present transaction is what is written in it; nothing
    in those to come."""
    now = dag.eq(sent_here(s, present(s)), there(s, HERE)["written"])
    later = implies(dag.lt(present(s), T), dag.eq(sent_here(s, T), ZERO))
    return (T,), dag.conjunction((implies(has_begun(s), now), later, dag.le(ZERO, sent_here(s, T))))


def outcomes_are_of_states(s: Instance) -> Formula:
    """The present transaction's outcome is what its state says; those to come are open."""
    state, now = state_of(s), outcome(s, present(s))
    said = (
        (IN_TRANSACTION, (OPEN,)),
        (COMMITTING, (COMMIT_ASKED,)),
        (ABORTING, (ABORT_ASKED,)),
        (ABORTABLE, (OPEN, COMMIT_ASKED)),
    )
    rows = (implies(dag.eq(state, which), one_of(now, outcomes)) for which, outcomes in said)
    later = implies(dag.lt(present(s), T), dag.eq(outcome(s, T), OPEN))
    return (T,), dag.conjunction((*rows, later))


# Whose a pair is


def below_the_last(s: State) -> Formula:
    """Nobody was told the last epoch, where epochs end; nor does the id rest there."""

    def rests(image: dict[str, Any]) -> Node:
        return dag.either(is_prepared(image), dag.lt(image["producer_epoch"], MAX_EPOCH))

    answer = s.coordinator.fields["answer"].fields["producer_epoch"]
    waits = dag.both(s.coordinator.fields["is_appending"], is_answer(s))
    told = dag.both(
        implies(s.given(P, E), dag.lt(E, MAX_EPOCH)), implies(waits, dag.lt(answer, MAX_EPOCH))
    )
    counted = dag.both(
        implies(s.given(P, E), dag.le(ZERO, E)), implies(waits, dag.le(ZERO, answer))
    )
    last = implies(EPOCHS_END, dag.both(told, images(s, rests)))
    return (P, E), dag.both(counted, last)


def next_id_is_nobodys(s: State) -> Formula:
    """A producer id that is not known yet was told to nobody; the id before is in the log too, and
    not after the present one; the epoch before is not in the log."""
    known, log = s.known("known"), s.known("log")

    def has(image: dict[str, Any]) -> Node:
        return one_of(P, (image["producer_id"], image["next_producer_id"]))

    def unsaid(image: dict[str, Any]) -> Node:
        new = dag.conjunction((some(P), has(image), dag.negate(has(known))))
        return implies(new, dag.negate(s.given(P, E)))

    def same(image: dict[str, Any]) -> Node:
        mine = (dag.eq(image[f], known[f]) for f in ("producer_id", "producer_epoch"))
        complete = dag.conjunction((*mine, *(one_of(x["state"], COMPLETE) for x in (image, known))))
        before = dag.eq(image["previous_producer_id"], known["previous_producer_id"])
        return implies(EPOCHS_END, complete, before)

    def past(known: dict[str, Any]) -> Node:
        first = dag.negate(dag.lt(ZERO, known["producer_epoch"]))
        turned = dag.both(one_of(known["state"], COMPLETE), first)
        last = dag.both(EPOCHS_END, dag.eq(known["producer_epoch"], MAX_EPOCH))
        rows = (
            dag.le(known["previous_producer_id"], known["producer_id"]),
            implies(is_prepared(known), dag.negate(first)),
            implies(some(known["next_producer_id"]), last),
            implies(turned, dag.lt(known["previous_producer_id"], known["producer_id"])),
            implies(turned, EPOCHS_END),
        )
        return dag.either(dag.eq(known["state"], ABSENT), dag.conjunction(rows))

    unlogged = dag.eq(log["last_producer_epoch"], NONE)
    facts = (images(s, unsaid), unlogged, images(s, same), images(s, past))
    return (P, E), dag.conjunction(facts)


def before_is_known(s: State) -> Formula:
    """What ends a transaction remembers the pair that it ends, or has forgotten it."""

    def remembers(image: dict[str, Any]) -> Node:
        now, last = image["producer_epoch"], image["last_producer_epoch"]
        turned = dag.eq(now, ZERO)
        before = dag.ite(turned, dag.sub(MAX_EPOCH, ONE), dag.sub(now, ONE))
        own = one_of(image["previous_producer_id"], (NONE, image["producer_id"]))
        ends = dag.either(is_prepared(image), one_of(image["state"], COMPLETE))
        known = dag.both(one_of(last, (NONE, before)), dag.either(turned, own))
        return implies(ends, known)

    return (), images(s, remembers)


def pairs_have_one_owner(s: Instance) -> Formula:
    """A pair that the instance holds, or held, was told to no other; it holds the latest."""
    mine, theirs = s.mine(P, E), s.theirs(P, E)
    late = is_before(own_pair(s), (P, E))
    holds = implies(some(own_pair(s)[0]), s.mine(*own_pair(s)))
    facts = (
        implies(mine, dag.conjunction((s.given(P, E), dag.negate(theirs), dag.negate(late)))),
        implies(mine, some(own_pair(s)[0])),
        implies(theirs, s.given(P, E)),
        holds,
    )
    return (P, E), dag.conjunction(facts)


def heirs_are_the_same(s: Instance) -> Formula:
    """Who ended a transaction, and nobody else, may have been told what its end makes known; and
    who showed the pair before, what it may be told again."""

    def same(image: dict[str, Any]) -> Node:
        now = (image["producer_id"], image["producer_epoch"])
        ends = dag.either(is_prepared(image), one_of(image["state"], COMPLETE))
        first = dag.eq(image["producer_epoch"], ZERO)
        before = (
            dag.ite(first, image["previous_producer_id"], image["producer_id"]),
            dag.ite(first, dag.sub(MAX_EPOCH, ONE), dag.sub(image["producer_epoch"], ONE)),
        )
        coming = (image["next_producer_id"], ZERO)
        theirs = dag.both(s.mine(*before), dag.either(s.theirs(*now), s.theirs(*coming)))
        mine = dag.both(s.theirs(*before), dag.either(s.mine(*now), s.mine(*coming)))
        return implies(ends, dag.negate(dag.either(theirs, mine)))

    def again(image: dict[str, Any]) -> Node:
        now = (image["producer_id"], image["producer_epoch"])
        last = image["last_producer_epoch"]
        shown = dag.either(
            s.theirs(image["producer_id"], last), s.theirs(image["previous_producer_id"], last)
        )
        ours = dag.either(s.mine(*now), s.mine(image["next_producer_id"], ZERO))
        is_open = dag.eq(image["state"], ONGOING)
        return dag.either(is_open, implies(shown, dag.negate(ours)))

    return (), dag.both(images(s, same), images(s, again))


def transactions_have_pairs(s: Instance) -> Formula:
    """A transaction in which something was sent has the pair that the client held."""
    mine, now = its_pair(s, T), present(s)
    begun = implies(is_started(s, T), dag.both(dag.le(ZERO, T), dag.le(T, now)))
    past = dag.either(dag.lt(T, now), dag.eq(state_of(s), READY))
    earlier = implies(dag.both(is_started(s, T), past), is_before(mine, own_pair(s)))
    present_one = implies(has_begun(s), dag.eq(is_started(s, now), s.client.fields["is_started"]))
    holds = implies(
        dag.both(has_begun(s), s.client.fields["is_started"]),
        both_are(its_pair(s, now), own_pair(s)),
    )
    owned = implies(is_started(s, T), s.mine(*mine))
    return (T,), dag.conjunction((begun, earlier, present_one, holds, owned))


def later_pairs_are_later(s: Instance) -> Formula:
    """No two transactions have one pair: a later one has a later pair."""
    started = dag.both(is_started(s, T), is_started(s, U))
    ordered = is_before(its_pair(s, T), its_pair(s, U))
    return (T, U), implies(started, dag.lt(T, U), ordered)


# What it sends


def ends_are_asked(s: Instance) -> Formula:
    """EndTxn says what the application asked for, and nothing else is asked after it."""
    sent, commits = s.sent_end(T, OUTCOME), dag.eq(OUTCOME, ONE)
    asked = dag.ite(
        commits,
        one_of(outcome(s, T), (COMMIT_ASKED, COMMITTED)),
        one_of(outcome(s, T), (ABORT_ASKED, ABORTED)),
    )
    now = dag.both(dag.eq(T, present(s)), has_begun(s))
    ending = dag.eq(state_of(s), dag.ite(commits, COMMITTING, ABORTING))
    facts = (
        dag.both(dag.le(ZERO, OUTCOME), dag.le(OUTCOME, ONE)),
        dag.both(dag.le(ZERO, T), dag.le(T, present(s))),
        asked,
        implies(now, ending),
    )
    return (T, OUTCOME), implies(sent, dag.conjunction(facts))


def ends_wait_for_batches(s: Instance) -> Formula:
    """Once EndTxn is sent, no batch is unfinished."""
    sent = dag.either(s.sent_end(present(s), ZERO), s.sent_end(present(s), ONE))
    finished = dag.eq(there(s, PLACE)["write"], NOTHING)
    return (PLACE,), implies(sent, has_begun(s), inside(PLACE), finished)


def batches_are_sent(s: Instance) -> Formula:
    """A batch that was sent is one of its transaction's records."""
    sent = s.sent_batch(T, N)
    facts = (
        is_started(s, T),
        dag.le(T, present(s)),
        dag.le(ZERO, N),
        dag.lt(N, sent_here(s, T)),
    )
    return (T, N), implies(sent, dag.conjunction(facts))
