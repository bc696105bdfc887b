"""One instance of V1, whose pairs do not tell its transactions apart: what it is told was decided
of its own transaction, and is what readers see.

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
from dataclasses import dataclass, fields, replace
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.clauses import Formula, implies
from proofs.prove.transactions.client import (
    ABORTING,
    COMMIT_ASKED,
    COMMITTED,
    COMMITTING,
    CONCURRENT,
    FATAL,
    IN,
    IN_TRANSACTION,
    INITIALIZING,
    NOTHING,
    ONE,
    QUEUED,
    READY,
    UNINITIALIZED,
    has_begun,
    is_started,
    one_of,
    outcome,
    own_pair,
    state_of,
    there,
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
    E,
    P,
    counts,
    images,
    inside,
    is_answer,
    is_prepared,
    is_same,
    some,
)
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.instances import (
    ME,
    Instance,
    Instances,
    T,
    instance_of,
    is_instance,
    its_pair,
    present,
)
from proofs.prove.transactions.partition import (
    COMMIT,
    I,
    entry,
    in_log,
    in_transaction,
    is_open,
    log,
)
from proofs.prove.transactions.state import NONE, State, both_are, never, with_ghosts
from proofs.prove.transactions.steps import SENDERS, merged, pair
from proofs.prove.transactions.told import is_mine
from proofs.prove.unknowns import Predicate, function, number, truth
from proofs.prove.worlds import Composition, WorldStep

NEW, ASKED = const(1), const(2)
BEHIND = ("log", "image")


@dataclass(frozen=True, slots=True)
class Turned(Instance):
    """A state in which each transaction of the instance has its turn."""

    its_turn: Predicate
    works_at: Node
    asked_at: Node


def turned(state: Instance, its_turn: Predicate, mark: str) -> Turned:
    """A state, with the turns of the instance's transactions."""
    known: dict[str, Any] = {f.name: getattr(state, f.name) for f in fields(Instance)}
    works_at, asked_at = (number(f"{name}{mark}") for name in ("works_at", "asked_at"))
    return Turned(**known, its_turn=its_turn, works_at=works_at, asked_at=asked_at)


class Turns(Instances):
    """The steps of an instance that is on time, and of others who need not be."""

    before: Turned

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        self.before = turned(self.before, function("its_turn"), "")

    def initial(self) -> Turned:
        """Nobody has begun."""
        return turned(super().initial(), never(NONE), "")

    def named(self, name: str) -> WorldStep:
        """A step by its name."""
        return ON_TIME[name](self) if name in ON_TIME else super().named(name)

    def told(
        self, name: str, evaluator: UnboundedEvaluator, after: State, *more: Formula
    ) -> WorldStep:
        """The step. A record is of the turn in which it comes into the log."""
        assert isinstance(after, Turned)
        counted: Formula = ((), dag.eq(SENDERS, self.before.turn))
        after = turned(after, after.its_turn, "'")
        return super().told(name, evaluator, after, counted, *chosen(after), *more)

    def with_client(self, client: Rec, state: Instance | None = None) -> Instance:
        """The instance after a step. A transaction has its turn once it is started."""
        after = super().with_client(client, state)
        assert isinstance(after, Turned)
        before = self.before
        started = before.client.fields["is_started"]
        begins = dag.both(client.fields["is_started"], dag.negate(started))
        mine, old = present(before), after.its_turn
        return with_ghosts(
            after,
            its_turn=lambda t: dag.ite(dag.both(begins, dag.eq(t, mine)), before.turn, old(t)),
        )

    def append_is_heard(self, step: WorldStep, answer: Rec) -> WorldStep:
        """The instance hears of an append, if it is the one that waits."""
        heard = super().append_is_heard(step, answer)
        after = turned(heard.after, heard.after.its_turn, "''")
        return replace(heard, after=after, assumed=(*heard.assumed, *chosen(after)))

    def adds(self, name: str, sends: str) -> WorldStep:
        """A request of the instance that adds partitions, and the answer if it comes at once."""
        rules, asking = self.model, self.evaluator()
        asked = asking.call(getattr(rules.client, sends), [self.k, self.before.client])
        request, sender = asked.fields["sends"].slots[0], asked.fields["actor"]
        adding = rules.add_partitions.on_add_partitions
        evaluator, moved, sends_back = self.handled(adding, "add", request, ME)
        evaluator.limits = [*asking.limits, *evaluator.limits]
        evaluator.choices = [*asking.choices, *evaluator.choices]
        told = evaluator.call(
            rules.client.on_partitions_added,
            [self.k, sender, request.fields["partitions"], sends_back.slots[0]],
        )
        heard = dag.both(dag.lt(ZERO, sends_back.length), truth("heard"))
        client = merged(evaluator, heard, told, sender)
        after = self.with_client(client, instance_of(moved))
        return self.told(name, evaluator, after, is_instance())


