"""Interchangeable elements of an index type: one state is explored for all that differ only in
their names.

Theory of operation. Two managers, or two partitions, are interchangeable if the model does not tell
them apart: exchanging them in a state, with everything that each of them has, exchanges what can
happen and changes nothing else. All states that differ by such an exchange (an *orbit*) then lead
to such states again, and one of them, the least, is explored for all. An orbit of n elements with
m, m', ... equal ones has n! / (m! m'! ...) states, so the sizes of orbits add up to the number of
all states.

No declaration is trusted. `symmetry_of` exchanges each pair of neighbours in the lifted machine and
compares: the initial state, each rule instance (its guard and all its updates) with the instance of
the exchanged choice, each guarantee and each witness with itself. Equal means the same graph up to
the order of `and`, `or`, `+` and `==`. Anything that differs is refused, with its place.
"""

from __future__ import annotations

import itertools
import math
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.layout import Layout
from proofs.lift.machine import Machine, RuleInstance
from proofs.lift.source import Model
from proofs.lift.values import Shapes

_UNORDERED = ("and", "or", "add", "mul", "eq")
_FLAT = ("and", "or", "add")


class NotSymmetric(ValueError):
    """The elements are not interchangeable; the message says what tells them apart."""


@dataclass(frozen=True, slots=True)
class LeafPlace:
    """The place of a leaf: its name without indexes, each index with its type's size, and the
    leaf's own index type."""

    template: str
    indexes: tuple[tuple[str, int], ...]
    holds: str | None

    def exchanged(self, types: frozenset[str], a: int, b: int) -> LeafPlace:
        """Return the place after elements a and b of these types are exchanged."""
        other = {a: b, b: a}
        moved = tuple((t, other.get(i, i) if t in types else i) for t, i in self.indexes)
        return LeafPlace(self.template, moved, self.holds)


@dataclass(frozen=True, slots=True)
class Symmetry:
    """`count` interchangeable elements of the index type whose size the layout calls `index`.

    `blocks` has, for each element, the leaves that belong to it, in the same order.
    """

    index: str
    count: int
    blocks: tuple[tuple[str, ...], ...]


# Places of leaves


def leaf_places(
    shapes: Shapes, hint: Any, name: str, template: str, indexes: tuple[tuple[str, int], ...] = ()
) -> Iterator[tuple[str, LeafPlace]]:
    """Yield the place of each scalar of a value of a type, by the name that lifting gives it."""
    kind = shapes.kind(hint)
    if kind == "scalar":
        yield name, LeafPlace(template, indexes, index_type(hint))
    elif kind == "record":
        for field, inner in shapes.hints(hint).items():
            yield from leaf_places(shapes, inner, f"{name}.{field}", f"{template}.{field}", indexes)
    elif kind == "tuple":
        yield f"len({name})", LeafPlace(f"len({template})", indexes, None)
        inner = shapes.element(hint)
        for slot in range(shapes.capacity(hint)):
            at = f"[{slot}]"
            yield from leaf_places(shapes, inner, name + at, template + at, indexes)
    else:
        key = index_type(typing.get_args(hint)[0]) or ""
        for i in range(shapes.keys(hint)):
            inside = (*indexes, (key, i))
            if kind == "set":
                yield f"{i} in {name}", LeafPlace(f"in {template}", inside, None)
            else:
                inner = typing.get_args(hint)[1]
                yield from leaf_places(shapes, inner, f"{name}[{i}]", f"{template}[]", inside)


def index_type(hint: Any) -> str | None:
    """Return the name of an index type's size; None for other types."""
    marks: tuple[Any, ...] = getattr(hint, "__metadata__", ())
    return marks[0].size if marks and type(marks[0]).__name__ == "Index" else None


def world_places(model: Model, shapes: Shapes) -> dict[str, LeafPlace]:
    """Return the place of each leaf of the world."""
    fields = shapes.hints(model.world.World)
    return dict(
        entry for name, hint in fields.items() for entry in leaf_places(shapes, hint, name, name)
    )


# Equality of graphs, with leaves renamed


