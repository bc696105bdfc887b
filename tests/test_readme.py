"""What the README and the reference of commands show is what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, called, is_understood, missing, page

README = page(REPOSITORY / "README.md")
COMMANDS = page(REPOSITORY / "docs" / "reference" / "commands.md")
EXAMPLE = REPOSITORY / "docs" / "examples" / "transaction.py"
BENCHMARKS = re.findall(r"^python -m benchmarks\.(\w+)", COMMANDS.text, flags=re.MULTILINE)
TWO_SCREENS = 100
"""Lines."""


@pytest.mark.fast
def test_the_readme_is_two_screens_with_an_example_for_each_kind_of_user() -> None:
    assert len(README.text.splitlines()) <= TWO_SCREENS
    assert len(re.findall(r"^## You ", README.text, flags=re.MULTILINE)) == 4
    assert len(README.runs) == 4


@pytest.mark.fast
def test_the_script_is_the_example_and_prints_what_is_shown() -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", README.text, flags=re.DOTALL)
    scripts = [text for language, text in blocks if language == "python"]
    assert scripts == [EXAMPLE.read_text(encoding="utf-8")]
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert result.stdout in [text for _, text in blocks]


@pytest.mark.parametrize("run", README.runs, ids=lambda run: run[0])
def test_each_command_prints_what_is_shown(
    run: Sequence[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    called(run[0])
    assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


def test_there_are_commands() -> None:
    assert len(COMMANDS.parsed) >= 25


@pytest.mark.fast
@pytest.mark.parametrize("command", COMMANDS.parsed, ids=" ".join)
def test_each_longer_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_understood(command)
    assert capsys.readouterr().out


@pytest.mark.fast
@pytest.mark.parametrize("folder", ["docs", "proofs/pages", "kafka_eos"])
def test_commands_are_spelt_in_one_way(folder: str) -> None:
    """`kafka-eos VERB`; a decision may say how a package is started."""
    pages = [at for at in (REPOSITORY / folder).rglob("*") if at.suffix in {".md", ".py"}]
    assert pages
    other = re.compile(r"python -m (?:proofs|conformance|kafka_eos) [a-z]")
    texts = {at: at.read_text(encoding="utf-8") for at in pages}
    assert [str(at) for at, text in texts.items() if other.search(text)] == []


@pytest.mark.fast
def test_each_benchmark_is_there() -> None:
    assert BENCHMARKS
    assert all((REPOSITORY / "benchmarks" / f"{name}.py").exists() for name in BENCHMARKS)


@pytest.mark.fast
def test_each_make_target_is_there() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"`?make (\w+)", README.text))
    assert {"conformance", "test", "docs"} <= named <= targets
