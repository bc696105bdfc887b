"""A killed broker serves again what it had written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recovery import main

pytestmark = pytest.mark.slow


def test_a_small_directory_is_recovered(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert main(["--mib", "2", "--rounds", "1", "--partitions", "2", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report["bytes"] > 2_000_000
    for name in ("full", "empty"):
        assert report[name]["seconds"][0] >= 0 < report[name]["cpu_seconds"][0]
        assert report[name]["memory_mib"] > 0
