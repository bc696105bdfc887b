"""Why no partition refuses the marker of the coordinator that leads, so that what is prepared
completes.

Theory of operation. A leader refuses a marker whose epoch, or whose coordinator's, is behind what
it knows; where KIP-1228 counts, also one that is not ahead of what it would close. So what it knows
has to be past: each epoch in it was once the coordinator's. The partition here is any, and what is
so of its leader is so of each; so the leaders of the others, which answer too, are assumed to be
like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.prove.clauses import Formula, implies
from proofs.prove.transactions.coordinator import (
    EPOCHS_END,
    ONGOING,
    OUTCOME,
    RULES,
    TERM,
    E,
    P,
    counts,
    ids_are_remembered,
    images,
    inside,
    is_answer,
    is_prepared,
)
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.state import HERE, NONE, State, any_leader, with_ghosts
from proofs.prove.transactions.steps import Transactions, also_sent, is_batch, pair
from proofs.prove.unknowns import number
from proofs.prove.worlds import WorldStep

ELSEWHERE = number("partition")


class Takers(Transactions):
    """The steps in which batches have pairs that somebody was told, and each leader answers."""

    def named(self, name: str) -> WorldStep:
        """A step by its name."""
        return TAKING[name](self) if name in TAKING else super().named(name)

    def told_batch(self) -> WorldStep:
        """Any batch of a pair that somebody was told arrives here."""
        batch = self.batch()
        evaluator, after, _ = self.delivered(batch)
        told: Formula = ((), self.before.given(*pair(batch.fields)))
        return self.told("told_batch", evaluator, after, is_batch(batch), told)

    def other_takes(self) -> WorldStep:
        """Another partition gets its marker, and answers; its leader is like the one here."""
        evaluator, rules = self.evaluator(), self.model.coordinator
        before = self.before
        other = any_leader(self.model, self.unknowns, ELSEWHERE)
        asked = evaluator.call(rules.marker_for, [self.k, before.coordinator, ELSEWHERE])
        marker = asked.fields["sends"].slots[0]
        step = evaluator.call(self.model.leader.on_marker, [self.k, other, marker])
        error = step.fields["sends"].slots[0]
        told = evaluator.call(
            rules.on_marker_written, [self.k, before.coordinator, ELSEWHERE, error]
        )
        after = with_ghosts(before, coordinator=told, sent=also_sent(before, marker))
        there: Formula = ((), dag.both(inside(ELSEWHERE), dag.negate(dag.eq(ELSEWHERE, HERE))))
        alike = (formula(with_ghosts(before, leader=other)) for formula in OF_LEADERS)
        return self.told("other_takes", evaluator, after, there, *alike)


TAKING: dict[str, Callable[[Takers], WorldStep]] = {
    "told_batch": Takers.told_batch,
    "other_takes": Takers.other_takes,
}


# Facts


def retries_are_taken() -> Formula:
    """A marker need not be newer than what it closes; or the coordinator's own aborts take the next
    epoch too, and everyone takes the next producer id where epochs end, and it is logged."""
    named = {name: RULES["Variant", name] for name in ("requests", "marker_epoch")}
    lenient = dag.either(dag.eq(named["requests"], const(1)), dag.eq(named["marker_epoch"], ZERO))
    rules = ("rotation", "id_memory")
    rotate = dag.conjunction(dag.eq(RULES["Variant", name], ZERO) for name in rules)
    rotates = implies(EPOCHS_END, dag.both(rotate, dag.eq(RULES["Variant", "level"], const(2))))
    fences = dag.eq(RULES["Variant", "fence"], ZERO)
    newer = dag.conjunction((dag.eq(named["marker_epoch"], const(1)), fences, rotates))
    return (), dag.either(lenient, newer)


def epochs_are_compared() -> Formula:
    """Where V2 is spoken, what is open in another epoch is not open for a batch."""
    speaks_v2 = dag.eq(RULES["Variant", "requests"], const(2))
    return (), implies(speaks_v2, dag.eq(RULES["Variant", "ongoing"], ZERO))


def must_be_newer() -> Node:
    """A marker must be newer than what it closes."""
    newer = dag.negate(dag.eq(RULES["Variant", "marker_epoch"], ZERO))
    return dag.both(newer, dag.eq(RULES["Variant", "requests"], const(2)))


# Clauses


def past(s: State, producer_id: Node, epoch: Node) -> Node:
    """A pair is not ahead of what is known; nor is it of the producer id that is to come, but for
    the first epoch."""
    count = s.coordinator.fields["given_producer_ids"]

    def behind(image: dict[str, Any]) -> Node:
        coming = dag.eq(producer_id, image["next_producer_id"])
        return dag.both(
            implies(
                dag.eq(producer_id, image["producer_id"]), dag.le(epoch, image["producer_epoch"])
            ),
            implies(coming, dag.le(epoch, ZERO)),
        )

    numbered = dag.both(dag.le(ZERO, producer_id), dag.lt(producer_id, count))
    return dag.both(numbered, images(s, behind))


def terms_are_past(s: State) -> Formula:
    """No coordinator's epoch at a leader, or in a marker, is ahead of the coordinator's."""
    now = s.coordinator.fields["coordinator_epoch"]
    sent = implies(s.sent(P, E, OUTCOME, TERM), dag.le(TERM, now))
    return (P, E, OUTCOME, TERM), dag.both(dag.le(entry(s, P)["coordinator_epoch"], now), sent)


def markers_are_past(s: State) -> Formula:
    """No marker that was ever sent is ahead of what is known."""
    return (P, E, OUTCOME, TERM), implies(s.sent(P, E, OUTCOME, TERM), past(s, P, E))


def written_is_past(s: State) -> Formula:
    """No epoch that a leader knows is ahead of what is known."""
    epoch = entry(s, P)["producer_epoch"]
    return (P,), dag.either(dag.eq(epoch, NONE), past(s, P, epoch))


def nobody_rests_at_the_last(s: State) -> Formula:
    """Where a marker must be newer, nobody comes to the last epoch but with the next producer
    id."""
    variables, remembered = ids_are_remembered(s)
    return variables, implies(must_be_newer(), remembered)


def told_is_before_its_marker(s: State) -> Formula:
    """Where a marker must be newer, nobody was told an epoch that a marker will have before PREPARE
    is known; nor that of a failed fence."""
    known = s.known("known")
    mine = dag.both(s.given(P, E), must_be_newer())

    failed = s.coordinator.fields["unlogged_fence"]

    def before(image: dict[str, Any]) -> Node:
        its = dag.eq(P, image["producer_id"])
        told = implies(mine, its, dag.lt(E, image["producer_epoch"]))
        newer = dag.lt(known["producer_epoch"], image["producer_epoch"])
        finished = dag.negate(dag.eq(known["state"], ONGOING))
        ahead = implies(finished, dag.eq(known["producer_id"], image["producer_id"]), newer)
        prepares = dag.both(must_be_newer(), is_prepared(image))
        return dag.either(is_prepared(known), implies(prepares, dag.both(told, ahead)))

    failed_here = dag.both(failed, dag.eq(P, known["producer_id"]))
    fenced = implies(mine, failed_here, dag.lt(E, known["producer_epoch"]))
    ongoing = dag.both(counts(s, "image"), dag.eq(s.known("image")["state"], ONGOING))
    unsaid = implies(ongoing, dag.negate(is_answer(s)))
    return (P, E), dag.conjunction((images(s, before), fenced, unsaid))


def open_is_before_its_marker(s: State) -> Formula:
    """Where a marker must be newer, what is open here is of an epoch before the marker's."""
    epoch = entry(s, P)["producer_epoch"]

    def before(image: dict[str, Any]) -> Node:
        mine = dag.eq(P, image["producer_id"])
        return implies(mine, is_prepared(image), dag.lt(epoch, image["producer_epoch"]))

    failed = dag.both(
        s.coordinator.fields["unlogged_fence"], dag.eq(P, s.known("known")["producer_id"])
    )
    fenced = implies(failed, dag.lt(epoch, s.known("known")["producer_epoch"]))
    facts = dag.both(images(s, before), fenced)
    return (P,), implies(must_be_newer(), is_open(s, P), facts)


def markers_are_taken(s: State) -> Formula:
    """No partition has refused a marker of the coordinator that leads."""
    return (), dag.negate(s.coordinator.fields["is_stopped"])


OF_LEADERS = (terms_are_past, written_is_past, open_is_before_its_marker)
"""What is so of each leader."""
