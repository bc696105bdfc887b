"""From an edited rule to a verdict: the command's lines and its JSON. Nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import edit


@pytest.mark.full  # whole scopes are compiled, with every edit again
def test_each_edit_compiles_its_rule_and_leads_to_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "out.json"
    assert edit.main(["idempotent-restart", "--edits", "1", "--json", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].startswith("idempotent-restart: median ")
    written = json.loads(file.read_text(encoding="utf-8"))
    (done,) = written["edits"]
    assert done["compiled"] >= 1
    assert done["verdict"] in ("holds", "violated")
    assert written["median_seconds"] == done["seconds"] > 0


@pytest.mark.full
def test_an_edit_is_proved_again_where_a_theorem_is_named(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    words = ["idempotent-restart", "--edits", "1", "--prove", "sequences_wrap"]
    assert edit.main([*words, "--json", str(file)]) == 0
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["proved"] == "sequences_wrap"
    assert written["edits"][0]["proof"] in edit.PROOFS.values()


def test_a_command_that_fails_is_no_edit(tmp_path: Path) -> None:
    with pytest.raises(edit.NoVerdict, match="no-such-scope"):
        edit.run_explore("no-such-scope")


def test_an_unknown_scope_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        edit.main(["none"])
    assert stop.value.code == 2
    assert "choose one of" in capsys.readouterr().err
