"""What can happen to a coordinator and to the leader of one partition: any request, at any time.

Theory of operation. Nothing is assumed of clients: any request may arrive at any time and any
number of times, whether somebody sent it or not; so what is proved holds of every client, alive or
not, and of every network. Of markers those may arrive that a coordinator has sent, any number of
times too. Each step is the text of a rule of an actor, or of the world where two actors meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from model.transactions.coordinator import TransactionState as Txn
from proofs.lift.containers import FocusMap
from proofs.lift.dag import FALSE, TRUE, Node, const, disjunction, eq, ite, leaf
from proofs.lift.source import Model
from proofs.lift.values import Rec, Scalars, Seq
from proofs.prove.composition import Composition, Worlds
from proofs.prove.formulas import RecordSet
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.client import asked_at_is_asked, works_at_works
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.state import (
    AGAIN,
    ANEW,
    HERE,
    NOBODY_WAITS,
    NONE,
    PARTITIONS,
    MapsOfAnySize,
    UnknownState,
    any_state,
    both_are,
    choose,
    first_state,
    is_older,
    pair,
)
from proofs.prove.unknowns import Predicate, number, truth

COVERED = {
    "producer_id_is_asked": ("init",),
    "partitions_are_added": ("add",),
    "offsets_are_added": ("add",),
    "transaction_is_ended": ("end",),
    "late_init_arrives": ("init",),
    "late_addition_arrives": ("add",),
    "late_end_arrives": ("end",),
    "batch_is_produced": ("batch_arrives", "add"),
    "offsets_are_committed": ("batch_arrives", "add"),
    "late_batch_arrives": ("batch_arrives", "add"),
    "late_offsets_arrive": ("batch_arrives", "add"),
    "marker_is_written": ("marker_is_written", "marker_is_answered"),
    "marker_is_delayed": ("marker_is_sent",),
    "late_marker_arrives": ("marker_arrives",),
    "transaction_times_out": ("time_out",),
    "coordinator_moves": ("take_over",),
    "coordinator_moves_with_append": ("take_over_with_append",),
    "transactional_id_is_forgotten": ("forget",),
    "append_is_done": ("append_succeeds",),
    "append_is_refused": ("append_fails", "append_seems_to_fail"),
    "requester_leaves": ("lose_requester",),
    "other_writes": ("other_writes",),
}
"""Which steps make up each rule of the world that touches a coordinator or a leader."""


class Transactions(Worlds):
    """The steps from any state; `of.steps` names those that a theorem is about."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        self.of = of
        self.model = model
        self.k = of.configuration(model, variant)
        self.unknowns = MapsOfAnySize(self.k.bounds)
        self.before = any_state(model, self.unknowns)
        self.world: Rec = super().initial()

    def evaluator(self) -> UnboundedEvaluator:
        """An evaluator without a scope's limits."""
        plain = super().evaluator()
        return UnboundedEvaluator(self.model, self.k, plain.overrides, plain.contracts)

    def initial(self) -> Any:
        """Nobody has begun."""
        return first_state(self.model, self.unknowns, self.world)

    def steps(self) -> Iterator[ProofStep]:
        """Those that the composition names."""
        yield from map(self.named, self.of.steps)

    def named(self, name: str) -> ProofStep:
        """One of them."""
        return STEPS[name](self)

    # What steps are made of

    def request(self) -> Rec:
        """Any request."""
        return self.unknowns.record(self.model.messages.Request, "request")

    def batch(self) -> Rec:
        """Any batch."""
        return self.unknowns.record(self.model.messages.Batch, "batch")

    def make_step(
        self, name: str, evaluator: UnboundedEvaluator, after: Any, *more: Formula
    ) -> ProofStep:
        """The step, with what was decided on the way."""
        required: list[Formula] = [((), limit.condition) for limit in evaluator.limits]
        here: Formula = ((), (HERE >= 0) & (HERE < PARTITIONS))
        assumed = (here, *required, *evaluator.choices, *more)
        return ProofStep(
            name,
            self.before,
            self.record_decisions(evaluator, after),
            assumed,
            taken=tuple(evaluator.taken),
            edits=frozenset(evaluator.edits),
        )

    def are_witnesses(self, state: Any) -> Iterator[Formula]:
        """`works_at` is a partition that works, `asked_at` one that was asked for, if any is."""
        yield self.lifter.formula(works_at_works, state)
        yield self.lifter.formula(asked_at_is_asked, state)

    def record_decisions(self, evaluator: UnboundedEvaluator, after: Any) -> Any:
        """The decisions of the images that are known to be in the log."""
        for reached, image in evaluator.written:
            after = with_decision(self.model, after, reached, image)
        return after

    def coordinator_moves(
        self, name: str, function: Callable[..., Any], *arguments: Any
    ) -> ProofStep:
        """A step of the coordinator by itself, which answers nobody."""
        evaluator = self.evaluator()
        actor = evaluator.call(function, [self.k, self.before.coordinator, *arguments])
        return self.make_step(name, evaluator, self.before.changed(coordinator=actor))

    # Requests

    def asked(
        self, name: str, function: Callable[..., Any], kind: str, *, on_time: bool = False
    ) -> ProofStep:
        """Any request to the coordinator, and its answer."""
        request = self.request()
        evaluator, after, _ = self.handle_request(function, kind, request, number("requester"))
        late = self.on_time(request) if on_time else ()
        return self.make_step(name, evaluator, after, is_request(request, kind), *late)

    def handle_request(
        self, function: Callable[..., Any], kind: str, request: Rec, requester: Node
    ) -> tuple[UnboundedEvaluator, Any, Seq]:
        """The coordinator has a request: what it is then, and the answer that goes at once."""
        evaluator = self.evaluator()
        step = evaluator.call(function, [self.k, self.before.coordinator, request, requester])
        actor, sends = step.actor, step.sends
        answer = sends.slots[0]
        heard = (sends.length > 0) & is_success(answer)
        waits = self.purpose(request) if kind == "init" else const(NOBODY_WAITS)
        begun = actor.is_appending & ~self.before.coordinator.is_appending
        waiting = ite(is_success(actor.answer), waits, NOBODY_WAITS)
        after = with_answer(self.before, heard, answer, waits)
        after = after.changed(coordinator=actor, awaited=ite(begun, waiting, self.before.awaited))
        if kind != "init":
            after = after.changed(disturbed=self.disturbed(request, actor))
        return evaluator, after, sends

    def on_time(self, request: Rec) -> tuple[Formula, ...]:
        """The missing assumption of V1: EndTxn arrives before its sender begins the next
        transaction, so what is open is what its application wants to end so."""
        ongoing = self.before.known.state.eq(Txn.ONGOING)
        commits = wanted(SENDERS).eq(1)
        asks = request.committed.eq(commits)
        mine = ~ongoing | SENDERS.eq(self.before.turn)
        return ((), asks), ((), mine)

    def purpose(self, request: Rec) -> Node:
        """Whoever expects another pair than the present one may be told that once more."""
        known, asked = self.before.known, request
        expects = ~asked.producer_id.eq(NONE)
        same = both_are(pair(asked), pair(known))
        return ite(expects & ~same, AGAIN, ANEW)

    def disturbed(self, request: Rec, actor: Rec) -> Any:
        """Something has changed although the request is of an older pair than the reign."""
        reign = self.before.reign
        old = is_older(pair(request), reign)
        return old & differs(self.before, actor) | self.before.disturbed

    # Appends

    def append_succeeds(self) -> ProofStep:
        """What is on its way is in the log, and whoever waits is told."""
        evaluator = self.evaluator()
        rule = self.model.coordinator.append_succeeds
        step = evaluator.call(rule, [self.k, self.before.coordinator])
        answer = self.before.coordinator.answer
        after = with_answer(self.before, is_success(answer), answer, self.before.awaited)
        after = after.changed(coordinator=step.actor, awaited=const(NOBODY_WAITS))
        return self.make_step("append_succeeds", evaluator, after)

    def append_fails(self, name: str, in_log: Node) -> ProofStep:
        """An append is reported as failed."""
        evaluator = self.evaluator()
        rule = self.model.coordinator.append_fails
        step = evaluator.call(rule, [self.k, self.before.coordinator, in_log])
        after = self.before.changed(coordinator=step.actor, awaited=const(NOBODY_WAITS))
        return self.make_step(name, evaluator, after)

    def takes_over(self, name: str, *, with_append: bool) -> ProofStep:
        """Another broker reads the log, in which the last append may be."""
        evaluator, c = self.evaluator(), self.before.coordinator
        rules = self.model.coordinator_leadership
        rule = rules.take_over_with_append if with_append else rules.take_over
        stored = self.model.coordinator.stored
        read = evaluator.call(stored, [self.k, c.image]) if with_append else c.log
        evaluator.written.append((~same_state(read, c.known), read))
        actor = evaluator.call(rule, [self.k, c])
        after = self.before.changed(coordinator=actor, awaited=const(NOBODY_WAITS))
        return self.make_step(name, evaluator, after)

    # Markers

    def marker_is_sent(self) -> ProofStep:
        """The coordinator sends a marker to a partition."""
        evaluator, c = self.evaluator(), self.before.coordinator
        rule = self.model.coordinator.marker_for
        step = evaluator.call(rule, [self.k, c, number("partition")])
        marker = step.sends.slots[0]
        after = self.before.changed(sent=also_sent(self.before, marker))
        return self.make_step("marker_is_sent", evaluator, after)

    def marker_is_answered(self) -> ProofStep:
        """Another partition has answered."""
        evaluator, partition = self.evaluator(), number("partition")
        rule = self.model.coordinator.on_marker_written
        asked = evaluator.call(
            self.model.coordinator.marker_for, [self.k, self.before.coordinator, partition]
        )
        actor = evaluator.call(rule, [self.k, self.before.coordinator, partition, number("error")])
        after = self.before.changed(
            coordinator=actor, sent=also_sent(self.before, asked.sends.slots[0])
        )
        elsewhere: Formula = ((), ~partition.eq(HERE))
        inside: Formula = ((), (partition >= 0) & (partition < PARTITIONS))
        return self.make_step("marker_is_answered", evaluator, after, elsewhere, inside)

    def marker_is_skipped(self) -> ProofStep:
        """A partition without a leader is taken for one that has its marker."""
        evaluator, rules, c = self.evaluator(), self.model.coordinator, self.before.coordinator
        partition = number("partition")
        evaluator.call(rules.marker_for, [self.k, c, partition])
        actor = evaluator.call(rules.skip_marker, [self.k, c, partition])
        after = self.before.changed(coordinator=actor)
        inside: Formula = ((), (partition >= 0) & (partition < PARTITIONS))
        return self.make_step("skip_marker", evaluator, after, inside)

    def marker_is_written(self) -> ProofStep:
        """The partition here gets its marker, and answers; the answer may be lost."""
        evaluator, rules = self.evaluator(), self.model.coordinator
        before = self.before
        asked = evaluator.call(rules.marker_for, [self.k, before.coordinator, HERE])
        marker = asked.sends.slots[0]
        step = evaluator.call(self.model.leader.on_marker, [self.k, before.leader, marker])
        error = step.sends.slots[0]
        told = evaluator.call(rules.on_marker_written, [self.k, before.coordinator, HERE, error])
        heard = leaf("heard", 0, 1, is_bool=True)
        after = with_marker(before, marker, error).changed(
            coordinator=merged(evaluator, heard, told, before.coordinator),
            leader=step.actor,
            sent=also_sent(before, marker),
        )
        written = [(heard & reached, image) for reached, image in evaluator.written]
        evaluator.written = written
        return self.make_step("marker_is_written", evaluator, after)

    def marker_arrives(self) -> ProofStep:
        """A marker that was ever sent arrives here, perhaps not for the first time."""
        marker = self.unknowns.record(self.model.messages.Marker, "marker")
        sent: Formula = ((), was_sent(self.before, marker))
        return self.leader_hears("marker_arrives", marker, sent)

    def any_marker_arrives(self) -> ProofStep:
        """Any marker at all arrives here."""
        marker = self.unknowns.record(self.model.messages.Marker, "marker")
        is_one: Formula = ((), marker.producer_epoch >= 0)
        return self.leader_hears("any_marker_arrives", marker, is_one)

    def leader_hears(self, name: str, marker: Rec, *given: Formula) -> ProofStep:
        """The leader takes a marker, or refuses it."""
        evaluator = self.evaluator()
        rule = self.model.leader.on_marker
        step = evaluator.call(rule, [self.k, self.before.leader, marker])
        after = with_marker(self.before, marker, step.sends.slots[0])
        return self.make_step(name, evaluator, after.changed(leader=step.actor), *given)

    # Batches

    def batch_arrives(self, name: str, *, on_time: bool) -> ProofStep:
        """Any batch arrives here. On time is what comes before its sender begins the next
        transaction."""
        batch = self.batch()
        evaluator, after, _ = self.deliver_batch(batch)
        state = self.before.known.state
        open_states = [state.eq(i) for i in (1, 2, 3)]
        mine = ~disjunction(open_states) | SENDERS.eq(self.before.turn)
        given: tuple[Formula, ...] = (((), mine),) if on_time else ()
        return self.make_step(name, evaluator, after, is_batch(batch), *given)

    def deliver_batch(self, batch: Rec) -> tuple[UnboundedEvaluator, Any, Rec]:
        """A batch is here, and its answer: the coordinator is asked if it must be."""
        evaluator = self.evaluator()
        leaders = FocusMap(HERE, self.before.leader, self.world.leaders.at(HERE))
        world = Rec(
            self.world.cls,
            {**self.world.fields, "coordinator": self.before.coordinator, "leaders": leaders},
        )
        step = evaluator.call(self.model.world.produced, [self.k, world, batch, HERE])
        actors = step.actor
        after = self.before.changed(
            coordinator=actors.coordinator,
            leader=actors.leaders.value,
            awaited=ite(
                actors.coordinator.is_appending & ~self.before.coordinator.is_appending,
                NOBODY_WAITS,
                self.before.awaited,
            ),
            turn_of=self.numbered(actors.leaders.value),
            trespassed=self.trespassed(batch, actors.leaders.value),
        )
        return evaluator, after, step.sends.slots[0]

    def numbered(self, leader: Rec) -> Predicate:
        """A record that is new is of its sender's transaction."""
        before = self.before
        end = before.leader.log.length
        grew = end < leader.log.length
        return lambda offset: ite(grew & offset.eq(end), SENDERS, before.turn_of(offset))

    def trespassed(self, batch: Rec, leader: Rec) -> Any:
        """A batch was written although it is of an older pair than the reign."""
        reign = self.before.reign
        grew: Node = self.before.leader.log.length < leader.log.length
        old = is_older(pair(batch), reign)
        return old & grew | self.before.trespassed

    def leader_takes(self, name: str, rule: Callable[..., Any], *more: Any) -> ProofStep:
        """Any batch is for the leader, whatever the coordinator would say."""
        evaluator, batch = self.evaluator(), self.batch()
        step = evaluator.call(rule, [self.k, self.before.leader, batch, *more])
        leader = step.fields.get("actor", step)
        return self.make_step(name, evaluator, self.before.changed(leader=leader), is_batch(batch))

    def leader_restarts(self) -> ProofStep:
        """The leader's broker comes back."""
        evaluator = self.evaluator()
        leader = evaluator.call(self.model.leader.restarted, [self.k, self.before.leader])
        return self.make_step("restarted", evaluator, self.before.changed(leader=leader))

    def other_writes(self) -> ProofStep:
        """Another transactional id writes here, or ends what it wrote."""
        evaluator = self.evaluator()
        leader = evaluator.call(self.model.leader.on_other, [self.k, self.before.leader])
        return self.make_step("other_writes", evaluator, self.before.changed(leader=leader))


