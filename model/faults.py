"""Faults: what can go wrong, how often a scope allows it, and how often it has happened.

A composition declares its faults once, as the fields of a class `Faults`. A world counts in one
record of this class what has happened. A scope has two more: its bounds, which size the counters,
and its budgets. An event that is a fault states its cost: `spend(k, w, Faults(breaks=1))`.
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
"""All fault tables of the program."""


def counts_faults(value: object) -> bool:
    """Whether the value is a record of some fault table."""
    return type(value) in TABLES


@dataclass_transform(frozen_default=True)
def fault_table(cls: type[T]) -> type[T]:
    """Make the class a record with one counter for each fault, bounded by the field of the same
    name in `bounds.faults`."""
    for name in cls.__annotations__:
        cls.__annotations__[name] = Annotated[int, Range(0, f"faults.{name}")]
    table = record(cls)
    TABLES.add(table)
    return table


def is_allowed(most: int, budget: int, happened: int) -> bool:
    """Whether the scope lets a fault happen once more; `most` is the bound."""
    return most > 0 and happened < budget


def spend(k: Any, w: W, cost: Any) -> W:
    """The world after these faults, if the budgets allow each of them once more. Under bounds that
    are `unbounded`, faults are not counted: a fault with a budget may happen any number of
    times."""
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
    """The bounds, widened where the budgets allow more."""
    most: Any = bounds
    room = {
        f.name: max(getattr(most.faults, f.name), getattr(budgets, f.name))
        for f in fields(most.faults)
    }
    fitted: B = replace(most, faults=replace(most.faults, **room))
    return fitted
