"""The first paths of four kinds of users: each command runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence

import pytest

from kafka_eos import Broker
from kafka_eos.command_line import main
from tests.docs.pages import REPOSITORY, missing, page

PAGE = page(REPOSITORY / "docs" / "paths.md")
ADDRESS = "127.0.0.1:9092"


def words_of(command: str, address: str) -> list[str]:
    """The command with a running broker's address, this Python, and files of the repository."""
    text = command.replace(ADDRESS, address)
    text = re.sub(r"\bpython (?=tests/)", f"{sys.executable} ", text)
    text = re.sub(r"(?<![\w/])(tests|docs)/", rf"{REPOSITORY}/\1/", text)
    return shlex.split(text)


def test_there_is_a_path_for_each_kind_of_user() -> None:
    assert len(re.findall(r"^## You ", PAGE.text, flags=re.MULTILINE)) == len(PAGE.runs) == 4


@pytest.mark.parametrize("run", PAGE.runs, ids=lambda run: run[0].split()[0])
def test_each_command_prints_what_is_shown(
    run: Sequence[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: os.PathLike[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    command, _, code = run[0].partition("  # exits with ")
    if ADDRESS in command:
        with Broker() as broker:
            exit_code = main(words_of(command, broker.bootstrap_servers))
    else:
        exit_code = main(words_of(command, ADDRESS))
    printed = capsys.readouterr().out
    assert exit_code == int(code or 0), printed
    assert missing(run[1:], printed.splitlines()) == [], printed
