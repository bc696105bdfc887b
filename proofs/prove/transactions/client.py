"""What holds of an instance of the application: whose each pair is, what it was told, and that this
is what readers see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from model.transactions.client_state import ClientState as Client
from model.transactions.client_state import Membership, Outcome, Write
from model.transactions.coordinator import TransactionState as Txn
from proofs.lift.dag import ZERO, Node, Operand, both, conjunction, const, disjunction, ite
from proofs.lift.values import Rec, Scalars
from proofs.prove.smt import Formula
from proofs.prove.transactions.coordinator import (
    COMPLETE,
    EPOCHS_END,
    MAX_EPOCH,
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
from proofs.prove.transactions.instances import InstanceState, T, is_of_group, its_pair, present
from proofs.prove.transactions.state import (
    HERE,
    NONE,
    TransactionsState,
    WithClient,
    both_are,
    is_before,
    pair,
)
from proofs.prove.unknowns import bound, number

N, SEQUENCE, U = bound("number"), bound("sequence"), bound("u")
ONE = const(1)


def one_of(node: Node, values: Iterable[Operand]) -> Node:
    """It is one of them."""
    return disjunction(node.eq(value) for value in values)


def state_of(s: WithClient) -> Node:
    """The client's state."""
    result: Node = s.client.state
    return result


def there(s: WithClient, place: Node) -> Rec:
    """A partition as the client sees it."""
    found: Rec = s.client.partitions.at(place)
    return found


def works(s: WithClient, place: Node) -> Node:
    """It is in the transaction, or to be added."""
    membership: Node = there(s, place).membership
    return ~membership.eq(Membership.OUT)


def is_asked(s: WithClient, place: Node) -> Node:
    """A request was sent that adds it, and was not answered."""
    membership: Node = there(s, place).membership
    return membership.eq(Membership.ASKED)


def witnesses(mark: str) -> dict[str, Node]:
    """A partition that works, and one that was asked for, if there are any."""
    return {name: number(f"{name}{mark}") for name in ("works_at", "asked_at")}


def are_witnesses(s: Any) -> tuple[Formula, ...]:
    """If any partition works, `works_at` does; if any was asked for, `asked_at` was."""
    return tuple(
        ((PLACE,), (inside(PLACE) & does(s, PLACE)).implies(inside(at) & does(s, at)))
        for does, at in ((works, s.works_at), (is_asked, s.asked_at))
    )


def sent_here(s: InstanceState, transaction: Node) -> Node:
    """How many records of a transaction the application has sent to the partition here."""
    result: Node = there(s, HERE).sent.at(transaction)
    return result


def outcome(s: InstanceState, transaction: Node) -> Node:
    """What the application asked for a transaction, or was told."""
    result: Node = s.client.outcomes.at(transaction)
    return result


def own_pair(s: WithClient) -> tuple[Node, Node]:
    """What the client holds."""
    return pair(s.client)


def has_begun(s: WithClient) -> Node:
    """A transaction is there, and the client is not finished."""
    return one_of(
        state_of(s),
        (Client.IN_TRANSACTION, Client.COMMITTING, Client.ABORTING, Client.ABORTABLE_ERROR),
    )


def is_started(s: InstanceState, transaction: Node) -> Node:
    """Something was sent in a transaction: it has its pair."""
    return some(s.its_id(transaction))


# What the client is


def client_speaks_v2(s: InstanceState) -> Formula:
    """A client of V2 has its pair from InitProducerId on, adds no partitions, and bumps nothing;
    where nothing was sent in a transaction, none is in it."""
    c, at = s.client, there(s, PLACE)
    state = state_of(s)
    new = one_of(state, (Client.UNINITIALIZED, Client.INITIALIZING))
    idle = one_of(state, (Client.UNINITIALIZED, Client.INITIALIZING, Client.READY)) | has_begun(s)
    rests = (
        at.membership.eq(Membership.OUT)
        & at.write.eq(Write.NONE)
        & at.written.eq(0)
        & at.next_sequence.eq(0)
    )
    nobody = both(*(field.eq(NONE) for field in own_pair(s)))
    member = at.membership.eq(Membership.OUT) | at.membership.eq(Membership.IN)
    facts = (
        ~c.must_bump,
        c.begun >= 0,
        new.implies(c.begun.eq(0)),
        new.implies(nobody),
        (state.eq(Client.READY) | has_begun(s)).implies(some(c.producer_id)),
        has_begun(s).implies(c.begun > 0),
        (new | state.eq(Client.READY)).implies(~c.is_started),
        one_of(state, (Client.COMMITTING, Client.ABORTING)).implies(c.is_started),
        (inside(PLACE) & idle).implies(member),
        (inside(PLACE) & idle & ~c.is_started).implies(rests),
    )
    return (PLACE,), conjunction(facts)


