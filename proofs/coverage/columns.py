"""Evaluates the graph over many states at once, with a column of numbers for each node.

The coverage of a small scope asks a few thousand nodes once, so compiling them would not pay.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from proofs import arrays as np
from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.layout import Layout
from proofs.lift.specialise import initial_node

Column = np.Array

CHUNK_STATES = 4096
"""The number of states at once for which the columns in use stay in a core's cache."""


@functools.cache
def _operations() -> Mapping[str, Callable[..., Column]]:
    return {
        **dag.ARITHMETIC,
        "not": np.logical_not,
        "and": np.logical_and,
        "or": np.logical_or,
        "ite": np.where,
    }


def constants_of(layout: Layout) -> dict[str, Node]:
    """Return the leaves that never change in a scope, as nodes to be folded in before
    `evaluated`."""
    return {
        leaf.name: initial_node(leaf, layout.constants[leaf.name])
        for leaf in layout.leaves
        if leaf.name in layout.constants
    }


def field(layout: Layout, packed: Column, leaf: str) -> Column:
    """Return the bits of one leaf of packed states, which are rows of words."""
    place = layout.places[leaf]
    bits: Column = (packed[:, place.word] >> np.uint64(place.shift)) & np.uint64(place.mask)
    return bits


def unpacked(layout: Layout, packed: Column, leaf: Node) -> Column:
    """Return the values of one leaf of packed states."""
    bits = field(layout, packed, leaf.name)
    return (
        bits.astype(np.bool_)
        if leaf.is_bool
        else bits.astype(np.int64) + layout.places[leaf.name].lo
    )


def evaluated(
    roots: Iterable[Node], layout: Layout, packed: Column, inputs: Mapping[str, int]
) -> Iterator[Column]:
    """Yield each root's values, one for each packed state. Constant leaves must be folded in."""
    wanted = list(roots)
    order = list(dag.reachable(wanted))
    uses = Counter(root.serial for root in wanted)
    for node in order:
        uses.update(a.serial for a in node.args)
    known: dict[int, Any] = {}

    def used(node: Node) -> Any:
        uses[node.serial] -= 1
        return known[node.serial] if uses[node.serial] else known.pop(node.serial)

    for node in order:
        if node.op == "const":
            known[node.serial] = np.bool_(node.value) if node.is_bool else np.int64(node.value)
        elif node.op == "input":
            known[node.serial] = np.int64(inputs[node.name])
        elif node.op == "leaf":
            known[node.serial] = unpacked(layout, packed, node)
        else:
            known[node.serial] = _operations()[node.op](*[used(a) for a in node.args])
    for root in wanted:
        yield np.broadcast_to(used(root), len(packed))
