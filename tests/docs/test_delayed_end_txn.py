"""Every claim of `docs/delayed_end_txn.md` is a command, and the command says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from proofs.trace.format import read
from proofs.trace.replay import configuration_of, model_of, replay
from tests.docs.pages import REPOSITORY, STORIES, called, is_understood, missing, page

PAGE = page(REPOSITORY / "docs" / "delayed_end_txn.md")


@pytest.mark.parametrize("run", PAGE.runs, ids=lambda run: run[0])
def test_each_command_prints_what_is_shown(
    run: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    called(run[0])
    assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_longer_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    room, verb, *_ = command
    assert is_understood([room, verb])
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(PAGE.runs) >= 8
    assert len(PAGE.parsed) >= 5


@pytest.mark.parametrize(
    ("name", "broken"),
    [("lost", "no_lost_write"), ("shown", "no_aborted_read"), ("torn", "all_or_none")],
)
def test_each_story_breaks_its_guarantee_at_its_last_step(name: str, broken: str) -> None:
    trace = read(STORIES / f"delayed_end_txn_{name}.jsonl")
    model = model_of(trace.header)
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    guarantee = next(p for p in model.guarantees.GUARANTEES if p.name == broken)
    kept = [guarantee.check(k, world) for world in replay(trace, model)]
    assert all(kept[:-1])
    assert not kept[-1]
