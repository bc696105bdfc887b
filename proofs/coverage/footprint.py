"""The footprint of a configuration: everything that happens in it, by name.

| kind      | what it says                                       | named                         |
|-----------|----------------------------------------------------|-------------------------------|
| events    | an event happens, with its choices                 | `EVENT(producer=0)`           |
| decisions | a decision in an event's text has this outcome     | `EVENT: FUNCTION: TEXT: then` |
| effects   | an event changes a field from one value to another | `EVENT: FIELD: 0 -> 1`        |
| orders    | an event can happen right after another            | `EVENT then EVENT`            |
| conflicts | two events can happen in one state                 | `EVENT beside EVENT`          |

Decisions are named by the event alone, all other kinds by the event with its choices. Orders and
conflicts are the relations that process mining calls a footprint. The decisions of the unchanged
text are also evaluated in the states of a changed model, to make the two footprints comparable.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from proofs.coverage.columns import CHUNK_STATES, Column, constants_of, evaluated, field
from proofs.coverage.goals import instance_goals
from proofs.coverage.points import OUTCOMES, points, sites
from proofs.explore.explorer import explore
from proofs.explore.result import StateGraph
from proofs.lift.build import choices, lift, symbolic_world
from proofs.lift.dag import FALSE, Node, either
from proofs.lift.machine import Machine
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for
from proofs.lift.specialise import substitute
from proofs.lift.values import Shapes
from proofs.trace.replay import configuration_of

Names = frozenset[str]
Decisions = Mapping[str, Node]
"""The states in which an event's text decides so, by the name of the decision."""

MOST_VALUES = 4096
"""More values than a field has."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Everything that happens, by kind."""

    events: Names
    decisions: Names
    effects: Names
    orders: Names
    conflicts: Names

    def only_here(self, other: Footprint) -> Iterator[str]:
        """Yield what happens here and not in the other footprint, with its kind; one kind after the
        other."""
        for kind in fields(self):
            for name in sorted(getattr(self, kind.name) - getattr(other, kind.name)):
                yield f"{kind.name}: {name}"


def difference(before: Footprint, after: Footprint) -> str | None:
    """Return the first thing that is lost, else the first that is new; None if the footprints are
    equal."""
    lost = (f"lost of {name}" for name in before.only_here(after))
    new = (f"new in {name}" for name in after.only_here(before))
    return next(itertools.chain(lost, new), None)


def stray(scope: str, variant: str, engine: str, patches: tuple[Patch, ...]) -> str | None:
    """Return what patches change in a configuration: something lost, else something new, else None.

    Raises as `configuration_of` and `explore`.
    """
    before, after = (footprint_of(scope, variant, engine, planted) for planted in ((), patches))
    return difference(before, after)


@functools.lru_cache(maxsize=8)
def footprint_of(scope: str, variant: str, engine: str, patches: tuple[Patch, ...]) -> Footprint:
    """Return the footprint of a configuration of the patched model; decisions are those of the
    unpatched text."""
    plain, model = model_for(scope), model_for(scope, patches)
    k = configuration_of(model, scope, variant)
    machine = lift(model, k, scope, guarantees=False).machine
    found = explore(machine, engine, want_edges=True)
    assert found.graph is not None
    return FootprintGraph(machine, found.graph).footprint(decisions(plain, k))


def decisions(model: Model, k: Any) -> dict[str, Node]:
    """Return all decisions of a text in a configuration, by event."""
    shapes = Shapes(k.bounds)
    world = symbolic_world(model, shapes)
    every, trees = points(model), sites(model)
    found: dict[str, Node] = {}
    for rule, function in model.rules.items():
        for choice in choices(shapes, function):
            for name, goal in instance_goals(model, k, world, (rule, choice), trees).items():
                if every[name].kind in OUTCOMES:
                    says = f"{rule}: {every[name].says}"
                    found[says] = either(found.get(says, FALSE), goal.condition)
    return found


class FootprintGraph:
    """An explored machine as columns."""

    def __init__(self, machine: Machine, graph: StateGraph) -> None:
        self._machine = machine
        self._layout = graph.layout
        self._states: Column = _numbers(graph.packed, np.uint64).reshape(-1, graph.layout.words)
        self._sources = _numbers(graph.sources, np.int64)
        self._fired = _numbers(graph.rules, np.int64)
        self._targets = _numbers(graph.targets, np.int64)
        self._labels = [rule.label for rule in machine.rules]

    def footprint(self, asked: Decisions) -> Footprint:
        """Return everything that happens."""
        enabled = self._enabled()
        return Footprint(
            events=frozenset(self._labels[n] for n in np.unique(self._fired)),
            decisions=frozenset(self._decided(asked)),
            effects=frozenset(self._effects()),
            orders=frozenset(self._orders(enabled)),
            conflicts=frozenset(self._conflicts(enabled)),
        )

    def _enabled(self) -> Column:
        """Return for each state and event whether the event can happen there."""
        enabled = np.zeros((len(self._states), len(self._labels)), dtype=np.bool_)
        enabled[self._sources, self._fired] = True
        return enabled

    def _decided(self, asked: Decisions) -> Iterator[str]:
        folded = substitute(asked.values(), constants_of(self._layout))
        open_ = {name: node for name, node in zip(asked, folded, strict=True) if node is not FALSE}
        for begin in range(0, len(self._states), CHUNK_STATES):
            part = self._states[begin : begin + CHUNK_STATES]
            columns = evaluated(open_.values(), self._layout, part, self._machine.inputs)
            met = [name for name, column in zip(open_, columns, strict=True) if column.any()]
            yield from met
            for name in met:
                del open_[name]

    def _effects(self) -> Iterator[str]:
        for leaf, place in self._layout.places.items():
            value: Column = field(self._layout, self._states, leaf).astype(np.int64)
            before, after = value[self._sources], value[self._targets]
            changed = before != after
            codes = self._fired[changed] * MOST_VALUES + before[changed]
            for code in np.unique(codes * MOST_VALUES + after[changed]):
                event, values = divmod(int(code), MOST_VALUES * MOST_VALUES)
                was, is_ = (place.lo + number for number in divmod(values, MOST_VALUES))
                yield f"{self._labels[event]}: {leaf}: {was} -> {is_}"

    def _orders(self, enabled: Column) -> Iterator[str]:
        for number in np.unique(self._fired):
            entered = np.unique(self._targets[self._fired == number])
            for other in np.flatnonzero(enabled[entered].any(axis=0)):
                yield f"{self._labels[number]} then {self._labels[other]}"

    def _conflicts(self, enabled: Column) -> Iterator[str]:
        for one in np.unique(self._fired):
            for other in np.flatnonzero(enabled[enabled[:, one]].any(axis=0)):
                if one < other:
                    yield f"{self._labels[one]} beside {self._labels[other]}"


def _numbers(values: Iterable[int], kind: Any) -> Column:
    return np.array(values).astype(kind)
