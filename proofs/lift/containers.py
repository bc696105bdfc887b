"""Operations on containers, in the bounded and the unbounded domain.

In the bounded domain a tuple is slots with a length. In the unbounded domain a tuple is a function
with a length (`FunctionSeq`), and a set is a predicate (`PredicateSet`). A map there is a function
of any number of keys (`FunctionMap`), or only its value at one key is known, that of the producer a
theorem is about (`FocusMap`); nothing is assumed of the values at other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import FALSE, TRUE, ZERO, Node, const
from proofs.lift.values import MapValue, Rec, Seq, SetValue, Shapes, Span, bits_of


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSeq:
    """A tuple of any length: element i is at(i) for 0 <= i < length."""

    length: Node
    at: Callable[[Node], Any]


@dataclass(frozen=True, slots=True, eq=False)
class FocusMap:
    """A map of which only the value at `key` is known; `elsewhere` is made up for all other
    keys."""

    key: Node
    value: Any
    elsewhere: Any

    def put(self, shapes: Shapes, key: Node, value: Any) -> FocusMap:
        """Return the map after a change at any key."""
        here = merge(shapes, dag.eq(key, self.key), value, self.value)
        return FocusMap(self.key, here, self.elsewhere)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionMap:
    """A map of any number of keys: key i has at(i) for 0 <= i < size."""

    size: Node
    at: Callable[[Node], Any]

    def put(self, shapes: Shapes, key: Node, value: Any) -> FunctionMap:
        """Return the map after a change at one key."""
        return FunctionMap(self.size, lambda i: merge(shapes, dag.eq(i, key), value, self.at(i)))

    def values(self) -> FunctionSeq:
        """Return the values, in the order of the keys."""
        return FunctionSeq(self.size, self.at)


@dataclass(frozen=True, slots=True, eq=False)
class PredicateSet:
    """The set of all numbers for which `holds` is true."""

    holds: Callable[[Node], Node]


def default_like(shapes: Shapes, value: Any) -> Any:
    """Return the default that an unused slot beside `value` holds."""
    if isinstance(value, Rec):
        return shapes.default(value.cls)
    if isinstance(value, Node):
        return FALSE if value.is_bool else ZERO
    raise TypeError(f"a tuple cannot hold {value!r}")


def merge(shapes: Shapes, condition: Node, a: Any, b: Any) -> Any:
    """Return a if condition else b."""
    if a is b:
        return a
    if isinstance(a, Node) and isinstance(b, Node) and a.is_bool == b.is_bool:
        return dag.ite(condition, a, b)
    if isinstance(a, Rec) and isinstance(b, Rec) and a.cls is b.cls:
        return Rec(a.cls, {f: merge(shapes, condition, a.fields[f], b.fields[f]) for f in a.fields})
    if isinstance(a, Seq) and isinstance(b, Seq):
        size = max(len(a.slots), len(b.slots))
        pairs = zip(padded(shapes, a, b, size), padded(shapes, b, a, size), strict=True)
        slots = tuple(merge(shapes, condition, x, y) for x, y in pairs)
        return Seq(dag.ite(condition, a.length, b.length), slots)
    if isinstance(a, MapValue) and isinstance(b, MapValue):
        pairs = zip(a.slots, b.slots, strict=True)
        return MapValue(tuple(merge(shapes, condition, x, y) for x, y in pairs))
    if isinstance(a, (SetValue, Span)) and isinstance(b, (SetValue, Span)):
        return merge_sets(condition, a, b)
    if isinstance(a, PredicateSet) and isinstance(b, PredicateSet):
        # Cached, so that a value which many branches share is computed only once.
        return PredicateSet(cache(lambda x: dag.ite(condition, a.holds(x), b.holds(x))))
    if isinstance(a, Seq) and isinstance(b, FunctionSeq):
        a = as_function(shapes, a)
    if isinstance(a, FunctionSeq) and isinstance(b, Seq):
        b = as_function(shapes, b)
    if isinstance(a, FunctionSeq) and isinstance(b, FunctionSeq):
        length = dag.ite(condition, a.length, b.length)
        return FunctionSeq(length, lambda i: merge(shapes, condition, a.at(i), b.at(i)))
    if isinstance(a, (FocusMap, FunctionMap)) and isinstance(b, (FocusMap, FunctionMap)):
        return merge_maps(shapes, condition, a, b)
    raise TypeError(f"{a!r} and {b!r} cannot be the two results of one condition")


def merge_maps(
    shapes: Shapes, condition: Node, a: FocusMap | FunctionMap, b: FocusMap | FunctionMap
) -> FocusMap | FunctionMap:
    """Return a if condition else b, of maps of the same form."""
    if isinstance(a, FunctionMap) and isinstance(b, FunctionMap):
        return FunctionMap(a.size, lambda i: merge(shapes, condition, a.at(i), b.at(i)))
    assert isinstance(a, FocusMap)
    assert isinstance(b, FocusMap)
    return FocusMap(a.key, merge(shapes, condition, a.value, b.value), a.elsewhere)


def as_function(shapes: Shapes, value: Seq) -> FunctionSeq:
    """Return a bounded tuple in the form of an unbounded one, for merging with one."""
    return FunctionSeq(value.length, lambda i: selected(shapes, value.slots, i))


def padded(shapes: Shapes, value: Seq, other: Seq, size: int) -> tuple[Any, ...]:
    """Return the slots of `value`, filled up to `size` with defaults for the elements of
    `other`."""
    if len(value.slots) == size:
        return value.slots
    filler = default_like(shapes, other.slots[0])
    return value.slots + (filler,) * (size - len(value.slots))


def merge_sets(condition: Node, a: SetValue | Span, b: SetValue | Span) -> SetValue:
    """Return a if condition else b, of sets."""
    sizes = [len(s.bits) for s in (a, b) if isinstance(s, SetValue)]
    size = max(sizes)
    pairs = zip(bits_of(a, size), bits_of(b, size), strict=True)
    return SetValue(tuple(dag.ite(condition, x, y) for x, y in pairs))


def equal(a: Any, b: Any) -> Node:
    """Return a == b, compared field by field."""
    if isinstance(a, Node) and isinstance(b, Node) and a.is_bool == b.is_bool:
        return dag.eq(a, b)
    if isinstance(a, Rec) and isinstance(b, Rec) and a.cls is b.cls:
        return dag.conjunction(equal(a.fields[f], b.fields[f]) for f in a.fields)
    if isinstance(a, (Seq, MapValue)) and isinstance(b, (Seq, MapValue)):
        slots = dag.conjunction(equal(x, y) for x, y in zip(a.slots, b.slots, strict=False))
        if isinstance(a, Seq) and isinstance(b, Seq):
            return dag.both(dag.eq(a.length, b.length), slots)
        return slots
    raise TypeError(f"{type_of(a)} and {type_of(b)} cannot be compared")


def type_of(value: Any) -> str:
    """Return the type of a value, for errors."""
    if isinstance(value, Rec):
        return value.cls.__name__
    if isinstance(value, Node):
        return "bool" if value.is_bool else "int"
    return type(value).__name__


def length(value: Any) -> Node:
    """Return the number of elements of a tuple."""
    result: Node = value.length
    return result


def is_defined(owner: Any, index: Node) -> Node:
    """Return whether owner[index] is defined; an index -1 counts from the end."""
    if isinstance(owner, MapValue):
        return dag.both(dag.le(ZERO, index), dag.lt(index, const(len(owner.slots))))
    if isinstance(owner, FocusMap):
        return TRUE
    if isinstance(owner, FunctionMap):
        return dag.both(dag.le(ZERO, index), dag.lt(index, owner.size))
    if index.is_const and index.value < 0:
        return dag.le(const(-index.value), owner.length)
    return dag.both(dag.le(ZERO, index), dag.lt(index, owner.length))


def at(shapes: Shapes, owner: Any, index: Node) -> Any:
    """Return owner[index]."""
    if isinstance(owner, FocusMap):
        return merge(shapes, dag.eq(index, owner.key), owner.value, owner.elsewhere)
    if isinstance(owner, FunctionMap):
        return owner.at(index)
    if isinstance(owner, FunctionSeq):
        place = dag.add(owner.length, index) if index.is_const and index.value < 0 else index
        return owner.at(place)
    if index.is_const and index.value < 0:
        return selected(shapes, owner.slots, dag.add(owner.length, index))
    return selected(shapes, owner.slots, index)


def selected(shapes: Shapes, slots: Sequence[Any], index: Node) -> Any:
    """Return slots[index], or any slot if the index is outside."""
    if index.is_const:
        return slots[index.value if 0 <= index.value < len(slots) else 0]
    result = slots[0]
    for position in range(1, len(slots)):
        here = dag.eq(index, const(position))
        if here is not FALSE:
            result = merge(shapes, here, slots[position], result)
    return result


def put(shapes: Shapes, owner: Any, key: Node, value: Any) -> Any:
    """Return the map with one value replaced."""
    if isinstance(owner, (FocusMap, FunctionMap)):
        return owner.put(shapes, key, value)
    return MapValue(
        tuple(
            merge(shapes, dag.eq(key, const(i)), value, slot) for i, slot in enumerate(owner.slots)
        )
    )


def map_values(owner: Any, function: Callable[[Any], Any]) -> Any:
    """Return the map of the function's results."""
    if isinstance(owner, FocusMap):
        return FocusMap(owner.key, function(owner.value), owner.elsewhere)
    if isinstance(owner, FunctionMap):
        return FunctionMap(owner.size, lambda i: function(owner.at(i)))
    return MapValue(tuple(function(slot) for slot in owner.slots))


