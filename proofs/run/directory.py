"""The directory of a run: its arguments, the finished work, and the reports.

| file | content |
|---|---|
| `arguments.json` | the arguments, and a hash of the code that does the work |
| `journal.jsonl` | the finished units of work |
| `report.json`, `run.json` | the answer; times and other facts that differ from run to run |

A directory may be a local copy of a `Remote` one, which is kept up to date.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, Final, Protocol, Self

from proofs.run.files import line, pretty, write_json, write_whole
from proofs.run.journal import DamagedRun, Journal
from proofs.say import note

ARGUMENTS: Final = "arguments.json"
JOURNAL: Final = "journal.jsonl"
REPORT: Final = "report.json"
RUN: Final = "run.json"

WORKING_FOLDERS: Final = ("prepared",)
"""Folders that a run can make again, and that are not copied to a Remote."""


class OtherRun(ValueError):
    """The directory belongs to another run; the message says which argument differs."""


class Busy(ValueError):
    """Another process is working in the directory."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C ended the run; the message says whether the same command continues, and from which
    directory."""


class Remote(Protocol):
    """A run's directory in another file system. Its methods raise OSError."""

    @property
    def uri(self) -> str:
        """The address of the directory."""

    def pull(self, local: Path) -> None:
        """Fetch what a run needs to continue: its arguments, and its journal."""

    def keep_arguments(self, local: Path) -> None:
        """Begin a run: keep its arguments, with no finished unit."""

    def keep_unit(self, number: int, text: str) -> None:
        """Keep the line of a finished unit."""

    def push(self, local: Path, without: Sequence[str]) -> None:
        """Write everything that the run left behind, except its journal and these folders."""


class RunDirectory(AbstractContextManager["RunDirectory"]):
    """One run's directory, locked while the run is working; with None everything stays in memory.

    `path` is the folder in which the run works: for a Remote a new local folder, which is removed
    at the end. `code` is a hash of the code on which results depend. If it has changed, the run
    begins again: its journal and the folders `made` are removed.

    Entering raises OtherRun, DamagedRun, Busy, OSError. Ctrl-C is raised as Stopped.
    """

    def __init__(
        self,
        place: Path | Remote | None,
        asked: Mapping[str, Any],
        code: str = "",
        made: Sequence[str] = (),
    ) -> None:
        self.remote = None if place is None or isinstance(place, Path) else place
        self.path = place if isinstance(place, Path) else None
        self.asked: dict[str, Any] = json.loads(json.dumps(asked))
        self.journal = Journal()
        self._code = code
        self._made = made
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if self.remote is not None:
            self.path = Path(mkdtemp(prefix="kafka-eos-"))
        if self.path is not None:
            self._lock = lock(self.path)
            try:
                if self.remote is not None:
                    self.remote.pull(self.path)
                self._begin(self.path)
                kept = None if self.remote is None else self.remote.keep_unit
                self.journal = Journal(self.path / JOURNAL, kept)
            except BaseException:
                self._close(self.path)
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.path is None:
            return
        left_behind = self._left_behind(self.path)
        try:
            if self.remote is not None:
                self.remote.push(self.path, WORKING_FOLDERS)
        finally:
            self._close(self.path)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            raise Stopped(left_behind) from None

    def _close(self, path: Path) -> None:
        if self._lock is not None:
            self._lock.close()
        if self.remote is not None:
            shutil.rmtree(path, ignore_errors=True)

    @property
    def name(self) -> str:
        """The place where the user finds the directory."""
        return str(self.path) if self.remote is None else self.remote.uri

    def _left_behind(self, path: Path) -> str:
        """Return the message about what the same command would find. Some verbs have only one unit
        of work, and keep nothing before its end."""
        if self.journal or any((path / folder).exists() for folder in self._made):
            place = self.name
            return f"stopped; what is done is in {place}, and the same command goes on from there"
        return (
            f"stopped; no unit of the work is finished in {self.name}: the same command begins"
            " again"
        )

    def _begin(self, path: Path) -> None:
        found = read_arguments(path)
        wanted = {"arguments": self.asked, "code": self._code}
        if found == wanted:
            return
        if found is not None:
            refuse_other(self.asked, found["arguments"], self.name)
            note(f"the code has changed since the run in {self.name}: beginning again")
            for folder in self._made:
                shutil.rmtree(path / folder, ignore_errors=True)
            (path / JOURNAL).unlink(missing_ok=True)
        write_whole(path / ARGUMENTS, pretty(wanted))
        if self.remote is not None:
            self.remote.keep_arguments(path)

    def write(self, report: Mapping[str, Any], run: Mapping[str, Any], also: Path | None) -> None:
        """Write the reports, `run.json` first, and both merged into the file `also`."""
        if self.path is not None:
            write_whole(self.path / RUN, pretty(run))
            write_whole(self.path / REPORT, pretty(report))
        write_json(also, {**report, "run": run})


def lock(directory: Path) -> IO[str]:
    """Lock a directory until the file is closed or the process ends. Raises Busy, OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    file = (directory / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise Busy(f"another run is at work in {directory}; wait, or use another --out") from error
    return file


def read_arguments(directory: Path) -> dict[str, Any] | None:
    """Return the arguments of the directory's run; None for a new directory. Raises OtherRun,
    DamagedRun."""
    path = directory / ARGUMENTS
    if not path.exists():
        for name in (REPORT, JOURNAL):
            if (directory / name).exists():
                raise OtherRun(
                    f"{directory} has a {name} but no {ARGUMENTS}: it is no run of ours;"
                    " use another --out"
                )
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found["arguments"], dict) and isinstance(found["code"], str):
            return found
    except (ValueError, KeyError, TypeError):
        pass
    raise DamagedRun(f"{path} is not what was written; remove {directory} to begin again")


def refuse_other(asked: Mapping[str, Any], found: Mapping[str, Any], directory: str) -> None:
    """Raise OtherRun if the directory's run was `found` to have other arguments."""
    for name in sorted(asked.keys() | found.keys()):
        here, there = asked.get(name), found.get(name)
        if here != there:
            raise OtherRun(
                f"{directory} holds a run with {name} {line(there)}, this one has {line(here)};"
                " use another --out, or remove that folder to begin again"
            )
