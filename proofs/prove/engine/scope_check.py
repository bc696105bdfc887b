"""Evaluates the clauses of proofs, by their own text, on every state of a bounded scope.

This check protects against vacuous proofs: the hypotheses hold in states that really occur, so they
do not contradict each other, and each rule fires in some state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from proofs.explore.source import SourceGraph, source_graph
from proofs.lift.source import Model
from proofs.prove.engine.induction import Clause


@dataclass(frozen=True, slots=True)
class ScopeCheck:
    """The result of a check: the number of states, how often each rule fired, the clauses that
    failed somewhere, and how many applications of actors' rules each step of the proofs matched. An
    application that no step matches is listed in `failed`."""

    scope: str
    variant: str
    states: int
    firings: Mapping[str, int]
    failed: tuple[str, ...]
    matched: Counter[str] = field(default_factory=Counter)

    @property
    def transitions(self) -> int:
        """The number of transitions."""
        return sum(self.firings.values())


@dataclass(frozen=True, eq=False)
class ScopeOfProof:
    """A scope whose graph is explored from the model's source when it is first asked for."""

    model: Model
    k: Any
    name: str

    @cached_property
    def graph(self) -> SourceGraph:
        """All worlds and transitions."""
        return source_graph(self.model, self.k, self.name)


T = TypeVar("T")


class TotalLog(tuple[T, ...]):
    """A log that also has a value outside its bounds, which nobody wrote."""

    nowhere: T

    def __new__(cls, stored: Iterable[T], nowhere: T) -> TotalLog[T]:
        """Return a log of `stored`, with `nowhere` as the value outside its bounds."""
        made = super().__new__(cls, stored)
        made.nowhere = nowhere
        return made

    def __getitem__(self, place: Any) -> Any:
        return tuple.__getitem__(self, place) if 0 <= place < len(self) else self.nowhere


def check_clauses(
    clauses: Iterable[Clause], scope: ScopeOfProof, states: Iterable[Any]
) -> ScopeCheck:
    """Check each clause in each state of a scope."""
    left = {clause.name: clause for clause in clauses}
    failed: list[str] = []
    for s in states:
        broken = [name for name, clause in left.items() if not clause.is_so(scope.k, s)]
        failed += broken
        for name in broken:
            del left[name]
    return seen_in(scope, failed)


def seen_in(
    scope: ScopeOfProof, failed: Iterable[str], matched: Counter[str] | None = None
) -> ScopeCheck:
    """Return the check of a scope, with its states and how often each rule fired."""
    found = scope.graph
    firings = Counter(found.instances[instance][0] for _, instance, _ in found.edges)
    names = (scope.name, scope.k.variant.name)
    return ScopeCheck(*names, len(found.worlds), firings, tuple(failed), matched or Counter())
