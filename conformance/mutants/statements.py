"""Which statements of impl's protocol core are executed, by scope.

A statement counts itself: before each one of a function, a line is put that marks it. That costs
little, and needs nothing of the interpreter.
"""

from __future__ import annotations

import ast
import builtins
import functools
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.mutants.patched_impl import path_of, trees_of
from proofs.run.files import REPOSITORY


def module_names(text: str) -> list[str]:
    """The modules of `PACKAGE: NAME ...`."""
    package, _, names = text.partition(": ")
    return [f"{package}.{name}" for name in names.split()]


IMPL: Final = REPOSITORY / "impl"
MARK: Final = "kafka_eos_statement_is_reached"
"""The builtin that marks a statement."""
PACKAGES: Final = ("impl.partition", "impl.coordinator", "impl.producer", "impl.broker")
OUTSIDE: Final[Mapping[str, str]] = {
    name: why
    for why, names in {
        "sockets, threads and how a broker is put together": (
            "impl.broker: api_versions cluster config embedded handler node outputs serve server"
            " services"
        ),
        "what tests inject into a broker and see of it": "impl.broker: faults log_view timeline",
        "topics, metadata and reads: nothing of exactly-once is decided there": (
            "impl.broker: metadata_requests reads topics"
        ),
        "members of groups: judged by scripts over the wire, and no scope has them": (
            "impl.broker: group_requests membership_requests memberships"
        ),
        "the protocol of groups, as above": (
            "impl.coordinator: classic_group group_messages group_records groups"
        ),
        "options, and what an operator asks": "impl.coordinator: config inspection",
        "ids of brokers that keep them in ZooKeeper, from a server that tests play": (
            "impl.broker: zookeeper"
        ),
        "threads, futures and options around the producer's core": (
            "impl.producer: arguments config partitioner producer sender"
        ),
    }.items()
    for name in module_names(names)
}
"""Modules of these packages that are no protocol core, and why."""


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
