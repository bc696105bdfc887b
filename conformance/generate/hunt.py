"""Hunts: random walks that prefer what is rare.

1. A hunt is a function of seed and trace id. Hunts do not know of each other, so any worker may
   walk them in any order.
2. A rule instance weighs more the fewer transitions of the scope have it. It weighs less each time
   that this walk has taken its rule.
3. A walk ends where no event is enabled, or after MAX_STEPS.
4. An aimed hunt takes the shortest way to a transition of its own, and hunts from there. So two
   aimed hunts are hardly ever the same walk, whereas many hunts from the initial state meet in the
   same dead ends.

Theory of operation: a `HuntWalker` gives the enabled rule instances of a state in their order. In
an explored scope it reads them from the graph, and so each step knows its transition. In a scope
that is not explored it calls the machine's functions over packed integers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from math import gcd
from typing import Any, Final, Protocol

from conformance.generate.graph import Numbers, TransitionGraph
from proofs import arrays as np
from proofs.lift.ints_form import ints_form
from proofs.lift.layout import lay_out
from proofs.lift.machine import Machine
from proofs.lift.specialise import specialise

MAX_STEPS = 200
NO_EDGE = -1
GOLDEN: Final = 0.6180339887
"""The golden ratio: multiples of it, taken modulo 1, lie far from each other."""
MAX_KNOWN = 500_000
"""The number of states whose enabled instances a walker remembers."""

Enabled = Sequence[tuple[int, Any, int]]
"""(rule instance, next state, transition or NO_EDGE), in the order of instances."""


class HuntWalker(Protocol):
    """Says where a walk can go. `weights` has one number for each rule instance."""

    initial: Any
    weights: Sequence[float]

    def enabled(self, state: Any) -> Enabled:
        """The rule instances that are enabled in a state."""


class GraphWalker:
    """Walks an explored graph; a state is its number. `shares` has a factor for each rule
    instance."""

    def __init__(self, graph: TransitionGraph, shares: Sequence[float]) -> None:
        self._graph = graph
        self._known: dict[int, Enabled] = {}
        self.initial = 0
        counts = np.bincount(graph.rules, minlength=len(shares))
        self.weights: Sequence[float] = (shares / np.sqrt(np.maximum(counts, 1))).tolist()

    def enabled(self, state: int) -> Enabled:
        """The edges of a state. They are remembered while the cache has room: numpy slices of a few
        numbers cost more than the rest of a walk."""
        known = self._known.get(state)
        if known is None:
            known = self._edges(state)
            if len(self._known) < MAX_KNOWN:
                self._known[state] = known
        return known

    def _edges(self, state: int) -> Enabled:
        graph = self._graph
        first, end = int(graph.first_edge[state]), int(graph.first_edge[state + 1])
        rules = graph.rules[first:end].tolist()
        return list(zip(rules, graph.targets[first:end].tolist(), range(first, end), strict=True))

    @cached_property
    def _arrivals(self) -> tuple[Numbers, Numbers]:
        """The source of each transition, and for each state the first transition that leads to it.
        That transition lies on a shortest way, since states are numbered breadth first."""
        _, first = np.unique(self._graph.targets, return_index=True)
        if 0 not in self._graph.targets:
            first = np.insert(first, 0, NO_EDGE)
        return self._graph.sources, first

    @cached_property
    def _stride(self) -> int:
        """The distance between the transitions of two successive aimed hunts; each transition has
        its turn."""
        edges = self._graph.edges
        return next(n for n in count(max(int(edges * GOLDEN), 1)) if gcd(n, edges) == 1)

    def way(self, seed: int, number: int) -> list[tuple[int, int]]:
        """The shortest way to the transition of an aimed hunt, including that transition. Arguments
        as for `hunt`."""
        sources, first = self._arrivals
        edge = (seed + number * self._stride) % self._graph.edges
        edges = [edge]
        while state := int(sources[edge]):
            edge = int(first[state])
            edges.append(edge)
        edges.reverse()
        return list(zip(self._graph.rules[edges].tolist(), edges, strict=True))

    def end(self, steps: Sequence[tuple[int, int]]) -> int:
        """The state that a walk leads to."""
        return int(self._graph.targets[steps[-1][1]]) if steps else self.initial


class MachineWalker:
    """Walks a lifted machine; a state is its packed integer. This walker does not know what is
    rare."""

    def __init__(self, machine: Machine) -> None:
        specialised = specialise(machine)
        layout = lay_out(specialised)
        self._form = ints_form(specialised, layout)
        self._known: dict[int, Enabled] = {}
        self.initial = layout.pack(specialised.initial)
        self.weights: Sequence[float] = [1.0] * len(specialised.rules)

    def enabled(self, state: int) -> Enabled:
        """The successors of a state, remembered while the cache has room."""
        known = self._known.get(state)
        if known is None:
            known = [(rule, after, NO_EDGE) for rule, after in self._form.successors(state)]
            if len(self._known) < MAX_KNOWN:
                self._known[state] = known
        return known


def aimed(
    walker: GraphWalker, rule_of: Sequence[int], seed: int, number: int
) -> list[tuple[int, int]]:
    """As `hunt`, but begins behind the transition at which this hunt is aimed."""
    way = walker.way(seed, number)
    return way + hunt(walker, rule_of, seed, number, walker.end(way))


def hunt(
    walker: HuntWalker, rule_of: Sequence[int], seed: int, number: int, begin: Any = None
) -> list[tuple[int, int]]:
    """(rule instance, transition) for each step of one walk. It starts from `begin` if that is
    given.

    `rule_of` gives the rule of each instance as a number; `number` is the trace id.
    """
    draw = random.Random(f"{seed}/{number}").random
    weights = walker.weights
    taken = [1] * (max(rule_of, default=0) + 1)
    state = walker.initial if begin is None else begin
    steps: list[tuple[int, int]] = []
    while len(steps) < MAX_STEPS:
        enabled = walker.enabled(state)
        if not enabled:
            break
        shares = [weights[instance] / taken[rule_of[instance]] for instance, _, _ in enabled]
        instance, state, edge = enabled[drawn(shares, draw())]
        taken[rule_of[instance]] += 1
        steps.append((instance, edge))
    return steps


def drawn(shares: Sequence[float], point: float) -> int:
    """The index in whose share a number from 0 to 1 falls."""
    rest = point * sum(shares)
    for index, share in enumerate(shares):
        rest -= share
        if rest < 0:
            return index
    return len(shares) - 1