# Ghosts

SENDERS = number("senders")
"""Which transaction the sender of a request is in, as the coordinator counts them."""
wanted = UnknownState.wanted


def witnesses(mark: str) -> dict[str, Node]:
    """A partition that works, and one that was asked for, if there are any."""
    return {name: number(f"{name}{mark}") for name in ("works_at", "asked_at")}


def is_batch(batch: Scalars) -> Formula:
    """Epochs and sequences begin at 0."""
    return (), (batch.producer_id >= 0) & (batch.producer_epoch >= 0) & (batch.base_sequence >= 0)


def is_request(request: Rec, kind: str) -> Formula:
    """Only InitProducerId may show no epoch."""
    return (), const(kind == "init") | (request.producer_epoch >= 0)


def is_success(answer: Scalars) -> Node:
    """The answer tells a producer id and an epoch."""
    return answer.error.eq(0) & ~answer.producer_id.eq(NONE)


def with_answer(state: Any, heard: Node, answer: Any, waits: Node) -> Any:
    """A pair is told to somebody, who waits for what `waits` says."""
    told = pair(answer)
    known = state.given(*told)
    reigns = heard & ~waits.eq(NOBODY_WAITS)
    anew = heard & waits.eq(ANEW)
    back = is_older(told, state.reign)
    return state.changed(
        given=state.given.plus(told, heard),
        repeated=state.repeated | anew & known,
        went_back=state.went_back | reigns & back,
        reign=choose(reigns, told, state.reign),
    )