ON_TIME: dict[str, Callable[[Turns], WorldStep]] = {
    "i_add": lambda s: s.adds("i_add", "add_partitions"),
    "i_add_offsets": lambda s: s.adds("i_add_offsets", "add_offsets"),
    "add": lambda s: s.theirs("add", s.model.add_partitions.on_add_partitions, "add"),
}


def chosen(s: Turned) -> tuple[Formula, ...]:
    """If any partition works, `works_at` does; if any was asked for, `asked_at` was."""
    return tuple(
        ((PLACE,), implies(inside(PLACE), does(s, PLACE), dag.both(inside(at), does(s, at))))
        for does, at in ((works, s.works_at), (is_asked, s.asked_at))
    )


def works(s: Instance, place: Node) -> Node:
    """It is in the transaction, or to be added."""
    return dag.negate(dag.eq(there(s, place)["membership"], ZERO))


def is_asked(s: Instance, place: Node) -> Node:
    """A request was sent that adds it, and was not answered."""
    return dag.eq(there(s, place)["membership"], ASKED)


def is_own(s: Instance, image: dict[str, Any]) -> Node:
    """An image has the pair that the instance holds."""
    return dag.both(both_are(pair(image), own_pair(s)), some(own_pair(s)[0]))


def now_known(s: State) -> dict[str, Any]:
    """What is known, with the epoch of the transaction that is open: a fence whose append has not
    succeeded is one ahead of it in memory."""
    known, failed = s.known("known"), s.coordinator.fields["unlogged_fence"]
    epoch = known["producer_epoch"]
    return {**known, "producer_epoch": dag.ite(failed, dag.sub(epoch, ONE), epoch)}


def is_ongoing(image: dict[str, Any]) -> Node:
    """A transaction is open."""
    return dag.eq(image["state"], ONGOING)


def is_complete(image: dict[str, Any]) -> Node:
    """CompleteCommit or CompleteAbort."""
    return one_of(image["state"], COMPLETE)


def is_idle(s: Instance) -> Node:
    """The instance is in no transaction, and not finished."""
    return one_of(state_of(s), (UNINITIALIZED, INITIALIZING, READY))


def works_now(s: Instance) -> Node:
    """The instance's transaction is known to it to be open at the coordinator."""
    return dag.both(has_begun(s), s.client.fields["is_started"])


def ends_as(s: Instance, image: dict[str, Any], states: tuple[Node, Node], of: Node) -> Node:
    """If an image is an end, the instance has asked for that of a transaction."""
    commits, aborts = states
    return dag.both(
        implies(dag.eq(image["state"], commits), s.sent_end(of, ONE)),
        implies(dag.eq(image["state"], aborts), s.sent_end(of, ZERO)),
    )


PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)


# Pairs


def given_is_not_ahead(s: State) -> Formula:
    """A pair that was told has an epoch, and no producer id after the present one; who waits for a
    pair waits for that of the image."""

    def behind(image: dict[str, Any]) -> Node:
        return dag.either(dag.eq(image["state"], ABSENT), dag.le(P, image["producer_id"]))

    answer, image = s.coordinator.fields["answer"].fields, s.known("image")
    waits = dag.both(s.coordinator.fields["is_appending"], is_answer(s))
    this = dag.both(both_are(pair(answer), pair(image)), dag.le(ZERO, image["producer_epoch"]))
    told = implies(s.given(P, E), dag.both(dag.le(ZERO, E), images(s, behind)))
    return (P, E), dag.both(told, implies(waits, this))


