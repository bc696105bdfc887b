"""The scenarios of `scenarios.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("scenarios.toml")
CLEAN, KILLED = "clean", "killed"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The actions of a broker, of some releases, before it stops.

    `script` has the lines of `script.py`; without lines, the directory is only formatted. `again`
    has the lines after a clean stop and one more start; they create no topics. `stop` is the end of
    the last start: "clean" or "killed" (SIGKILL). `log_dirs` is the number of log directories.
    `leftovers` are files and folders to copy after the stop, by their new names, as a crash might
    leave them. `properties` are the broker's. `refused` has, by patterns of a release and a folder,
    the beginning of the error with which our broker refuses a directory; it serves all others.
    """

    name: str
    about: str
    releases: tuple[str, ...]
    script: str
    stop: str = CLEAN
    again: str = ""
    log_dirs: int = 1
    leftovers: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def refusal(self, release: str, folder: str) -> str:
        """The beginning of the error, "" if our broker serves the log directory."""
        rows, key = self.refused.items(), f"{release} {folder}"
        return next((error for pattern, error in rows if fnmatchcase(key, pattern)), "")


def read_scenarios(path: Path = FILE) -> dict[str, Scenario]:
    """All of them, by name."""
    table = tomllib.loads(path.read_text())
    return {
        name: Scenario(name, **{**row, "releases": tuple(row["releases"])})
        for name, row in table.items()
    }