def same_state(one: Rec, other: Rec) -> Node:
    """Two images are in one state: neither follows the other."""
    states = (image.metadata.state for image in (one, other))
    return eq(*states)


def prepares(model: Model, image: Any) -> tuple[Node, Node]:
    """Whether an image is PREPARE, and of which decision: 1 is commit."""
    states = model.coordinator.TransactionState
    state = image.metadata.state
    commits = state.eq(int(states.PREPARE_COMMIT))
    aborts = state.eq(int(states.PREPARE_ABORT))
    return commits | aborts, ite(commits, 1, 0)


def with_outcome(model: Model, state: Any, reached: Node, image: Rec) -> Any:
    """The present transaction is prepared; or it is complete, and the next one's turn comes."""
    is_prepare, outcome = prepares(model, image)
    states = model.coordinator.TransactionState
    now = image.metadata.state
    complete = disjunction(now.eq(int(s)) for s in (states.COMPLETE_COMMIT, states.COMPLETE_ABORT))
    turn = state.turn

    def outcome_of(n: Node) -> Node:
        decides = reached & is_prepare & n.eq(turn)
        return ite(decides, outcome, state.outcome_of(n))

    over = reached & complete
    following = ite(over, turn + 1, turn)
    return state.changed(outcome_of=outcome_of, turn=following)


