"""The place of each leaf of a machine in the packed state.

1. A state is a few 64-bit words; as one Python int, word w holds the bits from 64 * w on.
2. A leaf is stored as value - lo, in as many bits as its range needs, and never in two words.
3. A leaf that no rule writes has no bits: it is a constant of the machine.
4. Words are cut into parts. An actor (a leaf's name up to its first dot) is a part of whole words.
   Small actors share a word, in parts of a few bits. The C engine remembers the effect of rules on
   each part, so a good cut makes it fast; any cut is right.

The layout depends on the leaves and on which of them vary, never on budgets, so scopes that differ
only in budgets share their compiled code.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from proofs.lift.dag import Node
from proofs.lift.machine import Leaf, Machine

WORD_BITS = 64
NARROW_BITS = 10
"""A part of at most this many bits is a table of all its values."""
SMALL_BITS = 62
"""A state of at most this many bits is cut into narrow parts only."""
MAX_PARTS = 64

_ACTOR = re.compile(r"(?:len\(|\d+ in )*([^.\s()]+)")


class OutOfRange(ValueError):
    """A value does not fit the declared range of its leaf."""


class WrittenOutOfRange(OutOfRange):
    """A step wrote a value out of range; `rule` is the rule instance's index in the machine."""

    def __init__(self, rule: int) -> None:
        super().__init__(f"rule instance {rule} writes a value that is out of its leaf's range")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class BitField:
    """The bits of one leaf: `bits` of them in `word`, from bit `shift` on, holding value - lo."""

    word: int
    shift: int
    bits: int
    lo: int

    @property
    def mask(self) -> int:
        """The field's mask, at bit 0."""
        return (1 << self.bits) - 1

    @property
    def position(self) -> int:
        """The field's lowest bit in the state as one int."""
        return self.word * WORD_BITS + self.shift


@dataclass(frozen=True, slots=True)
class Part:
    """Some leaves: whole words (`bits` 0), or `bits` bits of one word from `shift` on."""

    word: int
    words: int
    shift: int
    bits: int
    leaves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The packed form of a machine's states.

    `places` has the leaves that vary, `constants` the values of all others; each leaf with a place
    is in one of the `parts`. A layout has at least one word and one part.
    """

    leaves: tuple[Leaf, ...]
    places: Mapping[str, BitField]
    constants: Mapping[str, int]
    words: int
    parts: tuple[Part, ...]

    def pack(self, values: Sequence[int]) -> int:
        """Return leaf values, given in the order of `leaves`, as one int. Raises OutOfRange."""
        packed = 0
        for leaf, value in zip(self.leaves, values, strict=True):
            if not leaf.lo <= value <= leaf.hi:
                raise OutOfRange(f"{leaf.name} = {value} is not in {leaf.lo} .. {leaf.hi}")
            place = self.places.get(leaf.name)
            if place is not None:
                packed |= (int(value) - place.lo) << place.position
            elif value != self.constants[leaf.name]:
                raise OutOfRange(f"{leaf.name} = {value}, but no rule changes it")
        return packed

    def unpack(self, packed: int) -> tuple[int, ...]:
        """Return the leaf values of a packed state, in the order of `leaves`."""
        return tuple(self.value(packed, leaf.name) for leaf in self.leaves)

    def value(self, packed: int, name: str) -> int:
        """Return one leaf of a packed state."""
        place = self.places.get(name)
        if place is None:
            return self.constants[name]
        return (packed >> place.position & place.mask) + place.lo


def always_fits(leaf: Leaf, value: Node) -> bool:
    """Whether the value's interval alone shows that it is in the leaf's range.

    Otherwise the printed forms test each value that they write: a value out of range would overflow
    into other leaves, and no count of states would reveal it.
    """
    return leaf.is_bool or (leaf.lo <= value.lo and value.hi <= leaf.hi)


def _actor(leaf: Leaf) -> str:
    found = _ACTOR.match(leaf.name)
    return found[1] if found else leaf.name


def _bits(leaves: Iterable[Leaf]) -> int:
    return sum(leaf.bits for leaf in leaves)


def _joined(groups: Iterable[list[Leaf]], most: int) -> Iterator[list[Leaf]]:
    """Join neighbouring groups while they have at most `most` bits together."""
    held: list[Leaf] = []
    for group in groups:
        if held and _bits(held) + _bits(group) > most:
            yield held
            held = []
        held = [*held, *group]
    if held:
        yield held


def _groups(varying: Sequence[Leaf]) -> list[list[Leaf]]:
    """Return the leaves of each part, with small neighbours joined."""
    if _bits(varying) <= SMALL_BITS:
        groups = list(_joined(([leaf] for leaf in varying), NARROW_BITS))
    else:
        actors = [list(group) for _, group in itertools.groupby(varying, _actor)]
        groups = list(_joined(actors, NARROW_BITS))
    most = NARROW_BITS
    while len(groups) > MAX_PARTS:
        most *= 2
        groups = list(_joined(groups, most))
    return groups


class _Words:
    """Allocates bits: whole words to wide parts, and the rest of a shared word to narrow ones."""

    def __init__(self) -> None:
        self.count = 0
        self._shared = self._used = WORD_BITS

    def narrow(self, leaves: Sequence[Leaf]) -> tuple[Part, dict[str, BitField]]:
        """Place leaves side by side in one word."""
        bits = _bits(leaves)
        if self._used + bits > WORD_BITS:
            self._shared, self._used = self.count, 0
            self.count += 1
        part = Part(self._shared, 1, self._used, bits, tuple(leaf.name for leaf in leaves))
        places = {}
        for leaf in leaves:
            places[leaf.name] = BitField(part.word, self._used, leaf.bits, leaf.lo)
            self._used += leaf.bits
        return part, places

    def wide(self, leaves: Sequence[Leaf]) -> tuple[Part, dict[str, BitField]]:
        """Place each leaf in the first of the part's words with room."""
        room: list[int] = []
        places = {leaf.name: _placed(leaf, room, self.count) for leaf in leaves}
        part = Part(self.count, len(room), 0, 0, tuple(leaf.name for leaf in leaves))
        self.count += len(room)
        return part, places


def _placed(leaf: Leaf, room: list[int], first: int) -> BitField:
    """Take the leaf's bits from the first word with room; `room` has the free bits of each word."""
    if leaf.bits > WORD_BITS:
        raise OutOfRange(f"{leaf.name} needs {leaf.bits} bits; a word has {WORD_BITS}")
    word = next((w for w, free in enumerate(room) if free >= leaf.bits), len(room))
    if word == len(room):
        room.append(WORD_BITS)
    shift = WORD_BITS - room[word]
    room[word] -= leaf.bits
    return BitField(first + word, shift, leaf.bits, leaf.lo)


def lay_out(machine: Machine) -> Layout:
    """Return the layout of a specialised machine. Raises OutOfRange for a leaf wider than a
    word."""
    written = {name for rule in machine.rules for name in rule.updates}
    varying = [leaf for leaf in machine.leaves if leaf.name in written and leaf.bits > 0]
    words = _Words()
    parts: list[Part] = []
    places: dict[str, BitField] = {}
    for group in _groups(varying):
        part, placed = (words.narrow if _bits(group) <= NARROW_BITS else words.wide)(group)
        parts.append(part)
        places |= placed
    constants = {
        leaf.name: int(initial)
        for leaf, initial in zip(machine.leaves, machine.initial, strict=True)
        if leaf.name not in places
    }
    if not parts:
        return Layout(machine.leaves, {}, constants, 1, (Part(0, 1, 0, 0, ()),))
    return Layout(machine.leaves, places, constants, words.count, tuple(parts))
