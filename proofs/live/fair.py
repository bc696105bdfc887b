"""Finds fair loops in a finite graph: a run can stay in one for ever and keep every assumption.

Theory of operation.

1. A run may also do nothing for ever: besides its edges, each state has a step to itself that is
   not an edge. Every run ends in a loop, which lies in one strongly connected component.
2. `Weak`: an action that is enabled in every state of the loop is taken in the loop. If a component
   breaks this, so does each of its parts, and the component is dropped whole.
3. `Strong`: if the loop has an edge of `often`, it has one of `then`. If a component breaks this,
   its parts without `often` may keep it; they are searched in turn.
4. `must` edges are the purpose of the loop: it has at least one.

This is Streett's emptiness check with the pruning of Emerson and Lei. `tests/proofs/live` compares
it with a search of all subgraphs of small graphs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

Bools = Any
"""A numpy array of truth values, one for each state or one for each edge."""
Numbers = Any
"""A numpy array of ints."""

CANDIDATES = 64
"""The number of states that are tried as the beginning of the loop, nearest first."""


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """A graph: edge i goes from `sources[i]` to `targets[i]`; states count from 0."""

    states: int
    sources: Numbers
    targets: Numbers

    def begins(self, edges: Bools) -> Bools:
        """Return for each state whether one of these edges leaves it."""
        found = np.zeros(self.states, dtype=bool)
        found[self.sources[edges]] = True
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Weak:
    """Weak fairness: an action that stays enabled is taken. `enabled` is by state, `taken` by
    edge."""

    enabled: Bools
    taken: Bools

    def is_met(self, edge: int, state: int) -> bool:
        """Whether a loop that reaches a state by an edge keeps this assumption."""
        return bool(self.taken[edge] or not self.enabled[state])


@dataclass(frozen=True, slots=True, eq=False)
class Strong:
    """Strong fairness: if `often` is taken for ever, so is `then`. Both are by edge."""

    often: Bools
    then: Bools

    def is_met(self, edge: int, _state: int) -> bool:
        """Whether a loop that has this edge keeps this assumption."""
        return bool(self.then[edge])


@dataclass(frozen=True, slots=True, eq=False)
class LoopQuestion:
    """A question: is there a fair loop in these states, over these edges, with one of the edges
    `must`?"""

    graph: Edges
    states: Bools
    edges: Bools
    weak: tuple[Weak, ...]
    strong: tuple[Strong, ...]
    must: Bools | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A fair loop from `state` back to it over `edges`; without edges, nothing more happens."""

    state: int
    edges: tuple[int, ...]


# Components


def any_of(labels: Numbers, components: int, chosen: Bools) -> Bools:
    """Return for each component whether one of its elements is chosen."""
    return np.bincount(labels[chosen], minlength=components) > 0


class _Pruned:
    """The remaining states and edges, by strongly connected component."""

    def __init__(self, question: LoopQuestion) -> None:
        self.question = question
        graph = question.graph
        self.states: Bools = question.states.copy()
        inside = self.states[graph.sources] & self.states[graph.targets]
        self.edges: Bools = question.edges & inside
        self.labels: Numbers = np.zeros(graph.states, dtype=np.int64)
        self.components = 0

    def split(self) -> None:
        """Find the components; an edge between two of them is in no loop."""
        graph = self.question.graph
        sources, targets = graph.sources[self.edges], graph.targets[self.edges]
        ones = np.ones(len(sources), dtype=np.int8)
        matrix = csr_matrix((ones, (sources, targets)), shape=(graph.states, graph.states))
        self.components, labels = connected_components(matrix, connection="strong")
        self.labels = labels.astype(np.int64)
        self.edges &= self.labels[graph.sources] == self.labels[graph.targets]

    def has_state(self, chosen: Bools) -> Bools:
        """Return for each component whether it has one of these states."""
        return any_of(self.labels, self.components, self.states & chosen)

    def has_edge(self, chosen: Bools) -> Bools:
        """Return for each component whether it has one of these edges."""
        labels = self.labels[self.question.graph.sources]
        return any_of(labels, self.components, self.edges & chosen)

    def drop_hopeless(self) -> None:
        """Drop the components of which no part can answer the question."""
        hopeful = np.ones(self.components, dtype=bool)
        for weak in self.question.weak:
            hopeful &= self.has_state(~weak.enabled) | self.has_edge(weak.taken)
        if self.question.must is not None:
            hopeful &= self.has_edge(self.question.must)
        self.states &= hopeful[self.labels]
        self.edges &= hopeful[self.labels[self.question.graph.sources]]

    def drop_often(self) -> bool:
        """Drop `often` edges in components without `then`; return whether there were any."""
        sources = self.labels[self.question.graph.sources]
        dropped = False
        for strong in self.question.strong:
            broken = self.has_edge(strong.often) & ~self.has_edge(strong.then)
            gone = self.edges & strong.often & broken[sources]
            dropped = dropped or bool(gone.any())
            self.edges &= ~gone
        return dropped


