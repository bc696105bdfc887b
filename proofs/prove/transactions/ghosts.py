"""Updates the ghosts after a step, from the actors' rules that the step applies.

Theory of operation. A step evaluates texts of the model. `StepEvaluator` notes each actor's rule
that these apply, with its arguments, its result, and the condition under which it is reached. The
ghosts follow from these notes alone, so no step declares how it changes a ghost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model.transactions.coordinator import TransactionState as Txn
from proofs.lift.dag import FALSE, Node, conjunction, const, disjunction, ite
from proofs.lift.values import Rec, Scalars
from proofs.prove.engine.step_evaluator import RuleApplication
from proofs.prove.engine.unknowns import number
from proofs.prove.transactions.symbolic_state import (
    AGAIN,
    ANEW,
    ME,
    NOBODY_WAITS,
    NONE,
    SENDERS,
    both_are,
    choose,
    is_older,
    pair,
)


@dataclass(frozen=True, slots=True)
class RuleEffect:
    """A rule that a step applies to a state, and whether the sender receives the answer."""

    before: Any
    call: RuleApplication
    heard: Node

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The rule's arguments, without the configuration and the actor."""
        return self.call.arguments[2:]

    @property
    def actor(self) -> Any:
        """The actor afterwards."""
        return self.call.result.fields.get("actor", self.call.result)

    @property
    def sends(self) -> Any:
        """The messages that the rule sends."""
        return self.call.result.sends

    def reached(self, *conditions: Node) -> Node:
        """Return whether the rule is applied and some conditions hold."""
        return conjunction((self.call.path, *conditions))


# The coordinator


def is_success(answer: Scalars) -> Node:
    """Return whether the answer contains a producer id and an epoch."""
    return answer.error.eq(0) & ~answer.producer_id.eq(NONE)


def with_answer(state: Any, heard: Node, answer: Any, waits: Node) -> Any:
    """Record that a pair is told to a client, whose wait `waits` describes."""
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


def begin_append(taken: RuleEffect, state: Any, waits: Node) -> Any:
    """Record that the coordinator may have begun an append, with the wait that `waits`
    describes."""
    old, actor = taken.before, taken.actor
    begun = taken.reached(actor.is_appending, ~old.coordinator.is_appending)
    waiting = ite(is_success(actor.answer), waits, NOBODY_WAITS)
    return state.changed(awaited=ite(begun, waiting, old.awaited))


def others_hear(state: Any, requester: Node, answer: Any, told: Node) -> Any:
    """Record that a pair told to another instance belongs to the others."""
    others = told & ~requester.eq(ME) & ~requester.eq(NONE)
    return state.changed(others_hold=state.others_hold.plus(pair(answer), others))


def answer_request(taken: RuleEffect, state: Any, waits: Node) -> Any:
    """Record the effect of a request that is answered with a pair at once, or begins an append for
    it."""
    _, requester = taken.inputs
    answer = taken.sends.slots[0]
    told = taken.reached(taken.sends.length > 0, is_success(answer))
    state = begin_append(taken, with_answer(state, told, answer, waits), waits)
    return others_hear(state, requester, answer, told)


def on_init(taken: RuleEffect, state: Any) -> Any:
    """InitProducerId: a client that expects another pair than the present one may be told that pair
    again."""
    request, _ = taken.inputs
    same = both_are(pair(request), pair(taken.before.known))
    expects = ~request.producer_id.eq(NONE)
    return answer_request(taken, state, ite(expects & ~same, AGAIN, ANEW))


def on_end(taken: RuleEffect, state: Any) -> Any:
    """EndTxn: the answer contains a pair, although no client waits for one."""
    return disturb(taken, answer_request(taken, state, const(NOBODY_WAITS)))


def on_addition(taken: RuleEffect, state: Any) -> Any:
    """An addition: the answer contains no pair."""
    return disturb(taken, begin_append(taken, state, const(NOBODY_WAITS)))


def disturb(taken: RuleEffect, state: Any) -> Any:
    """Record whether the coordinator changes although the request's pair is older than the
    reign."""
    request, _ = taken.inputs
    old = is_older(pair(request), taken.before.reign)
    changes = taken.reached(old, differs(taken.before, taken.actor))
    return state.changed(disturbed=changes | taken.before.disturbed)


