"""Values of unknowns: any value of a type of the model.

A map or a set whose size is 0 in the bounds of the proofs has any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofs.lift.containers import FunctionMap, PredicateSet
from proofs.lift.dag import BOUND, INFINITE, ZERO, Node, Operand, leaf, uninterpreted
from proofs.lift.values import MapValue, Rec, Seq, SetValue, shapes_of

Predicate = Callable[..., Node]


def number(name: str) -> Node:
    """Return an unknown int."""
    return leaf(name, -INFINITE, INFINITE)


def bound(name: str) -> Node:
    """Return a number for formulas to bind; no unknown has its name."""
    return number(BOUND + name)


def truth(name: str) -> Node:
    """Return an unknown bool."""
    return leaf(name, 0, 1, is_bool=True)


def function(name: str, *, is_bool: bool = False) -> Predicate:
    """Return an unknown function of numbers."""
    return lambda *args: uninterpreted(name, args, is_bool=is_bool)


def never(answer: Node) -> Predicate:
    """Return a constant function."""
    return lambda *_args: answer


def within(node: Node, lo: Operand, hi: Operand) -> Node:
    """lo <= node <= hi."""
    return (lo <= node) & (node <= hi)


class Unknowns:
    """Makes values with unknown scalars, for the types of one model."""

    def __init__(self, bounds: Any) -> None:
        self.shapes = shapes_of(bounds)

    def record(self, cls: type, name: str, arguments: tuple[Node, ...] = ()) -> Rec:
        """Return a record of unknowns, or of functions if there are arguments."""
        hints = self.shapes.hints(cls)
        return Rec(
            cls, {f: self.value(hint, f"{name}.{f}", arguments) for f, hint in hints.items()}
        )

    def scalar(self, name: str, arguments: tuple[Node, ...], *, is_bool: bool = False) -> Node:
        """Return an unknown, or an unknown function of the arguments."""
        if arguments:
            return uninterpreted(name, arguments, is_bool=is_bool)
        return truth(name) if is_bool else number(name)

    def value(self, hint: Any, name: str, arguments: tuple[Node, ...] = ()) -> Any:
        """Return a value of unknowns; a bounded tuple is not longer than its capacity."""
        kind = self.shapes.kind(hint)
        if kind == "scalar":
            return self.scalar(name, arguments, is_bool=hint is bool)
        if kind == "record":
            return self.record(hint, name, arguments)
        if kind == "tuple":
            return self.tuple_of(hint, name, arguments)
        if kind == "map":
            count = self.shapes.keys(hint)
            inner = hint.__args__[1]
            if count == 0:
                return self.function_map(inner, name, arguments)
            return MapValue(
                tuple(self.value(inner, f"{name}[{i}]", arguments) for i in range(count))
            )
        count = self.shapes.keys(hint)
        if count == 0:
            return PredicateSet(function(name, is_bool=True))
        return SetValue(tuple(truth(f"{i} in {name}") for i in range(count)))

    def tuple_of(self, hint: Any, name: str, arguments: tuple[Node, ...]) -> Seq:
        """Return a bounded tuple with an unknown length and unknown slots."""
        capacity = self.shapes.capacity(hint)
        inner = self.shapes.element(hint)
        slots = tuple(self.value(inner, f"{name}[{i}]", arguments) for i in range(capacity))
        length = f"len({name})"
        if capacity == 0:
            return Seq(ZERO, ())
        if arguments:
            return Seq(self.scalar(length, arguments), slots)
        return Seq(leaf(length, 0, capacity), slots)

    def function_map(self, inner: Any, name: str, arguments: tuple[Node, ...]) -> FunctionMap:
        """Return a map with any number of keys: each scalar of its values is a function of the
        key."""
        size = self.scalar(f"size({name})", arguments)
        return FunctionMap(size, lambda i: self.value(inner, name, (*arguments, i)))
