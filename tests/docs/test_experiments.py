"""What `docs/experiments.md` shows is what is there."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from conformance.experiments.story import FOLDER
from tests.docs.pages import REPOSITORY, called, is_understood, missing, page

PAGE = page(REPOSITORY / "docs" / "experiments.md")
STORIES = re.findall(r"```story\n(.*?)```", PAGE.text, flags=re.DOTALL)


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_understood(command)
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", PAGE.runs, ids=lambda command: command[0])
def test_each_command_prints_what_is_shown(
    command: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert called(command[0]) == 0
    assert not missing([line for line in command[1:] if line], capsys.readouterr().out.splitlines())


def test_the_stories_shown_are_the_files() -> None:
    own, added = STORIES
    assert own == (FOLDER / "late_produce_v1.story").read_text()
    assert added == (REPOSITORY / "docs/examples/stories/second_abort.story").read_text()
