"""The steps of an instance that is on time, where transactions are counted: V1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proofs.lift.dag import ite
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.composition import Composition
from proofs.prove.induction import ProofStep
from proofs.prove.smt import Formula
from proofs.prove.transactions.client import present
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.instances import (
    Instances,
    is_instance,
)
from proofs.prove.transactions.state import (
    ME,
    NOTHING,
    Ghosts,
)
from proofs.prove.transactions.steps import SENDERS, merged, witnesses
from proofs.prove.unknowns import truth

GHOSTS = Ghosts({}, {"its_turn": NOTHING}, {})


class OrdinalSteps(Instances):
    """The steps of an instance that is on time, and of others who need not be."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        super().__init__(of, model, variant)
        self.before = self.before.changed(**GHOSTS.unknown(), **witnesses(""))

    def initial(self) -> Any:
        """Nobody has begun."""
        return super().initial().changed(**GHOSTS.first(), **witnesses(""))

    def named(self, name: str) -> ProofStep:
        """A step by its name."""
        return ON_TIME[name](self) if name in ON_TIME else super().named(name)

    def make_step(
        self, name: str, evaluator: UnboundedEvaluator, after: Any, *more: Formula
    ) -> ProofStep:
        """The step. A record is of the turn in which it comes into the log."""
        counted: Formula = ((), SENDERS.eq(self.before.turn))
        after = after.changed(**witnesses("'"))
        return super().make_step(name, evaluator, after, counted, *self.are_witnesses(after), *more)

    def with_client(self, client: Rec, state: Any | None = None) -> Any:
        """The instance after a step. A transaction has its turn once it is started."""
        after = super().with_client(client, state)
        before = self.before
        started = before.client.is_started
        begins = client.is_started & ~started
        mine, old = present(before), after.its_turn
        return after.changed(its_turn=lambda t: ite(begins & t.eq(mine), before.turn, old(t)))

    def append_is_heard(self, step: ProofStep, answer: Rec) -> ProofStep:
        """The instance hears of an append, if it is the one that waits."""
        heard = super().append_is_heard(step, answer)
        after = heard.after.changed(**witnesses("''"))
        return replace(heard, after=after, assumed=(*heard.assumed, *self.are_witnesses(after)))

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
        after = self.with_client(client, moved)
        return self.make_step(name, evaluator, after, is_instance())


ON_TIME: dict[str, Callable[[OrdinalSteps], ProofStep]] = {
    "i_add": lambda s: s.adds("i_add", "add_partitions"),
    "i_add_offsets": lambda s: s.adds("i_add_offsets", "add_offsets"),
    "add": lambda s: s.deliver_from_others("add", s.model.add_partitions.on_add_partitions, "add"),
}
