"""One whole run of a small scope, for all tests that look at what a run leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main

SMALL = (
    *("run", "--scope", "idempotent-restart", "--traces-from", "cover,pct,hunts"),
    *("--backend", "processes", "--partitions", "2"),
)


@dataclass(frozen=True)
class WholeRun:
    out: Path
    code: int

    @property
    def report(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.out / "report.json").read_text())
        return value

    @property
    def run(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        return value


@pytest.fixture(scope="session")
def small() -> tuple[str, ...]:
    """The arguments of the whole run, but for --out."""
    return SMALL


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> WholeRun:
    """`impl` over a small scope."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return WholeRun(out, main([*SMALL, "--out", str(out), "--json", str(out / "both.json")]))
