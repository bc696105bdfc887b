"""Cuts the work into waves, runs them on a backend, and can be killed at any moment.

Four rules:

1. Trace ids are cut into ranges by their number alone; a wave is some ranges in a row. How many
   ranges a wave has depends on the machine, and nothing that is reported depends on that.
2. A wave counts once the manifest names it. Its file is written first, both at once or not at all;
   a killed run loses the wave that it was in, and nothing else.
3. The result is the sum of the manifest's waves, whether this process ran them or one before.
4. Other arguments in the same directory are refused by name.

Theory of operation: `WaveJournal` is the directory: the manifest and one file a wave. `run_waves`
asks it where the work stands, sizes the next wave by the last one's speed, and lets the backend
judge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from conformance.backends import SUMMARY, Backend, ResultRow, TraceRange
from conformance.files import digest, pretty, write_whole
from conformance.rows import Found, found_in, from_json, line, to_json

SCHEMA_VERSION: Final = 1

WAVE_SECONDS: Final = 45.0
"""How much work a wave aims at: what a killed run loses at most."""

LEAST_WAVES: Final = 4
"""Also short work is cut, so that it shows how it goes on."""

MOST_RANGES: Final = 256
LARGEST_RANGE: Final = 1024
"""Traces in a range; more would make single tasks slow."""

Clock = Callable[[], float]


class OtherRun(ValueError):
    """The directory holds another run; the message says which argument differs."""


class DamagedRun(ValueError):
    """The directory's files are not what their run wrote."""


# Cutting


def range_size(count: int) -> int:
    """Traces in each range of a run of `count` traces."""
    return max(1, min(LARGEST_RANGE, math.ceil(count / MOST_RANGES)))


def cut(first: int, count: int) -> list[TraceRange]:
    """The ranges from trace id `first`, a range's beginning, to the end of the run."""
    size = range_size(count)
    return [TraceRange(at, min(at + size, count)) for at in range(first, count, size)]


def wave_length(count: int, ranges_a_second: float | None, cores: int) -> int:
    """How many ranges the next wave has, at least one; the first one only measures."""
    ranges = math.ceil(count / range_size(count))
    if ranges_a_second is None:
        return max(1, min(ranges // LEAST_WAVES, 2 * cores))
    wanted = round(ranges_a_second * WAVE_SECONDS)
    return max(1, min(math.ceil(ranges / LEAST_WAVES), wanted))


# What stands in the directory


@dataclass(frozen=True, slots=True)
class Wave:
    """A wave that is done: its trace ids, its file, and how it was run."""

    first: int
    last: int
    file: str
    sha256: str
    seconds: float
    steps: int
    backend: str
    cores: int | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """How many traces the run has, and which waves are done."""

    count: int
    waves: tuple[Wave, ...] = ()


def refuse_other(wanted: dict[str, Any], found: dict[str, Any], directory: Path) -> None:
    """Raises OtherRun if the directory's run was `found` to have other arguments."""
    for name in sorted(wanted.keys() | found.keys()):
        here, there = wanted.get(name), found.get(name)
        if here != there:
            raise OtherRun(
                f"{directory} holds a run with {name} {line(there)}, this one has {line(here)};"
                " use another --out, or remove that folder to begin again"
            )


class WaveJournal:
    """The waves of one run, as a directory keeps them."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self.total = Found()
        for wave in manifest.waves:
            self.total = self.total.merge(self._read(wave))

    @classmethod
    def open(cls, directory: Path, wanted: Manifest) -> WaveJournal:
        """The directory's run, gone on with; or a new one. `wanted` has no waves.

        Raises DamagedRun.
        """
        found = read_manifest(directory)
        if found is None:
            ledger = cls(directory, wanted)
            ledger._write_manifest()
            return ledger
        if found.count != wanted.count:
            raise damaged(directory / "manifest.json", f"is of {found.count} traces")
        return cls(directory, found)

    @property
    def next_id(self) -> int:
        """The first trace id that no wave has."""
        return self.manifest.waves[-1].last if self.manifest.waves else 0

    def add(self, wave: Wave, found: Found) -> None:
        """One more wave. `wave.file` and `wave.sha256` are filled in here."""
        name = f"wave-{len(self.manifest.waves):05d}.json"
        text = pretty(to_json(found))
        write_whole(self.directory / name, text)
        done = replace(wave, file=name, sha256=digest(text))
        self.manifest = replace(self.manifest, waves=(*self.manifest.waves, done))
        self._write_manifest()
        self.total = self.total.merge(found)

    def _write_manifest(self) -> None:
        written = {"schema_version": SCHEMA_VERSION, **asdict(self.manifest)}
        write_whole(self.directory / "manifest.json", pretty(written))

    def _read(self, wave: Wave) -> Found:
        path = self.directory / wave.file
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise damaged(path, "cannot be read") from error
        if digest(text) != wave.sha256:
            raise damaged(path, "is not what was written")
        return from_json(json.loads(text))


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest of a directory, None if there is none. Raises DamagedRun."""
    path = directory / "manifest.json"
    if not path.exists():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value.pop("schema_version") != SCHEMA_VERSION:
            raise damaged(path, "was written by another version")
        waves = tuple(Wave(**wave) for wave in value.pop("waves"))
        return Manifest(**value, waves=waves)
    except (OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, DamagedRun):
            raise
        raise damaged(path, f"cannot be read ({error})") from error


def damaged(path: Path, what: str) -> DamagedRun:
    """The error for a file of a run that is not as it was written."""
    return DamagedRun(f"{path} {what}; remove {path.parent.parent} to begin again")


# Running


class RunWatcher(Protocol):
    """Is told how far the run is, several times a second."""

    def __call__(self, done: int, total: Found) -> None:
        """`done` trace ids are judged; `total` is what they gave."""


def run_waves(
    ledger: WaveJournal, backend: Backend, watch: RunWatcher, clock: Clock, least: int = 1
) -> Found:
    """Judge all that is left, at least so many ranges at a time.

    Raises BackendFailed, KeyboardInterrupt; what is done stays done.
    """
    count = ledger.manifest.count
    speed: float | None = None
    while ledger.next_id < count:
        length = max(wave_length(count, speed, backend.cores or 1), least)
        ranges = cut(ledger.next_id, count)[:length]
        began = clock()
        rows = judge_wave(ledger, backend, ranges, watch)
        seconds = clock() - began
        speed = len(ranges) / max(seconds, 1e-6)
        found = found_in(rows)
        first, last = ranges[0].first, ranges[-1].last
        wave = Wave(
            first, last, "", "", round(seconds, 3), found.summary.steps, backend.name, backend.cores
        )
        ledger.add(wave, found)
        watch(ledger.next_id, ledger.total)
    return ledger.total


def judge_wave(
    ledger: WaveJournal, backend: Backend, ranges: Sequence[TraceRange], watch: RunWatcher
) -> list[ResultRow]:
    """The rows of one wave, each range's numbers once."""
    rows: list[ResultRow] = []
    done = ledger.next_id
    for row in backend.judge(ranges):
        if row is not None:
            rows.append(row)
            done += row.last - row.first if row.kind == SUMMARY else 0
        watch(done, ledger.total)
    judged = sorted(TraceRange(row.first, row.last) for row in rows if row.kind == SUMMARY)
    if judged != list(ranges):
        raise AssertionError(f"asked for {ranges}, {backend.name} judged {judged}")
    return rows
