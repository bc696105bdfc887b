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
    """What a broker of some releases does before it stops.

    `script`: the lines of `script.py`; without any, the directory is formatted alone. `again`:
    those behind a clean stop and one more start, which create no topics. `stop`: how the last one
    ends, "clean" or "killed" (SIGKILL). `log_dirs`: how many log directories the broker has.
    `leftovers`: files and folders that are copied when it has stopped, as a crash might leave them,
    by their new names. `properties` are the broker's. `refused`: how the error begins with which
    our broker refuses a directory, by patterns of a release and a folder; all others are served.
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
        """How the error begins, "" where the log directory is served."""
        rows, key = self.refused.items(), f"{release} {folder}"
        return next((error for pattern, error in rows if fnmatchcase(key, pattern)), "")


def read_scenarios(path: Path = FILE) -> dict[str, Scenario]:
    """All of them, by name."""
    table = tomllib.loads(path.read_text())
    return {
        name: Scenario(name, **{**row, "releases": tuple(row["releases"])})
        for name, row in table.items()
    }
