"""How many resource managers take part."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Variant:
    """There is one."""

    name: str = "two-phase commit"


@dataclass(frozen=True, slots=True)
class Bounds:
    """`managers` resource managers; so many messages of theirs, and two of the other side."""

    managers: int = 3

    @property
    def messages(self) -> int:
        """A "prepared" from each resource manager, "commit", and "abort"."""
        return self.managers + 2


@dataclass(frozen=True, slots=True)
class Budgets:
    """Nothing needs a budget: the graph is finite."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What every rule may ask."""

    variant: Variant = field(default_factory=Variant)
    bounds: Bounds = field(default_factory=Bounds)
    budgets: Budgets = field(default_factory=Budgets)
