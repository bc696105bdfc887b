"""Scopes: how much of a composition is explored, and the configuration that its rules read.

`read_scopes` reads named scopes from a text of entries:
`NAME: why | [from=PARENT] NAME=N ... [| PART ...]`. A value is a size of the bounds, a budget of
faults, or both if both have a field of this name; a bare name means 1. A value that is not named is
taken from the parent, or from the defaults. Three parts may follow:

- `room NAME=N ...`: how far a user may raise the budgets beyond the scope's own; replaces the
  defaults.
- `never NAME, ...: why`: witnesses, events and other incidents that do not happen in this scope.
  Everything else that its sizes and budgets allow must happen in it.
- `sometimes NAME, ...`: those that never happen in the parent and do happen in this scope.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Self, TypeVar

from model.faults import fit

V = TypeVar("V")
B = TypeVar("B", bound="Sizes")
G = TypeVar("G")
R = TypeVar("R")


class Sizes:
    """The bounds of a composition: the sizes that shape a state."""

    __slots__ = ()

    def suited_to(self, variant: Any) -> Self:
        """These bounds, widened as the variant requires."""
        return self


@dataclass(frozen=True)
class Configuration(Generic[V, B, G]):
    """All that a rule may read of its surroundings: which Kafka, which sizes, and how often each
    fault may happen."""

    variant: V
    bounds: B
    budgets: G


@dataclass(frozen=True)
class Scope(Generic[V, B, G]):
    """How much is explored, and `why` this much. The bounds have room for what the budgets allow.
    `never` maps each incident that does not happen, although sizes and budgets would allow it, to
    the reason."""

    name: str
    why: str
    bounds: B
    budgets: G
    never: Mapping[str, str] = field(default_factory=dict, hash=False)

    def configuration(self, variant: V) -> Configuration[V, B, G]:
        """The configuration of this scope for a variant."""
        bounds = fit(self.bounds, self.budgets).suited_to(variant)
        return Configuration(variant, bounds, self.budgets)


class UnknownSize(ValueError):
    """A scope uses a name that is neither a size nor a budget; the message says which."""


class InvalidPart(ValueError):
    """A part of a scope's entry cannot be read; the message says which."""


def read_scopes(base: Scope[V, B, G], text: str) -> dict[str, Scope[V, B, G]]:
    """The scopes of a text, by name; `base` has the defaults. Raises UnknownSize or InvalidPart
    with the scope's name."""
    scopes: dict[str, Scope[V, B, G]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        heading, *parts = " ".join(block.split()).split(" | ")
        name, _, why = heading.partition(": ")
        try:
            scope = read_entry(base, scopes, parts)
        except (InvalidPart, UnknownSize) as error:
            raise type(error)(f"scope {name}: {error}") from error
        scopes[name] = replace(scope, name=name, why=why)
    return scopes


def read_entry(
    base: Scope[V, B, G], scopes: Mapping[str, Scope[V, B, G]], parts: Sequence[str]
) -> Scope[V, B, G]:
    """The scope that the parts after a heading describe. Raises UnknownSize, InvalidPart."""
    if not parts:
        raise InvalidPart("no sizes; write NAME: why | NAME=N ...")
    values, *others = parts
    scope, own = base, values
    if values.startswith("from="):
        parent, _, own = values.removeprefix("from=").partition(" ")
        if parent not in scopes:
            raise InvalidPart(f"'from={parent}': no scope above it is called {parent!r}")
        scope = scopes[parent]
    scope = with_sizes(scope, own)
    for part in others:
        scope = read_part(scope, part)
    return scope


def read_part(scope: Scope[V, B, G], text: str) -> Scope[V, B, G]:
    """The scope with one more part of its entry. Raises UnknownSize, InvalidPart."""
    kind, _, rest = text.partition(" ")
    if kind not in PARTS:
        raise InvalidPart(f"no part of a scope is called {kind!r}: {sorted(PARTS)}")
    changed: Scope[V, B, G] = PARTS[kind](scope, rest)
    return changed


def with_sizes(scope: Scope[V, B, G], text: str) -> Scope[V, B, G]:
    """The scope with sizes and budgets replaced. Raises UnknownSize, InvalidPart."""
    given = dict(read_sizes(text))
    check_names(given, scope.bounds, scope.budgets)
    bounds, budgets = with_values(scope.bounds, given), with_values(scope.budgets, given)
    return replace(scope, bounds=bounds, budgets=budgets)


def check_names(given: Mapping[str, int], *records: Any) -> None:
    """Check that each name is a field of one of these records. Raises UnknownSize."""
    known = {f.name for record in records for f in fields(record)}
    if unknown := sorted(given.keys() - known):
        raise UnknownSize(f"no size and no budget is called {unknown[0]!r}: {sorted(known)}")


def with_room(scope: Scope[V, B, G], text: str) -> Scope[V, B, G]:
    """The scope with room for these faults alone, and with these sizes. Raises UnknownSize,
    InvalidPart."""
    bounds: Any = scope.bounds
    given = dict(read_sizes(text))
    check_names(given, bounds, bounds.faults)
    faults = with_values(type(bounds.faults)(), given)
    return replace(scope, bounds=replace(with_values(bounds, given), faults=faults))


def with_never(scope: Scope[V, B, G], text: str) -> Scope[V, B, G]:
    """The scope in which these incidents never happen, with the reason. Raises InvalidPart."""
    names, _, why = text.partition(": ")
    if not why:
        raise InvalidPart(f"{text!r} does not say why; write never NAME, ...: why")
    return replace(scope, never={**scope.never, **dict.fromkeys(names.split(", "), why)})


def with_sometimes(scope: Scope[V, B, G], text: str) -> Scope[V, B, G]:
    """The scope in which these incidents happen, unlike in its parent. Raises InvalidPart."""
    names = text.split(", ")
    if unknown := [name for name in names if name not in scope.never]:
        raise InvalidPart(f"{unknown[0]!r} is nothing that the parent never has")
    return replace(scope, never={n: why for n, why in scope.never.items() if n not in names})


PARTS: dict[str, Callable[[Any, str], Any]] = {
    "room": with_room,
    "never": with_never,
    "sometimes": with_sometimes,
}
"""The parts that may follow the sizes of an entry, by their first word."""


def read_sizes(text: str) -> Iterator[tuple[str, int]]:
    """The names and values of a text of `NAME=N` or `NAME`. Raises InvalidPart."""
    for part in text.split():
        name, equals, value = part.partition("=")
        if equals and not value.isdecimal():
            raise InvalidPart(f"{part!r}: write a number, as {name}=1")
        yield name, int(value or 1)


def with_values(record: R, given: dict[str, int]) -> R:
    """The record with its own fields replaced by those of the values that name one."""
    whole: Any = record
    own = {f.name: getattr(whole, f.name) for f in fields(whole) if f.name in given}
    changed: R = replace(whole, **{n: type(value)(given[n]) for n, value in own.items()})
    return changed