def with_decision(model: Model, state: Any, reached: Node, image: Rec) -> Any:
    """PREPARE is known: the pair of its markers is decided, and stays so."""
    state = with_outcome(model, state, reached, image)
    is_prepare, outcome = prepares(model, image)
    decides = reached & is_prepare
    if decides is FALSE:
        return state
    marked = pair(image.metadata)
    earlier = state.decision(*marked)
    other = decides & ~earlier.eq(NONE) & ~earlier.eq(outcome)

    def decision(p: Node, e: Node) -> Node:
        return ite(decides & both_are((p, e), marked), outcome, state.decision(p, e))

    return state.changed(decision=decision, contradicted=state.contradicted | other)


IMAGE = (
    "last_producer_epoch",
    "previous_producer_id",
    "next_producer_id",
    "state",
    "producer_id",
    "producer_epoch",
)
"""What an image says, but for its partitions."""


def differs(state: Any, actor: Rec) -> Node:
    """The coordinator is not as it was: in what it knows, or in what it has begun to append."""
    after = state.changed(coordinator=actor)
    changes = [~state.coordinator.is_appending.eq(actor.is_appending)]
    for which in ("known", "logged", "appended"):
        old, new = getattr(state, which), getattr(after, which)
        changes += [~getattr(old, name).eq(getattr(new, name)) for name in IMAGE]
        changes.append(~old.partitions.at(HERE).eq(new.partitions.at(HERE)))
    return disjunction(changes)


