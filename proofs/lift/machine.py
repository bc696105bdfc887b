"""A lifted scope, before it is printed as C, as integers or as solver terms.

A `Machine` is a finite transition system over named leaves: for each rule instance a guard and the
leaves that it writes, and for each guarantee a Boolean node. It contains no Python of the model;
back ends need nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proofs.lift.dag import Node


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place of the state. `lo` and `hi` are its declared range, both ends inclusive."""

    name: str
    lo: int
    hi: int
    is_bool: bool

    @property
    def bits(self) -> int:
        """The width of the packed value, which is stored as value - lo."""
        return (self.hi - self.lo).bit_length()


@dataclass(frozen=True, slots=True)
class RuleInstance:
    """One rule with its choices fixed. `updates` holds only written leaves, by leaf name. `broken`
    lists the places in the text where a key may not be one of its map's, each with the condition of
    this; the instance then writes a value out of range."""

    rule: str
    choice: tuple[tuple[str, int], ...]
    guard: Node
    updates: Mapping[str, Node]
    broken: tuple[tuple[str, Node], ...] = field(default=(), compare=False)

    @property
    def label(self) -> str:
        """The label in traces: `request_arrives(producer=0, partition=0)`."""
        inside = ", ".join(f"{name}={value}" for name, value in self.choice)
        return f"{self.rule}({inside})"


@dataclass(frozen=True, slots=True)
class Machine:
    """A lifted scope.

    `leaves` are in a fixed order; `initial` gives each leaf's first value in that order; `inputs`
    names the run-time values (budgets) with this scope's values for them; `guarantees` are nodes
    that must be true in each state, `witnesses` nodes that must be true in some state.
    """

    name: str
    leaves: tuple[Leaf, ...]
    initial: tuple[int, ...]
    inputs: Mapping[str, int]
    rules: tuple[RuleInstance, ...]
    guarantees: Mapping[str, Node]
    witnesses: Mapping[str, Node]