def pairs_are_told_again(s: Instance) -> Formula:
    """Who showed the pair before may be told the present one again, and nobody else has it. Where
    that was of another producer id, this one is at its first epoch, or at the next, which nobody
    is told: the coordinator has aborted of itself."""

    def again(image: dict[str, Any], opens: Node, tells: Node) -> Node:
        now, before = pair(image), image["previous_producer_id"]
        told = dag.disjunction((s.mine(*now), s.theirs(*now), tells))
        fenced = (dag.eq(now[1], ONE), dag.negate(told), implies(is_ongoing(image), opens))
        first = dag.either(dag.le(now[1], ZERO), dag.conjunction(fenced))
        facts = (
            implies(has_shown(s.theirs, image), dag.negate(s.mine(*now))),
            implies(has_shown(s.mine, image), dag.negate(s.theirs(*now))),
            dag.either(one_of(before, (NONE, now[0])), dag.both(EPOCHS_END, first)),
            implies(some(image["next_producer_id"]), EPOCHS_END),
        )
        return dag.conjunction(facts)

    known, image, log = (s.known(name) for name in ("known", "image", "log"))
    facts = (
        again(known, s.coordinator.fields["unlogged_fence"], dag.FALSE),
        implies(counts(s, "image"), again(image, dag.FALSE, is_answer(s))),
        again(log, dag.FALSE, dag.FALSE),
    )
    return (), dag.conjunction(facts)


def has_shown(told: Predicate, image: dict[str, Any]) -> Node:
    """The pair before that of an image is one of these: whoever has it may ask again."""
    last = image["last_producer_epoch"]
    rotated = dag.both(EPOCHS_END, dag.le(EXHAUSTED, last))
    before = dag.both(told(image["previous_producer_id"], last), rotated)
    return dag.either(told(image["producer_id"], last), before)


def fences_are_untold(s: State) -> Formula:
    """Nobody was told the epoch of a fence whose append has not succeeded; it is of what is
    open."""
    known = s.known("known")
    failed = s.coordinator.fields["unlogged_fence"]
    behind = implies(dag.eq(P, known["producer_id"]), dag.lt(E, known["producer_epoch"]))
    told = implies(failed, s.given(P, E), behind)
    return (P, E), dag.both(told, implies(failed, is_ongoing(known)))


def pairs_come_next(s: State) -> Formula:
    """What is on its way to the log, or there and not known, has the present pair; the next epoch,
    if the coordinator aborts of itself; or the next producer id, if it is complete."""
    known = now_known(s)
    states = tuple(const(i) for i in range(7))

    def follows(image: dict[str, Any]) -> Node:
        (now_id, now), (its_id, its) = pair(known), pair(image)
        same, state = both_are((its_id, its), (now_id, now)), image["state"]
        fences = dag.both(dag.eq(its_id, now_id), dag.eq(its, dag.add(now, ONE)))
        turns = dag.both(dag.eq(its_id, known["next_producer_id"]), dag.eq(its, ZERO))
        rows = (
            one_of(state, states),
            implies(one_of(state, (ONGOING, PREPARE_COMMIT)), same),
            implies(dag.eq(state, PREPARE_ABORT), dag.either(same, fences)),
            implies(is_complete(image), dag.either(same, turns)),
            implies(one_of(state, (EMPTY, ABSENT)), dag.negate(in_transaction(known))),
        )
        return dag.conjunction(rows)

    logged = dag.either(is_same(s.known("log"), known), images(s, follows, ("log",)))
    facts = (one_of(known["state"], states), images(s, follows, ("image",)), logged)
    return (), dag.conjunction(facts)


def transactions_have_turns(s: Turned) -> Formula:
    """A transaction that has begun at the coordinator has the pair that the instance held."""
    now, started = present(s), s.client.fields["is_started"]
    facts = (
        dag.le(ZERO, s.client.fields["begun"]),
        implies(is_idle(s), dag.negate(started)),
        implies(has_begun(s), dag.lt(ZERO, s.client.fields["begun"])),
        implies(has_begun(s), dag.eq(is_started(s, now), started)),
        implies(dag.both(has_begun(s), started), both_are(its_pair(s, now), own_pair(s))),
        implies(is_started(s, T), dag.both(dag.le(ZERO, T), dag.le(T, now))),
        implies(is_started(s, T), s.mine(*its_pair(s, T))),
        implies(has_begun(s), some(own_pair(s)[0])),
        implies(dag.eq(state_of(s), READY), some(own_pair(s)[0])),
    )
    return (T,), dag.conjunction(facts)


# What the instance does


def work_is_ended(s: Turned) -> Formula:
    """What is to be ended is known to be open, or is still to be added; before that, only what a
    batch waits for is added."""
    started = s.client.fields["is_started"]
    commits = dag.both(inside(s.works_at), works(s, s.works_at))
    aborts = dag.both(inside(s.asked_at), is_asked(s, s.asked_at))
    at = there(s, PLACE)
    adds, waits = one_of(at["membership"], (NEW, ASKED)), dag.eq(at["write"], QUEUED)
    facts = (
        implies(dag.eq(state_of(s), COMMITTING), dag.either(started, commits)),
        implies(dag.eq(state_of(s), ABORTING), dag.either(started, aborts)),
        implies(inside(PLACE), has_begun(s), one_of(at["membership"], (ZERO, NEW, ASKED, IN))),
        implies(inside(PLACE), dag.eq(state_of(s), IN_TRANSACTION), adds, waits),
    )
    return (PLACE,), dag.conjunction(facts)


