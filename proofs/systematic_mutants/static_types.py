"""Static types of expressions in the model's text, as far as annotations give them.

A change that swaps two arguments, or takes another field, must be a mistake that a programmer could
make: both have one type. If the annotations give no type, there is no such change.
"""

from __future__ import annotations

import ast
import enum
import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import FunctionType, GenericAlias
from typing import Annotated, Any, get_args, get_origin

from model.language import Map, Step
from proofs.lift.call_graph import meant

Hint = Any
"""A type as an annotation writes it; None if it is not known."""

SAME_AS_FIRST = ("replace", "min", "max")
"""Functions whose result has the type of their first argument."""


@functools.lru_cache(maxsize=4096)
def hints_of(what: Any) -> Mapping[str, Hint]:
    """Return the annotations of a function's parameters and result, or of a record's fields."""
    return typing.get_type_hints(what, include_extras=True)


def bare(hint: Hint) -> Hint:
    """Return a type without what `Annotated` adds."""
    origin: Any = get_origin(hint)
    return get_args(hint)[0] if origin is Annotated else hint


def class_of(hint: Hint) -> Any:
    """Return the class of a type, without type arguments."""
    origin: Any = get_origin(bare(hint))
    return origin or bare(hint)


def fields_of(hint: Hint) -> Mapping[str, Hint]:
    """Return the fields of a record with their types; empty for another type."""
    cls = class_of(hint)
    return hints_of(cls) if isinstance(cls, type) and is_dataclass(cls) else {}


def element_of(hint: Hint) -> Hint:
    """Return the element type of a tuple or a map."""
    arguments = get_args(bare(hint))
    if class_of(hint) is Map and len(arguments) == 2:
        return arguments[1]
    return arguments[0] if class_of(hint) is tuple and arguments else None


def is_container(hint: Hint) -> bool:
    """Whether a type is a record, a map or a tuple, which are updated part by part."""
    return bool(fields_of(hint)) or class_of(hint) in (Map, tuple, Step)


class FunctionTypes:
    """Types within one function."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        self._names: Mapping[str, Any] = function.__globals__
        hints = hints_of(function)
        self.parameters = {a.arg: hints[a.arg] for a in tree.args.args if a.arg in hints}
        self._locals: dict[str, Hint] = dict(self.parameters)
        for node in ast.walk(tree):
            self._locals.update(self._bound_by(node))

    def _bound_by(self, node: ast.AST) -> Iterator[tuple[str, Hint]]:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, self.of(node.value)
        if isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name):
            yield node.target.id, element_of(self.of(node.iter))

    def meaning(self, node: ast.AST) -> Any:
        """Return the meaning of a name of the module; None for a parameter or a local name."""
        if isinstance(node, ast.Name) and node.id in self._locals:
            return None
        return meant(self._names, node)

    def names_meaning(self, value: Any) -> Iterator[str]:
        """Yield the module's names for the same value."""
        yield from (n for n, v in self._names.items() if type(v) is type(value) and v == value)

    def of(self, node: ast.AST) -> Hint:
        """Return the type of an expression; None if it is not known."""
        typer: Callable[[Any], Hint] | None = getattr(self, f"_{type(node).__name__}", None)
        return typer(node) if typer else None

    def _Name(self, node: ast.Name) -> Hint:
        if node.id in self._locals:
            return self._locals[node.id]
        value = self._names.get(node.id)
        return type(value) if isinstance(value, (bool, int, enum.Enum)) else None

    def _Attribute(self, node: ast.Attribute) -> Hint:
        owner = self.meaning(node.value)
        if isinstance(owner, type) and issubclass(owner, enum.Enum):
            return owner
        return fields_of(self.of(node.value)).get(node.attr)

    def _Subscript(self, node: ast.Subscript) -> Hint:
        hint = self.of(node.value)
        return hint if isinstance(node.slice, ast.Slice) else element_of(hint)

    def _Call(self, node: ast.Call) -> Hint:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("put", "plus", "union"):
            return self.of(node.func.value)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "values":
            element = element_of(self.of(node.func.value))
            return None if element is None else GenericAlias(tuple, (element, ...))
        if isinstance(node.func, ast.Name) and node.func.id in SAME_AS_FIRST and node.args:
            return self.of(node.args[0])
        called = self.meaning(node.func)
        if isinstance(called, FunctionType):
            return hints_of(called).get("return")
        return called if isinstance(called, type) and is_dataclass(called) else None

    def _Constant(self, node: ast.Constant) -> Hint:
        return type(node.value)

    def _BinOp(self, node: ast.BinOp) -> Hint:
        return int

    def _Compare(self, node: ast.Compare) -> Hint:
        return bool

    def _BoolOp(self, node: ast.BoolOp) -> Hint:
        return bool

    def _UnaryOp(self, node: ast.UnaryOp) -> Hint:
        return bool if isinstance(node.op, ast.Not) else int

    def _IfExp(self, node: ast.IfExp) -> Hint:
        return self.of(node.body)