def append(shapes: Shapes, owner: Any, value: Any) -> Any:
    """Return (*owner, value)."""
    if isinstance(owner, FunctionSeq):
        end = owner.length
        return FunctionSeq(
            dag.add(end, const(1)),
            lambda i: merge(shapes, dag.eq(i, end), value, owner.at(i)),
        )
    if not owner.slots:
        return Seq(const(1), (value,))
    slots = [
        merge(shapes, dag.eq(owner.length, const(i)), value, slot)
        for i, slot in enumerate(owner.slots)
    ]
    last = merge(
        shapes,
        dag.eq(owner.length, const(len(slots))),
        value,
        default_like(shapes, value),
    )
    return Seq(dag.add(owner.length, const(1)), (*slots, last))


def concatenate(shapes: Shapes, first: Any, second: Seq) -> Any:
    """Return (*first, *second)."""
    result = first
    for position, value in enumerate(second.slots):
        exists = dag.lt(const(position), second.length)
        if exists is FALSE:
            continue
        result = merge(shapes, exists, append(shapes, result, value), result)
    return result


def take(shapes: Shapes, owner: Any, count: Node) -> Any:
    """Return owner[:count], for a count that is not negative."""
    kept = dag.ite(dag.le(count, owner.length), count, owner.length)
    if isinstance(owner, FunctionSeq):
        return FunctionSeq(kept, owner.at)
    if count.is_const:
        return Seq(kept, owner.slots[: count.value])
    slots = tuple(
        merge(shapes, dag.lt(const(i), count), slot, default_like(shapes, slot))
        for i, slot in enumerate(owner.slots)
    )
    return Seq(kept, slots)