class Numbers:
    """A number for each node: graphs that are equal after leaves are renamed get equal numbers."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}

    def of(self, root: Node, renamed: Mapping[str, str]) -> int:
        """Return the number of a graph whose leaves are renamed; leaves that are not in `renamed`
        keep their names."""
        numbers: dict[int, int] = {}
        flat: dict[int, tuple[int, ...]] = {}
        for node in dag.reachable([root]):
            name = renamed.get(node.name, node.name) if node.op == "leaf" else node.name
            args = self._operands(node, numbers, flat)
            flat[node.serial] = args
            numbers[node.serial] = self._number((node.op, node.is_bool, node.value, name, args))
        return numbers[root.serial]

    def _operands(
        self, node: Node, numbers: Mapping[int, int], flat: Mapping[int, tuple[int, ...]]
    ) -> tuple[int, ...]:
        if node.op not in _UNORDERED:
            return tuple(numbers[a.serial] for a in node.args)
        args: list[int] = []
        for a in node.args:
            joins = node.op in _FLAT and a.op == node.op
            args += flat[a.serial] if joins else [numbers[a.serial]]
        return tuple(sorted(set(args) if node.is_bool and node.op != "eq" else args))

    def _number(self, key: tuple[object, ...]) -> int:
        return self._known.setdefault(key, len(self._known))


class Exchange:
    """Two elements exchanged in a machine; `check` tests that this changes nothing else."""

    def __init__(
        self,
        machine: Machine,
        places: Mapping[str, LeafPlace],
        choices: Mapping[str, Mapping[str, str | None]],
        numbers: Numbers,
    ) -> None:
        self.machine = machine
        self.places = places
        self.choices = choices
        self.numbers = numbers
        self.named = {place: name for name, place in places.items()}
        self.rules = {(rule.rule, rule.choice): rule for rule in machine.rules}

    def renamed(self, types: frozenset[str], a: int, b: int) -> dict[str, str]:
        """Return each leaf's name after the exchange. Raises NotSymmetric."""
        found = {}
        for leaf in self.machine.leaves:
            place = self.places[leaf.name]
            if place.holds in types:
                raise NotSymmetric(f"{leaf.name} holds such an element by number")
            other = self.named.get(place.exchanged(types, a, b))
            if other is None:
                raise NotSymmetric(f"{leaf.name} has no counterpart")
            found[leaf.name] = other
        return found

    def check(self, types: frozenset[str], a: int, b: int) -> None:
        """Check that nothing changes except names. Raises NotSymmetric."""
        renamed = self.renamed(types, a, b)
        self._initial(renamed)
        for rule in self.machine.rules:
            self._rule(rule, types, {a: b, b: a}, renamed)
        for kind in (self.machine.guarantees, self.machine.witnesses):
            for name, node in kind.items():
                if self.numbers.of(node, renamed) != self.numbers.of(node, {}):
                    raise NotSymmetric(f"{name} tells {a} from {b}")

    def _initial(self, renamed: Mapping[str, str]) -> None:
        names = (leaf.name for leaf in self.machine.leaves)
        values = dict(zip(names, self.machine.initial, strict=True))
        for name, other in renamed.items():
            if values[name] != values.get(other):
                raise NotSymmetric(f"{name} and {other} begin with different values")

    def _rule(
        self,
        rule: RuleInstance,
        types: frozenset[str],
        other: Mapping[int, int],
        renamed: Mapping[str, str],
    ) -> None:
        of = self.choices[rule.rule]
        choice = tuple((n, other.get(v, v) if of[n] in types else v) for n, v in rule.choice)
        twin = self.rules.get((rule.rule, choice))
        if twin is None:
            raise NotSymmetric(f"{rule.label} has no counterpart")
        if self.numbers.of(rule.guard, renamed) != self.numbers.of(twin.guard, {}):
            raise NotSymmetric(f"{rule.label} and {twin.label} have different guards")
        mine = {renamed[n]: self.numbers.of(v, renamed) for n, v in rule.updates.items()}
        its = {n: self.numbers.of(v, {}) for n, v in twin.updates.items()}
        different = [n for n in {**mine, **its} if mine.get(n) != its.get(n)]
        if different:
            raise NotSymmetric(f"{rule.label} and {twin.label} write different {different[0]}")


# The symmetry of a machine


def choice_types(model: Model) -> dict[str, dict[str, str | None]]:
    """Return the index type of each choice, by rule."""
    return {
        name: {
            argument: index_type(hint)
            for argument, hint in typing.get_type_hints(function, include_extras=True).items()
        }
        for name, function in model.rules.items()
    }


