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
from proofs.lift.text import Model
from proofs.lift.values import MapValue, Rec, Shapes

EDGE = re.compile(r"(\w+)->(\w+)")


def states_of(model: Model, name: str) -> type[IntEnum] | None:
    """The enum of states that has both ends of an edge; None if `name` is none."""
    edge = EDGE.fullmatch(name)
    for module in model.modules.values() if edge else ():
        for kind in vars(module).values():
            is_states = isinstance(kind, type) and issubclass(kind, IntEnum)
            if is_states and edge and set(edge.groups()) <= kind.__members__.keys():
                return typing.cast(type[IntEnum], kind)
    return None


def places(shapes: Shapes, value: Any, hint: Any, states: type[IntEnum]) -> Iterator[Node]:
    """The first such state in each actor: what it knows, not the copies of that on their way."""
    if hint is states:
        yield value
    elif isinstance(value, MapValue):
        for slot in value.slots:
            yield from places(shapes, slot, typing.get_args(hint)[-1], states)
    elif isinstance(value, Rec):
        hints = shapes.hints(value.cls)
        inner = (places(shapes, value.fields[f], hints[f], states) for f in hints)
        yield from list(next((found for i in inner if (found := list(i))), []))


def edge_goals(model: Model, k: Any, lifted: Lifted, name: str) -> list[Goal]:
    """Each rule instance that can take an actor along the edge, with when it does."""
    states, ends = states_of(model, name), EDGE.fullmatch(name)
    assert states is not None
    assert ends is not None
    first, last = (dag.const(int(states[end])) for end in ends.groups())
    shapes = Shapes(k.layout)
    hints = shapes.hints(model.world.World)
    found = []
    for rule in lifted.machine.rules:
        for field, hint in hints.items():
            for leaf in places(shapes, lifted.world.fields[field], hint, states):
                after = rule.updates.get(leaf.name, leaf)
                moves = dag.both(dag.eq(leaf, first), dag.eq(after, last))
                condition = dag.both(rule.guard, moves)
                if condition is not dag.FALSE:
                    found.append(Goal((rule.rule, rule.choice), condition, rule.guard))
    return found
