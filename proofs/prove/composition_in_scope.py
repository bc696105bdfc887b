"""A composition's clauses, checked on every world of its scopes.

Here an unknown is what stands at its place in the world, and a function of numbers what stands
there under these keys; the composition says what its own functions mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from proofs.explore.source import source_graph
from proofs.lift.dag import Node
from proofs.lift.source import Model
from proofs.prove.composition import Composition, Worlds
from proofs.prove.in_scope import ScopeCheck
from proofs.prove.valuation import Row, check_formulas, flat


class WorldValuation:
    """One world, as the unknowns and functions of the proofs."""

    def __init__(self, of: Composition, k: Any, world: Any) -> None:
        self.of = of
        self.k = k
        self.world = world
        self.values = dict(flat("w", world))
        for (owner, name), unknown in of.unknown.items():
            self.values[unknown.name] = int(getattr(getattr(k, owner.lower()), name))

    def apply(self, name: str, *arguments: int) -> int:
        """The value of a function of the proofs; 0 outside of a map."""
        if name in self.of.functions:
            return self.of.functions[name](self.k, *arguments)
        value, keys = self.world, iter(arguments)
        for part in name.split(".")[1:]:
            value = getattr(value, part)
            if hasattr(value, "put"):
                value = value[next(keys)]
            elif hasattr(value, "plus"):
                return next(keys) in value
        return int(value)

    def domain(self, variables: tuple[Node, ...]) -> Iterator[Row]:
        """The values of bound numbers that there are."""
        sizes = (getattr(self.k.bounds, self.of.numbers[v.name]) for v in variables)
        return product(*(range(size) for size in sizes))


def check_world_scope(of: Composition, model: Model, k: Any, name: str) -> ScopeCheck:
    """Explore a scope by its source and check each clause, and each fact, in each world."""
    found = source_graph(model, k, name)
    worlds = Worlds(of, model, k.variant.name)
    valuations = (WorldValuation(of, k, world) for world in found.worlds)
    return check_formulas(
        of.formulas(worlds.lifter, worlds.before), (name, k.variant.name), found, valuations
    )
