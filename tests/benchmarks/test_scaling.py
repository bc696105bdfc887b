"""Two workers against one: the command's lines and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import scaling
from proofs.explore.expected import EXPECTED


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "out.json"
    assert scaling.main(["idempotent-tiny", "--pairs", "2", "--json", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("idempotent-tiny: 1,352 states, 3,331 transitions, peak ")
    assert printed[1].startswith("2 workers: ratio ")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["distinct"] == EXPECTED["idempotent-tiny"].distinct
    assert (written["pairs"], len(written["ratio_of_each_pair"])) == (2, 2)


def test_searches_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([(5, 7), (5, 8)])
    monkeypatch.setattr(scaling, "search", lambda machine, library, workers: next(found))
    with pytest.raises(scaling.Disagreement, match=r"\(5, 7\), \(5, 8\)"):
        scaling.measure_pairs("idempotent-tiny", 2, 1)


def test_an_unknown_scope_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        scaling.main(["none"])
    assert stop.value.code == 2
    assert "choose one of" in capsys.readouterr().err
