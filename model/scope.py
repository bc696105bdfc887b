"""Scopes: how much of a composition is explored, and the configuration that its rules may ask.

Named scopes are a text, read by `read_scopes`: `NAME: why | [from=PARENT] NAME=N ... [| room ...]`.
A value is a size of the bounds, a budget of faults, or both where both have the name; a bare name
is 1. What is not named is as in the parent, or as the defaults say. `room` says what a user's
budgets may allow beyond the scope's own, in place of what the defaults say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

from model.faults import fit

V = TypeVar("V")
B = TypeVar("B", bound="Sizes")
G = TypeVar("G")
R = TypeVar("R")


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


class UnknownSize(ValueError):
    """A scope names what is neither a size nor a budget; the message says which."""


def read_scopes(base: Scope[V, B, G], text: str) -> dict[str, Scope[V, B, G]]:
    """The scopes of a text, by name; `base` has the defaults. Raises UnknownSize."""
    scopes: dict[str, Scope[V, B, G]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        heading, values, *room = " ".join(block.split()).split(" | ")
        name, _, why = heading.partition(": ")
        parent, _, own = values.removeprefix("from=").partition(" ")
        is_derived = values.startswith("from=")
        scope = with_sizes(scopes[parent] if is_derived else base, own if is_derived else values)
        bounds = with_room(scope.bounds, room[0].removeprefix("room")) if room else scope.bounds
        scopes[name] = replace(scope, name=name, why=why, bounds=bounds)
    return scopes


def with_sizes(scope: Scope[V, B, G], text: str) -> Scope[V, B, G]:
    """The scope with sizes and budgets replaced. Raises UnknownSize."""
    given = dict(read_sizes(text))
    known = {f.name for part in (scope.bounds, scope.budgets) for f in fields(part)}  # type: ignore[arg-type]
    if unknown := sorted(given.keys() - known):
        raise UnknownSize(f"no size and no budget is called {unknown[0]!r}: {sorted(known)}")
    bounds, budgets = with_values(scope.bounds, given), with_values(scope.budgets, given)
    return replace(scope, bounds=bounds, budgets=budgets)


def with_room(bounds: B, text: str) -> B:
    """The bounds with room for these faults alone, and with these sizes."""
    sizes: Any = bounds
    given = dict(read_sizes(text))
    faults = with_values(type(sizes.faults)(), given)
    roomy: B = replace(with_values(sizes, given), faults=faults)
    return roomy


def read_sizes(text: str) -> Iterator[tuple[str, int]]:
    """`NAME=N` or `NAME`, each."""
    for part in text.split():
        name, _, value = part.partition("=")
        yield name, int(value or 1)


def with_values(record: R, given: dict[str, int]) -> R:
    """The record with those of the values that are its own."""
    whole: Any = record
    own = {f.name: getattr(whole, f.name) for f in fields(whole) if f.name in given}
    changed: R = replace(whole, **{n: type(value)(given[n]) for n, value in own.items()})
    return changed
