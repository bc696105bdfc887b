"""How many traces share what is done to nodes, though not each wants all of it.

A course is a sequence of deeds. A trace takes its own of them and sits out the others: while a
leader is gone that it did not want to be gone, it rests. The coordinator moves in all traces of a
course or in none, so that a course has one of these forms, in which `(hold release)` is there as
often as the trace wants it that wants it most:

    (hold release)* move (hold release)*
    (hold release)* hold move release (hold release)*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from conformance.systems.brokers.transactions.cluster_nodes import HOLD, MOVE, RELEASE
from conformance.systems.brokers.transactions.nodes_script import NodeScript

Deeds = tuple[str, ...]

PAIR: Final[Deeds] = (HOLD, RELEASE)


@dataclass(frozen=True, slots=True)
class Shape:
    """Of what is done for a trace: how often a leader is gone before the coordinator moves and
    after, and whether it is gone then."""

    before: int
    moves: bool
    is_held: bool
    after: int

    @staticmethod
    def of(deeds: Deeds) -> Shape:
        """That of a trace, whose coordinator moves at most once."""
        at = deeds.index(MOVE) if MOVE in deeds else len(deeds)
        is_held = at % 2 == 1
        return Shape(at // 2, MOVE in deeds, is_held, deeds[at + 1 :].count(HOLD))

    @staticmethod
    def around(shapes: Sequence[Shape]) -> Shape:
        """The least that has room for all."""
        return Shape(
            max(s.before for s in shapes),
            any(s.moves for s in shapes),
            any(s.is_held for s in shapes),
            max(s.after for s in shapes),
        )

    @property
    def deeds(self) -> Deeds:
        """The course of this shape."""
        move = (HOLD, MOVE, RELEASE) if self.is_held else (MOVE,)
        return PAIR * self.before + (move if self.moves else ()) + PAIR * self.after

    def places(self, own: Shape) -> tuple[int, ...]:
        """Where in this course the deeds of a trace are."""
        move = 2 * self.before + self.is_held
        behind = move + self.moves + self.is_held
        moved = (move - 1, move, move + 1) if own.is_held else (move,)
        return (
            *range(2 * own.before),
            *(moved if own.moves else ()),
            *range(behind, behind + 2 * own.after),
        )


def course(scripts: Sequence[NodeScript]) -> tuple[Deeds, list[tuple[int, ...]]]:
    """The course of some traces, and where in it the deeds of each are."""
    shapes = [Shape.of(script.signature) for script in scripts]
    whole = Shape.around(shapes)
    return whole.deeds, [whole.places(shape) for shape in shapes]


# Transactions that time out

STEP_S: Final = 4.0
"""How long a trace may take between two deeds, and a deed."""


def lasting(scripts: Sequence[NodeScript], places: Sequence[tuple[int, ...]]) -> list[float]:
    """For each trace the time-out of its transactions, in seconds, 0.0 where none times out: all
    that comes before is done by then, and that is also the waiting of others for theirs."""
    stages = [stage(s, p, s.times_out) for s, p in zip(scripts, places, strict=True)]
    waits: dict[int, float] = {}
    found = [0.0] * len(scripts)
    for number in sorted(range(len(scripts)), key=lambda n: stages[n]):
        script = scripts[number]
        if not script.times_out:
            continue
        for first, last in open_spans(script):
            begins, ends = stage(script, places[number], first), stage(script, places[number], last)
            others = sum(waits.get(i, 0.0) for i in range(begins, ends))
            needed = STEP_S * (1 + ends - begins) + others
            found[number] = max(found[number], needed)
        at = stages[number]
        waits[at] = max(waits.get(at, 0.0), found[number])
    return found


def stage(script: NodeScript, places: tuple[int, ...], step: int) -> int:
    """How many deeds of the course have been done when a trace is at a step of its own."""
    own = sum(len(deeds) for at, deeds in script.deeds.items() if at <= step)
    return places[own - 1] + 1 if own else 0


def open_spans(script: NodeScript) -> list[tuple[int, int]]:
    """From which step to which a transaction may be open, up to the time-out."""
    spans: list[tuple[int, int]] = []
    begun = 0
    for moved in script.moved:
        if moved.step >= script.times_out:
            break
        if moved.sent is None:
            continue
        ends = moved.sent.request.api.name in ("END_TXN", "INIT_PRODUCER_ID")
        if not ends:
            begun = begun or moved.step
        elif begun and not moved.sent.answer[0]:
            spans.append((begun, moved.step))
            begun = 0
    return [*spans, (begun or script.times_out, script.times_out)]
