"""The benchmark of a start: a broker that answers, ended each time, and a whole report."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import start


def test_each_start_is_measured_and_reported(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert start.main(words=["--starts", "1", "--json", str(report)]) == 0
    rows = {row["what"]: row for row in json.loads(report.read_text("utf-8"))["starts"]}
    assert rows.keys() == {*start.FLOORS, start.SERVE}
    assert all(row["fastest"] <= row["seconds"] for row in rows.values())
    assert rows[start.SERVE]["cpu_seconds"] > 0
