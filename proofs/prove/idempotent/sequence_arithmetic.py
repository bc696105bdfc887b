"""Sequence arithmetic: sequences that never wrap, and sequences that wrap after 2^31 - 1.

A position counts a producer's records of one epoch without bound; a sequence is the number in a
request. Clauses are about positions; the arithmetic gives each position its sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from proofs.lift.dag import INFINITE, Node, const, leaf, reachable, uninterpreted
from proofs.prove.engine.regime import Regime

SEQUENCE = "sequence"
SEQUENCES = 1 << 31
LIFETIME = 1 << 30
"""The largest distance, in records, of a message from its log's end at which its sequence is
unambiguous."""
LARGEST_BATCH = LIFETIME // 5

MAX_SEQUENCE = leaf("max_sequence", -INFINITE, INFINITE)
"""The last sequence if no sequence is used twice: any number."""


ARITHMETIC = "sequences_are_remainders"
"""The definition of sequences that wrap, for the few obligations that are about their
arithmetic."""


@dataclass(frozen=True, slots=True)
class SequenceArithmetic(Regime):
    """`sequence` gives a position its sequence; `wraps` says that positions pass the last sequence.

    If sequences wrap, `sequence` is the remainder by the number of sequences. Only obligations
    about arithmetic get this definition; the others are easier without it.
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
        """Return the definition of each application of `sequence` in the nodes."""
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
    """Return the regime with this number of sequences, used again and again."""
    return SequenceArithmetic(
        "any number of records per epoch: sequences wrap after 2^31 - 1",
        ("message_lifetime", "batches_are_small"),
        "wraps",
        const(sequences - 1),
        lambda position: uninterpreted(SEQUENCE, (position,)),
        sequences,
    )


WRAPS = wrapping(SEQUENCES)
