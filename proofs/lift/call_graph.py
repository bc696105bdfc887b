"""The calls between functions of the model's text; names are resolved in the module of the
caller."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from proofs.lift.source import Model


def meant(names: Mapping[str, object], node: ast.AST) -> object:
    """Return the object of a name, or of a name of another module, where `names` are known."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = names.get(node.value.id)
        return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    return None


def parts(tree: ast.AST, without: Collection[str] = ()) -> Iterator[ast.AST]:
    """Yield all nodes of a tree, except calls of the functions that are named in `without`."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in without:
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from parts(child, without)


@functools.lru_cache(maxsize=4096)
def named_in(
    model: Model, function: FunctionType, without: tuple[str, ...] = ()
) -> frozenset[FunctionType]:
    """Return the functions of the model that a function calls, or passes on to be called."""
    tree = model.tree_of(function)
    nodes = parts(tree, without) if tree else ()
    found = (meant(function.__globals__, node) for node in nodes)
    return frozenset(f for f in found if isinstance(f, FunctionType))


def reached(
    model: Model, first: Iterable[FunctionType], without: tuple[str, ...] = ()
) -> set[FunctionType]:
    """Return the functions of the model that `first` call, directly or not, with the first ones."""
    seen: set[FunctionType] = set()
    frontier = set(first)
    while frontier:
        seen |= frontier
        frontier = {f for function in frontier for f in named_in(model, function, without)} - seen
    return {function for function in seen if model.tree_of(function) is not None}


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name as patches write it: `module.function`."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
