"""The command: what it says, writes, and returns."""

import json

import pytest

from impl.simulator import consume_transform_produce
from impl.simulator.__main__ import main

pytestmark = pytest.mark.slow  # whole clusters, simulated from end to end

VERB = "consume-transform-produce"


def test_exactly_once_holds(tmp_path, capsys):
    assert main([VERB, "--runs", "5", "--seed", "30", "--json", str(tmp_path / "r.json")]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["verdict"] == "holds"
    assert (report["runs"], report["seed"], report["schema_version"]) == (5, 30, 1)
    assert (report["lost"], report["duplicated"], report["counterexample"]) == (0, 0, None)
    assert report["crash_steps"] == 5
    assert report["run"]["seconds"] > 0
    assert "holds" in capsys.readouterr().out


def test_without_a_transaction_the_first_violating_world_is_reported(tmp_path, capsys):
    order = "commit-then-produce"
    arguments = [VERB, "--runs", "40", "--without-transaction", order, "--out", str(tmp_path)]
    assert main(arguments) == 1
    said = capsys.readouterr().out
    assert "lost: result of" in said
    assert "client-0 dies" in said
    first = (tmp_path / "report.json").read_bytes()
    report = json.loads(first)
    assert report["counterexample"]["lost"]
    assert (tmp_path / "story.txt").read_text().splitlines() == report["counterexample"]["story"]
    assert main(arguments) == 1
    assert (tmp_path / "report.json").read_bytes() == first


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [VERB, "--runs", "0"],
        [VERB, "--faults", "earthquakes"],
        [VERB, "--faults", "none,crashes"],
        [VERB, "--without-transaction", "nothing"],
    ],
)
def test_bad_use(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_bad_use(tmp_path):
    file = tmp_path / "no" / "such" / "folder.json"
    assert main([VERB, "--runs", "1", "--faults", "none", "--json", str(file)]) == 2


def test_a_world_without_time_to_rest_is_undecided(monkeypatch, tmp_path):
    monkeypatch.setattr(consume_transform_produce, "MOST_VIRTUAL_S", 0.4)
    assert main([VERB, "--runs", "2", "--json", str(tmp_path / "r.json")]) == 3
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["verdict"], report["restless_worlds"]) == ("undecided", 2)
    assert report["counterexample"]["failures"] == ["TimeoutError: "]


def test_no_faults_is_a_choice(capsys):
    assert main([VERB, "--runs", "2", "--faults", "none"]) == 0
    assert "crashed at 0 of them" in capsys.readouterr().out
