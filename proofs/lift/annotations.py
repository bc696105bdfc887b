"""Tracks where an evaluation stands in the text, and records what the text requires.

Two kinds of conditions are recorded: obligations, which must hold for the text to be defined (an
index is within its tuple), and limits, which are marked as the protocol's or the scope's. One
obligation, that a key is one of its map's, is also `tested` when a compiled form runs, because
nothing else there would reveal a violation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import TRUE, Node


class LiftError(Exception):
    """The text asks for something that cannot be lifted; the message begins with its place."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition under which an event can happen; `by_scope` says that only the scope imposes
    it."""

    where: str
    condition: Node
    by_scope: bool


@dataclass(frozen=True, slots=True)
class Obligation:
    """A condition that must hold for the text to be defined where it is reached."""

    where: str
    holds: Node


class Notes:
    """The notes of one evaluation. `path` is the condition under which the current place is
    reached."""

    def __init__(self) -> None:
        self.path: Node = TRUE
        self.limits: list[Limit] = []
        self.obligations: list[Obligation] = []
        self.tested: list[Obligation] = []
        self.choices: list[tuple[tuple[Node, ...], Node]] = []
        self._files: list[str] = []
        self._names: list[str] = []

    def place(self, node: ast.AST) -> str:
        """Return file:line:column and function, for errors and reports."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
        return f"{self._files[-1]}:{line}:{column}: in {self._names[-1]}"

    def demand(self, node: ast.AST, holds: Node, *, is_tested: bool = False) -> None:
        """Record a condition that must hold here for the text to be defined."""
        noted = Obligation(self.place(node), dag.either(dag.negate(self.path), holds))
        self.obligations.append(noted)
        if is_tested and noted.holds is not TRUE:
            self.tested.append(noted)

    def fail(self, node: ast.AST, problem: str) -> LiftError:
        """Return an error at a place, with the text that caused it."""
        return LiftError(f"{self.place(node)}: {problem}: {ast.unparse(node)}")

    def as_number(self, node: ast.AST, value: Any) -> Node:
        """Return a value that must be an int. Raises LiftError."""
        if not (isinstance(value, Node) and not value.is_bool):
            raise self.fail(node, "an int is needed here")
        return value

    def as_truth(self, node: ast.AST, value: Any) -> Node:
        """Return a value that must be a bool. Raises LiftError."""
        if not (isinstance(value, Node) and value.is_bool):
            raise self.fail(node, "a condition must be a bool (there is no truthiness)")
        return value

    def under(self, condition: Node, evaluate: Callable[[], Any]) -> Any:
        """Return the value of evaluate() on the path where `condition` also holds."""
        saved = self.path
        self.path = dag.both(saved, condition)
        try:
            return evaluate()
        finally:
            self.path = saved