def writes_are_numbered(s: InstanceState) -> Formula:
    """Here a batch has its number for its sequence, also when it is sent again; a queued one will
    have. The group's offsets have none."""
    at = there(s, HERE)
    counted = (
        at.write.eq(Write.SENT).implies(at.next_sequence.eq(at.written))
        & at.write.eq(Write.QUEUED).implies(at.next_sequence.eq(at.written - 1))
        & (
            at.write.eq(Write.NONE)
            & one_of(state_of(s), (Client.IN_TRANSACTION, Client.COMMITTING))
        ).implies(at.next_sequence.eq(at.written))
    )
    waits = at.write.eq(Write.QUEUED) | at.write.eq(Write.SENT)
    first = waits.implies(at.written > 0)
    known = disjunction(at.write.eq(w) for w in (Write.NONE, Write.QUEUED, Write.SENT))
    parts = (
        at.written >= 0,
        known,
        has_begun(s).implies(first),
        (has_begun(s) & ~is_of_group()).implies(counted),
    )
    return (), conjunction(parts)


def sent_is_counted(s: InstanceState) -> Formula:
    """What the application has sent in the present transaction is what is written in it; nothing
    in those to come."""
    now = sent_here(s, present(s)).eq(there(s, HERE).written)
    later = (present(s) < T).implies(sent_here(s, T).eq(0))
    return (T,), has_begun(s).implies(now) & later & (sent_here(s, T) >= 0)


def outcomes_are_of_states(s: InstanceState) -> Formula:
    """The present transaction's outcome is what its state says; those to come are open."""
    state, now = state_of(s), outcome(s, present(s))
    said = (
        (Client.IN_TRANSACTION, (Outcome.OPEN,)),
        (Client.COMMITTING, (Outcome.COMMIT_ASKED,)),
        (Client.ABORTING, (Outcome.ABORT_ASKED,)),
        (Client.ABORTABLE_ERROR, (Outcome.OPEN, Outcome.COMMIT_ASKED)),
    )
    rows = (state.eq(which).implies(one_of(now, outcomes)) for which, outcomes in said)
    later = (present(s) < T).implies(outcome(s, T).eq(Outcome.OPEN))
    return (T,), conjunction((*rows, later))


# Whose a pair is


def below_the_last(s: TransactionsState) -> Formula:
    """Nobody was told the last epoch, where epochs end; nor does the id rest there."""

    def rests(image: Scalars) -> Node:
        return is_prepared(image) | (image.producer_epoch < MAX_EPOCH)

    answer = s.coordinator.answer.producer_epoch
    waits = s.coordinator.is_appending & is_answer(s)
    told = s.given(P, E).implies(E < MAX_EPOCH) & waits.implies(answer < MAX_EPOCH)
    counted = s.given(P, E).implies(E >= 0) & waits.implies(answer >= 0)
    last = EPOCHS_END.implies(told & images(s, rests))
    return (P, E), counted & last


def next_id_is_nobodys(s: TransactionsState) -> Formula:
    """A producer id that is not known yet was told to nobody; the id before is in the log too, and
    not after the present one; the epoch before is not in the log."""
    known, log = s.known("known"), s.known("log")

    def has(image: Scalars) -> Node:
        return one_of(P, (image.producer_id, image.next_producer_id))

    def unsaid(image: Scalars) -> Node:
        new = some(P) & has(image) & ~has(known)
        return new.implies(~s.given(P, E))

    def same(image: Scalars) -> Node:
        same = both_are(pair(image), pair(known))
        complete = same & one_of(image.state, COMPLETE) & one_of(known.state, COMPLETE)
        before = image.previous_producer_id.eq(known.previous_producer_id)
        return (EPOCHS_END & complete).implies(before)

    def past(known: Scalars) -> Node:
        first = ~(known.producer_epoch > 0)
        turned = one_of(known.state, COMPLETE) & first
        last = EPOCHS_END & known.producer_epoch.eq(MAX_EPOCH)
        rows = (
            known.previous_producer_id <= known.producer_id,
            is_prepared(known).implies(~first),
            some(known.next_producer_id).implies(last),
            turned.implies(known.previous_producer_id < known.producer_id),
            turned.implies(EPOCHS_END),
        )
        return known.state.eq(Txn.ABSENT) | conjunction(rows)

    unlogged = log.last_producer_epoch.eq(NONE)
    facts = (images(s, unsaid), unlogged, images(s, same), images(s, past))
    return (P, E), conjunction(facts)


def before_is_known(s: TransactionsState) -> Formula:
    """What ends a transaction remembers the pair that it ends, or has forgotten it."""

    def remembers(image: Scalars) -> Node:
        now, last = image.producer_epoch, image.last_producer_epoch
        turned = now.eq(0)
        before = ite(turned, MAX_EPOCH - 1, now - 1)
        own = one_of(image.previous_producer_id, (NONE, image.producer_id))
        ends = is_prepared(image) | one_of(image.state, COMPLETE)
        known = one_of(last, (NONE, before)) & (turned | own)
        return ends.implies(known)

    return (), images(s, remembers)


