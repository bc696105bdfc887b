"""The driver's memory: both sizes are reported, and reports that differ are no success."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import driver_memory


def run_without_spark(words: Sequence[str], out: Path) -> tuple[dict[str, int], float]:
    """A run whose driver needs 10 MiB, and one more for 100 traces."""
    traces = int(words[words.index("--traces") + 1])
    out.mkdir()
    (out / driver_memory.REPORT).write_text(f"{traces} traces")
    return {"jvm": (10 + traces // 100) * 2**20}, 1.0


def test_growth_is_of_the_larger_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_memory, "run", run_without_spark)
    file = tmp_path / "out.json"
    words = ["idempotent-tiny", "--traces", "100", "--times", "12", "--json", str(file)]
    assert driver_memory.main(words) == 0
    written = json.loads(file.read_text())
    assert [run["traces"] for run in written["runs"]] == [100, 1200]
    assert written["growth"] == {"jvm": 2.0}


def test_reports_that_differ_are_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(words: Sequence[str], out: Path) -> tuple[dict[str, int], float]:
        found = run_without_spark(words, out)
        if "processes" in words:
            (out / driver_memory.REPORT).write_text("others")
        return found

    monkeypatch.setattr(driver_memory, "run", run)
    with pytest.raises(SystemExit) as stop:
        driver_memory.main(["idempotent-tiny", "--traces", "10"])
    assert stop.value.code == 2
    assert "the reports of 100 traces on Spark and on processes differ" in capsys.readouterr().err


def test_the_peak_of_this_process_is_known() -> None:
    assert driver_memory.peaks_of(os.getpid())["python"] > 2**20