def on_appended(taken: RuleEffect, state: Any) -> Any:
    """An append succeeds: its image is in the log, and a client that waits is told."""
    old = taken.before.coordinator
    good = taken.reached(is_success(old.answer))
    state = with_answer(state, good, old.answer, taken.before.awaited)
    return nobody_waits(taken, others_hear(state, old.requester, old.answer, good))


def nobody_waits(taken: RuleEffect, state: Any) -> Any:
    """Record that no append is under way any more."""
    return state.changed(awaited=ite(taken.call.path, NOBODY_WAITS, state.awaited))


def on_take_over(taken: RuleEffect, state: Any) -> Any:
    """Another broker has read the log: a prepared image there becomes known, if it was not
    before."""
    old = taken.before.coordinator
    read = old.image if taken.call.rule.__name__ == "take_over_with_append" else old.log
    news = ~read.metadata.state.eq(old.known.metadata.state)
    return with_decision(nobody_waits(taken, state), taken.reached(news), read)


def prepares(image: Any) -> tuple[Node, Node]:
    """Return whether an image is PREPARE, and its decision: 1 is to commit."""
    state = image.metadata.state
    commits, aborts = state.eq(int(Txn.PREPARE_COMMIT)), state.eq(int(Txn.PREPARE_ABORT))
    return commits | aborts, ite(commits, 1, 0)


def with_outcome(state: Any, reached: Node, image: Rec) -> Any:
    """Record the outcome if the present transaction is prepared, and begin the next turn if it
    completes."""
    is_prepare, outcome = prepares(image)
    now, turn = image.metadata.state, state.turn
    complete = disjunction(now.eq(int(s)) for s in (Txn.COMPLETE_COMMIT, Txn.COMPLETE_ABORT))

    def outcome_of(n: Node) -> Node:
        decides = reached & is_prepare & n.eq(turn)
        return ite(decides, outcome, state.outcome_of(n))

    over = reached & complete
    return state.changed(outcome_of=outcome_of, turn=ite(over, turn + 1, turn))


def with_decision(state: Any, reached: Node, image: Rec) -> Any:
    """PREPARE becomes known: record the decision of its markers' pair, which is final."""
    state = with_outcome(state, reached, image)
    is_prepare, outcome = prepares(image)
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
"""The fields of an image, without its partitions."""


def differs(state: Any, actor: Rec) -> Node:
    """Return whether the coordinator has changed in what it knows, or in what it has begun to
    append."""
    after = state.changed(coordinator=actor)
    changes = [~state.coordinator.is_appending.eq(actor.is_appending)]
    for which in ("known", "logged", "appended"):
        old, new = getattr(state, which), getattr(after, which)
        changes += [~getattr(old, name).eq(getattr(new, name)) for name in IMAGE]
        changes.append(~old.partitions.at(state.here).eq(new.partitions.at(state.here)))
    return disjunction(changes)


def on_marker_sent(taken: RuleEffect, state: Any) -> Any:
    """Record one more marker that was sent, to any partition."""
    marker = taken.sends.slots[0]
    key = (*pair(marker), ite(marker.committed, 1, 0), marker.coordinator_epoch)
    return state.changed(sent=state.sent.plus(key, taken.call.path))


# The leader here


def on_marker(taken: RuleEffect, state: Any) -> Any:
    """A marker that the leader accepts ends everything that its producer id has open."""
    (marker,) = taken.inputs
    is_taken = taken.reached(taken.sends.slots[0].eq(0))
    log = taken.before.leader.log

    def ended(offset: Node) -> Node:
        mine = log.at(offset).producer_id.eq(marker.producer_id)
        is_open = mine & state.ended(offset).eq(NONE)
        inside = (offset >= 0) & (offset < log.length)
        return ite(is_taken & is_open & inside, log.length, state.ended(offset))

    def last_marker(p: Node) -> Node:
        return ite(is_taken & p.eq(marker.producer_id), log.length, state.last_marker(p))

    return state.changed(ended=ended, last_marker=last_marker)


