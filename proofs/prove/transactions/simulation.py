"""Compares the steps of a theorem about transactions with the transitions of a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from proofs.lift.source import Model
from proofs.prove.engine.actor_simulation import Simulation, SimulationResult
from proofs.prove.engine.composition import Composition, CompositionInduction
from proofs.prove.engine.missing_steps import actors_read
from proofs.prove.engine.scope_check import ScopeOfProof
from proofs.prove.engine.sizes import PREFIX
from proofs.prove.engine.step_evaluator import exchanged
from proofs.prove.engine.valuation import unknown
from proofs.prove.transactions.scope_states import TransactionsScopeState, left_in
from proofs.prove.transactions.symbolic_state import GHOSTS
from proofs.trace.messages import RuleCall

OWN = frozenset({*GHOSTS.values, "here", "me"})
"""The numbers that a state of a scope knows besides its world and its configuration."""


class ScopeUnknowns:
    """A state of a scope, read through the unknowns and functions of the proofs."""

    def __init__(self, state: TransactionsScopeState) -> None:
        self.state = state

    def value_of(self, name: str, arguments: tuple[int, ...]) -> int:
        """Return the value of an unknown, or of a function of numbers; 0 where a ghost has no
        value. Raises KeyError."""
        of_world = name.startswith(("w.", "len(w.", PREFIX))
        if not (of_world or arguments or self.knows(name.partition("[")[0])):
            raise KeyError(name)
        try:
            return int(unknown(self.state, name, list(arguments)))
        except StopIteration:
            return 0

    def knows(self, name: str) -> bool:
        """Whether a number belongs to the configuration, or is a ghost."""
        k = self.state.k
        return name in OWN or hasattr(k.variant, name) or hasattr(k.bounds, name)


class TransitionSimulation:
    """Compares the transitions of one scope with the steps of one theorem."""

    def __init__(self, of: Composition, model: Model, k: Any) -> None:
        self.model, self.k = model, k
        induction = CompositionInduction(of, model, k.variant.name)
        formulas = [induction.before[c.name] for c in of.clauses]
        classes = actors_read(induction.state, formulas, exchanged(model))
        self.steps = induction.steps
        self.watches = {
            "client": model.client.Client in classes,
            "coordinator": model.coordinator.Coordinator in classes,
            "leader": model.leader.Leader in classes,
        }

    def run(self, scope: ScopeOfProof) -> SimulationResult:
        """Compare each transition, for each watched partition and instance."""
        bounds, result = self.k.bounds, SimulationResult()
        leaders = bounds.partitions if self.watches["leader"] else 1
        clients = bounds.instances if self.watches["client"] else 1
        for here, me in product(range(leaders), range(clients)):
            actors = partial(self.actors, here=here, me=me)
            view = partial(self.view, here=here, me=me)
            simulation = Simulation(self.model, self.k, self.steps, actors, view)
            seen = simulation.run(scope.graph, left_in(scope))
            result.matched += seen.matched
            result.unmatched |= seen.unmatched
        return result

    def actors(self, world: Any, *, here: int, me: int) -> dict[str, Any]:
        """Return the actors that the theorem's clauses read."""
        actors = {
            "client": world.clients[me],
            "coordinator": world.coordinator,
            "leader": world.leaders[here],
        }
        return {name: actor for name, actor in actors.items() if self.watches[name]}

    def view(
        self,
        world: Any,
        past: tuple[Any, Any],
        now: Mapping[str, Any],
        _call: RuleCall,
        *,
        here: int,
        me: int,
    ) -> ScopeUnknowns:
        """Return the state with the watched actors as they are at this point."""
        there = replace(
            world,
            clients=world.clients.put(me, now.get("client", world.clients[me])),
            coordinator=now.get("coordinator", world.coordinator),
            leaders=world.leaders.put(here, now.get("leader", world.leaders[here])),
        )
        return ScopeUnknowns(TransactionsScopeState(self.k, there, *past, here, me))


def simulate_transactions(of: Composition, scope: ScopeOfProof) -> SimulationResult:
    """Compare each transition of a scope with the steps."""
    return TransitionSimulation(of, scope.model, scope.k).run(scope)
