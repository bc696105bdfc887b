"""The journal of a run: a file with one line for each finished unit of work.

Lines are only appended, so a killed process leaves at most an incomplete last line. That line is
cut off, and its unit is done again. Any other line that differs from what was written is damage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from proofs.run.files import digest, line


class DamagedRun(ValueError):
    """A file of a run differs from what was written."""


class Journal(Mapping[str, Any]):
    """Results by unit of work, in the order in which they were finished.

    Without a file they are kept only in memory. `also` receives the number and the line of each new
    unit, to keep the unit elsewhere as well. Raises DamagedRun, OSError.
    """

    def __init__(
        self, file: Path | None = None, also: Callable[[int, str], None] | None = None
    ) -> None:
        self._file = file
        self._also = also
        self._lines = 0
        self._results: dict[str, Any] = {}
        if file is not None and file.exists():
            for number, text in enumerate(_whole_lines(file), start=1):
                unit, result = self._parse(text, number)
                self._results[unit] = result
                self._lines = number

    def add(self, unit: str, result: Any) -> None:
        """Enter a finished unit; `result` is plain data that JSON can represent."""
        self._results[unit] = result
        if self._file is not None:
            row = {"unit": unit, "result": result, "sha256": _checksum(unit, result)}
            text = f"{line(row)}\n"
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(text)
            if self._also is not None:
                self._also(self._lines, text)
            self._lines += 1

    def _parse(self, text: str, number: int) -> tuple[str, Any]:
        try:
            row = json.loads(text)
            unit, result = row["unit"], row["result"]
            if row["sha256"] == _checksum(unit, result):
                return unit, result
        except (ValueError, KeyError, TypeError):
            pass
        assert self._file is not None
        raise DamagedRun(
            f"{self._file}:{number} is not what was written;"
            f" remove {self._file.parent} to begin again"
        )

    def __getitem__(self, unit: str) -> Any:
        return self._results[unit]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def _whole_lines(file: Path) -> list[str]:
    """Return the lines of a file, after an incomplete last line is cut off."""
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with file.open("r+b") as lines:
            lines.truncate(len(whole))
    return whole.decode(errors="replace").splitlines()


def _checksum(unit: str, result: Any) -> str:
    return digest(line([unit, result]))[:16]
