"""The statements of impl's protocol core that each scope executes.

Before each statement of a function, a line is inserted that marks the statement as executed. This
costs little, and needs no feature of the interpreter.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proofs.run.files import REPOSITORY

IMPL: Final = REPOSITORY / "impl"
MARK: Final = "kafka_eos_statement_is_reached"
"""The builtin that marks a statement."""
PACKAGES: Final = ("impl.partition", "impl.coordinator", "impl.producer", "impl.broker")


def reasons_in(file: str) -> Mapping[str, str]:
    """The names in a table of this folder, in the form `impl.MODULE.NAME`, each with its reason."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return {
        f"impl.{where}.{name}": why
        for why, names_by_place in tomllib.loads(text).items()
        for where, names in names_by_place.items()
        for name in names
    }


OUTSIDE: Final = reasons_in("outside.toml")
"""Modules of these packages, and functions of modules, that are not protocol, each with a reason.
"""


@dataclass(frozen=True, slots=True, order=True)
class StatementPlace:
    """A statement of a function: its module, and the line where it begins."""

    module: str
    line: int

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.line}"


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly below a node."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def function_blocks(node: ast.AST, *, inside: bool = False) -> Iterator[list[ast.stmt]]:
    """The lists of statements of all functions below a node."""
    for block in blocks(node):
        if inside:
            yield block
        for statement in block:
            is_function = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from function_blocks(statement, inside=inside or is_function)


def qualified(outer: str, node: ast.AST) -> str:
    """The qualified name for the children of a node: that of a function or class, else `outer`."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return outer
    return f"{outer}.{node.name}" if outer else node.name


def is_outside(module: str, function: str) -> bool:
    """Whether a function, or a function that it is nested in, is not protocol."""
    parts = f"{module}.{function}".split(".")
    return any(".".join(parts[:end]) in OUTSIDE for end in range(1, len(parts) + 1))


def acts(statement: ast.stmt) -> bool:
    """Whether a statement has an effect: docstrings and declarations have none."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_text and not isinstance(statement, (ast.Global, ast.Nonlocal, ast.Pass))


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module's functions that have an effect."""
    for block in function_blocks(tree):
        yield from filter(acts, block)


@functools.cache
def core() -> tuple[str, ...]:
    """The modules of the protocol core."""
    files = (file for package in PACKAGES for file in (IMPL / package.split(".")[1]).glob("*.py"))
    names = sorted(f"impl.{file.parent.name}.{file.stem}" for file in files)
    return tuple(name for name in names if name not in OUTSIDE and not name.endswith("__init__"))


@functools.cache
def trees() -> Mapping[str, ast.Module]:
    """The syntax trees of the core's modules."""
    return {
        name: ast.parse((IMPL.parent / f"{name.replace('.', '/')}.py").read_text("utf-8"))
        for name in core()
    }


@functools.cache
def places() -> tuple[StatementPlace, ...]:
    """The places of all statements of the core."""
    found = {StatementPlace(n, s.lineno) for n, tree in trees().items() for s in statements(tree)}
    return tuple(sorted(found))


@functools.cache
def protocol_places() -> Mapping[int, str]:
    """The numbers of the places that are protocol, and the functions that they are in. A `raise`
    does not count as protocol: it is addressed to callers of impl."""
    found = {name: dict(lines_of(tree, "")) for name, tree in trees().items()}
    functions_at = ((n, p, found[p.module].get(p.line)) for n, p in enumerate(places()))
    return {n: f for n, p, f in functions_at if f is not None and not is_outside(p.module, f)}


def lines_of(node: ast.AST, outer: str) -> Iterator[tuple[int, str]]:
    """The lines on which statements other than `raise` begin, each with its function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and not isinstance(child, ast.Raise):
            yield child.lineno, outer
        yield from lines_of(child, qualified(outer, child))


# Marks


def marked(name: str, tree: ast.Module) -> ast.Module:
    """A module whose statements mark themselves as executed."""
    if name not in core():
        return tree
    for block in list(function_blocks(tree)):
        block[:] = [part for one in block for part in with_mark(name, one)]
    return tree


def with_mark(module: str, statement: ast.stmt) -> Sequence[ast.stmt]:
    """A statement, preceded by the call that marks it."""
    if not acts(statement):
        return (statement,)
    name, number = ast.Name(MARK, ast.Load()), ast.Constant(_numbers()[module, statement.lineno])
    call = ast.Call(name, [number], [])
    mark = ast.Expr(call)
    for node in (name, number, call, mark):
        ast.copy_location(node, statement)
    return (mark, statement)


@functools.cache
def _numbers() -> Mapping[tuple[str, int], int]:
    """The numbers of places by module and line."""
    return {(place.module, place.line): number for number, place in enumerate(places())}
