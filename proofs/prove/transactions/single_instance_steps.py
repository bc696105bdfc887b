"""The rules of the world, with one instance of which nothing is late.

Theory of operation. The rules move the world as they stand, with one instance, its coordinator, and
the partition of each step, which is any: what is so of the leader here is so of each. Markers may
be late, and answers may be lost.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from proofs.lift.containers import FocusMap
from proofs.lift.dag import ZERO, leaf
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.single_instance import OF_LEADERS
from proofs.prove.transactions.state import (
    HERE,
    PARTITIONS,
    any_leader,
)
from proofs.prove.transactions.steps import Transactions, merged, witnesses
from proofs.prove.unknowns import number

PARTITION = number("partition")
"""The partition of a step."""
CHOICES = {
    "instance": ZERO,
    "partition": PARTITION,
    **{n: leaf(n, 0, 1) for n in ("heard", "waits")},
}


class SoleInstanceSteps(Transactions):
    """The rules of the world, with one instance of which nothing is late."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        client = self.unknowns.record(model.client.Client, "w.clients", (ZERO,))
        self.before = self.before.changed(client=client, **witnesses(""))

    def initial(self) -> Any:
        """Nobody has begun."""
        client = self.world.clients.at(ZERO)
        return super().initial().changed(client=client, **witnesses(""))

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
        moved = before.changed(
            coordinator=after.coordinator,
            leader=before.leader if after.leaders.value is there else here,
        )
        alike = (self.lifter.formula(f, before.changed(leader=there)) for f in OF_LEADERS)
        state = moved.changed(client=after.clients.slots[0], **witnesses("'"))
        return self.make_step(
            name, evaluator, state, ((), (PARTITION >= 0) & (PARTITION < PARTITIONS)), *alike
        )

    def make_step(
        self, name: str, evaluator: UnboundedEvaluator, after: Any, *more: Formula
    ) -> ProofStep:
        """The step; partitions stand for those that there are."""
        return super().make_step(name, evaluator, after, *more, *self.are_witnesses(after))
