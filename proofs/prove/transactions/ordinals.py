"""Transaction ordinals: with V1 an instance reuses one (producer id, epoch) for many transactions,
so transactions are counted. What an instance is answered was decided of its own transaction, and is
what readers see.

Theory of operation. Coordinators count transactions as they complete (`turn`). `its_turn` is the
turn in which a transaction of ME was open: the one in which ME has heard that a partition is in
it. Nothing of ME is late: a request of it arrives while it waits for the answer, or never
(`requests_on_time`, `batches_on_time`); nor is a marker (`markers_on_time`). Others may do anything
at any time, but that nobody uses a pair that only somebody else was told. Where a transaction must
be ended, `works_at` is a partition that is in it, or is to be, and `asked_at` one that was asked
for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from model.transactions.client_state import ClientState as Client
from model.transactions.client_state import Membership, Outcome, Write
from model.transactions.coordinator import TransactionState as Txn
from model.transactions.leader import Kind
from model.transactions.messages import Error
from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, Operand, conjunction, const, ite
from proofs.lift.source import Model
from proofs.lift.values import Rec, Scalars
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.acknowledgements import is_own_record
from proofs.prove.transactions.client import (
    ONE,
    are_witnesses,
    has_begun,
    is_asked,
    is_started,
    one_of,
    outcome,
    own_pair,
    state_of,
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
    E,
    P,
    counts,
    images,
    inside,
    is_answer,
    is_complete,
    is_ongoing,
    is_prepared,
    is_same,
    some,
)
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.instances import (
    ME,
    Instances,
    InstanceState,
    T,
    instance_of,
    is_instance,
    its_pair,
    present,
)
from proofs.prove.transactions.partition import I, entry, in_log, in_transaction, is_open, log
from proofs.prove.transactions.state import (
    NONE,
    Image,
    TransactionsState,
    both_are,
    extend,
    pair,
    with_ghosts,
)
from proofs.prove.transactions.steps import SENDERS, merged
from proofs.prove.unknowns import Predicate, function, never, truth

BEHIND = ("log", "image")


@dataclass(frozen=True, slots=True)
class OrdinalState(InstanceState):
    """A state in which each transaction of the instance has its turn."""

    its_turn: Predicate
    works_at: Node
    asked_at: Node


class OrdinalSteps(Instances):
    """The steps of an instance that is on time, and of others who need not be."""

    before: OrdinalState

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        self.before = extend(
            OrdinalState, self.before, its_turn=function("its_turn"), **witnesses("")
        )

    def initial(self) -> OrdinalState:
        """Nobody has begun."""
        return extend(OrdinalState, super().initial(), its_turn=never(NONE), **witnesses(""))

    def named(self, name: str) -> ProofStep:
        """A step by its name."""
        return ON_TIME[name](self) if name in ON_TIME else super().named(name)

    def make_step(
        self, name: str, evaluator: UnboundedEvaluator, after: TransactionsState, *more: Formula
    ) -> ProofStep:
        """The step. A record is of the turn in which it comes into the log."""
        assert isinstance(after, OrdinalState)
        counted: Formula = ((), SENDERS.eq(self.before.turn))
        after = with_ghosts(after, **witnesses("'"))
        return super().make_step(name, evaluator, after, counted, *are_witnesses(after), *more)

    def with_client(self, client: Rec, state: InstanceState | None = None) -> InstanceState:
        """The instance after a step. A transaction has its turn once it is started."""
        after = super().with_client(client, state)
        assert isinstance(after, OrdinalState)
        before = self.before
        started = before.client.is_started
        begins = client.is_started & ~started
        mine, old = present(before), after.its_turn
        return with_ghosts(after, its_turn=lambda t: ite(begins & t.eq(mine), before.turn, old(t)))

    def append_is_heard(self, step: ProofStep, answer: Rec) -> ProofStep:
        """The instance hears of an append, if it is the one that waits."""
        heard = super().append_is_heard(step, answer)
        after = with_ghosts(heard.after, **witnesses("''"))
        return replace(heard, after=after, assumed=(*heard.assumed, *are_witnesses(after)))

    def adds(self, name: str, sends: str) -> ProofStep:
        """A request of the instance that adds partitions, and the answer if it comes at once."""
        rules, asking = self.model, self.evaluator()
        asked = asking.call(getattr(rules.client, sends), [self.k, self.before.client])
        request, sender = asked.sends.slots[0], asked.actor
        adding = rules.add_partitions.on_add_partitions
        evaluator, moved, sends_back = self.handle_request(adding, "add", request, ME)
        evaluator.after(asking)
        told = evaluator.call(
            rules.client.on_partitions_added,
            [self.k, sender, request.partitions, sends_back.slots[0]],
        )
        heard = (sends_back.length > 0) & truth("heard")
        client = merged(evaluator, heard, told, sender)
        after = self.with_client(client, instance_of(moved))
        return self.make_step(name, evaluator, after, is_instance())


ON_TIME: dict[str, Callable[[OrdinalSteps], ProofStep]] = {
    "i_add": lambda s: s.adds("i_add", "add_partitions"),
    "i_add_offsets": lambda s: s.adds("i_add_offsets", "add_offsets"),
    "add": lambda s: s.deliver_from_others("add", s.model.add_partitions.on_add_partitions, "add"),
}


def is_own(s: InstanceState, image: Scalars) -> Node:
    """An image has the pair that the instance holds."""
    return both_are(pair(image), own_pair(s)) & some(own_pair(s)[0])


def now_known(s: TransactionsState) -> Image:
    """What is known, with the epoch of the transaction that is open: a fence whose append has not
    succeeded is one ahead of it in memory."""
    known, failed = s.known("known"), s.coordinator.unlogged_fence
    epoch = known.producer_epoch
    return known.changed(producer_epoch=ite(failed, epoch - 1, epoch))


def is_idle(s: InstanceState) -> Node:
    """The instance is in no transaction, and not finished."""
    return one_of(state_of(s), (Client.UNINITIALIZED, Client.INITIALIZING, Client.READY))


def works_now(s: InstanceState) -> Node:
    """The instance's transaction is known to it to be open at the coordinator."""
    started: Node = s.client.is_started
    return started & has_begun(s)


