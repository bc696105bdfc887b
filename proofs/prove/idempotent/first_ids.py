"""Nobody sends before it has a producer id: an induction over what a client does.

Theory of operation. As long as no producer id was given to anybody, a client has none, and has
done nothing; without one it may not send. Each rule of the client is evaluated on any client, and
so is the world's rule that gives an id; no other rule moves a client. The goal is the guarantee in
its own words, together with what makes it inductive.
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
"""How many producer ids were given, to anybody."""
OVERDUE = leaf("overdue", 0, 5)
"""Of how many batches in flight the time is up."""


@dataclass(frozen=True, slots=True)
class FirstIdState:
    """One client, and how many producer ids were given."""

    client: Rec
    given: Node


class FirstIds:
    """The rules of any client, whether it has an id or not."""

    def __init__(self, model: Model, k: Any) -> None:
        bounds = replace(k.bounds, begun=False, without_producer_id=True, more_producer_ids=1)
        self.model = model
        self.k = replace(k, bounds=bounds)
        self.builder = Builder(model, self.k, WRAPPING)
        self.before = FirstIdState(self.builder.record(model.client.Client, "client"), GIVEN)

    def holds(self, of: FirstIdState) -> Node:
        """The guarantee, and that who can have no id has done nothing."""
        guaranteed = self.builder.guarantee("ids_come_first", self.world(of))
        idle = (of.given > 0) | has_done_nothing(of.client)
        return (of.given >= 0) & guaranteed & idle

    def world(self, of: FirstIdState) -> Rec:
        """The world with one client."""
        clients = MapValue((of.client,))
        return self.builder.world(clients=clients, given_producer_ids=of.given)

    def initial(self) -> FirstIdState:
        """Where every scope begins that has no ids yet."""
        world = self.model.scopes.initial(self.k)
        client = self.builder.evaluator().lift(world.clients[0])
        return FirstIdState(client, const(world.given_producer_ids))

    def rules(self) -> Iterator[tuple[str, Evaluator, FirstIdState]]:
        """Each rule by name, with its guards and what it leads to."""
        client, gives = self.model.client.Client, self.model.recovery.receive_producer_id
        for name, function in self.model.actor_rules.items():
            if actor_of(function) is client and function is not gives:
                evaluator = self.builder.evaluator()
                arguments = map(self.argument, list(signature(function).parameters)[2:])
                after = evaluator.call(function, [self.k, self.before.client, *arguments])
                yield name, evaluator, FirstIdState(after.fields.get("actor", after), GIVEN)
        yield self.giving()

    def argument(self, name: str) -> Any:
        """Any argument of a rule, at one partition."""
        if name == "answer":
            return self.builder.record(self.model.messages.ProduceResponse, name)
        return ZERO if name == "partition" else number(name)

    def giving(self) -> tuple[str, Evaluator, FirstIdState]:
        """The world's rule that gives an id, to this client; to others it is a greater number."""
        rule, evaluator = (self.model.world.client_receives_producer_id, self.builder.evaluator())
        after = evaluator.call(rule, [self.k, self.world(self.before), ZERO])
        begun = FirstIdState(after.clients.slots[0], after.given_producer_ids)
        return rule.__name__, evaluator, begun


def has_done_nothing(client: Rec) -> Node:
    """No id, nothing sent, nothing to ask for."""
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
    """It holds at first, and after each rule."""
    of = FirstIds(model, k)
    yield obligation("initial/ids_come_first", [], ((), of.holds(of.initial())))
    known: Formula = ((), of.holds(of.before))
    for name, evaluator, after in of.rules():
        guards: list[Formula] = [((), x.condition) for x in evaluator.limits if not x.by_scope]
        yield obligation(f"{name}/ids_come_first", [known, *guards], ((), of.holds(after)))
