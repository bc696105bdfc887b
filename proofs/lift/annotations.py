"""Where an evaluation stands in the text, and what it notes on the way.

Two things are noted for later: what must hold for the text to be defined (an index within its
tuple), and which limit is the protocol's and which the scope's. Of what must hold, that a key is
one of its map's is `tested` wherever a compiled form runs: there nothing else would tell.
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
    """A condition under which an event can happen; `by_scope` if only the scope asks for it."""

    where: str
    condition: Node
    by_scope: bool


@dataclass(frozen=True, slots=True)
class Obligation:
    """What must hold for the text to be defined where it is reached."""

    where: str
    holds: Node


class Notes:
    """`path` is the condition under which the place that is read now is reached at all."""

    def __init__(self) -> None:
        self.path: Node = TRUE
        self.limits: list[Limit] = []
        self.obligations: list[Obligation] = []
        self.tested: list[Obligation] = []
        self.choices: list[tuple[tuple[Node, ...], Node]] = []
        self._files: list[str] = []
        self._names: list[str] = []

    def place(self, node: ast.AST) -> str:
        """file:line:column and function, for errors and reports."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
        return f"{self._files[-1]}:{line}:{column}: in {self._names[-1]}"

    def demand(self, node: ast.AST, holds: Node, *, is_tested: bool = False) -> None:
        """Note what must hold here for the text to be defined."""
        noted = Obligation(self.place(node), dag.either(dag.negate(self.path), holds))
        self.obligations.append(noted)
        if is_tested and noted.holds is not TRUE:
            self.tested.append(noted)

    def fail(self, node: ast.AST, problem: str) -> LiftError:
        """An error at a place, with the text that caused it."""
        return LiftError(f"{self.place(node)}: {problem}: {ast.unparse(node)}")

    def as_number(self, node: ast.AST, value: Any) -> Node:
        """A value that is an int."""
        if not (isinstance(value, Node) and not value.is_bool):
            raise self.fail(node, "an int is needed here")
        return value

    def as_truth(self, node: ast.AST, value: Any) -> Node:
        """A value that is a bool."""
        if not (isinstance(value, Node) and value.is_bool):
            raise self.fail(node, "a condition must be a bool (there is no truthiness)")
        return value

    def under(self, condition: Node, evaluate: Callable[[], Any]) -> Any:
        """The value of evaluate() where `condition` holds too."""
        saved = self.path
        self.path = dag.both(saved, condition)
        try:
            return evaluate()
        finally:
            self.path = saved
