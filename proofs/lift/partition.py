"""Cuts a rule instance or a condition along the parts of a layout.

The effect of a rule instance on one part mostly depends on few other parts. Each piece is therefore
a function of few bits, which the C engine computes once for each value of the parts that it reads:

1. A conjunct that reads one part is a property of that part's values.
2. Constants that are written to a narrow part become a mask.
3. All else becomes factors: the new values of some parts, and the conjuncts that read several
   parts, as a function of the parts read. A factor joins another one that reads all its parts.

The leaves that a piece reads and writes tell, bit by bit, what the piece is independent of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from proofs.lift import dag
from proofs.lift.dag import Node
from proofs.lift.layout import Layout, Part, always_fits
from proofs.lift.machine import RuleInstance
from proofs.lift.simplifications import conjuncts

Parts = int
"""A set of parts: bit n stands for part n of the layout."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that is written to a narrow part: `clear` and `set` are bits counted from its
    lowest."""

    part: int
    clear: int
    set: int


@dataclass(frozen=True, slots=True)
class Factor:
    """The new values of the parts `writes`, and whether the guard holds, as a function of
    `reads`."""

    reads: Parts
    writes: Parts
    guard: tuple[Node, ...] = ()

    def joined(self, other: Factor) -> Factor:
        """Return both factors as one."""
        return Factor(
            self.reads | other.reads, self.writes | other.writes, self.guard + other.guard
        )


@dataclass(frozen=True, slots=True)
class Split:
    """A rule instance or a condition in pieces; `local` has conjuncts by the one part that they
    read.

    `reads` and `writes` are the bits of the packed state that belong to the leaves it reads and
    writes.
    """

    local: Mapping[int, tuple[Node, ...]]
    constants: tuple[Constant, ...]
    factors: tuple[Factor, ...]
    reads: int
    writes: int


def part_numbers(layout: Layout) -> dict[str, int]:
    """Return the number of the part that each leaf with a place is in."""
    return {name: n for n, part in enumerate(layout.parts) for name in part.leaves}


def parts_read(nodes: Iterable[Node], numbers: Mapping[str, int]) -> Parts:
    """Return the parts whose leaves occur in the nodes."""
    found = 0
    for node in dag.reachable(nodes):
        if node.op == "leaf" and node.name in numbers:
            found |= 1 << numbers[node.name]
    return found


def leaf_bits(names: Iterable[str], layout: Layout) -> int:
    """Return the bits of the packed state that hold these leaves."""
    places = (layout.places[name] for name in names if name in layout.places)
    return sum(place.mask << place.position for place in places)


def bits_read(nodes: Iterable[Node], layout: Layout) -> int:
    """Return the bits of the leaves that occur in the nodes."""
    return leaf_bits({n.name for n in dag.reachable(nodes) if n.op == "leaf"}, layout)


def split_condition(
    condition: Node, layout: Layout
) -> tuple[dict[int, tuple[Node, ...]], list[tuple[Parts, Node]]]:
    """Return the conjuncts that read one part, by that part, and the others with the parts they
    read.

    A conjunct that reads no part is listed under part 0.
    """
    numbers = part_numbers(layout)
    local: dict[int, tuple[Node, ...]] = {}
    rest: list[tuple[Parts, Node]] = []
    for conjunct in conjuncts(condition):
        reads = parts_read([conjunct], numbers)
        if reads & (reads - 1):
            rest.append((reads, conjunct))
        else:
            part = max(reads.bit_length() - 1, 0)
            local[part] = (*local.get(part, ()), conjunct)
    return local, rest


def split_rule(rule: RuleInstance, layout: Layout) -> Split:
    """Split a specialised rule instance into pieces."""
    local, rest = split_condition(rule.guard, layout)
    constants, factors = _written(rule, layout)
    factors += [Factor(reads, 0, (conjunct,)) for reads, conjunct in rest]
    reads = bits_read([rule.guard, *rule.updates.values()], layout)
    writes = leaf_bits(rule.updates, layout)
    return Split(local, tuple(constants), tuple(_joined(factors)), reads, writes)


def split_check(condition: Node, layout: Layout) -> Split:
    """Split a guarantee or a witness into pieces."""
    local, rest = split_condition(condition, layout)
    factors = [Factor(reads, 0, (conjunct,)) for reads, conjunct in rest]
    return Split(local, (), tuple(_joined(factors)), bits_read([condition], layout), 0)


def _written(rule: RuleInstance, layout: Layout) -> tuple[list[Constant], list[Factor]]:
    """Return what the rule writes, by part, as constants and factors."""
    numbers = part_numbers(layout)
    leaves = {leaf.name: leaf for leaf in layout.leaves}
    by_part: dict[int | None, list[str]] = {}
    for name in rule.updates:
        by_part.setdefault(numbers.get(name), []).append(name)
    constants: list[Constant] = []
    factors: list[Factor] = []
    for number, names in by_part.items():
        values = [rule.updates[name] for name in names]
        fit = all(always_fits(leaves[n], v) for n, v in zip(names, values, strict=True))
        reads = parts_read(values, numbers)
        if number is None:
            factors += [] if fit else [Factor(reads, 0)]
        elif fit and layout.parts[number].bits and all(value.is_const for value in values):
            constants.append(_constant(number, names, values, layout))
        else:
            factors.append(Factor(reads | 1 << number, 1 << number))
    return constants, factors


def _constant(
    number: int, names: Sequence[str], values: Sequence[Node], layout: Layout
) -> Constant:
    part: Part = layout.parts[number]
    clear = put = 0
    for name, value in zip(names, values, strict=True):
        place = layout.places[name]
        shift = place.shift - part.shift
        clear |= place.mask << shift
        put |= (int(value.value) - place.lo) << shift
    return Constant(number, clear, put)


def _joined(factors: Sequence[Factor]) -> list[Factor]:
    """Join each factor into another one that reads all parts that it reads."""
    kept: list[Factor] = []
    for factor in sorted(factors, key=lambda f: -f.reads.bit_count()):
        home = next((n for n, k in enumerate(kept) if factor.reads | k.reads == k.reads), None)
        if home is None:
            kept.append(factor)
        else:
            kept[home] = kept[home].joined(factor)
    return kept