def symmetry_of(model: Model, k: Any, machine: Machine, index: str) -> Symmetry:
    """Return the symmetry of a lifted machine in the elements of one index type, after checking it.

    Another index type may number the same elements, as in a set of messages with one from each
    element. That type is included if the machine is not symmetric otherwise. Raises NotSymmetric.
    """
    shapes = Shapes(k.bounds)
    places = world_places(model, shapes)
    known = sorted({t for place in places.values() for t, _ in place.indexes})
    if index not in known:
        raise NotSymmetric(f"no map or set of the world has {index!r}; choose one of {known}")
    count = shapes.size(index)
    exchange = Exchange(machine, places, choice_types(model), Numbers())
    others = [t for t in known if t != index and shapes.size(t) >= count]
    reasons: list[str] = []
    for size in range(len(others) + 1):
        for more in itertools.combinations(others, size):
            types = frozenset((index, *more))
            try:
                for a in range(count - 1):
                    exchange.check(types, a, a + 1)
                return Symmetry(index, count, blocks_of(machine, places, types, count))
            except NotSymmetric as error:
                reasons.append(f"{error} (with {', '.join(more)})" if more else str(error))
    raise NotSymmetric(f"{index} are not interchangeable: {'; '.join(reasons)}")


def blocks_of(
    machine: Machine, places: Mapping[str, LeafPlace], types: frozenset[str], count: int
) -> tuple[tuple[str, ...], ...]:
    """Return the leaves of each element. Raises NotSymmetric."""
    blocks: list[list[str]] = [[] for _ in range(count)]
    for leaf in machine.leaves:
        own = [i for t, i in places[leaf.name].indexes if t in types and i < count]
        if len(own) > 1:
            raise NotSymmetric(f"{leaf.name} belongs to two elements at once")
        if own:
            blocks[own[0]].append(leaf.name)
    return tuple(map(tuple, blocks))


Successors = Callable[[int], Sequence[tuple[int, int]]]
"""Returns (rule instance, state) for each enabled instance."""


class Canonical:
    """Finds the least state of an orbit, in the ints form. Raises NotSymmetric."""

    def __init__(self, symmetry: Symmetry, layout: Layout) -> None:
        self._fields: list[list[tuple[int, int]]] = [
            [
                (layout.places[name].position, layout.places[name].mask)
                for name in block
                if name in layout.places
            ]
            for block in symmetry.blocks
        ]
        if len({len(fields) for fields in self._fields}) > 1:
            raise NotSymmetric(f"{symmetry.index}: a leaf of one element never changes")
        self._kept = ~sum(mask << at for fields in self._fields for at, mask in fields)

    def __call__(self, state: int) -> int:
        """Return the least state of the state's orbit."""
        blocks = sorted(self._blocks(state))
        found = state & self._kept
        for fields, values in zip(self._fields, blocks, strict=True):
            for (at, _), value in zip(fields, values, strict=True):
                found |= value << at
        return found

    def size(self, state: int) -> int:
        """Return how many states are in the state's orbit."""
        same = itertools.groupby(sorted(self._blocks(state)))
        return math.factorial(len(self._fields)) // math.prod(
            math.factorial(len(list(group))) for _, group in same
        )

    def of_each(self, successors: Successors) -> Successors:
        """Return the same successors, each replaced by the least of its orbit."""
        return lambda state: [(rule, self(after)) for rule, after in successors(state)]

    def _blocks(self, state: int) -> Iterable[tuple[int, ...]]:
        return [tuple(state >> at & mask for at, mask in fields) for fields in self._fields]


class OrbitPaths:
    """Turns paths between the least states of orbits into paths of the machine itself."""

    def __init__(
        self,
        initial: int,
        successors: Successors,
        canonical: Callable[[int], int],
    ) -> None:
        self._initial = initial
        self._successors = successors
        self._canonical = canonical

    def path(self, steps: Sequence[int]) -> tuple[int, ...]:
        """Return a path through the same orbits as the given path. In each state it takes a step
        into the next orbit, which exists because the elements are interchangeable."""
        least = state = self._initial
        found: list[int] = []
        for step in steps:
            least = self._canonical(dict(self._successors(least))[step])
            rule, state = next(
                (rule, after)
                for rule, after in self._successors(state)
                if self._canonical(after) == least
            )
            found.append(rule)
        return tuple(found)
