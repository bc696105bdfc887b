"""Sequence arithmetic: sequences that never wrap, and sequences that wrap after 2^31 - 1.

A position counts a producer's records of one epoch without bound; a sequence is what a request
carries. Clauses speak of positions; the arithmetic gives each position its sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from proofs.lift.dag import INFINITE, Node, const, leaf, reachable, uninterpreted
from proofs.prove.engine.regime import Regime

SEQUENCE = "sequence"
SEQUENCES = 1 << 31
LIFETIME = 1 << 30
"""How far from its log's end a message may be, in records, that a wrapping sequence names."""
LARGEST_BATCH = LIFETIME // 5

MAX_SEQUENCE = leaf("max_sequence", -INFINITE, INFINITE)
"""The last sequence where none is used twice: any number."""


ARITHMETIC = "sequences_are_remainders"
"""What sequences mean where they wrap: for the few obligations that are about their arithmetic."""


@dataclass(frozen=True, slots=True)
class SequenceArithmetic(Regime):
    """`sequence` gives a position its sequence; `wraps` if positions pass the last one.

    Where they do, `sequence` is the remainder by the number of sequences, but an obligation is
    told so only if it is about arithmetic: the others are easier without.
    """

    name: str
    max_sequence: Node
    sequence: Callable[[Node], Node]
    sequences: int | None = None

    @property
    def wraps(self) -> bool:
        """Whether a sequence is used again."""
        return self.sequences is not None

    def definitions(self, nodes: Iterable[Node]) -> list[Node]:
        """What `sequence` means, wherever it stands in the nodes."""
        if self.sequences is None:
            return []
        found = {node.serial: node for node in reachable(list(nodes)) if node.name == SEQUENCE}
        return [node.eq(node.args[0] % self.sequences) for node in found.values()]


def _same(position: Node) -> Node:
    return position


NO_WRAP = SequenceArithmetic(
    "fewer than 2^31 records per epoch", ("no_wrap",), "no_wrap", MAX_SEQUENCE, _same
)


def wrapping(sequences: int) -> SequenceArithmetic:
    """So many sequences, used again and again."""
    return SequenceArithmetic(
        "any number of records per epoch: sequences wrap after 2^31 - 1",
        ("message_lifetime", "batches_are_small"),
        "wraps",
        const(sequences - 1),
        lambda position: uninterpreted(SEQUENCE, (position,)),
        sequences,
    )


WRAPS = wrapping(SEQUENCES)
