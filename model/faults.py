"""Faults: what goes wrong, how often a scope lets it, and how often it has.

A composition declares its faults once, as the fields of a class `Faults`. A world counts them in
one, a scope's bounds and budgets are others, and an event that is a fault says what it costs:
`spend(k, w, Faults(breaks=1))`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any, TypeVar, dataclass_transform
from weakref import WeakSet

from model.language import Range, record, within_scope

B = TypeVar("B")
T = TypeVar("T")
W = TypeVar("W")

TABLES: WeakSet[type] = WeakSet()
"""The fault tables that there are."""


def counts_faults(value: object) -> bool:
    """Whether it is a record of some fault table."""
    return type(value) in TABLES


@dataclass_transform(frozen_default=True)
def fault_table(cls: type[T]) -> type[T]:
    """A record with a counter for each fault, up to what the bounds say of the same fault."""
    for name in cls.__annotations__:
        cls.__annotations__[name] = Annotated[int, Range(0, f"faults.{name}")]
    table = record(cls)
    TABLES.add(table)
    return table


def is_allowed(most: int, budget: int, happened: int) -> bool:
    """Whether a scope lets a fault happen once more. `most` is the bound."""
    return most > 0 and happened < budget


def spend(k: Any, w: W, cost: Any) -> W:
    """The world after faults, if the budgets allow each of them once more. Where the bounds are
    `unbounded`, faults are not counted: what a budget allows may happen for ever."""
    world: Any = w
    costs = {f.name: getattr(cost, f.name) for f in fields(cost) if getattr(cost, f.name)}
    for name in costs:
        most, happened = getattr(k.bounds.faults, name), getattr(world.faults, name)
        within_scope(is_allowed(most, getattr(k.budgets, name), happened))
    if getattr(k.bounds, "unbounded", False):
        return w
    counted = {name: getattr(world.faults, name) + times for name, times in costs.items()}
    after: W = replace(world, faults=replace(world.faults, **counted))
    return after


def fit(bounds: B, budgets: Any) -> B:
    """The bounds, with room for at least what the budgets allow."""
    most: Any = bounds
    room = {
        f.name: max(getattr(most.faults, f.name), getattr(budgets, f.name))
        for f in fields(most.faults)
    }
    fitted: B = replace(most, faults=replace(most.faults, **room))
    return fitted
