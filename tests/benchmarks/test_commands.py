"""Each benchmark is a command, and `make bench` runs them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import sized

FOLDER = Path(__file__).parents[2] / "benchmarks"
SHARED = ("__init__", "measuring", "peers")
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED)
NAMED = {"batches", "edit", "exploration", "in_flight", "messages", "scaling", "spark"}
"""Those of the documents; the others start in `make full`."""


def test_there_are_those_that_the_documents_name() -> None:
    assert set(NAMES) >= NAMED


@pytest.mark.parametrize("name", sized(NAMES, set(NAMES) - NAMED))
def test_it_starts(name: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "usage:" in said.stdout
    assert "--json" in said.stdout


def test_make_bench_runs_them_all() -> None:
    said = subprocess.run(
        ["make", "--dry-run", "bench"],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    line = next(line for line in said.splitlines() if "for name in" in line)
    assert sorted(line.partition(" in ")[2].partition(";")[0].split()) == NAMES
