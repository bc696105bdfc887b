"""Evaluates calls of the language's words on symbolic values."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from proofs.lift import containers, dag
from proofs.lift.annotations import Notes
from proofs.lift.dag import TRUE, ZERO, Node, const
from proofs.lift.values import MapValue, Rec, Seq, Shapes, Span

ARGUMENTS = {
    "require": 1,
    "within_scope": 1,
    "replace": 1,
    "spend": 3,
    "len": 1,
    "max": 2,
    "min": 2,
    "Map": 1,
    "filled": 2,
    "span": 2,
    "map_values": 3,
    "fold": 4,
    "enumerate": 1,
    "range": 1,
}
"""The number of positional arguments of each word; only `replace` also takes arguments by name."""


class CallsOfWords(Notes, ABC):
    """Evaluates the words of the language; `contracts` gives some functions other meanings."""

    shapes: Shapes
    contracts: dict[str, Callable[..., Any]]

    @abstractmethod
    def lift(self, value: Any) -> Any:
        """Return a Python value as a symbolic one."""

    @abstractmethod
    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return the value of function(*arguments)."""

    @abstractmethod
    def construct(self, cls: type, values: Mapping[str, Any]) -> Rec:
        """Return a record."""

    @abstractmethod
    def limit(self, node: ast.AST, condition: Node, *, by_scope: bool) -> None:
        """Record that the condition holds from here on."""

    def check_arguments(self, node: ast.Call, word: str) -> None:
        """Raise LiftError if a word has other arguments than it takes."""
        if len(node.args) != ARGUMENTS[word] or (node.keywords and word != "replace"):
            raise self.fail(node, f"{word} takes {ARGUMENTS[word]} arguments here, by place")

    def _call_replace(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Rec:
        owner = arguments[0]
        if not isinstance(owner, Rec):
            raise self.fail(node, "replace takes a record")
        unknown = set(named) - set(owner.fields)
        if unknown:
            raise self.fail(node, f"{owner.cls.__name__} has no field {sorted(unknown)[0]!r}")
        return self.construct(owner.cls, {**owner.fields, **named})

    def _call_spend(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Rec:
        """Evaluate `model.faults.spend`: one limit, and a count for each fault that costs
        something."""
        k, world, cost = arguments
        happened, most = world.fields["faults"], self.lift(k.bounds.faults)
        counted, allowed = dict(happened.fields), TRUE
        for name, times in cost.fields.items():
            if times is not ZERO:
                left = dag.lt(counted[name], dag.run_time_input(name))
                once_more = dag.both(dag.lt(ZERO, most.fields[name]), left)
                allowed = dag.both(allowed, dag.either(dag.eq(times, ZERO), once_more))
                counted[name] = dag.add(counted[name], times)
        if "within_scope" not in self.contracts:
            self.limit(node, allowed, by_scope=True)
        if getattr(k.bounds, "unbounded", False):
            return Rec(world.cls, world.fields)
        faults = self.construct(happened.cls, counted)
        return self.construct(world.cls, {**world.fields, "faults": faults})

    def _call_len(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Node:
        return containers.length(arguments[0])

    def _call_max(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Node:
        a, b = (self.as_number(node, value) for value in arguments)
        return dag.ite(dag.le(a, b), b, a)

    def _call_min(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Node:
        a, b = (self.as_number(node, value) for value in arguments)
        return dag.ite(dag.le(a, b), a, b)

    def _call_Map(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        (values,) = arguments
        return values if isinstance(values, containers.FocusMap) else MapValue(values.slots)

    def _call_filled(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        return self._filled(arguments[0], arguments[1])

    def _filled(self, size: Node, value: Any) -> Any:
        if "filled" in self.contracts:
            return self.contracts["filled"](self, size, value)
        return MapValue((value,) * size.value)

    def _call_span(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Span:
        first, count = (self.as_number(node, value) for value in arguments)
        return Span(first, count)

    def _call_map_values(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        k, function, mapping = arguments
        return containers.map_values(mapping, lambda value: self.call(function, [k, value]))

    def _call_fold(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        k, step, items, start = arguments
        if "fold" in self.contracts:
            return self.contracts["fold"](self, *arguments)
        if not isinstance(items, Seq):
            raise self.fail(node, "a fold over an unbounded tuple needs a contract")
        value = start
        for position, item in enumerate(items.slots):
            exists = dag.lt(const(position), items.length)
            taken = self.under(exists, partial(self.call, step, [k, value, item]))
            value = containers.merge(self.shapes, exists, taken, value)
        return value