def marker_key(marker: Any) -> tuple[Any, ...]:
    """What markers are told apart by."""
    committed = ite(marker.committed, 1, 0)
    return (*pair(marker), committed, marker.coordinator_epoch, marker.partition)


def was_sent(state: Any, marker: Scalars) -> Any:
    """Some coordinator has sent it, to this partition."""
    return state.sent(*marker_key(marker)[:-1]) & marker.partition.eq(HERE)


def also_sent(state: Any, marker: Rec) -> RecordSet:
    """One more marker that was sent, to whichever partition."""
    result: RecordSet = state.sent.plus(marker_key(marker)[:-1])
    return result


def with_marker(state: Any, marker: Rec, error: Node) -> Any:
    """A marker was taken: it ends all that its producer id has open."""
    taken = error.eq(0)
    producer_id = marker.producer_id
    log = state.leader.log

    def ended(offset: Node) -> Node:
        mine = log.at(offset).producer_id.eq(producer_id)
        is_open = mine & state.ended(offset).eq(NONE)
        inside = (offset >= 0) & (offset < log.length)
        return ite(taken & is_open & inside, log.length, state.ended(offset))

    def last_marker(p: Node) -> Node:
        return ite(taken & p.eq(producer_id), log.length, state.last_marker(p))

    return state.changed(ended=ended, last_marker=last_marker)