def pairs_have_one_owner(s: InstanceState) -> Formula:
    """A pair that the instance holds, or held, was told to no other; it holds the latest."""
    mine, theirs = s.holds_pair(P, E), s.others_hold(P, E)
    late = is_before(own_pair(s), (P, E))
    holds = some(own_pair(s)[0]).implies(s.holds_pair(*own_pair(s)))
    facts = (
        mine.implies(s.given(P, E) & ~theirs & ~late),
        mine.implies(some(own_pair(s)[0])),
        theirs.implies(s.given(P, E)),
        holds,
    )
    return (P, E), conjunction(facts)


def heirs_are_the_same(s: InstanceState) -> Formula:
    """Who ended a transaction, and nobody else, may have been told what its end makes known; and
    who showed the pair before, what it may be told again."""

    def same(image: Scalars) -> Node:
        now = (image.producer_id, image.producer_epoch)
        ends = is_prepared(image) | one_of(image.state, COMPLETE)
        first = image.producer_epoch.eq(0)
        before = (
            ite(first, image.previous_producer_id, image.producer_id),
            ite(first, MAX_EPOCH - 1, image.producer_epoch - 1),
        )
        coming = (image.next_producer_id, ZERO)
        theirs = s.holds_pair(*before) & (s.others_hold(*now) | s.others_hold(*coming))
        mine = s.others_hold(*before) & (s.holds_pair(*now) | s.holds_pair(*coming))
        return ends.implies(~(theirs | mine))

    def again(image: Scalars) -> Node:
        now = (image.producer_id, image.producer_epoch)
        last = image.last_producer_epoch
        shown = s.others_hold(image.producer_id, last) | s.others_hold(
            image.previous_producer_id, last
        )
        ours = s.holds_pair(*now) | s.holds_pair(image.next_producer_id, ZERO)
        is_open = image.state.eq(Txn.ONGOING)
        return is_open | shown.implies(~ours)

    return (), images(s, same) & images(s, again)


def transactions_have_pairs(s: InstanceState) -> Formula:
    """A transaction in which something was sent has the pair that the client held."""
    mine, now = its_pair(s, T), present(s)
    begun = is_started(s, T).implies((T >= 0) & (now >= T))
    past = (now > T) | state_of(s).eq(Client.READY)
    earlier = (is_started(s, T) & past).implies(is_before(mine, own_pair(s)))
    present_one = has_begun(s).implies(is_started(s, now).eq(s.client.is_started))
    holds = (has_begun(s) & s.client.is_started).implies(both_are(its_pair(s, now), own_pair(s)))
    owned = is_started(s, T).implies(s.holds_pair(*mine))
    return (T,), begun & earlier & present_one & holds & owned


def later_pairs_are_later(s: InstanceState) -> Formula:
    """No two transactions have one pair: a later one has a later pair."""
    started = is_started(s, T) & is_started(s, U)
    ordered = is_before(its_pair(s, T), its_pair(s, U))
    return (T, U), (started & (T < U)).implies(ordered)


# What it sends


def ends_are_asked(s: InstanceState) -> Formula:
    """EndTxn says what the application asked for, and nothing else is asked after it."""
    sent, commits = s.sent_end(T, OUTCOME), OUTCOME.eq(1)
    asked = ite(
        commits,
        one_of(outcome(s, T), (Outcome.COMMIT_ASKED, Outcome.COMMITTED)),
        one_of(outcome(s, T), (Outcome.ABORT_ASKED, Outcome.ABORTED)),
    )
    now = T.eq(present(s)) & has_begun(s)
    ending = state_of(s).eq(ite(commits, Client.COMMITTING, Client.ABORTING))
    facts = (
        (OUTCOME >= 0) & (OUTCOME <= 1),
        (T >= 0) & (present(s) >= T),
        asked,
        now.implies(ending),
    )
    return (T, OUTCOME), sent.implies(conjunction(facts))


def ends_wait_for_batches(s: InstanceState) -> Formula:
    """Once EndTxn is sent, no batch is unfinished."""
    sent = s.sent_end(present(s), ZERO) | s.sent_end(present(s), ONE)
    finished = there(s, PLACE).write.eq(Write.NONE)
    return (PLACE,), (sent & has_begun(s) & inside(PLACE)).implies(finished)


def batches_are_sent(s: InstanceState) -> Formula:
    """A batch that was sent is one of its transaction's records."""
    sent = s.sent_batch(T, N)
    facts = (is_started(s, T), present(s) >= T, N >= 0, sent_here(s, T) > N)
    return (T, N), sent.implies(conjunction(facts))
