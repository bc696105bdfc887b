"""A suite of the fixture's benchmark passes, and one that does not is no figure."""

import json
from pathlib import Path

import pytest

from benchmarks import fixture


def test_a_suite_runs_and_a_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixture, "TESTS", {"aiokafka": fixture.TESTS["aiokafka"]})
    report = tmp_path / "report.json"
    assert fixture.main(["--tests", "2", "--rounds", "1", "--json", str(report)]) == 0
    assert json.loads(report.read_text())["suites"]["aiokafka"]["seconds"] > 0


def test_a_suite_that_fails_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = "@tests\ndef test_it_fails(kafka, number):\n    assert not kafka.bootstrap_servers\n"
    monkeypatch.setattr(fixture, "TESTS", {"none": failing})
    with pytest.raises(fixture.FailedSuite, match="1 failed"):
        fixture.run_suite("none", 1)