def ends_as(s: InstanceState, image: Scalars, states: tuple[Operand, Operand], of: Node) -> Node:
    """If an image is an end, the instance has asked for that of a transaction."""
    commits, aborts = states
    return image.state.eq(commits).implies(s.sent_end(of, ONE)) & image.state.eq(aborts).implies(
        s.sent_end(of, ZERO)
    )


# Pairs


def given_is_not_ahead(s: TransactionsState) -> Formula:
    """A pair that was told has an epoch, and no producer id after the present one; who waits for a
    pair waits for that of the image."""

    def behind(image: Scalars) -> Node:
        return image.state.eq(Txn.ABSENT) | (image.producer_id >= P)

    answer, image = s.coordinator.answer, s.known("image")
    waits = s.coordinator.is_appending & is_answer(s)
    this = both_are(pair(answer), pair(image)) & (image.producer_epoch >= 0)
    told = s.given(P, E).implies((E >= 0) & images(s, behind))
    return (P, E), told & waits.implies(this)


def pairs_are_told_again(s: InstanceState) -> Formula:
    """Who showed the pair before may be told the present one again, and nobody else has it. Where
    that was of another producer id, this one is at its first epoch, or at the next, which nobody
    is told: the coordinator has aborted of itself."""

    def again(image: Scalars, opens: Node, tells: Node) -> Node:
        now, before = pair(image), image.previous_producer_id
        told = s.holds_pair(*now) | s.others_hold(*now) | tells
        fenced = (now[1].eq(1), ~told, is_ongoing(image).implies(opens))
        first = (now[1] <= 0) | conjunction(fenced)
        facts = (
            has_shown(s.others_hold, image).implies(~s.holds_pair(*now)),
            has_shown(s.holds_pair, image).implies(~s.others_hold(*now)),
            one_of(before, (NONE, now[0])) | EPOCHS_END & first,
            some(image.next_producer_id).implies(EPOCHS_END),
        )
        return conjunction(facts)

    known, image, log = (s.known(name) for name in ("known", "image", "log"))
    facts = (
        again(known, s.coordinator.unlogged_fence, dag.FALSE),
        counts(s, "image").implies(again(image, dag.FALSE, is_answer(s))),
        again(log, dag.FALSE, dag.FALSE),
    )
    return (), conjunction(facts)


