"""Engine "source": breadth first over the model's own functions.

The oracle of the compiled engines: nothing is lifted, each transition is a call of the rule as it
stands in the text. Counts, order and ties are those of a sequential breadth-first search: states
in the order of their discovery, rule instances in the order of the lifted machine's rules.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from proofs.lift.text import Model
from proofs.trace.format import Choice, label
from proofs.trace.replay import Stepper, World, domains

Instance = tuple[str, Choice]


class NotTotal(Exception):
    """A rule failed with a Python error where it should give a world or be disabled."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A labelled transition; `before` and `after` are numbers of states, in discovery order."""

    before: int
    instance: int
    after: int


@dataclass(slots=True)
class Search:
    """What a search of the source has seen; `parents` has (state, instance) for all but state 0."""

    instances: tuple[Instance, ...]
    worlds: list[World]
    numbers: dict[World, int]
    parents: list[tuple[int, int]] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    transitions: int = 0
    deadlocks: list[int] = field(default_factory=list)
    firings: Counter[str] = field(default_factory=Counter)
    violations: dict[str, int] = field(default_factory=dict)
    witnesses: dict[str, int] = field(default_factory=dict)
    complete: bool = False

    @property
    def distinct(self) -> int:
        """States found."""
        return len(self.worlds)

    @property
    def depth(self) -> int:
        """Steps to the farthest state; 0 if there is but the first."""
        return len(self.levels) - 1

    def path(self, state: int) -> tuple[Instance, ...]:
        """The instances that lead to a state, a shortest way."""
        found: list[Instance] = []
        while state > 0:
            state, instance = self.parents[state - 1]
            found.append(self.instances[instance])
        return tuple(reversed(found))


def instances(model: Model, k: Any) -> tuple[Instance, ...]:
    """All rule instances of a setting, in the order of a lifted machine's."""
    return tuple(
        (rule, tuple(zip(allowed, values, strict=True)))
        for rule in model.rules
        for allowed in (domains(model, k, rule),)
        for values in itertools.product(*allowed.values())
    )


def successors(
    stepper: Stepper, world: World, all_instances: tuple[Instance, ...]
) -> Iterator[tuple[int, World]]:
    """(instance, next world) for each enabled instance. Raises NotTotal."""
    for number, (rule, choice) in enumerate(all_instances):
        try:
            after = stepper.after(rule, choice, world)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise NotTotal(f"{label(rule, choice)} fails in a reachable state: {error}") from error
        if after is not None:
            yield number, after


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search looks for, and when it ends before all is seen.

    `promises` and `witnesses` by name; `stop` at the first broken promise; `progress` is called
    after each level and returns False to end there; `edge` sees each transition.
    """

    promises: dict[str, Callable[[Any, World], bool]]
    witnesses: dict[str, Callable[[Any, World], bool]]
    stop: bool = False
    progress: Callable[[Search], bool] = lambda _search: True
    edge: Callable[[Edge], None] = lambda _edge: None


def examine(k: Any, asked: Asked, search: Search, number: int) -> bool:
    """Check one new state; whether the search goes on."""
    world = search.worlds[number]
    for name, check in asked.promises.items():
        if name not in search.violations and not check(k, world):
            search.violations[name] = number
    for name, check in asked.witnesses.items():
        if name not in search.witnesses and check(k, world):
            search.witnesses[name] = number
    return not (asked.stop and search.violations)


def expand(stepper: Stepper, asked: Asked, search: Search, number: int) -> bool:
    """Take all steps from one state; whether the search goes on."""
    enabled = 0
    for instance, after in successors(stepper, search.worlds[number], search.instances):
        enabled += 1
        search.firings[label(*search.instances[instance])] += 1
        known = search.numbers.get(after)
        if known is None:
            known = search.numbers[after] = len(search.worlds)
            search.worlds.append(after)
            search.parents.append((number, instance))
            if not examine(stepper.k, asked, search, known):
                return False
        asked.edge(Edge(number, instance, known))
    search.transitions += enabled
    if enabled == 0:
        search.deadlocks.append(number)
    return True


def asked_of(model: Model, **others: Any) -> Asked:
    """All promises and witnesses of a model; `others` as in `Asked`."""
    return Asked(
        promises={p.name: p.check for p in model.promises.PROMISES},
        witnesses={w.name: w.check for w in model.promises.WITNESSES},
        **others,
    )


def search(model: Model, k: Any, asked: Asked) -> Search:
    """Explore a setting by its source. Raises NotTotal."""
    stepper = Stepper(model, k)
    first = stepper.initial()
    found = Search(instances(model, k), [first], {first: 0})
    going = examine(k, asked, found, 0)
    done = 0
    while going and done < len(found.worlds):
        level_end = len(found.worlds)
        found.levels.append(level_end - done)
        while going and done < level_end:
            going = expand(stepper, asked, found, done)
            done += 1
        going = going and asked.progress(found)
    if not going and len(found.worlds) > sum(found.levels):
        found.levels.append(len(found.worlds) - sum(found.levels))
    found.complete = going
    return found
