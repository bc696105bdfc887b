"""Keeps the folder of a run at a URI, so that another driver can continue a run that was
interrupted.

A run works in a local folder. An object store cannot append, so each finished unit of work becomes
an object of its own, `journal/00000000.jsonl`, written before the next unit begins. Another driver
that is given the same URI reads these objects and continues. Reports and traces are copied at the
end. No lock is taken: do not run two drivers at one URI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyarrow import fs

from proofs.run.directory import ARGUMENTS, JOURNAL, REPORT

PARTS: Final = "journal"
"""The folder with the lines of the journal."""


@dataclass(frozen=True, slots=True)
class RemoteDirectory:
    """A folder in a file system that Arrow knows. Its methods raise OSError."""

    uri: str
    files: fs.FileSystem
    folder: str

    def pull(self, local: Path) -> None:
        """Fetch the files that a run needs to continue: its arguments, its journal, and its report,
        which names the run that the folder belongs to."""
        for name in (ARGUMENTS, REPORT):
            if self._has(name):
                (local / name).write_bytes(self._read(name))
        parts = self._parts()
        if parts:
            (local / JOURNAL).write_bytes(b"".join(self._read(name) for name in parts))

    def keep_arguments(self, local: Path) -> None:
        """Begin a run: write its arguments, with no finished unit."""
        for name in self._parts():
            self.files.delete_file(f"{self.folder}/{name}")
        self._write(ARGUMENTS, (local / ARGUMENTS).read_bytes())

    def keep_unit(self, number: int, text: str) -> None:
        """Keep the line of a finished unit."""
        self._write(f"{PARTS}/{number:08d}.jsonl", text.encode())

    def push(self, local: Path, without: Sequence[str]) -> None:
        """Write all files that the run made, except its journal and the folders in `without`."""
        left = (JOURNAL, ".lock", *without)
        for path in sorted(p for p in local.rglob("*") if p.is_file()):
            name = path.relative_to(local)
            if name.parts[0] not in left:
                self._write(name.as_posix(), path.read_bytes())

    def _parts(self) -> list[str]:
        where = fs.FileSelector(f"{self.folder}/{PARTS}", allow_not_found=True)
        return sorted(f"{PARTS}/{info.base_name}" for info in self.files.get_file_info(where))

    def _has(self, name: str) -> bool:
        found = self.files.get_file_info(f"{self.folder}/{name}")
        return bool(found.type == fs.FileType.File)

    def _read(self, name: str) -> bytes:
        with self.files.open_input_file(f"{self.folder}/{name}") as file:
            return bytes(file.read())

    def _write(self, name: str, content: bytes) -> None:
        path = f"{self.folder}/{name}"
        self.files.create_dir(path.rpartition("/")[0])
        with self.files.open_output_stream(path) as file:
            file.write(content)