def has_shown(told: Predicate, image: Scalars) -> Node:
    """The pair before that of an image is one of these: whoever has it may ask again."""
    last = image.last_producer_epoch
    rotated = EPOCHS_END & (last >= EXHAUSTED)
    before = told(image.previous_producer_id, last) & rotated
    return told(image.producer_id, last) | before


def fences_are_untold(s: TransactionsState) -> Formula:
    """Nobody was told the epoch of a fence whose append has not succeeded; it is of what is
    open."""
    known = s.known("known")
    failed = s.coordinator.unlogged_fence
    behind = P.eq(known.producer_id).implies(known.producer_epoch > E)
    told = (failed & s.given(P, E)).implies(behind)
    return (P, E), told & failed.implies(is_ongoing(known))


def pairs_come_next(s: TransactionsState) -> Formula:
    """What is on its way to the log, or there and not known, has the present pair; the next epoch,
    if the coordinator aborts of itself; or the next producer id, if it is complete."""
    known = now_known(s)
    states = tuple(const(i) for i in range(7))

    def follows(image: Scalars) -> Node:
        (now_id, now), (its_id, its) = pair(known), pair(image)
        same, state = both_are((its_id, its), (now_id, now)), image.state
        fences = its_id.eq(now_id) & its.eq(now + 1)
        turns = its_id.eq(known.next_producer_id) & its.eq(0)
        rows = (
            one_of(state, states),
            one_of(state, (Txn.ONGOING, Txn.PREPARE_COMMIT)).implies(same),
            state.eq(Txn.PREPARE_ABORT).implies(same | fences),
            is_complete(image).implies(same | turns),
            one_of(state, (Txn.EMPTY, Txn.ABSENT)).implies(~in_transaction(known)),
        )
        return conjunction(rows)

    logged = is_same(s.known("log"), known) | images(s, follows, ("log",))
    facts = (one_of(known.state, states), images(s, follows, ("image",)), logged)
    return (), conjunction(facts)


def transactions_have_turns(s: OrdinalState) -> Formula:
    """A transaction that has begun at the coordinator has the pair that the instance held."""
    now, started = present(s), s.client.is_started
    facts = (
        s.client.begun >= 0,
        is_idle(s).implies(~started),
        has_begun(s).implies(s.client.begun > 0),
        has_begun(s).implies(is_started(s, now).eq(started)),
        (has_begun(s) & started).implies(both_are(its_pair(s, now), own_pair(s))),
        is_started(s, T).implies((T >= 0) & (now >= T)),
        is_started(s, T).implies(s.holds_pair(*its_pair(s, T))),
        has_begun(s).implies(some(own_pair(s)[0])),
        state_of(s).eq(Client.READY).implies(some(own_pair(s)[0])),
    )
    return (T,), conjunction(facts)


# What the instance does


def work_is_ended(s: OrdinalState) -> Formula:
    """What is to be ended is known to be open, or is still to be added; before that, only what a
    batch waits for is added."""
    started = s.client.is_started
    commits = inside(s.works_at) & works(s, s.works_at)
    aborts = inside(s.asked_at) & is_asked(s, s.asked_at)
    at = there(s, PLACE)
    adds, waits = (
        one_of(at.membership, (Membership.NEW, Membership.ASKED)),
        at.write.eq(Write.QUEUED),
    )
    facts = (
        state_of(s).eq(Client.COMMITTING).implies(started | commits),
        state_of(s).eq(Client.ABORTING).implies(started | aborts),
        (inside(PLACE) & has_begun(s)).implies(
            one_of(at.membership, (ZERO, Membership.NEW, Membership.ASKED, Membership.IN))
        ),
        (inside(PLACE) & state_of(s).eq(Client.IN_TRANSACTION) & adds).implies(waits),
    )
    return (PLACE,), conjunction(facts)


