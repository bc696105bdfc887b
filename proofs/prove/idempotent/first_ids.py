"""No client sends before it has a producer id: an induction over the rules of a client.

Theory of operation. As long as no producer id was given to any client, a client has no id and has
done nothing; without an id it may not send. Each rule of the client is evaluated on any client, and
so is the world's rule that gives an id; no other rule changes a client. The goal is the guarantee
in the text of the model, together with what makes it inductive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from proofs.lift.dag import ZERO, Node, conjunction, const, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.step_evaluator import actor_of
from proofs.prove.engine.unknowns import number
from proofs.prove.idempotent.rule_lemmas import WRAPPING
from proofs.prove.idempotent.symbolic_state import Builder

NONE = const(-1)
GIVEN = number("given_producer_ids")
"""The number of producer ids that were given, to any client."""
OVERDUE = leaf("overdue", 0, 5)
"""The number of batches in flight whose time is up."""


@dataclass(frozen=True, slots=True)
class FirstIdState:
    """One client, and the number of producer ids that were given."""

    client: Rec
    given: Node


class FirstIds:
    """The rules of any client, with or without an id."""

    def __init__(self, model: Model, k: Any) -> None:
        bounds = replace(k.bounds, begun=False, without_producer_id=True, more_producer_ids=1)
        self.model = model
        self.k = replace(k, bounds=bounds)
        self.builder = Builder(model, self.k, WRAPPING)
        self.before = FirstIdState(self.builder.record(model.client.Client, "client"), GIVEN)

    def holds(self, of: FirstIdState) -> Node:
        """Return the guarantee, and that a client which cannot have an id has done nothing."""
        guaranteed = self.builder.guarantee("ids_come_first", self.world(of))
        idle = (of.given > 0) | has_done_nothing(of.client)
        return (of.given >= 0) & guaranteed & idle

    def world(self, of: FirstIdState) -> Rec:
        """Return the world with one client."""
        clients = MapValue((of.client,))
        return self.builder.world(clients=clients, given_producer_ids=of.given)

    def initial(self) -> FirstIdState:
        """Return the initial state of every scope that begins without ids."""
        world = self.model.scopes.initial(self.k)
        client = self.builder.evaluator().lift(world.clients[0])
        return FirstIdState(client, const(world.given_producer_ids))

    def rules(self) -> Iterator[tuple[str, Evaluator, FirstIdState]]:
        """Yield each rule by name, with its guards and the state after it."""
        client, gives = self.model.client.Client, self.model.recovery.receive_producer_id
        for name, function in self.model.actor_rules.items():
            if actor_of(function) is client and function is not gives:
                evaluator = self.builder.evaluator()
                arguments = map(self.argument, list(signature(function).parameters)[2:])
                after = evaluator.call(function, [self.k, self.before.client, *arguments])
                yield name, evaluator, FirstIdState(after.fields.get("actor", after), GIVEN)
        yield self.giving()

    def argument(self, name: str) -> Any:
        """Return any argument of a rule, at one partition."""
        if name == "answer":
            return self.builder.record(self.model.messages.ProduceResponse, name)
        return ZERO if name == "partition" else number(name)

    def giving(self) -> tuple[str, Evaluator, FirstIdState]:
        """Return the world's rule that gives an id, applied to this client; ids given to others are
        greater."""
        rule, evaluator = (self.model.world.client_receives_producer_id, self.builder.evaluator())
        after = evaluator.call(rule, [self.k, self.world(self.before), ZERO])
        begun = FirstIdState(after.clients.slots[0], after.given_producer_ids)
        return rule.__name__, evaluator, begun


def has_done_nothing(client: Rec) -> Node:
    """Return that a client has no id, has sent nothing and asks for nothing."""
    fields = client
    facts = [fields.producer_id.eq(NONE)]
    facts += [~bit for bit in fields.bump_for.bits]
    for slot in fields.partitions.slots:
        entry = slot
        facts += [
            entry.records_sent.eq(0),
            entry.in_flight.length.eq(0),
            entry.given_up.length.eq(0),
            entry.unresolved_sequence.eq(NONE),
        ]
    return conjunction(facts)


def first_id_lemmas(model: Model, k: Any) -> Iterator[ProofObligation]:
    """Yield the obligations for the initial state and for each rule."""
    of = FirstIds(model, k)
    yield obligation("initial/ids_come_first", [], ((), of.holds(of.initial())))
    known: Formula = ((), of.holds(of.before))
    for name, evaluator, after in of.rules():
        guards: list[Formula] = [((), x.condition) for x in evaluator.limits if not x.by_scope]
        yield obligation(f"{name}/ids_come_first", [known, *guards], ((), of.holds(after)))
