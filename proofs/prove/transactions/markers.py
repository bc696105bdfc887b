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

from model.transactions.coordinator import TransactionState as Txn
from proofs.lift.dag import Node, conjunction
from proofs.lift.values import Scalars
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.coordinator import (
    EPOCHS_END,
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
from proofs.prove.transactions.state import (
    HERE,
    NONE,
    TransactionsState,
    any_leader,
    pair,
    with_ghosts,
)
from proofs.prove.transactions.steps import Transactions, also_sent, is_batch
from proofs.prove.unknowns import number

ELSEWHERE = number("partition")


class Takers(Transactions):
    """The steps in which batches have pairs that somebody was told, and each leader answers."""

    def named(self, name: str) -> ProofStep:
        """A step by its name."""
        return TAKING[name](self) if name in TAKING else super().named(name)

    def deliver_known_batch(self) -> ProofStep:
        """Any batch of a pair that somebody was told arrives here."""
        batch = self.batch()
        evaluator, after, _ = self.deliver_batch(batch)
        told: Formula = ((), self.before.given(*pair(batch)))
        return self.make_step("told_batch", evaluator, after, is_batch(batch), told)

    def other_takes(self) -> ProofStep:
        """Another partition gets its marker, and answers; its leader is like the one here."""
        evaluator, rules = self.evaluator(), self.model.coordinator
        before = self.before
        other = any_leader(self.model, self.unknowns, ELSEWHERE)
        asked = evaluator.call(rules.marker_for, [self.k, before.coordinator, ELSEWHERE])
        marker = asked.sends.slots[0]
        step = evaluator.call(self.model.leader.on_marker, [self.k, other, marker])
        error = step.sends.slots[0]
        told = evaluator.call(
            rules.on_marker_written, [self.k, before.coordinator, ELSEWHERE, error]
        )
        after = with_ghosts(before, coordinator=told, sent=also_sent(before, marker))
        there: Formula = ((), inside(ELSEWHERE) & ~ELSEWHERE.eq(HERE))
        alike = (formula(with_ghosts(before, leader=other)) for formula in OF_LEADERS)
        return self.make_step("other_takes", evaluator, after, there, *alike)


TAKING: dict[str, Callable[[Takers], ProofStep]] = {
    "told_batch": Takers.deliver_known_batch,
    "other_takes": Takers.other_takes,
}


# Facts


def retries_are_taken() -> Formula:
    """A marker need not be newer than what it closes; or the coordinator's own aborts take the next
    epoch too, and everyone takes the next producer id where epochs end, and it is logged."""
    requests, marker_epoch = RULES["Variant", "requests"], RULES["Variant", "marker_epoch"]
    lenient = requests.eq(1) | marker_epoch.eq(0)
    rules = ("rotation", "id_memory")
    rotate = conjunction(RULES["Variant", name].eq(0) for name in rules)
    rotates = EPOCHS_END.implies(rotate & RULES["Variant", "level"].eq(2))
    fences = RULES["Variant", "fence"].eq(0)
    newer = marker_epoch.eq(1) & fences & rotates
    return (), lenient | newer


def epochs_are_compared() -> Formula:
    """Where V2 is spoken, what is open in another epoch is not open for a batch."""
    speaks_v2 = RULES["Variant", "requests"].eq(2)
    return (), speaks_v2.implies(RULES["Variant", "ongoing"].eq(0))


def must_be_newer() -> Node:
    """A marker must be newer than what it closes."""
    newer = ~RULES["Variant", "marker_epoch"].eq(0)
    return newer & RULES["Variant", "requests"].eq(2)


# Clauses


def past(s: TransactionsState, producer_id: Node, epoch: Node) -> Node:
    """A pair is not ahead of what is known; nor is it of the producer id that is to come, but for
    the first epoch."""
    count: Node = s.coordinator.given_producer_ids

    def behind(image: Scalars) -> Node:
        coming = producer_id.eq(image.next_producer_id)
        same = producer_id.eq(image.producer_id)
        return same.implies(epoch <= image.producer_epoch) & coming.implies(epoch <= 0)

    numbered = (producer_id >= 0) & (producer_id < count)
    return numbered & images(s, behind)


def terms_are_past(s: TransactionsState) -> Formula:
    """No coordinator's epoch at a leader, or in a marker, is ahead of the coordinator's."""
    now = s.coordinator.coordinator_epoch
    sent = s.sent(P, E, OUTCOME, TERM).implies(now >= TERM)
    return (P, E, OUTCOME, TERM), (entry(s, P).coordinator_epoch <= now) & sent


def markers_are_past(s: TransactionsState) -> Formula:
    """No marker that was ever sent is ahead of what is known."""
    return (P, E, OUTCOME, TERM), s.sent(P, E, OUTCOME, TERM).implies(past(s, P, E))


def written_is_past(s: TransactionsState) -> Formula:
    """No epoch that a leader knows is ahead of what is known."""
    epoch = entry(s, P).producer_epoch
    return (P,), epoch.eq(NONE) | past(s, P, epoch)


def nobody_rests_at_the_last(s: TransactionsState) -> Formula:
    """Where a marker must be newer, nobody comes to the last epoch but with the next producer
    id."""
    variables, remembered = ids_are_remembered(s)
    return variables, must_be_newer().implies(remembered)


def told_is_before_its_marker(s: TransactionsState) -> Formula:
    """Where a marker must be newer, nobody was told an epoch that a marker will have before PREPARE
    is known; nor that of a failed fence."""
    known = s.known("known")
    mine = s.given(P, E) & must_be_newer()

    failed = s.coordinator.unlogged_fence

    def before(image: Scalars) -> Node:
        its = P.eq(image.producer_id)
        told = (mine & its).implies(image.producer_epoch > E)
        newer = known.producer_epoch < image.producer_epoch
        finished = ~known.state.eq(Txn.ONGOING)
        ahead = (finished & known.producer_id.eq(image.producer_id)).implies(newer)
        prepares = must_be_newer() & is_prepared(image)
        return is_prepared(known) | prepares.implies(told & ahead)

    failed_here = failed & P.eq(known.producer_id)
    fenced = (mine & failed_here).implies(known.producer_epoch > E)
    ongoing = counts(s, "image") & s.known("image").state.eq(Txn.ONGOING)
    unsaid = ongoing.implies(~is_answer(s))
    return (P, E), images(s, before) & fenced & unsaid


def open_is_before_its_marker(s: TransactionsState) -> Formula:
    """Where a marker must be newer, what is open here is of an epoch before the marker's."""
    epoch = entry(s, P).producer_epoch

    def before(image: Scalars) -> Node:
        mine = P.eq(image.producer_id)
        return (mine & is_prepared(image)).implies(epoch < image.producer_epoch)

    failed = s.coordinator.unlogged_fence & P.eq(s.known("known").producer_id)
    fenced = failed.implies(epoch < s.known("known").producer_epoch)
    facts = images(s, before) & fenced
    return (P,), (must_be_newer() & is_open(s, P)).implies(facts)


def markers_are_taken(s: TransactionsState) -> Formula:
    """No partition has refused a marker of the coordinator that leads."""
    return (), ~s.coordinator.is_stopped


OF_LEADERS = (terms_are_past, written_is_past, open_is_before_its_marker)
"""What is so of each leader."""
