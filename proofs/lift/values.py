"""The symbolic values of the evaluator.

A scalar is a `Node`. A container's form depends on the domain. In the bounded domain a tuple is a
length with slots, a map is its slots, and a set is one Boolean for each possible element. Unused
slots hold their type's default (the least value of a range), so equal states have equal leaves.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any, Protocol

from model.language import AtMost, Index, Map, Range, Set
from proofs.lift import dag
from proofs.lift.dag import FALSE, Node, const


@dataclass(frozen=True, slots=True)
class Rec:
    """A record: its class and the values of its fields, which are also attributes."""

    cls: type
    fields: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(f"{self.cls.__name__} has no field {name}") from None

    def changed(self, **changes: Any) -> Rec:
        """Return the record with some fields replaced."""
        return Rec(self.cls, {**self.fields, **changes})


class Scalars(Protocol):
    """A record of which only scalars are read."""

    def __getattr__(self, name: str) -> Node: ...


@dataclass(frozen=True, slots=True)
class Seq:
    """A bounded tuple: its slots, and how many of them are used."""

    length: Node
    slots: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MapValue:
    """A map: one value for each key."""

    slots: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SetValue:
    """A set: for each possible element whether it is in the set."""

    bits: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """The set first, first + 1, ..., whose size is known only where it is used."""

    first: Node
    count: Node


class Shapes:
    """Types with the sizes of one layout: defaults, leaves and coercion.

    `layout` is an object with an attribute for each size that the types name.
    """

    def __init__(self, layout: Any) -> None:
        self.layout = layout
        self._hints: dict[type, dict[str, Any]] = {}

    def hints(self, cls: type) -> dict[str, Any]:
        """Return the fields of a record class with their types."""
        if cls not in self._hints:
            # The namespace the class was made in: a patched model's modules are not in sys.modules.
            namespace = cls.__init__.__globals__  # type: ignore[misc]
            self._hints[cls] = typing.get_type_hints(cls, namespace, include_extras=True)
        return self._hints[cls]

    def size(self, bound: int | str) -> int:
        """Return a bound of a type as a number; `faults.breaks` is a bound of a fault."""
        if isinstance(bound, int):
            return bound
        value: int = attrgetter(bound)(self.layout)
        return value

    def bounds(self, hint: Any) -> tuple[int, int]:
        """Return the least and the greatest value of a scalar type."""
        if isinstance(hint, type) and issubclass(hint, IntEnum):
            return min(hint), max(hint)
        if hint is bool:
            return 0, 1
        mark = hint.__metadata__[0]
        if isinstance(mark, Index):
            return 0, max(0, self.size(mark.size) - 1)
        return self.size(mark.lo), self.size(mark.hi)

    def kind(self, hint: Any) -> str:
        """Return the kind of a type: scalar, record, tuple, map, set or open (a type variable)."""
        return kind_of(hint)

    def element(self, hint: Any) -> Any:
        """Return the type of a bounded tuple's elements."""
        return typing.get_args(typing.get_args(hint)[0])[0]

    def capacity(self, hint: Any) -> int:
        """Return how many elements a bounded tuple may have."""
        return self.size(hint.__metadata__[0].capacity)

    def keys(self, hint: Any) -> int:
        """Return the number of keys of a map, or of possible elements of a set."""
        return self.size(typing.get_args(hint)[0].__metadata__[0].size)

    def build(self, hint: Any, scalar: Callable[[str, Any], Node], name: str) -> Any:
        """Return a value of a type, with each of its scalars made by `scalar(name, hint)`."""
        kind = self.kind(hint)
        if kind == "scalar":
            return scalar(name, hint)
        if kind == "record":
            fields = self.hints(hint)
            return Rec(hint, {f: self.build(h, scalar, f"{name}.{f}") for f, h in fields.items()})
        if kind == "tuple":
            inner, capacity = self.element(hint), self.capacity(hint)
            slots = tuple(self.build(inner, scalar, f"{name}[{i}]") for i in range(capacity))
            return Seq(scalar(f"len({name})", _length_hint(capacity)), slots)
        if kind == "map":
            inner = typing.get_args(hint)[1]
            count = self.keys(hint)
            return MapValue(tuple(self.build(inner, scalar, f"{name}[{i}]") for i in range(count)))
        return SetValue(tuple(scalar(f"{i} in {name}", bool) for i in range(self.keys(hint))))

    def default(self, hint: Any) -> Any:
        """Return the default that an unused slot of this type holds."""
        return self.build(hint, self._least, "")

    def _least(self, _name: str, hint: Any) -> Node:
        return FALSE if hint is bool else const(self.bounds(hint)[0])

    def leaves(self, hint: Any, name: str) -> Any:
        """Return a value of this type whose scalars are leaves named after their place."""
        return self.build(hint, self._leaf, name)

    def _leaf(self, name: str, hint: Any) -> Node:
        lo, hi = self.bounds(hint)
        if lo == hi:
            return const(False) if hint is bool else const(lo)
        return dag.leaf(name, lo, hi, is_bool=hint is bool)

    def coerce(self, value: Any, hint: Any) -> Any:
        """Return the value in the form that its place requires: the number of slots or set
        elements."""
        kind = self.kind(hint)
        if kind == "record" and isinstance(value, Rec):
            return value
        if kind == "tuple" and isinstance(value, Seq):
            inner, capacity = self.element(hint), self.capacity(hint)
            slots = [self.coerce(slot, inner) for slot in value.slots[:capacity]]
            slots += [self.default(inner)] * (capacity - len(slots))
            return Seq(value.length, tuple(slots))
        if kind == "map" and isinstance(value, MapValue):
            inner = typing.get_args(hint)[1]
            return MapValue(tuple(self.coerce(slot, inner) for slot in value.slots))
        if kind == "set" and isinstance(value, (SetValue, Span)):
            return SetValue(bits_of(value, self.keys(hint)))
        return value


