"""The directory of a run: what was asked, what is done, and the reports.

| file | content |
|---|---|
| `arguments.json` | what was asked, and a hash of the code that answers |
| `journal.jsonl` | the finished units of work |
| `report.json`, `run.json` | the answer; times and other facts that differ from run to run |
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Final, Self

from proofs.run.files import line, pretty, write_json, write_whole
from proofs.run.journal import DamagedRun, Journal
from proofs.say import note

ARGUMENTS: Final = "arguments.json"
JOURNAL: Final = "journal.jsonl"
REPORT: Final = "report.json"
RUN: Final = "run.json"


class OtherRun(ValueError):
    """The directory belongs to another run; the message says which argument differs."""


class Busy(ValueError):
    """Another process is at work in the directory."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C; the message says whether the same command continues, and from which directory."""


class RunDirectory(AbstractContextManager["RunDirectory"]):
    """One run's directory, locked while the run is at work; `path` None keeps everything in memory.

    `code` is a hash of the code on which results depend. If that has changed, the run begins
    again: its journal and the folders `made` are removed.

    Entering raises OtherRun, DamagedRun, Busy, OSError. Ctrl-C leaves as Stopped.
    """

    def __init__(
        self,
        path: Path | None,
        asked: Mapping[str, Any],
        code: str = "",
        made: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.asked: dict[str, Any] = json.loads(json.dumps(asked))
        self.journal = Journal()
        self._code = code
        self._made = made
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if self.path is not None:
            self._lock = lock(self.path)
            try:
                self._begin(self.path)
                self.journal = Journal(self.path / JOURNAL)
            except BaseException:
                self._lock.close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self.path is not None:
            raise Stopped(self._left_behind(self.path)) from None

    def _left_behind(self, path: Path) -> str:
        """What the same command finds of the work: some verbs have one unit, and nothing before its
        end."""
        if self.journal or any((path / folder).exists() for folder in self._made):
            return f"stopped; what is done is in {path}, and the same command goes on from there"
        return f"stopped; no unit of the work is finished in {path}: the same command begins again"

    def _begin(self, path: Path) -> None:
        found = read_arguments(path)
        wanted = {"arguments": self.asked, "code": self._code}
        if found == wanted:
            return
        if found is not None:
            refuse_other(self.asked, found["arguments"], path)
            note(f"the code has changed since the run in {path}: beginning again")
            for folder in self._made:
                shutil.rmtree(path / folder, ignore_errors=True)
            (path / JOURNAL).unlink(missing_ok=True)
        write_whole(path / ARGUMENTS, pretty(wanted))

    def write(self, report: Mapping[str, Any], run: Mapping[str, Any], also: Path | None) -> None:
        """Write the reports, `run.json` first; and both merged into the file `also`."""
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
    """What the directory's run was asked; None for a new one. Raises OtherRun, DamagedRun."""
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


def refuse_other(asked: Mapping[str, Any], found: Mapping[str, Any], directory: Path) -> None:
    """Raises OtherRun if the directory's run was `found` to have other arguments."""
    for name in sorted(asked.keys() | found.keys()):
        here, there = asked.get(name), found.get(name)
        if here != there:
            raise OtherRun(
                f"{directory} holds a run with {name} {line(there)}, this one has {line(here)};"
                " use another --out, or remove that folder to begin again"
            )