def on_batch(taken: RuleEffect, state: Any) -> Any:
    """A new record is placed at the log's end, with its sender and transaction. Record whether it
    was written although its pair is older than the reign."""
    batch, before = taken.inputs[0], taken.before
    end = before.leader.log.length
    grew = end < state.leader.log.length
    key = (*pair(batch), batch.base_sequence)
    mine = (batch.transaction, batch.number)
    its_own = grew & batch.instance.eq(ME)

    def is_it(where: Node, asked: tuple[Node, ...], one: tuple[Any, ...]) -> Node:
        return conjunction((where, *(a.eq(b) for a, b in zip(asked, one, strict=True))))

    return state.changed(
        turn_of=lambda i: ite(grew & i.eq(end), SENDERS, before.turn_of(i)),
        trespassed=is_older(pair(batch), before.reign) & grew | before.trespassed,
        placed=lambda *of: ite(is_it(grew, of, key), end, before.placed(*of)),
        copy_at=lambda *of: ite(is_it(its_own, of, mine), end, before.copy_at(*of)),
    )


# The instance


def present(state: Any) -> Node:
    """Return the number of the instance's present transaction."""
    number_: Node = state.client.begun - 1
    return number_


def on_batch_sent(taken: RuleEffect, state: Any) -> Any:
    """Record the pair and the sequence with which a batch is sent first."""
    batch, before = taken.sends.slots[0].batch, taken.before
    key = (present(before), batch.number)
    is_new: Node = ~before.sent_batch(*key)

    def is_it(t: Node, n: Node) -> Node:
        return both_are((t, n), key) & is_new

    def batch_pair(t: Node, n: Node) -> tuple[Node, ...]:
        return choose(is_it(t, n), pair(batch), before.batch_pair(t, n))

    def batch_sequence(t: Node, n: Node) -> Node:
        sequence: Node = batch.base_sequence
        return ite(is_it(t, n), sequence, before.batch_sequence(t, n))

    sent = before.sent_batch.plus(key)
    return state.changed(sent_batch=sent, batch_pair=batch_pair, batch_sequence=batch_sequence)


def on_batch_answered(taken: RuleEffect, state: Any) -> Any:
    """Record that a batch is acknowledged."""
    _, answer = taken.inputs
    place = taken.before.client.partitions.at(taken.before.here)
    key = (present(taken.before), place.written - 1)
    good = taken.reached(taken.heard, answer.error.eq(0))
    return state.changed(acked=state.acked.plus(key, good))


def on_end_sent(taken: RuleEffect, state: Any) -> Any:
    """Record that the end of the present transaction was sent."""
    commits = ite(taken.sends.slots[0].committed, 1, 0)
    return state.changed(sent_end=state.sent_end.plus((present(taken.before), commits)))


def of_instance(before: Any, state: Any) -> Any:
    """Update what belongs to the instance: the pairs that it was told, and the pair and turn of a
    transaction that starts. The witnesses of its partitions are set from its state."""
    now, client = pair(state.client), state.client
    begins = client.is_started & ~before.client.is_started
    mine, told, old, turn = present(before), pair(before.client), before.its_pair, before.its_turn
    return state.changed(
        its_pair=lambda t: choose(begins & t.eq(mine), told, old(t)),
        its_turn=lambda t: ite(begins & t.eq(mine), before.turn, turn(t)),
        holds_pair=state.holds_pair.plus(now, ~client.producer_id.eq(NONE)),
        **{name: number(f"{name}'") for name in ("works_at", "asked_at")},
    )


Remembers = Callable[[RuleEffect, Any], Any]
"""Updates the ghosts after an application of a rule."""
ANYWHERE: Mapping[str, Remembers] = {
    "on_init_producer_id": on_init,
    "on_add_partitions": on_addition,
    "on_end_txn": on_end,
    "append_succeeds": on_appended,
    "append_fails": nobody_waits,
    "take_over": on_take_over,
    "take_over_with_append": on_take_over,
    "marker_for": on_marker_sent,
    "end_transaction": on_end_sent,
}
AT_PARTITION: Mapping[str, Remembers] = {
    "on_marker": on_marker,
    "on_produce": on_batch,
    "on_offset_commit": on_batch,
    "produce": on_batch_sent,
    "commit_offsets": on_batch_sent,
    "on_produced": on_batch_answered,
    "on_offsets_committed": on_batch_answered,
}
"""The rules that change ghosts wherever they are applied, and those at the partition here."""
HEARS = ("on_marker_written",)
"""The coordinator's rules on answers: if the answer is lost, the rule has no effect."""


def remembers(rule: str, *, is_here: bool) -> Remembers:
    """Return how ghosts change after a rule, by its name; most rules leave them unchanged."""
    known = {**ANYWHERE, **AT_PARTITION} if is_here else ANYWHERE
    return known.get(rule, lambda _taken, state: state)