def ends_are_quiet(s: Instance) -> Formula:
    """Once EndTxn is sent, its transaction is started, no batch is unfinished, and nothing is to be
    added."""
    sent = dag.either(s.sent_end(present(s), ZERO), s.sent_end(present(s), ONE))
    at = there(s, PLACE)
    quiet = dag.both(
        dag.eq(at["write"], NOTHING), dag.negate(one_of(at["membership"], (NEW, ASKED)))
    )
    return (PLACE, T, OUTCOME), dag.both(
        implies(sent, has_begun(s), inside(PLACE), quiet),
        implies(s.sent_end(T, OUTCOME), is_started(s, T)),
    )


def waits_for_its_own(s: Turned) -> Formula:
    """Where an append is the instance's own, it waits for just that: a pair, a partition, the end
    that it has asked for, or to ask again. What another waits for the instance was not told."""
    c, image, state = s.coordinator.fields, s.known("image"), state_of(s)
    answer = c["answer"].fields
    good = dag.eq(answer["error"], ZERO)
    mine = dag.both(c["is_appending"], dag.eq(c["requester"], ME))
    later = dag.both(dag.eq(answer["error"], CONCURRENT), dag.eq(state, INITIALIZING))
    told = dag.both(some(answer["producer_id"]), dag.negate(s.theirs(*pair(answer))))
    begins = dag.conjunction(
        (
            dag.eq(state, INITIALIZING),
            told,
            dag.negate(in_transaction(image)),
            dag.negate(has_shown(s.theirs, image)),
        )
    )
    asks = dag.both(inside(s.asked_at), is_asked(s, s.asked_at))
    lives = dag.disjunction(
        (
            works_now(s),
            dag.eq(state, FATAL),
            dag.both(one_of(state, (IN_TRANSACTION, COMMITTING, ABORTING)), asks),
        )
    )
    nothing = dag.eq(answer["producer_id"], NONE)
    has = dag.both(nothing, is_own(s, image))
    adds = dag.conjunction(
        (
            lives,
            has,
            is_ongoing(image),
            dag.lt(ZERO, s.client.fields["begun"]),
            dag.eq(is_started(s, present(s)), s.client.fields["is_started"]),
            dag.negate(dag.eq(outcome(s, present(s)), COMMITTED)),
        )
    )
    ends = dag.conjunction(
        (
            works_now(s),
            has,
            is_own(s, now_known(s)),
            one_of(state, (COMMITTING, ABORTING)),
            dag.eq(image["state"], dag.ite(dag.eq(state, COMMITTING), *PREPARED)),
            s.sent_end(present(s), dag.ite(dag.eq(state, COMMITTING), ONE, ZERO)),
        )
    )
    waits = dag.both(good, dag.disjunction((begins, adds, ends)))
    nobody = dag.eq(c["requester"], NONE)
    another = dag.conjunction(
        (c["is_appending"], dag.negate(dag.either(mine, nobody)), is_answer(s))
    )
    busy = dag.both(c["is_appending"], dag.negate(is_complete(image)))
    facts = (
        dag.either(busy, nobody),
        implies(mine, dag.either(waits, later)),
        implies(another, dag.negate(dag.either(s.mine(*pair(answer)), has_shown(s.mine, image)))),
    )
    return (), dag.conjunction(facts)


# Turns


def nothing_is_prepared_early(s: Instance) -> Formula:
    """While the instance has not heard that its transaction is open, nobody has ended it."""
    lives = dag.either(has_begun(s), is_idle(s))
    waits = dag.both(lives, dag.negate(s.client.fields["is_started"]))
    known = now_known(s)
    opened = dag.both(is_ongoing(known), is_own(s, known))

    def unsaid(image: dict[str, Any]) -> Node:
        return dag.negate(dag.both(is_prepared(image), is_own(s, image)))

    return (), implies(waits, opened, images(s, unsaid, BEHIND))


