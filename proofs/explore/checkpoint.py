"""Keeps a search in a folder, so that it can continue after any interruption.

Theory of operation. A state is kept as its parent and the rule instance that led from the parent to
it. States are numbered in the order in which they are found, so repeating the steps in that order
restores them. Neither of the two ever changes: each level appends to two files. A third file,
written last and moved into place, says how much of them is valid, and has all counts at the end of
that level. A killed process leaves at most a tail beyond that point, which is cut off. The files
name neither the engine nor the number of workers: another engine may continue, and finds the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from proofs.explore.search import Engine, NoSearch, Origin, Origins, SearchCounters
from proofs.lift.c_form import print_c
from proofs.lift.layout import Layout
from proofs.lift.machine import Machine

FORMAT = 3
INTERVAL_SECONDS = 10.0
CHUNK_STATES = 1 << 16

_COLUMNS = (("parents.bin", "I"), ("rules.bin", "H"))


class CheckpointError(ValueError):
    """The folder holds another search, another version, or damaged files."""


class Storable(Engine, Protocol):
    """An engine that reports the origins of its states, and restores states from origins."""

    def origins(self, first: int, count: int) -> Origins:
        """Return the origins of the states first .. first + count - 1."""

    def restore(self, origins: Origins) -> None:
        """Restore states of an earlier search, in order, after the states already there.

        Raises NoSearch.
        """

    def release(self, count: int, kept: Origin) -> None:
        """Free the origins of the states below `count`, which are saved; `kept` returns them."""

    def resume(
        self, counts: SearchCounters, firings: Sequence[int], first: Sequence[int | None]
    ) -> None:
        """Continue at the end of a level, with the counts of all levels before."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The counts of a search at the end of a level."""

    levels: tuple[int, ...]
    counts: SearchCounters
    firings: tuple[int, ...]
    first: tuple[int | None, ...]


Restored = Callable[[int, int], None]
"""Receives how many of all saved states are restored, because hundreds of millions take minutes."""


class SearchCheckpoint(Protocol):
    """Keeps a search, level by level."""

    def load(self, restored: Restored) -> Snapshot | None:
        """Restore a saved search into the engine; None if none is saved. Raises CheckpointError."""

    def level_done(self, snapshot: Snapshot) -> None:
        """Record a complete level."""

    def write(self) -> None:
        """Write the last complete level, unless it is already written."""


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as plain data."""
    return {
        "levels": snapshot.levels,
        "counts": snapshot.counts._asdict(),
        "firings": snapshot.firings,
        "first": snapshot.first,
    }


def snapshot_from(data: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot that `snapshot_json` converted. Raises KeyError, TypeError."""
    return Snapshot(
        tuple(data["levels"]),
        SearchCounters(**data["counts"]),
        tuple(data["firings"]),
        tuple(data["first"]),
    )


def key_of(machine: Machine, layout: Layout, *arguments: object) -> str:
    """Return a key for what must be equal to continue a search: the specialised machine and the
    arguments."""
    says = (
        machine.leaves,
        machine.initial,
        sorted(machine.inputs.items()),
        [rule.label for rule in machine.rules],
        list(machine.guarantees),
        list(machine.witnesses),
        [unit.text for unit in print_c(machine, layout)],
        arguments,
    )
    return hashlib.sha256(repr(says).encode()).hexdigest()


class Checkpoint:
    """The folder of one search."""

    def __init__(self, folder: Path, key: str, engine: Storable) -> None:
        self._folder = folder
        self._key = key
        self._engine = engine
        self._written = 0
        self._saved_at = time.monotonic()
        self._latest: Snapshot | None = None
        self._saved: Snapshot | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def _head(self) -> Path:
        return self._folder / "checkpoint.json"

    def load(self, restored: Restored) -> Snapshot | None:
        """Restore a saved search into the engine; None if none is saved. Raises CheckpointError."""
        if not self._head.exists():
            return None
        snapshot = self._read_head()
        self._cut(snapshot.counts.distinct)
        self._restore(snapshot.counts.distinct, restored)
        self._engine.resume(snapshot.counts, snapshot.firings, snapshot.first)
        self._written = snapshot.counts.distinct
        self._latest = self._saved = snapshot
        return snapshot

    def _read_head(self) -> Snapshot:
        try:
            head: dict[str, Any] = json.loads(self._head.read_text())
            if head["format"] != FORMAT:
                raise CheckpointError(f"{self._head} has format {head['format']}, not {FORMAT}")
            if head["key"] != self._key:
                raise CheckpointError(
                    f"{self._folder} holds a search with other arguments or of another model;"
                    " remove it to begin again"
                )
            return snapshot_from(head)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self._head} is damaged: {error!r}") from error

    def _cut(self, count: int) -> None:
        """Drop what was written after the last complete level."""
        for name, code in _COLUMNS:
            path = self._folder / name
            size = count * array(code).itemsize
            if not path.exists() or path.stat().st_size < size:
                raise CheckpointError(f"{path} is damaged: it has less than {size} bytes")
            os.truncate(path, size)

    def _restore(self, count: int, restored: Restored) -> None:
        """Restore all states except the initial one, which the engine has."""
        with (
            (self._folder / "parents.bin").open("rb") as parents,
            (self._folder / "rules.bin").open("rb") as rules,
        ):
            _read(parents, rules, 1)
            try:
                for at in range(1, count, CHUNK_STATES):
                    self._engine.restore(_read(parents, rules, min(CHUNK_STATES, count - at)))
                    self._engine.release(at, self._origin)
                    restored(at, count)
            except NoSearch as error:
                raise CheckpointError(f"{self._folder} is damaged: {error}") from error

    def level_done(self, snapshot: Snapshot) -> None:
        """Record a complete level; write it if the last write is INTERVAL_SECONDS ago."""
        self._latest = snapshot
        if time.monotonic() - self._saved_at >= INTERVAL_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the last complete level, unless it is already written."""
        if self._latest is None or self._latest is self._saved:
            return
        self._append(self._latest.counts.distinct)
        head = {"format": FORMAT, "key": self._key, **snapshot_json(self._latest)}
        new = self._head.with_suffix(".new")
        with new.open("w") as file:
            json.dump(head, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._head)
        self._saved = self._latest
        self._saved_at = time.monotonic()

    def _append(self, count: int) -> None:
        """Append the states that are not in the files yet, and wait until they are on the disk."""
        mode = "ab" if self._written else "wb"
        files = [(self._folder / name).open(mode) for name, _ in _COLUMNS]
        try:
            for at in range(self._written, count, CHUNK_STATES):
                origins = self._engine.origins(at, min(CHUNK_STATES, count - at))
                for file, column in zip(files, origins, strict=True):
                    column.tofile(file)
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        finally:
            for file in files:
                file.close()
        self._written = count
        self._engine.release(count, self._origin)

    def _origin(self, index: int) -> tuple[int, int]:
        """Return the origin of one state from the files."""
        values: list[int] = []
        for name, code in _COLUMNS:
            column = array(code)
            with (self._folder / name).open("rb") as file:
                file.seek(index * column.itemsize)
                column.fromfile(file, 1)
            values += column
        return values[0], values[1]


def _read(parents: IO[bytes], rules: IO[bytes], count: int) -> Origins:
    """Read the origins of the next states from the files."""
    origins = array("I"), array("H")
    for column, file in zip(origins, (parents, rules), strict=True):
        column.fromfile(file, count)
    return origins
