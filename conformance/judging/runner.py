"""Cuts the work into waves and runs them on a backend; a run may be killed at any moment.

Three rules:

1. Trace ids are cut into ranges by their number alone; a wave is a series of adjacent ranges. The
   number of ranges in a wave depends on the machine, and no report depends on that number.
2. A wave counts once the journal has it. A killed run loses the wave that it was in, and nothing
   else.
3. The result is the sum of the journal's waves, whether this process or an earlier one ran them.
   The journal also keeps the notes of each wave for side checks, and the results of those checks.
"""

from __future__ import annotations

import math
from base64 import b85decode, b85encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Protocol

from conformance.judging.backend import Backend, RangeNumbers, TraceRange
from conformance.judging.rows import Found, numbers_of, pack, pack_numbers, unpack
from proofs.run.journal import DamagedRun, Journal

WAVE_SECONDS: Final = 45.0
"""The duration of a wave that is aimed at: a killed run loses at most this much work."""

LEAST_WAVES: Final = 4
"""Short runs are cut into at least this many waves, so that they show progress."""

MOST_RANGES: Final = 256
LARGEST_RANGE: Final = 1024
"""The most traces of a range; larger ranges would make single tasks slow."""

MOST_RANGES_OF_A_WAVE: Final = 16_384
MOST_BYTES_OF_A_WAVE: Final = 64 * 1024 * 1024
"""The most bytes that a wave may return to this process, so that its memory does not grow with the
run."""

Clock = Callable[[], float]
TakeNote = Callable[[], Any]
"""Returns the data that side checks need of a wave, as plain data; None if they need nothing."""

WAVE: Final = "traces"
CHECKS: Final = "checks"


# Cutting


def range_size(count: int) -> int:
    """Traces in each range of a run of `count` traces."""
    return max(1, min(LARGEST_RANGE, math.ceil(count / MOST_RANGES)))


def cut(first: int, count: int, most: int | None = None) -> list[TraceRange]:
    """The ranges from trace id `first`, a range's beginning, to the end of the run; at most `most`
    of them."""
    size = range_size(count)
    starts = range(first, count, size)[:most]
    return [TraceRange(at, min(at + size, count)) for at in starts]


class WaveSpeed(NamedTuple):
    """The speed of a wave."""

    ranges_a_second: float
    bytes_a_range: float


def wave_length(count: int, speed: WaveSpeed | None, cores: int) -> int:
    """The number of ranges of the next wave, at least one; the first wave only measures."""
    ranges = math.ceil(count / range_size(count))
    if speed is None:
        return max(1, min(ranges // LEAST_WAVES, 2 * cores))
    wanted = round(speed.ranges_a_second * WAVE_SECONDS)
    held = math.floor(MOST_BYTES_OF_A_WAVE / max(speed.bytes_a_range, 1))
    return max(1, min(math.ceil(ranges / LEAST_WAVES), wanted, held, MOST_RANGES_OF_A_WAVE))


# Finished waves


@dataclass(frozen=True, slots=True)
class Wave:
    """A finished wave: its trace ids, and how it ran."""

    first: int
    last: int
    seconds: float
    steps: int
    backend: str
    cores: int | None
    executors: Sequence[dict[str, Any]] = ()


class Waves:
    """The waves of a run of `count` traces, as its journal has them; `notes` are the data that side
    checks need of each wave. Raises DamagedRun."""

    def __init__(self, journal: Journal, count: int) -> None:
        self.count = count
        self.done: list[Wave] = []
        self.notes: list[Any] = []
        self.total = Found()
        self._journal = journal
        for unit, row in journal.items():
            if unit.startswith(WAVE):
                self._take(Wave(**row["wave"]), unpack(b85decode(row["found"])), row.get("note"))
        if self.next_id > count:
            raise DamagedRun(f"the journal has {self.next_id} traces of {count}; use another --out")

    @property
    def next_id(self) -> int:
        """The first trace id that is in no wave."""
        return self.done[-1].last if self.done else 0

    def add(
        self, wave: Wave, found: Found, ranges: Iterable[RangeNumbers], note: Any = None
    ) -> None:
        """Enter one more wave; the journal gets only the transitions that are new."""
        packed = {"found": pack(found.beyond(self.total)), "ranges": pack_numbers(ranges)}
        texts = {name: b85encode(part).decode("ascii") for name, part in packed.items()}
        row = {"wave": asdict(wave), **texts} | ({} if note is None else {"note": note})
        self._journal.add(f"{WAVE} {wave.first}-{wave.last}", row)
        self._take(wave, found, note)

    def checked(self, check: Callable[[Sequence[Any]], Any]) -> Any:
        """The results of the side checks; they are made once, after the last wave."""
        if CHECKS not in self._journal:
            self._journal.add(CHECKS, check(self.notes))
        return self._journal[CHECKS]

    def _take(self, wave: Wave, found: Found, note: Any) -> None:
        if wave.first != self.next_id:
            raise DamagedRun(
                f"the journal has no wave from trace {self.next_id}, but one from {wave.first};"
                " remove the folder of --out to begin again"
            )
        self.done.append(wave)
        self.notes += [] if note is None else [note]
        self.total = self.total.merge(found)


# Running


class RunWatcher(Protocol):
    """Observes the progress of the run, several times a second."""

    def __call__(self, done: int, total: Found) -> None:
        """`done` trace ids are judged; `total` is their merged result."""


def run_waves(
    waves: Waves,
    backend: Backend,
    watch: RunWatcher,
    clock: Clock,
    least: int = 1,
    take_note: TakeNote = lambda: None,
) -> Found:
    """Judge all remaining ranges, at least `least` of them at a time.

    Raises BackendFailed, KeyboardInterrupt; finished waves stay finished.
    """
    count = waves.count
    speed: WaveSpeed | None = None
    while waves.next_id < count:
        length = max(wave_length(count, speed, backend.cores or 1), least)
        ranges = cut(waves.next_id, count, length)
        began = clock()
        found, judged, size = judge_wave(waves, backend, ranges, watch)
        seconds = clock() - began
        speed = WaveSpeed(len(ranges) / max(seconds, 1e-6), size / len(ranges))
        first, last, steps = ranges[0].first, ranges[-1].last, found.summary.steps
        wave = Wave(
            *(first, last, round(seconds, 3), steps),
            *(backend.name, backend.cores, backend.executors),
        )
        waves.add(wave, found, judged, take_note())
        watch(waves.next_id, waves.total)
    return waves.total


def judge_wave(
    waves: Waves, backend: Backend, ranges: Sequence[TraceRange], watch: RunWatcher
) -> tuple[Found, list[RangeNumbers], int]:
    """The result of a wave, the numbers of each range, and the bytes that this process received."""
    found, judged, size = Found(), list[RangeNumbers](), 0
    done = waves.next_id
    for row in backend.judge(ranges):
        if row is not None:
            found = found.merge(unpack(row.body))
            numbers = numbers_of(row)
            judged += numbers
            size += len(row.body) + len(row.ranges)
            done += sum(part.last - part.first for part in numbers)
        watch(done, waves.total)
    judged.sort()
    parts = [TraceRange(part.first, part.last) for part in judged]
    if parts != list(ranges):
        raise AssertionError(f"asked for {ranges}, {backend.name} judged {parts}")
    return found, judged, size
