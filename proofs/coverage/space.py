"""A scope with all its states and transitions, for finding where something happens first.

States are numbered as a breadth-first search finds them. So the first state in which a condition
holds is one of the nearest, and a transition's number tells which transition leads there first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proofs import arrays as np
from proofs.coverage.columns import CHUNK_STATES, Column, constants_of, evaluated
from proofs.coverage.goals import Goal, Goals
from proofs.explore.explorer import Report, explore
from proofs.lift.dag import FALSE, Node
from proofs.lift.machine import Machine
from proofs.lift.specialise import substitute
from proofs.trace.format import Instance


@dataclass(frozen=True, slots=True)
class WitnessPath:
    """Steps from the initial state; `tried` is an event that is only tried after them, if the path
    ends so."""

    steps: tuple[Instance, ...]
    tried: Instance | None = None


class Space:
    """An explored machine. Raises as `explore`."""

    def __init__(
        self, machine: Machine, engine: str = "c", progress: Report | None = None, workers: int = 1
    ) -> None:
        found = explore(machine, engine, want_edges=True, progress=progress, workers=workers)
        assert found.graph is not None
        self.inputs = machine.inputs
        self.instances = tuple((rule.rule, rule.choice) for rule in machine.rules)
        self.layout = found.graph.layout
        self.states = _column(found.graph.packed, np.uint64).reshape(-1, self.layout.words)
        self.sources = _column(found.graph.sources, np.int64)
        self.fired = _column(found.graph.rules, np.int64)
        self.targets = _column(found.graph.targets, np.int64)
        self.distance: Column = np.repeat(np.arange(len(found.levels)), found.levels)
        self._entered: Column = np.full(len(self.states), -1)
        self._entered[self.targets[::-1]] = np.arange(len(self.targets))[::-1]
        self._constants = constants_of(self.layout)

    # Conditions

    def folded(self, conditions: Iterable[Node]) -> list[Node]:
        """Return the conditions with everything constant in this scope folded in."""
        return substitute(conditions, self._constants)

    def values(self, condition: Node) -> Column:
        """Return a condition's value in each state."""
        wanted = self.folded([condition])
        parts = [next(self._evaluated(wanted, part)) for _, part in self._chunks()]
        return np.concatenate(parts)

    def first(self, goals: Goals) -> dict[str, WitnessPath]:
        """Return the shortest path to each point that is met here."""
        wanted = self.possible(goals)
        found: dict[str, WitnessPath] = {}
        for begin, part in self._chunks():
            for point, (at, goal) in self._nearest(wanted, part).items():
                found[point] = self._way(goal, begin + at)
                del wanted[point]
        return found

    def _chunks(self) -> Iterator[tuple[int, Column]]:
        for begin in range(0, len(self.states), CHUNK_STATES):
            yield begin, self.states[begin : begin + CHUNK_STATES]

    def _evaluated(self, conditions: Sequence[Node], part: Column) -> Iterator[Column]:
        return evaluated(conditions, self.layout, part, self.inputs)

    def possible(self, goals: Goals) -> dict[str, list[tuple[Goal, Node]]]:
        """Return by point the goals that are not folded away, with what is left of their
        conditions."""
        asked = [(point, goal) for point, ways in goals.items() for goal in ways]
        found: dict[str, list[tuple[Goal, Node]]] = {point: [] for point in goals}
        conditions = self.folded(goal.condition for _, goal in asked)
        for (point, goal), node in zip(asked, conditions, strict=True):
            if node is not FALSE:
                found[point].append((goal, node))
        return found

    def _nearest(
        self, wanted: dict[str, list[tuple[Goal, Node]]], part: Column
    ) -> dict[str, tuple[int, Goal]]:
        """Return by point the first of some states that meets it, and the goal."""
        asked = [(point, goal, node) for point, ways in wanted.items() for goal, node in ways]
        columns = self._evaluated([node for _, _, node in asked], part)
        nearest: dict[str, tuple[int, Goal]] = {}
        for (point, goal, _), column in zip(asked, columns, strict=True):
            at = int(np.argmax(column))
            if column[at] and (point not in nearest or at < nearest[point][0]):
                nearest[point] = at, goal
        return nearest

    def _way(self, goal: Goal, state: int) -> WitnessPath:
        steps = self.steps(self.path(state))
        (fires,) = self._evaluated(self.folded([goal.guard]), self.states[state : state + 1])
        return (
            WitnessPath((*steps, goal.instance)) if fires[0] else WitnessPath(steps, goal.instance)
        )

    # Transitions

    def path(self, state: int) -> list[int]:
        """Return the transitions of the shortest path to a state."""
        edges: list[int] = []
        while state:
            edges.append(int(self._entered[state]))
            state = int(self.sources[edges[-1]])
        return edges[::-1]

    def steps(self, edges: Iterable[int]) -> tuple[Instance, ...]:
        """Return the rule instances of some transitions."""
        return tuple(self.instances[self.fired[edge]] for edge in edges)

    def leaving(self, states: Column) -> Column:
        """Return all transitions from some states, in the states' order."""
        begins = np.searchsorted(self.sources, states)
        counts = np.searchsorted(self.sources, states, side="right") - begins
        shifts = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        edges: Column = np.arange(len(shifts)) + shifts
        return edges


def _column(numbers: Any, kind: Any) -> Column:
    return np.array(numbers).astype(kind)