def merged(evaluator: UnboundedEvaluator, condition: Node, a: Rec, b: Rec) -> Rec:
    """a if condition else b."""
    from proofs.lift.containers import merge

    result: Rec = merge(evaluator.shapes, condition, a, b)
    return result


def _of_coordinator(name: str, *arguments: Node) -> Callable[[Transactions], ProofStep]:
    return lambda t: t.coordinator_moves(name, getattr(t.model.coordinator, name), *arguments)


STEPS: dict[str, Callable[[Transactions], ProofStep]] = {
    "init": lambda t: t.asked("init", t.model.coordinator.on_init_producer_id, "init"),
    "add": lambda t: t.asked("add", t.model.add_partitions.on_add_partitions, "add"),
    "end": lambda t: t.asked("end", t.model.end_txn.on_end_txn, "end"),
    "time_out": _of_coordinator("time_out"),
    "forget": _of_coordinator("forget"),
    "append_succeeds": Transactions.append_succeeds,
    "append_fails": lambda t: t.append_fails("append_fails", FALSE),
    "append_seems_to_fail": lambda t: t.append_fails("append_seems_to_fail", TRUE),
    "take_over": lambda t: t.takes_over("take_over", with_append=False),
    "take_over_with_append": lambda t: t.takes_over("take_over_with_append", with_append=True),
    "lose_requester": _of_coordinator("lose_requester"),
    "lose_marker": _of_coordinator("lose_marker", number("partition")),
    "skip_marker": Transactions.marker_is_skipped,
    "marker_is_sent": Transactions.marker_is_sent,
    "marker_is_answered": Transactions.marker_is_answered,
    "marker_is_written": Transactions.marker_is_written,
    "marker_arrives": Transactions.marker_arrives,
    "any_marker_arrives": Transactions.any_marker_arrives,
    "batch_arrives": lambda t: t.batch_arrives("batch_arrives", on_time=False),
    "batch_arrives_on_time": lambda t: t.batch_arrives("batch_arrives_on_time", on_time=True),
    "end_on_time": lambda t: t.asked(
        "end_on_time", t.model.end_txn.on_end_txn, "end", on_time=True
    ),
    "batch_is_taken": lambda t: t.leader_takes("batch_is_taken", t.model.leader.on_produce),
    "offsets_are_taken": lambda t: t.leader_takes(
        "offsets_are_taken", t.model.leader.on_offset_commit
    ),
    "is_asked": lambda t: t.leader_takes("is_asked", t.model.leader.verify),
    "refuse": lambda t: t.leader_takes(
        "refuse", t.model.leader.refuse, number("error"), truth("of_group")
    ),
    "hold": lambda t: t.leader_takes("hold", t.model.leader.hold),
    "on_verified": lambda t: t.leader_takes(
        "on_verified", t.model.leader.on_verified, number("guard")
    ),
    "restarted": Transactions.leader_restarts,
    "other_writes": Transactions.other_writes,
}
