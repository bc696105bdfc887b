"""Compares steps that are the rules of the world as written with the transitions of a scope.

For each transition, the step of its rule is evaluated in the world before, with the choices that
were made. The requirements of the step must hold there, and its result must be the world after,
ghosts included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from proofs.explore.source import SourceGraph
from proofs.lift.dag import Node, reachable
from proofs.prove.engine.actor_simulation import Expected, SimulationResult, expected
from proofs.prove.engine.induction import ProofStep
from proofs.prove.engine.valuation import compiled, unknown

FIRST = "first["
"""The prefix of the names of places that stand for the first of several elements."""


@dataclass(frozen=True, slots=True)
class WorldState:
    """A world, read through the unknowns and functions of the proofs."""

    k: Any
    world: Any
    functions: Mapping[str, Callable[..., int]]
    choices: Mapping[str, int]

    def value_of(self, name: str, *arguments: int) -> int:
        """Return the value of an unknown, or of a function of numbers."""
        if name in self.choices:
            return self.choices[name]
        if name in self.functions:
            return int(self.functions[name](self.k, *arguments))
        return int(unknown(self, name, list(arguments)))


def simulate_rules(
    steps: Iterable[ProofStep],
    k: Any,
    found: SourceGraph,
    functions: Mapping[str, Callable[..., int]],
) -> SimulationResult:
    """Compare each transition of a scope with the step of its rule. `functions` are the ghosts that
    are functions of numbers and take the configuration first."""
    by_rule, seen = {step.rule: step for step in steps}, SimulationResult()
    state = partial(WorldState, k, functions=functions)
    for before, instance, after in found.edges:
        rule, choice = found.instances[instance]
        why = "no step evaluates it"
        if rule in by_rule:
            chosen = state(found.worlds[before], choices=dict(choice))
            why = difference(by_rule[rule], chosen, found.worlds[after])
        if why:
            seen.refuse(rule, rule, why)
        else:
            seen.matched[rule] += 1
    return seen


def difference(step: ProofStep, state: WorldState, after: Any) -> str:
    """Return how the step's result differs from the world after it; "" if they agree."""
    state = with_witnesses(step, state)
    guards = (("what it assumes", body, 1) for bound, body in step.assumed if not bound)
    wanted: list[Expected] = [*guards, *expected(step.after, after, "the world")]
    values = compiled(tuple(node for _, node, _ in wanted))(state.value_of)
    for got, (what, _, want) in zip(values, wanted, strict=True):
        if int(got) != int(want):
            return f"of {step.rule} {what} is {int(got)}, not {int(want)}"
    return ""


def with_witnesses(step: ProofStep, state: WorldState) -> WorldState:
    """Return the state with values for the places that stand for the first of several elements. The
    step assumes that each is the first; -1 means that no element fits. (See `Evaluator.search`.)"""
    chosen = [(bound, body) for bound, body in step.assumed if bound]
    leaves = {n.name for n in reachable([body for _, body in chosen]) if n.name.startswith(FIRST)}
    if not leaves:
        return state
    places = range(-1, max(state.k.bounds.brokers, state.k.bounds.blocks))
    for values in product(places, repeat=len(leaves)):
        found = dict(zip(sorted(leaves), values, strict=True))
        guess = replace(state, choices={**state.choices, **found})
        if all(is_so(guess, bound, body, places) for bound, body in chosen):
            return guess
    raise AssertionError(f"{step.rule}: nothing is the first of {leaves}")


def is_so(state: WorldState, bound: Sequence[Node], body: Node, places: Sequence[int]) -> bool:
    """Whether a formula holds for all values of its bound numbers."""
    holds = compiled((body,))
    for numbers in product(places, repeat=len(bound)):
        named = dict(zip((node.name for node in bound), numbers, strict=True))
        if not holds(replace(state, choices={**state.choices, **named}).value_of)[0]:
            return False
    return True