def drop_last(shapes: Shapes, owner: Any, count: int) -> Any:
    """Return owner[:-count]: all but the last `count`, which is positive."""
    left = dag.sub(owner.length, const(count))
    kept = dag.ite(dag.le(const(count), owner.length), left, ZERO)
    if isinstance(owner, FunctionSeq):
        return FunctionSeq(kept, owner.at)
    some = owner.slots[: max(0, len(owner.slots) - count)]
    slots = (
        merge(shapes, dag.lt(const(i), kept), slot, default_like(shapes, slot))
        for i, slot in enumerate(some)
    )
    return Seq(kept, tuple(slots))


def drop(shapes: Shapes, owner: Seq, start: int) -> Seq:
    """Return owner[start:]; a negative start keeps that many of the last elements."""
    if start >= 0:
        left = dag.sub(owner.length, const(start))
        kept = dag.ite(dag.le(const(start), owner.length), left, ZERO)
        return Seq(kept, owner.slots[start:])
    size = min(-start, len(owner.slots))
    if size == len(owner.slots):
        return owner
    slots = []
    for position in range(size):
        value = owner.slots[position]
        for skipped in range(1, len(owner.slots) - size + 1):
            here = dag.eq(owner.length, const(size + skipped))
            value = merge(shapes, here, owner.slots[position + skipped], value)
        slots.append(value)
    return Seq(dag.ite(dag.lt(const(size), owner.length), const(size), owner.length), tuple(slots))


