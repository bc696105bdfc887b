"""Edges between the states of an actor: `ONGOING->PREPARE_COMMIT`."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from proofs.coverage.goals import Goal
from proofs.lift import dag
from proofs.lift.build import Lifted
from proofs.lift.dag import Node
from proofs.lift.machine import RuleInstance
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Shapes

EDGE = re.compile(r"(\w+)->(\w+)")


def states_of(model: Model, name: str) -> type[IntEnum] | None:
    """Return the enum that has both states of an edge; None if `name` is not an edge."""
    edge = EDGE.fullmatch(name)
    for module in model.modules.values() if edge else ():
        for kind in vars(module).values():
            is_states = isinstance(kind, type) and issubclass(kind, IntEnum)
            if is_states and edge and set(edge.groups()) <= kind.__members__.keys():
                return typing.cast(type[IntEnum], kind)
    return None


def places(shapes: Shapes, value: Any, hint: Any, states: type[IntEnum]) -> Iterator[Node]:
    """Yield the first such state in each actor: what the actor knows, not copies on their way."""
    if hint is states:
        yield value
    elif isinstance(value, MapValue):
        for slot in value.slots:
            yield from places(shapes, slot, typing.get_args(hint)[-1], states)
    elif isinstance(value, Rec):
        hints = shapes.hints(value.cls)
        inner = (places(shapes, value.fields[f], hints[f], states) for f in hints)
        yield from list(next((found for i in inner if (found := list(i))), []))


def record_of(leaf: str) -> str:
    """Return the common prefix of the names of all leaves in the same record."""
    return f"{leaf.rpartition('.')[0]}."


def changes(lifted: Lifted, rule: RuleInstance, leaf: str) -> Node:
    """Return the condition that a rule instance changes anything in the leaf's record."""
    changed = dag.FALSE
    for other in lifted.machine.leaves:
        if other.name.startswith(record_of(leaf)) and other.name in rule.updates:
            before = dag.leaf(other.name, other.lo, other.hi, is_bool=other.is_bool)
            same = dag.eq(rule.updates[other.name], before)
            changed = dag.either(changed, dag.negate(same))
    return changed


def edge_goals(
    model: Model, k: Any, lifted: Lifted, states: type[IntEnum], begin: str, end: str
) -> list[Goal]:
    """Return each rule instance that can take an actor along the edge, with the condition for this;
    from any other state if `begin` is empty. An edge to the same state needs a change elsewhere in
    the record."""
    last = dag.const(int(states[end]))
    shapes = Shapes(k.bounds)
    hints = shapes.hints(model.world.World)
    found = []
    for rule in lifted.machine.rules:
        for field, hint in hints.items():
            for leaf in places(shapes, lifted.world.fields[field], hint, states):
                there = dag.eq(leaf, last)
                here = dag.eq(leaf, dag.const(int(states[begin]))) if begin else dag.negate(there)
                moves = dag.both(here, dag.eq(rule.updates.get(leaf.name, leaf), last))
                if begin == end:
                    moves = dag.both(moves, changes(lifted, rule, leaf.name))
                condition = dag.both(rule.guard, moves)
                if condition is not dag.FALSE:
                    found.append(Goal((rule.rule, rule.choice), condition, rule.guard))
    return found
