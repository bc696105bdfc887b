"""Cuts the work into waves, and runs them on a backend; it can be killed at any moment.

Three rules:

1. Trace ids are cut into ranges by their number alone; a wave is some ranges in a row. How many
   ranges a wave has depends on the machine, and nothing that is reported depends on that.
2. A wave counts once the journal has it; a killed run loses the wave that it was in, and nothing
   else.
3. The result is the sum of the journal's waves, whether this process ran them or one before. What
   checks beside the traces need is kept with each wave, and what they found is kept, too.
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
"""How much work a wave aims at: what a killed run loses at most."""

LEAST_WAVES: Final = 4
"""Short runs are cut too, so that they show progress."""

MOST_RANGES: Final = 256
LARGEST_RANGE: Final = 1024
"""Traces in a range; more would make single tasks slow."""

MOST_RANGES_OF_A_WAVE: Final = 16_384
MOST_BYTES_OF_A_WAVE: Final = 64 * 1024 * 1024
"""What a wave may bring to this process, so that its memory does not grow with the run."""

Clock = Callable[[], float]
TakeNote = Callable[[], Any]
"""What checks beside the traces need of a wave, as plain data; None if nothing."""

WAVE: Final = "traces"
CHECKS: Final = "checks"


# Cutting


def range_size(count: int) -> int:
    """Traces in each range of a run of `count` traces."""
    return max(1, min(LARGEST_RANGE, math.ceil(count / MOST_RANGES)))


def cut(first: int, count: int, most: int | None = None) -> list[TraceRange]:
    """The ranges from trace id `first`, a range's beginning, to the end of the run; at most so
    many."""
    size = range_size(count)
    starts = range(first, count, size)[:most]
    return [TraceRange(at, min(at + size, count)) for at in starts]


class WaveSpeed(NamedTuple):
    """How a wave went."""

    ranges_a_second: float
    bytes_a_range: float


def wave_length(count: int, speed: WaveSpeed | None, cores: int) -> int:
    """How many ranges the next wave has, at least one; the first wave only measures."""
    ranges = math.ceil(count / range_size(count))
    if speed is None:
        return max(1, min(ranges // LEAST_WAVES, 2 * cores))
    wanted = round(speed.ranges_a_second * WAVE_SECONDS)
    held = math.floor(MOST_BYTES_OF_A_WAVE / max(speed.bytes_a_range, 1))
    return max(1, min(math.ceil(ranges / LEAST_WAVES), wanted, held, MOST_RANGES_OF_A_WAVE))


# What is done


@dataclass(frozen=True, slots=True)
class Wave:
    """A wave that is done: its trace ids, and how it was run."""

    first: int
    last: int
    seconds: float
    steps: int
    backend: str
    cores: int | None
    executors: Sequence[dict[str, Any]] = ()


class Waves:
    """The waves of a run of `count` traces, as its journal has them; `notes` are what checks need
    of each. Raises DamagedRun."""

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
        """The first trace id that no wave has."""
        return self.done[-1].last if self.done else 0

    def add(
        self, wave: Wave, found: Found, ranges: Iterable[RangeNumbers], note: Any = None
    ) -> None:
        """Enter one more wave; of transitions the journal gets those that are new."""
        packed = {"found": pack(found.beyond(self.total)), "ranges": pack_numbers(ranges)}
        texts = {name: b85encode(part).decode("ascii") for name, part in packed.items()}
        row = {"wave": asdict(wave), **texts} | ({} if note is None else {"note": note})
        self._journal.add(f"{WAVE} {wave.first}-{wave.last}", row)
        self._take(wave, found, note)

    def checked(self, check: Callable[[Sequence[Any]], Any]) -> Any:
        """What the checks found that are made once, behind the last wave."""
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
        """`done` trace ids are judged; `total` is what they gave."""


def run_waves(
    waves: Waves,
    backend: Backend,
    watch: RunWatcher,
    clock: Clock,
    least: int = 1,
    take_note: TakeNote = lambda: None,
) -> Found:
    """Judge all that is left, at least so many ranges at a time.

    Raises BackendFailed, KeyboardInterrupt; what is done stays done.
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
    """What a wave gave, the numbers of each range, and how many bytes came here."""
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
