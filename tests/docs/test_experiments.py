"""What `docs/experiments.md` shows is what is there."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from conformance.campaigns.stories.story import FOLDER
from tests.docs.pages import REPOSITORY, is_understood, page

PAGE = page(REPOSITORY / "docs" / "experiments.md")
STORIES = re.findall(r"```story\n(.*?)```", PAGE.text, flags=re.DOTALL)


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_understood(command)
    assert capsys.readouterr().out


def test_the_story_shown_is_the_file() -> None:
    (shown,) = STORIES
    assert shown == (FOLDER / "late_produce_v1.story").read_text()
