"""Evaluates a text for scopes of any size: no condition on sizes, lengths or choices folds away.

The layout is that of one scope, so maps and tuples have as many slots as in that scope. Everything
that the text can ask about sizes is unknown: the length of a tuple, the number of terms of a sum,
the key or place of an element. Both sides of each condition are therefore evaluated, unless
constants of the text or the variant decide it. The result says which effects a text may have, not
when it has them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from proofs.lift import containers, dag
from proofs.lift.dag import INFINITE, Node, leaf
from proofs.lift.evaluate import Frame
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Seq, SetValue
from proofs.prove.engine.sizes import Overrides
from proofs.prove.engine.step_evaluator import StepEvaluator
from proofs.prove.engine.unknowns import Unknowns, number

FEW = 2
"""The number of elements that stand for any number of elements."""


class AnyUnknowns(Unknowns):
    """Makes values of unknowns in which tuples have any length."""

    def tuple_of(self, hint: Any, name: str, arguments: tuple[Node, ...]) -> Seq:
        """Return a tuple of any length, with its first slots."""
        inner = self.shapes.element(hint)
        count = max(1, self.shapes.capacity(hint))
        slots = tuple(self.value(inner, f"{name}[{i}]", arguments) for i in range(count))
        return Seq(leaf(f"len({name})", 0, INFINITE), slots)


class AnyEvaluator(StepEvaluator):
    """Evaluates a text for scopes of any size, in the layout of one scope."""

    def __init__(self, model: Model, k: Any, overrides: Overrides) -> None:
        super().__init__(model, k, overrides)
        self.unknowns = AnyUnknowns(k.bounds)
        self.layout = layout_of(k.bounds, overrides)
        self._before_put: dict[tuple[Any, ...], Any] = {}
        self._kept: list[Any] = []

    def _filled(self, size: Node, value: Any) -> Any:
        count = self.slots_of(size)
        if count is None:
            raise self.fail(ast.Pass(), "a map has as many keys as a size of the bounds says")
        return MapValue((value,) * count)

    def slots_of(self, size: Node) -> int | None:
        """Return the number of slots that the layout has for a size; None if the size is not one of
        the bounds."""
        return size.value if size.is_const else self.layout.get(size)

    def elements(self, node: ast.expr, frame: Frame) -> list[tuple[Node, Any]]:
        """Return the elements that a generator runs over. A range and the items under a key have
        any number of elements."""
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(called, ast.Name) and called.id == "range":
            ends = [self.integer(a, frame) for a in node.args]
            count = self.slots_of(ends[0]) if len(ends) == 1 else None
            return [(self.is_there(i), self.place_at(i)) for i in range(count or FEW)]
        found = super().elements(node, frame)
        is_items = isinstance(called, ast.Attribute) and called.attr == "items"
        if is_items or (isinstance(called, ast.Name) and called.id == "enumerate"):
            return [(there, (self.place_at(i), v)) for i, (there, (_, v)) in enumerate(found)]
        return found

    def is_there(self, at: int) -> Node:
        """Return whether more than `at` elements exist; the number is unknown."""
        return dag.lt(dag.const(at), leaf("how many", 0, INFINITE))

    def place_at(self, at: int) -> Node:
        """Return any key, or any place."""
        return number(f"place {at}")

    def reduce(self, name: str, generator: ast.GeneratorExp, frame: Frame) -> Any:
        """Evaluate all, any, sum or tuple of a generator. A sum has any value, and a tuple any
        length."""
        found = super().reduce(name, generator, frame)
        if name == "sum":
            return dag.add(found, number("more"))
        if isinstance(found, Seq):
            return Seq(dag.add(found.length, number("more")), found.slots)
        return found

    def _Subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        """Evaluate an element, or a slice whose beginning need not be a constant."""
        lower = node.slice.lower if isinstance(node.slice, ast.Slice) else None
        if lower is None or self.integer(lower, frame).is_const:
            return super()._Subscript(node, frame)
        owner = self.value(node.value, frame)
        return Seq(dag.sub(owner.length, self.integer(lower, frame)), owner.slots)

    def method(self, node: ast.Call, name: str, owner: Any, frame: Frame) -> Any:
        """Call a method of a map or a set. Any number may be put into a set. A second put under one
        key replaces the first."""
        if name == "plus" and isinstance(owner, SetValue):
            (element,) = (self.value(a, frame) for a in node.args)
            pairs = enumerate(owner.bits)
            return SetValue(
                tuple(dag.either(bit, dag.eq(element, dag.const(i))) for i, bit in pairs)
            )
        if name != "put" or not isinstance(owner, MapValue):
            return super().method(node, name, owner, frame)
        key, value = (self.value(a, frame) for a in node.args)
        before = self._before_put.get((key, *map(id, owner.slots)), owner)
        result = containers.put(self.shapes, before, key, value)
        self._before_put[key, *map(id, result.slots)] = before
        self._kept.append(result)
        return result


def layout_of(bounds: Any, overrides: Overrides) -> Mapping[Node, int]:
    """Map the unknowns that stand for sizes to the sizes of the layout."""
    found = {}
    for (owner, name), node in overrides.items():
        value = getattr(bounds, name, None) if owner == type(bounds).__name__ else None
        if isinstance(node, Node) and isinstance(value, int):
            found[node] = value
    return found
