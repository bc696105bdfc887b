"""Which statements of impl's protocol core are executed, by scope.

A statement counts itself: before each one of a function, a line is put that marks it. That costs
little, and needs nothing of the interpreter.
"""

from __future__ import annotations

import ast
import builtins
import functools
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.mutants.patched_impl import path_of, trees_of
from proofs.run.files import REPOSITORY

IMPL: Final = REPOSITORY / "impl"
MARK: Final = "kafka_eos_statement_is_reached"
"""The builtin that marks a statement."""
PACKAGES: Final = ("impl.partition", "impl.coordinator", "impl.producer", "impl.broker")


def reasons_in(file: str) -> Mapping[str, str]:
    """The names in a table of this folder, `impl.MODULE.NAME`, each with its reason."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return {
        f"impl.{where}.{name}": why
        for why, names_by_place in tomllib.loads(text).items()
        for where, names in names_by_place.items()
        for name in names
    }


OUTSIDE: Final = reasons_in("outside.toml")
"""Modules of these packages, and functions of modules, that are no protocol, and why."""


@dataclass(frozen=True, slots=True, order=True)
class StatementPlace:
    """A statement of a function: its module, and the line where it begins."""

    module: str
    line: int

    def __str__(self) -> str:
        return f"impl/{path_of(self.module, IMPL)}:{self.line}"


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The rows of statements that a node has."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a module, those within others too."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def qualified(outer: str, node: ast.AST) -> str:
    """The name of what a node's children are in: a function's or a class's own, else `outer`."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return outer
    return f"{outer}.{node.name}" if outer else node.name


def is_outside(module: str, function: str) -> bool:
    """Whether a function is no protocol; what stands in it is none, either."""
    parts = f"{module}.{function}".split(".")
    return any(".".join(parts[:end]) in OUTSIDE for end in range(1, len(parts) + 1))


def acts(statement: ast.stmt) -> bool:
    """Whether a statement does anything: no docstring does, and no declaration."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_text and not isinstance(statement, (ast.Global, ast.Nonlocal, ast.Pass))


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module's functions that do something."""
    for function in functions(tree):
        for node in own_nodes(function):
            for block in blocks(node):
                yield from filter(acts, block)


def core() -> tuple[str, ...]:
    """The modules of the protocol core."""
    return tuple(
        name
        for name in sorted(trees_of(IMPL))
        if name.startswith(PACKAGES) and name not in OUTSIDE and name not in PACKAGES
    )


@functools.cache
def places() -> tuple[StatementPlace, ...]:
    """All statements of the core."""
    trees = trees_of(IMPL)
    return tuple(
        sorted({StatementPlace(n, s.lineno) for n in core() for s in statements(trees[n])})
    )


@functools.cache
def protocol_places() -> Mapping[int, str]:
    """By number, those that are protocol, and the functions in which they are. What is raised is
    for who calls impl: it is no protocol by itself."""
    trees = trees_of(IMPL)
    found = {name: dict(lines_of(trees[name], "")) for name in core()}
    functions_at = ((n, p, found[p.module].get(p.line)) for n, p in enumerate(places()))
    return {n: f for n, p, f in functions_at if f is not None and not is_outside(p.module, f)}


def lines_of(node: ast.AST, outer: str) -> Iterator[tuple[int, str]]:
    """The lines where statements begin that raise nothing, each with the function it is in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and not isinstance(child, ast.Raise):
            yield child.lineno, outer
        yield from lines_of(child, qualified(outer, child))


# Marks


def marked(name: str, tree: ast.Module) -> ast.Module:
    """A module whose statements say that they are reached."""
    if name not in core():
        return tree
    for function in list(functions(tree)):
        for block in {id(b): b for node in own_nodes(function) for b in blocks(node)}.values():
            block[:] = [part for one in block for part in with_mark(name, one)]
    return tree


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, those of functions within it left out."""
    yield function
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from own_nodes(child)


def with_mark(module: str, statement: ast.stmt) -> Sequence[ast.stmt]:
    """A statement behind what marks it."""
    if not acts(statement):
        return (statement,)
    number = bisect_left(places(), StatementPlace(module, statement.lineno))
    mark = ast.parse(f"{MARK}({number})").body[0]
    return (ast.copy_location(mark, statement), statement)


def keep_marks() -> set[int]:
    """The numbers of the places that are reached, as they are reached in this process."""
    reached: set[int] = set()
    setattr(builtins, MARK, reached.add)
    return reached
