"""Where each leaf of a machine lives in the packed state.

1. A state is a few 64-bit words; as one Python int, word w holds the bits from 64 * w on.
2. A leaf is stored as value - lo, in as many bits as its range needs, and never in two words.
3. A leaf that no rule writes has no bits: it is a constant of the machine.
4. Leaves keep their order; each takes the first word that still has room, so that leaves of one
   actor mostly share a word and few words go partly unused.

The layout depends on the leaves and on which of them vary, never on budgets: scopes that differ
in budgets alone share their compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofs.lift.dag import Node
from proofs.lift.machine import Leaf, Machine

WORD_BITS = 64


class OutOfRange(ValueError):
    """A value does not fit the declared range of its leaf."""


class WrittenOutOfRange(OutOfRange):
    """A step wrote such a value; `rule` is the rule instance's index in the machine."""

    def __init__(self, rule: int) -> None:
        super().__init__(f"rule instance {rule} writes a value that is out of its leaf's range")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Place:
    """The bits of one leaf: `bits` of them in `word`, from bit `shift` on, holding value - lo."""

    word: int
    shift: int
    bits: int
    lo: int

    @property
    def mask(self) -> int:
        """The field's ones, at bit 0."""
        return (1 << self.bits) - 1

    @property
    def position(self) -> int:
        """The field's lowest bit in the state as one int."""
        return self.word * WORD_BITS + self.shift


@dataclass(frozen=True, slots=True)
class Layout:
    """The packed form of a machine's states.

    `places` has the leaves that vary, `constants` the values of all others; `words` is at
    least 1.
    """

    leaves: tuple[Leaf, ...]
    places: Mapping[str, Place]
    constants: Mapping[str, int]
    words: int

    def pack(self, values: Sequence[int]) -> int:
        """Leaf values, in the order of `leaves`, as one int. Raises OutOfRange."""
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
        """The leaf values of a packed state, in the order of `leaves`."""
        return tuple(self.value(packed, leaf.name) for leaf in self.leaves)

    def value(self, packed: int, name: str) -> int:
        """One leaf of a packed state."""
        place = self.places.get(name)
        if place is None:
            return self.constants[name]
        return (packed >> place.position & place.mask) + place.lo


def always_fits(leaf: Leaf, value: Node) -> bool:
    """Whether the value's interval alone shows that it is in the leaf's range.

    Where it does not, the printed forms test each value they write: a value out of range would
    run over into other leaves, and no count would tell.
    """
    return leaf.is_bool or (leaf.lo <= value.lo and value.hi <= leaf.hi)


def _placed(leaf: Leaf, room: list[int]) -> Place:
    """Takes the leaf's bits from the first word with room; `room` has the free bits a word."""
    if leaf.bits > WORD_BITS:
        raise OutOfRange(f"{leaf.name} needs {leaf.bits} bits; a word has {WORD_BITS}")
    word = next((w for w, free in enumerate(room) if free >= leaf.bits), len(room))
    if word == len(room):
        room.append(WORD_BITS)
    shift = WORD_BITS - room[word]
    room[word] -= leaf.bits
    return Place(word, shift, leaf.bits, leaf.lo)


def lay_out(machine: Machine) -> Layout:
    """The layout of a specialised machine. Raises OutOfRange for a leaf wider than a word."""
    written = {name for rule in machine.rules for name in rule.updates}
    room: list[int] = []
    places: dict[str, Place] = {}
    constants: dict[str, int] = {}
    for leaf, initial in zip(machine.leaves, machine.initial, strict=True):
        if leaf.name in written and leaf.bits > 0:
            places[leaf.name] = _placed(leaf, room)
        else:
            constants[leaf.name] = int(initial)
    return Layout(machine.leaves, places, constants, max(1, len(room)))