def fair_part(question: LoopQuestion) -> tuple[Bools, Bools, Numbers]:
    """Return (states, edges, component of each state) of all fair components; each contains a fair
    loop."""
    pruned = _Pruned(question)
    while True:
        pruned.split()
        pruned.drop_hopeless()
        if not pruned.drop_often():
            return pruned.states, pruned.edges, pruned.labels


# Loops


Found = Callable[[int, int], bool]
"""Whether a walk that reaches a state by an edge has found what it searches for."""


class _Walker:
    """Walks inside fair components."""

    def __init__(self, question: LoopQuestion, edges: Bools) -> None:
        self.question = question
        kept = np.flatnonzero(edges)
        order = kept[np.argsort(question.graph.sources[kept], kind="stable")]
        self.order: list[int] = order.tolist()
        counts = np.bincount(question.graph.sources[order], minlength=question.graph.states)
        self.first: list[int] = [0, *np.cumsum(counts).tolist()]
        self.targets = question.graph.targets

    def leaving(self, state: int) -> Iterator[tuple[int, int]]:
        """Yield (edge, target) for each edge that leaves a state inside its component."""
        for edge in self.order[self.first[state] : self.first[state + 1]]:
            yield edge, int(self.targets[edge])

    def nearest(self, start: int, found: Found) -> list[int]:
        """Return the edges of a shortest path, of at least one edge, to where `found` holds.

        Such a path exists, because `found` is asked only for what the component has.
        """
        came: dict[int, tuple[int, int]] = {}
        queue = deque([start])
        while queue:
            state = queue.popleft()
            for edge, target in self.leaving(state):
                if found(edge, target):
                    return [*self._back(came, start, state), edge]
                if target not in came and target != start:
                    came[target] = (state, edge)
                    queue.append(target)
        raise AssertionError("a component lacks what it was kept for")

    @staticmethod
    def _back(came: dict[int, tuple[int, int]], start: int, state: int) -> list[int]:
        edges: list[int] = []
        while state != start:
            state, edge = came[state]
            edges.append(edge)
        return edges[::-1]

    def unmet(self, start: int, path: Sequence[int]) -> list[Found]:
        """Return what a loop over `path` from `start` still lacks."""
        question = self.question
        states = [start, *(int(self.targets[edge]) for edge in path)]
        wants: list[Found] = []
        for weak in question.weak:
            if all(weak.enabled[s] for s in states) and not any(weak.taken[e] for e in path):
                wants.append(weak.is_met)
        for strong in question.strong:
            if any(strong.often[e] for e in path) and not any(strong.then[e] for e in path):
                wants.append(strong.is_met)
        if question.must is not None and not any(question.must[e] for e in path):
            wants.append(self._is_must)
        return wants

    def _is_must(self, edge: int, _state: int) -> bool:
        assert self.question.must is not None
        return bool(self.question.must[edge])

    def loop(self, start: int, longest: int) -> Loop | None:
        """Return a fair loop from a state back to it; None if it becomes longer than `longest`."""
        path: list[int] = []
        while wants := self.unmet(start, path):
            path += self.nearest(self._end(start, path), partial(meets_one, wants))
            if not self.unmet(start, path) and self._end(start, path) != start:
                path += self.nearest(self._end(start, path), partial(comes_to, start))
            if len(path) > longest:
                return None
        return Loop(start, tuple(path))

    def _end(self, start: int, path: Sequence[int]) -> int:
        return int(self.targets[path[-1]]) if path else start


def meets_one(wants: Sequence[Found], edge: int, state: int) -> bool:
    """Whether one of several wants is met."""
    return any(found(edge, state) for found in wants)


def comes_to(wanted: int, _edge: int, state: int) -> bool:
    """Whether a walk has reached a state."""
    return state == wanted


def shortest_loop(question: LoopQuestion, depth: Numbers) -> Loop | None:
    """Return a fair loop with a short path to it; `depth` is each state's distance from the initial
    state.

    Returns None if there is no fair loop. The result depends on the graph alone. A shorter loop may
    exist, because only the nearest states are tried as beginnings.
    """
    states, edges, _ = fair_part(question)
    alive = np.flatnonzero(states)
    if len(alive) == 0:
        return None
    walker = _Walker(question, edges)
    best: Loop | None = None
    length = len(question.graph.sources) + question.graph.states
    for state in alive[np.argsort(depth[alive], kind="stable")][:CANDIDATES].tolist():
        stem = int(depth[state])
        if stem >= length:
            break
        loop = walker.loop(state, length - stem - 1)
        if loop is not None:
            best, length = loop, stem + len(loop.edges)
    return best