@functools.cache
def kind_of(hint: Any) -> str:
    """Return the kind of a type: scalar, record, tuple, map, set or open (a type variable)."""
    if isinstance(hint, typing.TypeVar):
        return "open"
    if typing.get_origin(hint) is typing.Annotated:
        return "tuple" if isinstance(hint.__metadata__[0], AtMost) else "scalar"
    origin = typing.get_origin(hint) or hint
    if origin in (Map, Set):
        return "map" if origin is Map else "set"
    if origin is tuple:
        return "open"
    return "scalar" if issubclass(origin, int) else "record"


@functools.cache
def shapes_of(layout: Any) -> Shapes:
    """Return the types of a model in one layout; their annotations are read once."""
    return Shapes(layout)


def _length_hint(capacity: int) -> Any:
    return typing.Annotated[int, Range(0, capacity)]


def bits_of(value: SetValue | Span, size: int) -> tuple[Node, ...]:
    """Return for each of `size` elements whether it is in the set, which has no others."""
    if isinstance(value, Span):
        end = dag.add(value.first, value.count)
        return tuple(
            dag.both(dag.le(value.first, const(i)), dag.lt(const(i), end)) for i in range(size)
        )
    return value.bits[:size] + (FALSE,) * (size - len(value.bits))


def scalars(value: Any) -> Iterator[Node]:
    """Yield all scalars of a value, in a fixed order."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, Rec):
        for inner in value.fields.values():
            yield from scalars(inner)
    elif isinstance(value, Seq):
        yield value.length
        for inner in value.slots:
            yield from scalars(inner)
    elif isinstance(value, MapValue):
        for inner in value.slots:
            yield from scalars(inner)
    elif isinstance(value, SetValue):
        yield from value.bits
    else:
        raise TypeError(f"{value!r} has no scalars")