def ends_are_quiet(s: InstanceState) -> Formula:
    """Once EndTxn is sent, its transaction is started, no batch is unfinished, and nothing is to be
    added."""
    sent = s.sent_end(present(s), ZERO) | s.sent_end(present(s), ONE)
    at = there(s, PLACE)
    quiet = at.write.eq(Write.NONE) & ~one_of(at.membership, (Membership.NEW, Membership.ASKED))
    return (PLACE, T, OUTCOME), (
        (sent & has_begun(s) & inside(PLACE)).implies(quiet)
        & s.sent_end(T, OUTCOME).implies(is_started(s, T))
    )


def waits_for_its_own(s: OrdinalState) -> Formula:
    """Where an append is the instance's own, it waits for just that: a pair, a partition, the end
    that it has asked for, or to ask again. What another waits for the instance was not told."""
    c, image, state = s.coordinator, s.known("image"), state_of(s)
    answer = c.answer
    good = answer.error.eq(0)
    mine = c.is_appending & c.requester.eq(ME)
    later = answer.error.eq(Error.CONCURRENT_TRANSACTIONS) & state.eq(Client.INITIALIZING)
    told = some(answer.producer_id) & ~s.others_hold(*pair(answer))
    begins = (
        state.eq(Client.INITIALIZING)
        & told
        & ~in_transaction(image)
        & ~has_shown(s.others_hold, image)
    )
    asks = inside(s.asked_at) & is_asked(s, s.asked_at)
    lives = (
        works_now(s)
        | state.eq(Client.FATAL_ERROR)
        | one_of(state, (Client.IN_TRANSACTION, Client.COMMITTING, Client.ABORTING)) & asks
    )
    nothing = answer.producer_id.eq(NONE)
    has = nothing & is_own(s, image)
    adds = (
        lives
        & has
        & is_ongoing(image)
        & (s.client.begun > 0)
        & is_started(s, present(s)).eq(s.client.is_started)
        & ~outcome(s, present(s)).eq(Outcome.COMMITTED)
    )
    ends = (
        works_now(s)
        & has
        & is_own(s, now_known(s))
        & one_of(state, (Client.COMMITTING, Client.ABORTING))
        & image.state.eq(ite(state.eq(Client.COMMITTING), *PREPARED))
        & s.sent_end(present(s), ite(state.eq(Client.COMMITTING), 1, 0))
    )
    waits = good & (begins | adds | ends)
    nobody = c.requester.eq(NONE)
    another = c.is_appending & ~(mine | nobody) & is_answer(s)
    busy = c.is_appending & ~is_complete(image)
    facts = (
        busy | nobody,
        mine.implies(waits | later),
        another.implies(~(s.holds_pair(*pair(answer)) | has_shown(s.holds_pair, image))),
    )
    return (), conjunction(facts)


# Turns


def nothing_is_prepared_early(s: InstanceState) -> Formula:
    """While the instance has not heard that its transaction is open, nobody has ended it."""
    lives = has_begun(s) | is_idle(s)
    waits = lives & ~s.client.is_started
    known = now_known(s)
    opened = is_ongoing(known) & is_own(s, known)

    def unsaid(image: Scalars) -> Node:
        return ~(is_prepared(image) & is_own(s, image))

    return (), (waits & opened).implies(images(s, unsaid, BEHIND))


