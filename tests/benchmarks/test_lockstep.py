"""Lockstep's speed: the command's lines and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import lockstep
from conformance.judging.findings import JudgedRange, Summary


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "out.json"
    words = ["idempotent-tiny", "--every", "50", "--rounds", "2", "--json", str(file)]
    assert lockstep.main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("idempotent-tiny, client,leader on values: ")
    written = json.loads(file.read_text(encoding="utf-8"))
    forms = [(form["actors"], form["on"]) for form in written["forms"]]
    assert forms == lockstep.forms_of("idempotent-tiny")
    assert len({(form["steps"], form["traces"]) for form in written["forms"]}) == 1
    assert all(len(form["of_each_round"]) == 2 for form in written["forms"])


def test_what_diverges_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = JudgedRange(Summary(traces=1, steps=1), [{"id": 3}])
    monkeypatch.setattr(lockstep, "judge_range", lambda prepared, first, last: found)
    with pytest.raises(lockstep.Diverged, match="trace 3"):
        lockstep.measure_forms("idempotent-tiny", 50, 1)


def test_an_unknown_scope_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        lockstep.main(["none"])
    assert stop.value.code == 2
    assert "none" in capsys.readouterr().err
