"""Breadth-first search over hashable states in plain Python, level by level.

It runs any form of a machine that Python can step: the packed ints, or the model's source. The C
engine has the same interface (`Engine`) and gives the same numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from proofs.explore.result import LimitReached, Steps
from proofs.lift.layout import WrittenOutOfRange

S = TypeVar("S", bound=Hashable)
Tick = Callable[[], None]
Origins = tuple["array[int]", "array[int]"]
"""The origins of consecutive states: their parents ("I"), and the rule instances that lead to them
("H")."""

TICK_STATES = 512
MAX_STATES = (1 << 32) - 1


class SearchCounters(NamedTuple):
    """A search's counters. The level being expanded is states first .. end - 1, done to cursor.

    `distinct` counts the states stored, `full` those that they stand for.
    """

    distinct: int
    full: int
    transitions: int
    deadlocks: int
    deadlock: int | None
    level_first: int
    level_end: int
    cursor: int


class Broken(Exception):
    """In this state this rule instance writes a value that is out of its leaf's range."""

    def __init__(self, state: int, rule: int) -> None:
        super().__init__(state, rule)
        self.state = state
        self.rule = rule


Origin = Callable[[int], tuple[int, int]]
"""A state's parent, and the rule instance that leads from the parent to it."""


class NoSearch(ValueError):
    """The saved origins do not fit: a step leads to no state, or to one that is already there."""


class Engine(Protocol):
    """A search that its caller drives, a level at a time."""

    def expand_level(self, tick: Tick) -> None:
        """Expand the current level, calling `tick` at intervals; an exception of `tick` is passed
        on.

        Raises LimitReached, and Broken for the first state and rule instance out of range.
        """

    def counts(self) -> SearchCounters:
        """Return the counters, also while a level is being expanded."""

    def firings(self) -> Sequence[int]:
        """Return by rule instance how many of the expanded states enabled it."""

    def first(self) -> Sequence[int | None]:
        """Return by check the first state that was noted."""

    def path(self, index: int) -> Steps:
        """Return the rule instances of a shortest path to a state."""

    def close(self) -> None:
        """Free what the search holds."""


class Check(NamedTuple, Generic[S]):
    """A guarantee (`wanted` False) or a witness (`wanted` True): a state with the wanted result is
    noted."""

    holds: Callable[[S], bool]
    wanted: bool


class Search(Generic[S]):
    """The Python engine. `successors` gives (rule instance, state), smallest instance first.
    `weight` says how many states a stored one stands for; without it, one."""

    def __init__(
        self,
        initial: S,
        successors: Callable[[S], Iterable[tuple[int, S]]],
        checks: Sequence[Check[S]],
        rules: int,
        with_edges: bool = False,
        weight: Callable[[S], int] | None = None,
    ) -> None:
        self.states: list[S] = []
        self.edges: tuple[array[int], array[int], array[int]] | None = (
            (array("I"), array("I"), array("I")) if with_edges else None
        )
        self._successors = successors
        self._checks = checks
        self._weight = weight or (lambda _: 1)
        self._index: dict[S, int] = {}
        self._parents = array("I")
        self._rules = array("I")
        self._firings = [0] * rules
        self._first: list[int | None] = [None] * len(checks)
        self._full = self._transitions = self._deadlocks = 0
        self._cursor = self._level_first = 0
        self._deadlock: int | None = None
        self._add(initial, 0, 0)
        self._level_end = 1

    def _keep(self, state: S, parent: int, rule: int) -> int:
        index = len(self.states)
        if index >= MAX_STATES:
            raise LimitReached(f"more than {MAX_STATES} states")
        self._index[state] = index
        self.states.append(state)
        self._parents.append(parent)
        self._rules.append(rule)
        return index

    def _add(self, state: S, parent: int, rule: int) -> int:
        index = self._keep(state, parent, rule)
        self._full += self._weight(state)
        for number, check in enumerate(self._checks):
            if self._first[number] is None and bool(check.holds(state)) == check.wanted:
                self._first[number] = index
        return index

    def expand_level(self, tick: Tick) -> None:
        """Expand the current level; see `Engine`."""
        for source in range(self._cursor, self._level_end):
            if source % TICK_STATES == 0:
                tick()
            self._expand(source)
            self._cursor = source + 1
        self._level_first, self._level_end = self._level_end, len(self.states)

    def _expand(self, source: int) -> None:
        index = self._index
        count = 0
        try:
            successors = self._successors(self.states[source])
        except WrittenOutOfRange as error:
            raise Broken(source, error.rule) from None
        weight = self._weight(self.states[source])
        for rule, state in successors:
            target = index.get(state)
            if target is None:
                target = self._add(state, source, rule)
            if self.edges is not None:
                for column, value in zip(self.edges, (source, rule, target), strict=True):
                    column.append(value)
            self._firings[rule] += weight
            count += 1
        self._transitions += weight * count
        if count == 0:
            self._deadlocks += weight
            if self._deadlock is None:
                self._deadlock = source

    def counts(self) -> SearchCounters:
        """Return the counters."""
        return SearchCounters(
            len(self.states),
            self._full,
            self._transitions,
            self._deadlocks,
            self._deadlock,
            self._level_first,
            self._level_end,
            self._cursor,
        )

    def firings(self) -> Sequence[int]:
        """Return by rule instance how many of the expanded states enabled it."""
        return self._firings

    def first(self) -> Sequence[int | None]:
        """Return by check the first state that was noted."""
        return self._first

    def path(self, index: int) -> Steps:
        """Return the rule instances that lead to a state."""
        steps: list[int] = []
        while index:
            steps.append(self._rules[index])
            index = self._parents[index]
        return tuple(reversed(steps))

    def close(self) -> None:
        """Do nothing: a search in Python holds nothing to free."""