def its_turn_is_now(s: Turned) -> Formula:
    """What the coordinator knows under the instance's pair, while its transaction is open: that, in
    this turn; or its end as it has asked for it, in this turn or in the one before."""
    known, now = now_known(s), present(s)
    turn = s.its_turn(now)
    opened = implies(in_transaction(known), dag.eq(turn, s.turn))
    complete = implies(is_complete(known), dag.eq(turn, dag.sub(s.turn, ONE)))
    some_state = dag.either(in_transaction(known), is_complete(known))
    ends = dag.both(ends_as(s, known, PREPARED, now), ends_as(s, known, COMPLETE, now))

    def follows(image: dict[str, Any]) -> Node:
        same = implies(is_complete(known), dag.eq(image["state"], known["state"]))
        return implies(is_own(s, image), dag.both(ends_as(s, image, PREPARED, now), same))

    facts = (some_state, opened, complete, ends)
    is_here = implies(is_own(s, known), dag.conjunction(facts))
    return (), implies(works_now(s), dag.both(is_here, images(s, follows, BEHIND)))


def turns_have_pairs(s: Turned) -> Formula:
    """A transaction of the instance whose turn it is has the coordinator's pair, and is over for
    the instance only if it is prepared; its commit is decided, or about to be, only if the
    instance has sent it."""
    mine, known = is_started(s, T), now_known(s)
    now = dag.both(mine, dag.eq(s.its_turn(T), s.turn))
    past = dag.either(dag.lt(T, present(s)), is_idle(s))

    def commits(image: dict[str, Any]) -> Node:
        return implies(dag.eq(image["state"], PREPARE_COMMIT), s.sent_end(T, ONE))

    has = dag.both(both_are(pair(known), its_pair(s, T)), dag.negate(past))
    facts = (
        in_transaction(known),
        implies(is_ongoing(known), has),
        images(s, commits),
    )
    decided = dag.eq(s.outcome_of(s.its_turn(T)), ONE)
    return (T,), dag.conjunction(
        (
            implies(mine, dag.le(s.its_turn(T), s.turn)),
            implies(now, dag.conjunction(facts)),
            implies(mine, decided, s.sent_end(T, ONE)),
        )
    )


def complete_says_its_turn(s: State) -> Formula:
    """What is complete says what was decided in the turn before."""
    state, before = s.known("known")["state"], s.outcome_of(dag.sub(s.turn, ONE))
    return (), dag.both(
        implies(dag.eq(state, COMPLETE[0]), dag.eq(before, ONE)),
        implies(dag.eq(state, COMPLETE[1]), dag.eq(before, ZERO)),
    )


def open_is_of_its_turn(s: Turned) -> Formula:
    """What is open here under the instance's pair, or an older one of its producer id, while its
    transaction is, is of this turn."""
    own_id, own_epoch = own_pair(s)
    older = dag.le(entry(s, own_id)["producer_epoch"], own_epoch)
    mine = dag.conjunction((works_now(s), is_open(s, own_id), older))
    return (), implies(mine, dag.eq(s.its_turn(present(s)), s.turn))


def log_says_its_turn(s: Turned) -> Formula:
    """A record of the instance is of a transaction that was open then, and of its turn."""
    stored = log(s, I)
    t = stored["transaction"]
    facts = (is_started(s, t), dag.le(t, present(s)), dag.eq(s.turn_of(I), s.its_turn(t)))
    return (I,), implies(dag.both(in_log(s, I), is_mine(s, stored)), dag.conjunction(facts))


def told_was_decided(s: Turned) -> Formula:
    """What the application was told is committed was decided so, in its turn."""
    told = dag.both(dag.le(T, present(s)), dag.eq(outcome(s, T), COMMITTED))
    decided = dag.eq(s.outcome_of(s.its_turn(T)), ONE)
    return (T,), implies(dag.both(told, is_started(s, T)), decided)


def visible_as_told(s: Turned) -> Formula:
    """A record of the instance becomes visible, wherever it stands, if and only if its own
    transaction was decided to commit, which its application asked for; it is so once that was
    told."""
    stored, marker = log(s, I), log(s, s.ended(I))
    t = stored["transaction"]
    asked = outcome(s, t)
    ended = dag.conjunction(
        (in_log(s, I), is_mine(s, stored), dag.negate(dag.eq(s.ended(I), NONE)))
    )
    visible = dag.eq(marker["kind"], COMMIT)
    facts = (
        dag.eq(visible, dag.eq(s.outcome_of(s.its_turn(t)), ONE)),
        implies(visible, one_of(asked, (COMMIT_ASKED, COMMITTED))),
        implies(dag.eq(asked, COMMITTED), visible),
    )
    return (I,), implies(ended, dag.conjunction(facts))