def its_turn_is_now(s: OrdinalState) -> Formula:
    """What the coordinator knows under the instance's pair, while its transaction is open: that, in
    this turn; or its end as it has asked for it, in this turn or in the one before."""
    known, now = now_known(s), present(s)
    turn = s.its_turn(now)
    opened = in_transaction(known).implies(turn.eq(s.turn))
    complete = is_complete(known).implies(turn.eq(s.turn - 1))
    some_state = in_transaction(known) | is_complete(known)
    ends = ends_as(s, known, PREPARED, now) & ends_as(s, known, COMPLETE, now)

    def follows(image: Scalars) -> Node:
        same = is_complete(known).implies(image.state.eq(known.state))
        return is_own(s, image).implies(ends_as(s, image, PREPARED, now) & same)

    facts = (some_state, opened, complete, ends)
    is_here = is_own(s, known).implies(conjunction(facts))
    return (), works_now(s).implies(is_here & images(s, follows, BEHIND))


def turns_have_pairs(s: OrdinalState) -> Formula:
    """A transaction of the instance whose turn it is has the coordinator's pair, and is over for
    the instance only if it is prepared; its commit is decided, or about to be, only if the
    instance has sent it."""
    mine, known = is_started(s, T), now_known(s)
    now = mine & s.its_turn(T).eq(s.turn)
    past = (present(s) > T) | is_idle(s)

    def commits(image: Scalars) -> Node:
        return image.state.eq(Txn.PREPARE_COMMIT).implies(s.sent_end(T, ONE))

    has = both_are(pair(known), its_pair(s, T)) & ~past
    facts = (in_transaction(known), is_ongoing(known).implies(has), images(s, commits))
    decided = s.outcome_of(s.its_turn(T)).eq(1)
    return (T,), (
        mine.implies(s.its_turn(T) <= s.turn)
        & now.implies(conjunction(facts))
        & (mine & decided).implies(s.sent_end(T, ONE))
    )


def complete_says_its_turn(s: TransactionsState) -> Formula:
    """What is complete says what was decided in the turn before."""
    state, before = s.known("known").state, s.outcome_of(s.turn - 1)
    return (), (
        state.eq(COMPLETE[0]).implies(before.eq(1)) & state.eq(COMPLETE[1]).implies(before.eq(0))
    )


def open_is_of_its_turn(s: OrdinalState) -> Formula:
    """What is open here under the instance's pair, or an older one of its producer id, while its
    transaction is, is of this turn."""
    own_id, own_epoch = own_pair(s)
    older = entry(s, own_id).producer_epoch <= own_epoch
    mine = works_now(s) & is_open(s, own_id) & older
    return (), mine.implies(s.its_turn(present(s)).eq(s.turn))


def log_says_its_turn(s: OrdinalState) -> Formula:
    """A record of the instance is of a transaction that was open then, and of its turn."""
    stored = log(s, I)
    t = stored.transaction
    facts = (is_started(s, t), t <= present(s), s.turn_of(I).eq(s.its_turn(t)))
    return (I,), (in_log(s, I) & is_own_record(s, stored)).implies(conjunction(facts))


def told_was_decided(s: OrdinalState) -> Formula:
    """What the application was told is committed was decided so, in its turn."""
    told = (present(s) >= T) & outcome(s, T).eq(Outcome.COMMITTED)
    decided = s.outcome_of(s.its_turn(T)).eq(1)
    return (T,), (told & is_started(s, T)).implies(decided)


def visible_as_told(s: OrdinalState) -> Formula:
    """A record of the instance becomes visible, wherever it stands, if and only if its own
    transaction was decided to commit, which its application asked for; it is so once that was
    told."""
    stored, marker = log(s, I), log(s, s.ended(I))
    t = stored.transaction
    asked = outcome(s, t)
    ended = in_log(s, I) & is_own_record(s, stored) & ~s.ended(I).eq(NONE)
    visible = marker.kind.eq(Kind.COMMIT)
    facts = (
        visible.eq(s.outcome_of(s.its_turn(t)).eq(1)),
        visible.implies(one_of(asked, (Outcome.COMMIT_ASKED, Outcome.COMMITTED))),
        asked.eq(Outcome.COMMITTED).implies(visible),
    )
    return (I,), ended.implies(conjunction(facts))
