"""What each explored state shows: which guarantees it breaks, which witnesses it is.

Theory of operation: guarantees and witnesses are lifted with the scope, so that each is a node of
the
graph of operations (`proofs.lift.dag`). Here a node is computed for many states at once: an array
a node, an element a state.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from proofs.explore.result import StateGraph
from proofs.lift.dag import Node, reachable
from proofs.lift.machine import Machine
from proofs.lift.specialise import specialise

Numbers = NDArray[Any]

STATES_AT_ONCE: Final = 4096
"""So that the arrays of all nodes stay in a processor's cache, or near."""

OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mod": operator.mod,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "and": operator.and_,
    "or": operator.or_,
    "not": np.logical_not,
    "ite": np.where,
}


def property_bits(machine: Machine, graph: StateGraph) -> Numbers:
    """For each state a number: a bit for each guarantee, set if the state breaks it, then one for
    each witness, set if it is one. Their order is the machine's, and so that of the model."""
    lifted = specialise(machine)
    guarantees, witnesses = list(lifted.guarantees.values()), list(lifted.witnesses.values())
    packed = np.frombuffer(graph.packed, dtype=np.uint64).reshape(-1, graph.layout.words)
    parts = []
    for first in range(0, len(packed), STATES_AT_ONCE):
        states = packed[first : first + STATES_AT_ONCE]
        values = computed([*guarantees, *witnesses], lifted, graph, states)
        bits = np.zeros(len(states), dtype=np.uint32)
        for n, holds in enumerate(values):
            is_told = holds if n >= len(guarantees) else np.logical_not(holds)
            bits |= np.asarray(is_told, dtype=np.uint32) << np.uint32(n)
        parts.append(bits)
    return np.concatenate(parts)


def computed(
    roots: list[Node], lifted: Machine, graph: StateGraph, states: Numbers
) -> Iterator[Any]:
    """The value of each root in all of these states: an array, or one number for all."""
    values: dict[int, Any] = {}
    for node in reachable(roots):
        if node.op == "const":
            values[node.serial] = bool(node.value) if node.is_bool else node.value
        elif node.op == "input":
            values[node.serial] = lifted.inputs[node.name]
        elif node.op == "leaf":
            values[node.serial] = leaf(node, graph, states)
        else:
            arguments = [values[argument.serial] for argument in node.args]
            values[node.serial] = OPERATIONS[node.op](*arguments)
    return (values[root.serial] for root in roots)


def leaf(node: Node, graph: StateGraph, states: Numbers) -> Any:
    """A leaf's value in all of these states."""
    place = graph.layout.places.get(node.name)
    if place is None:
        value = graph.layout.constants[node.name]
        return bool(value) if node.is_bool else value
    field = states[:, place.word] >> np.uint64(place.shift) & np.uint64(place.mask)
    return field.astype(bool) if node.is_bool else field.astype(np.int64) + place.lo
