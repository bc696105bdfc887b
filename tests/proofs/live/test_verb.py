"""`live` on the command line: exit codes, the report's keys, the artifacts."""

import json
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.trace.format import read
from proofs.trace.replay import replay

SMALL = "live-restarts/records=3"


@pytest.fixture
def report(tmp_path):
    """Runs the verb on the source; its exit code and its --json."""

    def run(*argv):
        file = tmp_path / "report.json"
        file.unlink(missing_ok=True)
        code = main(["liveness", *argv, "--engine", "source", "--json", str(file)])
        return code, json.loads(file.read_text()) if file.exists() else None

    return run


def test_what_holds_is_0(report, capsys):
    code, written = report(SMALL)
    assert code == 0
    assert written["verdict"] == "holds"
    assert written.keys() >= {"schema_version", "scope", "variant", "dropped", "properties", "run"}
    assert (written["distinct"], written["transitions"]) == (111, 371)
    for row in written["properties"]:
        assert row.keys() >= {"name", "holds", "guaranteed", "exercised", "fairness", "lasso"}
        assert set(row["fairness"]) <= written["assumptions"].keys()
        assert row["lasso"] is None
    assert "makes_progress: holds, under delivery, answers" in capsys.readouterr().out


def test_without_an_assumption_a_lasso_is_1(report, tmp_path, capsys):
    out = tmp_path / "out"
    code, written = report(SMALL, "--drop", "connections_hold", "--out", str(out))
    assert code == 1
    (row,) = written["properties"]
    assert (row["name"], row["holds"]) == ("makes_progress", False)
    assert "connections_hold" not in row["fairness"]
    assert (row["lasso"]["stem"], row["lasso"]["loop"]) == (1, 2)
    assert len(row["lasso"]["trace"]) == 1 + 1 + 2
    trace = read(out / "traces" / "makes_progress.jsonl")
    worlds = replay(trace)
    assert worlds[trace.header.loop] == worlds[-1]
    told = (out / "traces" / "makes_progress.txt").read_text()
    assert told.index("sends #1") < told.index("for ever:") < told.index("sends #2")
    shown = capsys.readouterr().out
    assert "after 1 steps 2 more for ever" in shown
    assert shown.endswith("without connections_hold: 111 states, 371 transitions: violated\n")
    assert json.loads((out / "report.json").read_text())["verdict"] == "violated"


def test_a_patch_breaks_what_it_breaks(report, tmp_path):
    patch = tmp_path / "idea.py"
    patch.write_text('[("recovery.bump_epoch", "EMPTY_SET", "client.bump_for")]')
    code, written = report(SMALL, "--patch", str(patch))
    assert code == 1
    broken = {row["name"] for row in written["properties"] if not row["holds"]}
    assert "bumps_end" in broken
    header = written["properties"][0]["lasso"] or written["properties"][1]["lasso"]
    assert header["trace"][0]["patches"][0][0] == "recovery.bump_epoch"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["live-nothing"], "no scope is called 'live-nothing'"),
        (["idempotent-tiny"], "idempotent-tiny ends"),
        ([SMALL, "--drop", "hope"], "nothing here rests on 'hope'"),
        ([SMALL, "--variant", "9.9"], "release is '9.9'"),
    ],
)
def test_bad_use_is_2(report, capsys, argv, why):
    code, written = report(*argv)
    assert (code, written) == (2, None)
    assert why in capsys.readouterr().err


def test_without_a_scope_all_names_are_told(capsys):
    assert main(["liveness"]) == 0
    shown = capsys.readouterr().out
    for name in ("live-stream", "makes_progress", "connections_hold"):
        assert f"  {name} " in shown


def test_the_same_command_writes_the_same_bytes(report, tmp_path: Path):
    outs = [tmp_path / "a", tmp_path / "b"]
    for out in outs:
        report(SMALL, "--drop", "retries", "--out", str(out))
    first, second = (
        {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} for out in outs
    )
    del first[Path("run.json")], second[Path("run.json")]
    assert first == second
