"""The codec's benchmarks run, agree with their peer, and write JSON. Nothing is timed here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = ["--pairs", "1", "--loop-seconds", "0.0001"]
EXPECTED = {
    "batches": [
        f"{what} {count} records{headers}"
        for count in (1, 10, 100, 1000)
        for headers in ("", ", headers")
        for what in ("encode", "decode")
    ],
    "messages": [
        f"{what} Produce v9 {form}"
        for form in ("request", "response")
        for what in ("encode", "decode")
    ],
}


@pytest.mark.parametrize("claim", EXPECTED)
def test_a_benchmark_runs_and_writes_json(claim: str, tmp_path: Path) -> None:
    report = tmp_path / "out" / "report.json"
    command = [sys.executable, "-m", f"benchmarks.{claim}", *TINY, "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(report.read_text())
    assert found["benchmark"] == claim
    assert [result["name"] for result in found["comparisons"]] == EXPECTED[claim]
    for result in found["comparisons"]:
        assert result["peer"].startswith("kafka-python")
        assert result["ratio"] > 0
        assert result["pairs"] == 1
        assert result["name"] in done.stdout
