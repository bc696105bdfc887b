"""Schedules of faults that many traces share.

A schedule is a sequence of faults. Each trace uses some of them and sits out the others: while a
leader is down that this trace does not want down, it rests. Traces share a schedule if they all
want the same faults, or if the coordinator moves in all of them or in none. In the latter case the
schedule has one of the forms below, in which `(hold release)` is repeated as often as the most
demanding trace wants:

    (hold release)* move (hold release)*
    (hold release)* hold move release (hold release)*
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

HOLD: Final = "hold"
RELEASE: Final = "release"
MOVE: Final = "move"

Faults = tuple[str, ...]

PAIR: Final[Faults] = (HOLD, RELEASE)


class FaultPlace(NamedTuple):
    """A place in a schedule, and the place after which a trace that used it goes on."""

    place: int
    resumes_at: int


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """A schedule of faults, and for each trace the places of its own faults."""

    faults: Faults
    turns: tuple[tuple[FaultPlace, ...], ...]

    @staticmethod
    def around(wanted: Sequence[Faults]) -> FaultSchedule:
        """The shortest schedule that has all faults of each trace, in its order."""
        kinds = set(wanted) - {()}
        if len(kinds) == 1:
            [whole] = kinds
            places = [tuple(range(len(faults))) for faults in wanted]
        else:
            shapes = [Shape.of(faults) for faults in wanted]
            around = Shape.around(shapes)
            whole, places = around.faults, [around.places(shape) for shape in shapes]
        turns = (tuple(turns_of(whole, *one)) for one in zip(wanted, places, strict=True))
        return FaultSchedule(whole, tuple(turns))


def turns_of(whole: Faults, own: Faults, places: Sequence[int]) -> Iterator[FaultPlace]:
    """The turns of a trace: it goes on once the leader is down, or up, as the trace wants."""
    for number, place in enumerate(places, start=1):
        gone = is_gone(own[:number])
        behind = (at for at in range(place, len(whole)) if is_gone(whole[: at + 1]) == gone)
        yield FaultPlace(place, next(behind))


def is_gone(faults: Faults) -> bool:
    """Whether a leader is down after these faults."""
    return faults.count(HOLD) > faults.count(RELEASE)


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a trace's faults: how often a leader is down before the coordinator moves, how
    often after it, and whether a leader is down at the move."""

    before: int
    moves: bool
    is_held: bool
    after: int

    @staticmethod
    def of(faults: Faults) -> Shape:
        """The shape of a trace whose coordinator moves at most once."""
        at = faults.index(MOVE) if MOVE in faults else len(faults)
        is_held = at % 2 == 1
        return Shape(at // 2, MOVE in faults, is_held, faults[at + 1 :].count(HOLD))

    @staticmethod
    def around(shapes: Sequence[Shape]) -> Shape:
        """The smallest shape that has room for all of these."""
        return Shape(
            max(s.before for s in shapes),
            any(s.moves for s in shapes),
            any(s.is_held for s in shapes),
            max(s.after for s in shapes),
        )

    @property
    def faults(self) -> Faults:
        """The schedule of this shape."""
        move = (HOLD, MOVE, RELEASE) if self.is_held else (MOVE,)
        return PAIR * self.before + (move if self.moves else ()) + PAIR * self.after

    def places(self, own: Shape) -> tuple[int, ...]:
        """The places of a trace's faults in this schedule."""
        move = 2 * self.before + self.is_held
        behind = move + self.moves + self.is_held
        moved = (move - 1, move, move + 1) if own.is_held else (move,)
        return (
            *range(2 * own.before),
            *(moved if own.moves else ()),
            *range(behind, behind + 2 * own.after),
        )


# Transactions that time out

STEP_S: Final = 4.0
"""The time that a trace may take between two faults, and the time that a fault may take."""


def transaction_times(scripts: Sequence[Any], turns: Sequence[Sequence[FaultPlace]]) -> list[float]:
    """The transaction time-out of each trace, in seconds; 0.0 if no transaction times out. It
    leaves time for all steps before it, including waits for the time-outs of other traces."""
    stages = [stage(s, own, s.times_out) for s, own in zip(scripts, turns, strict=True)]
    waits: dict[int, float] = {}
    found = [0.0] * len(scripts)
    for number in sorted(range(len(scripts)), key=lambda n: stages[n]):
        script = scripts[number]
        if not script.times_out:
            continue
        for first, last in open_spans(script):
            begins, ends = stage(script, turns[number], first), stage(script, turns[number], last)
            others = sum(waits.get(i, 0.0) for i in range(begins, ends))
            needed = STEP_S * (1 + ends - begins) + others
            found[number] = max(found[number], needed)
        at = stages[number]
        waits[at] = max(waits.get(at, 0.0), found[number])
    return found


def stage(script: Any, turns: Sequence[FaultPlace], step: int) -> int:
    """The number of the schedule's faults that have happened when a trace is at this step."""
    own = sum(len(faults) for at, faults in script.faults_at.items() if at <= step)
    return turns[own - 1].place + 1 if own else 0


def open_spans(script: Any) -> list[tuple[int, int]]:
    """The spans of steps, up to the time-out, in which a transaction may be open."""
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
