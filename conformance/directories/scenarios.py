"""The scenarios of `scenarios.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("scenarios.toml")
CLEAN, KILLED = "clean", "killed"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a broker of some releases does before it stops.

    `script`: the lines of `script.py`; `again`: those behind a clean stop and one more start, which
    create no topics. `stop`: how the last one ends, "clean" or "killed" (SIGKILL). `log_dirs`: how many log directories it has. `properties` are the
    broker's.
    """

    name: str
    about: str
    releases: tuple[str, ...]
    script: str
    stop: str = CLEAN
    again: str = ""
    log_dirs: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)


def read_scenarios(path: Path = FILE) -> dict[str, Scenario]:
    """All of them, by name."""
    table = tomllib.loads(path.read_text())
    return {
        name: Scenario(name, **{**row, "releases": tuple(row["releases"])})
        for name, row in table.items()
    }
