"""Steps in which each leader takes, or refuses, the marker of the coordinator that leads."""

from __future__ import annotations

from collections.abc import Callable

from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.markers import OF_LEADERS
from proofs.prove.transactions.state import HERE, PARTITIONS, any_leader, pair
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
        after = before.changed(coordinator=told, sent=also_sent(before, marker))
        there: Formula = ((), (ELSEWHERE >= 0) & (ELSEWHERE < PARTITIONS) & ~ELSEWHERE.eq(HERE))
        alike = (self.lifter.formula(f, before.changed(leader=other)) for f in OF_LEADERS)
        return self.make_step("other_takes", evaluator, after, there, *alike)


TAKING: dict[str, Callable[[Takers], ProofStep]] = {
    "told_batch": Takers.deliver_known_batch,
    "other_takes": Takers.other_takes,
}
