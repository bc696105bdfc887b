"""Finds the shortest path to one point or pair in a scope of any size, as a negated guarantee.

"Never in such a state" is checked like a guarantee, and the search ends where it breaks. A survey
finds the same paths from a whole graph; this search needs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from proofs.coverage.edges import edge_goals, states_of
from proofs.coverage.events import CoverageEvent, happening
from proofs.coverage.goals import Goal, goals
from proofs.coverage.pairs import Happens
from proofs.coverage.points import Point, points, sites
from proofs.coverage.space import WitnessPath
from proofs.coverage.states import begun_in, enum_with
from proofs.coverage.survey import every_pair
from proofs.explore.explorer import explore
from proofs.lift import dag
from proofs.lift.build import check_of, lift
from proofs.lift.machine import Leaf, Machine, RuleInstance
from proofs.lift.source import Model
from proofs.lift.step import evaluate, values_after
from proofs.run import nearest

BY_LINE = re.compile(r"([\w.]+):(\d+):(\w+)")


class UnknownGoal(ValueError):
    """Nothing has this name. The message lists the points of its function (`choices`), or the most
    similar of all `names`."""

    def __init__(self, name: str, choices: Sequence[str], names: Sequence[str]) -> None:
        listed = f"choose one of {', '.join(choices)}, or a point of `kafka-eos list branches`"
        near = listed if choices else nearest(name, names, "list branches")
        super().__init__(f"nothing is called {name!r}; {near}")
        self.choices = choices
        self.names = names


def resolved(model: Model, events: Sequence[CoverageEvent], name: str) -> str:
    """Return the point, pair, state, edge or witness that `name` means.

    A point of the text has its own name, or `module.function:LINE:OUTCOME`. A pair may be written
    in either order. Raises UnknownGoal.
    """
    if states_of(model, name) or enum_with(model, name) or witness_of(model, name):
        return name
    known = points(model)
    turned = "+".join(reversed(name.split("+")))
    for candidate in (name, turned):
        if candidate in known or candidate in every_pair(events):
            return candidate
    by_line = BY_LINE.fullmatch(name)
    there = on_line(known, *by_line.groups()) if by_line else []
    if len(there) == 1:
        return there[0]
    function = re.split("[#:]", name)[0]
    own = [other for other in known if other.startswith(f"{function}#")]
    raise UnknownGoal(name, there or own, names_of(model, known, events))


def witness_of(model: Model, name: str) -> Any:
    """Return the model's witness of this name; None if it has none."""
    return next((w for w in model.guarantees.WITNESSES if w.name == name), None)


def on_line(known: Mapping[str, Point], function: str, line: str, outcome: str) -> list[str]:
    """Return the points of a function on one line."""
    return [
        point.name
        for point in known.values()
        if point.name.startswith(f"{function}#")
        and point.line == int(line)
        and point.name.endswith(f":{outcome}")
    ]


def names_of(
    model: Model, known: Mapping[str, Point], events: Sequence[CoverageEvent]
) -> list[str]:
    """Return the names that a search may be for, except branches, states and edges."""
    plain = [name for name in known if "#" not in name]
    witnesses = [witness.name for witness in model.guarantees.WITNESSES]
    return [*plain, *witnesses, *every_pair(events)]


def shortest(
    model: Model, k: Any, scope: str, events: Sequence[CoverageEvent], name: str, **how: Any
) -> WitnessPath | None:
    """Return the shortest path to a resolved name in a scope; None if the scope does not reach it.

    `how` is passed to `explorer.explore`: engine, workers, progress, max_depth.
    """
    lifted = lift(model, k, scope, guarantees=False)
    if "+" in name:
        instances = [(rule.rule, rule.choice) for rule in lifted.machine.rules]
        can_be = happening(model, k, lifted.world, events, instances)
        return shortest_pair(lifted.machine, [can_be.get(e, {}) for e in name.split("+")], **how)
    if witness := witness_of(model, name):
        return shortest_state(lifted.machine, check_of(model, k, witness.check), **how)
    states = states_of(model, name) or enum_with(model, name)
    if states is not None:
        begin, _, end = name.rpartition("->")
        if not begin and end in begun_in(lifted, k, model, states):
            return WitnessPath(())
        moves = edge_goals(model, k, lifted, states, begin, end)
        return shortest_point(lifted.machine, moves, **how)
    ways = goals(model, k, sites(model)).get(name, [])
    return shortest_point(lifted.machine, ways, **how)


def shortest_point(machine: Machine, ways: list[Goal], **how: Any) -> WitnessPath | None:
    """Return the shortest path to any of some goals."""
    never = {str(number): dag.negate(goal.condition) for number, goal in enumerate(ways)}
    found = explore(replace(machine, guarantees=never), stop=True, **how).violations
    if not found:
        return None
    number = min(found, key=lambda number: (len(found[number]), int(number)))
    goal = ways[int(number)]
    steps = tuple((machine.rules[i].rule, machine.rules[i].choice) for i in found[number])
    (fires,) = evaluate([goal.guard], values_after(machine, found[number]), machine.inputs)
    return WitnessPath((*steps, goal.instance)) if fires else WitnessPath(steps, goal.instance)


def shortest_pair(machine: Machine, events: Iterable[Happens], **how: Any) -> WitnessPath | None:
    """Return the shortest run with all of some events, each remembered by a leaf of its own."""
    leaves = []
    for number, happens in enumerate(events):
        machine, leaf = monitored(machine, f"happened[{number}]", happens)
        leaves.append(leaf)
    return shortest_state(machine, dag.conjunction(leaves), **how)


def shortest_state(machine: Machine, condition: dag.Node, **how: Any) -> WitnessPath | None:
    """Return the shortest run to a state in which a condition is true."""
    never = {"never": dag.negate(condition)}
    found = explore(replace(machine, guarantees=never), stop=True, **how).violations
    if not found:
        return None
    return WitnessPath(
        tuple((machine.rules[i].rule, machine.rules[i].choice) for i in found["never"])
    )


def monitored(machine: Machine, name: str, happens: Happens) -> tuple[Machine, dag.Node]:
    """Return the machine with one more leaf, which tells whether the event has happened."""
    leaf = Leaf(name, 0, 1, is_bool=True)
    happened = dag.leaf(name, 0, 1, is_bool=True)

    def watched(rule: RuleInstance) -> RuleInstance:
        condition = happens.get((rule.rule, rule.choice))
        if condition is None:
            return rule
        return replace(rule, updates={**rule.updates, name: dag.either(happened, condition)})

    extended = replace(
        machine,
        leaves=(*machine.leaves, leaf),
        initial=(*machine.initial, 0),
        rules=tuple(map(watched, machine.rules)),
    )
    return extended, happened
