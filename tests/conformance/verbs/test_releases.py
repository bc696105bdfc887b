"""The table of all releases: which runs it has, that it goes on where it stood, a real broker."""

import argparse
import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.verbs import releases, run
from conformance.verbs.releases import COLUMNS, plan_runs
from conformance.verbs.run_table import table, verdict_of

ROW = {
    "traces": 5000,
    "steps": 81000,
    "transitions": "63 of 101",
    "divergences": 0,
    "undecided": 0,
    "verdict": "holds",
}


def test_each_level_of_each_release_by_all_requests_that_it_has_transactions_of():
    runs = plan_runs(["transactions-tiny"], None)
    assert len(runs) == len(set(runs)) == 4 * 5 + 2
    of_a_release = [(run.level, run.requests) for run in runs if run.release == "4.0.2"]
    assert of_a_release == [(2, "v2"), (2, "v1"), (1, "v2"), (1, "v1"), (0, "v1")]
    assert [run.name for run in runs if run.release == "3.3.2"] == [
        "3.3.2-level0-v1-transactions-tiny"
    ]


def test_each_run_has_arguments_that_run_takes():
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    for each in plan_runs(["transactions-tiny", "transactions-default"], "4.1.2,3.9.2"):
        options = parser.parse_args(each.arguments(7, "hunts", Path("here")))
        assert (options.scope, options.kafka, options.traces) == (each.scope, each.release, 7)
        assert options.traces_from == "hunts"


def test_the_table_is_markdown_and_the_worst_run_decides():
    rows = [{**run._asdict(), **ROW} for run in plan_runs(["transactions-tiny"], "4.3.1")]
    rows = [{**row, "seconds": 1.5, "steps_per_second": 1200} for row in rows]
    head, line, first, *_, verdict = table(COLUMNS, rows)
    assert head.count("|") == line.count("|") == first.count("|")
    assert "| 4.3.1 | 2 | v2 | transactions-tiny | 5,000 | 81,000 | 63 of 101 | 0 | 0 |" in first
    assert verdict == "verdict: holds"
    assert verdict_of([*rows, {"verdict": "undecided"}]) == "undecided"
    assert verdict_of([*rows, {"verdict": "undecided"}, {"verdict": "violated"}]) == "violated"


def no_run(options: argparse.Namespace) -> int:
    raise AssertionError(f"{options} begins")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--traces", "0"], "--traces is 0; write 1 or more"),
        (["--kafka", "4.3.1,1.0"], "invalid --kafka '1.0'; valid: 4.3.1"),
        (["--scope", "transactions-tiny,nowhere"], "no scope is called 'nowhere'"),
    ],
)
def test_bad_use_is_refused_before_the_first_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
):
    monkeypatch.setattr(run, "execute", no_run)
    assert main(["releases", *arguments, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.full  # runs at brokers, of which the suite has others, one after the other
@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
def test_a_release_at_all_its_levels_and_again_from_what_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "all"
    command = ["releases", "--scope", "transactions-tiny", "--kafka", "4.3.1", "--traces", "30"]
    monkeypatch.setattr(releases, "plan_runs", lambda *asked: plan_runs(*asked)[:2])
    assert main([*command, "--out", str(out)]) == 0
    first = json.loads((out / "releases.json").read_text())
    assert first["verdict"] == "holds"
    assert [(row["level"], row["requests"]) for row in first["runs"]] == [(2, "v2"), (2, "v1")]
    for row in first["runs"]:
        assert (row["traces"], row["divergences"], row["undecided"]) == (30, 0, 0)
        assert row["steps"] > 30
        assert " of " in row["transitions"]
        assert row["seconds"] > 0
    capsys.readouterr()
    assert main([*command, "--out", str(out), "--json", str(tmp_path / "again.json")]) == 0
    assert json.loads((tmp_path / "again.json").read_text()) == first
    assert "judged before: 30 traces" in capsys.readouterr().err
