"""Sizes of scopes as unknowns: a theorem holds for scopes of any size, except sizes that it claims.

A rule may ask how large its scope is. If a proof answered with the sizes of one scope, a branch
that only another scope takes would fold away, and nothing would be proved about it. Every attribute
of the bounds is therefore an unknown of its declared kind: a size is not negative, and a number
computed from sizes may be any number. A size that a theorem claims, such as five batches in flight,
keeps its value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, get_type_hints

from proofs.lift.dag import INFINITE, Node, leaf
from proofs.lift.values import Rec
from proofs.prove.engine.unknowns import number, truth

PREFIX = "bounds."
"""The prefix of the names of sizes; no other unknown has it."""

Overrides = dict[tuple[str, str], Any]
"""Replacements of attributes of a configuration, by class and name."""


def unknown_sizes(bounds: Any, claimed: Collection[str] = ()) -> Overrides:
    """Return an unknown for each attribute of the bounds that is not claimed."""
    names = (name for name in names_of(type(bounds)) if name not in claimed)
    return {(type(bounds).__name__, name): size(bounds, name) for name in names}


def names_of(cls: type) -> Iterator[str]:
    """Yield the fields of bounds and the properties that bounds compute from them."""
    yield from (f.name for f in fields(cls))
    yield from (name for name, kind in vars(cls).items() if isinstance(kind, property))


def size(bounds: Any, name: str) -> Any:
    """Return one attribute as an unknown; the room for faults has a number for each fault."""
    value, is_field = getattr(bounds, name), name in type(bounds).__dataclass_fields__
    if hasattr(value, "__dataclass_fields__"):
        inner = {f.name: not_negative(f"{PREFIX}{name}.{f.name}") for f in fields(value)}
        return Rec(type(value), inner)
    if isinstance(value, bool) or hint_of(type(bounds), name) is bool:
        return truth(PREFIX + name)
    return not_negative(PREFIX + name) if is_field else number(PREFIX + name)


def hint_of(cls: type, name: str) -> Any:
    """Return the declared type of a computed attribute; None if the attribute is not computed."""
    computed = vars(cls).get(name)
    return get_type_hints(computed.fget).get("return") if isinstance(computed, property) else None


def not_negative(name: str) -> Node:
    """Return any number from 0 on."""
    return leaf(name, 0, INFINITE)


def size_in(k: Any, name: str) -> int:
    """Return the value of an unknown size in a scope, by the unknown's name."""
    return int(attrgetter(name)(k))
