"""Scopes: how much of a composition is explored, and the configuration that its rules may ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from model.faults import fit

V = TypeVar("V")
B = TypeVar("B", bound="Sizes")
G = TypeVar("G")


class Sizes:
    """The bounds of a composition: sizes that shape a state."""

    __slots__ = ()

    def suited_to(self, variant: Any) -> Self:
        """These bounds, with room for what that Kafka needs more of."""
        return self


@dataclass(frozen=True)
class Configuration(Generic[V, B, G]):
    """What every rule may ask: which Kafka, how much of it, and how often each fault happens."""

    variant: V
    bounds: B
    budgets: G


@dataclass(frozen=True)
class Scope(Generic[V, B, G]):
    """How much is explored, and why this much. The bounds have room for what the budgets allow."""

    name: str
    why: str
    bounds: B
    budgets: G

    def configuration(self, variant: V) -> Configuration[V, B, G]:
        """This scope of that Kafka."""
        bounds = fit(self.bounds, self.budgets).suited_to(variant)
        return Configuration(variant, bounds, self.budgets)