def drop_any(owner: FunctionSeq, start: Node) -> FunctionSeq:
    """Return owner[start:] of an unbounded tuple, for any start."""
    from_end = dag.add(owner.length, start)
    begin = dag.ite(dag.lt(start, ZERO), from_end, start)
    begin = dag.ite(dag.lt(begin, ZERO), ZERO, begin)
    begin = dag.ite(dag.lt(owner.length, begin), owner.length, begin)
    return FunctionSeq(dag.sub(owner.length, begin), lambda i: owner.at(dag.add(begin, i)))


def collected(shapes: Shapes, results: list[tuple[Node, Any]], *, filtered: bool) -> Seq:
    """Return tuple(...) of a generator: the elements that it keeps, in order and without holes."""
    if not results:
        return Seq(ZERO, ())
    count = ZERO
    positions = []
    for kept, _ in results:
        positions.append(count)
        count = dag.add(count, dag.ite(kept, const(1), ZERO))
    if all(kept is TRUE for kept, _ in results):
        return Seq(count, tuple(value for _, value in results))
    filler = default_like(shapes, results[0][1])
    if not filtered:
        return Seq(count, tuple(merge(shapes, kept, v, filler) for kept, v in results))
    slots = []
    for place in range(len(results)):
        slot = filler
        for (kept, value), position in reversed(list(zip(results, positions, strict=True))):
            here = dag.both(kept, dag.eq(position, const(place)))
            slot = merge(shapes, here, value, slot)
        slots.append(slot)
    return Seq(count, tuple(slots))


def contains(owner: Any, element: Node) -> Node:
    """Return whether the element is in the owner."""
    if isinstance(owner, PredicateSet):
        return owner.holds(element)
    if isinstance(owner, Span):
        end = dag.add(owner.first, owner.count)
        return dag.both(dag.le(owner.first, element), dag.lt(element, end))
    return dag.disjunction(
        dag.both(dag.eq(element, const(i)), bit) for i, bit in enumerate(owner.bits)
    )


def plus(owner: Any, element: Node) -> Any:
    """Return the set with one more element."""
    if isinstance(owner, PredicateSet):
        return PredicateSet(lambda x: dag.either(owner.holds(x), dag.eq(x, element)))
    size = max(len(owner.bits), element.hi + 1)
    bits = bits_of(owner, size)
    return SetValue(tuple(dag.either(bit, dag.eq(element, const(i))) for i, bit in enumerate(bits)))


def union(a: Any, b: SetValue | Span) -> Any:
    """Return the union of two sets."""
    if isinstance(a, PredicateSet):
        return PredicateSet(lambda x: dag.either(a.holds(x), contains(b, x)))
    size = max(len(a.bits), len(b.bits) if isinstance(b, SetValue) else 0)
    pairs = zip(bits_of(a, size), bits_of(b, size), strict=True)
    return SetValue(tuple(dag.either(x, y) for x, y in pairs))
