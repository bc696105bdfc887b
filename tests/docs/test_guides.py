"""Each guide, executed on a copy of the tree: its edits apply, its commands print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, is_understood, missing
from tests.sizes import sized

GUIDES = REPOSITORY / "docs" / "guides"
NO_GUIDE = {"index"}
NAMES = sorted(path.stem for path in GUIDES.glob("*.md") if path.stem not in NO_GUIDE)
COPIED = ("kafka_eos", "model", "proofs", "impl", "conformance")
NEEDS = {"query_runs": "matplotlib", "from_aiokafka": "aiokafka"}
"""What an environment of before may lack."""
PICTURE = re.compile(r"!\[[^]]*\]\((\w+\.svg)\)")
PROGRAMS = {"kafka-eos": ["-m", "kafka_eos"], "python": []}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+\.(?:py|story))\n(.*)", flags=re.DOTALL)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a guide may change, and what is compiled of it."""
    for name in COPIED:
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    shutil.copytree(REPOSITORY / "docs" / "examples", tmp_path / "docs" / "examples")
    return tmp_path


def apply(diff: str, tree: Path) -> str:
    """Apply a hunk whose old lines stand in the file once; the file's name."""
    lines = diff.splitlines()
    name = lines[1].removeprefix("+++ b/")
    old = "\n".join(line[1:] for line in lines[2:] if line[:1] in " -")
    new = "\n".join(line[1:] for line in lines[2:] if line[:1] in " +")
    text = (tree / name).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{name} does not have these lines once:\n{old}"
    (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    return name


def create(text: str, tree: Path) -> str:
    """Write the file that the first line of a block names."""
    named = FILE.fullmatch(text)
    assert named, text
    (tree / named[1]).write_text(named[2], encoding="utf-8")
    return named[1]


def run(block: str, tree: Path) -> None:
    """Run each command of a block, and look for the lines that are shown."""
    for command, *shown in map(str.splitlines, block.split("$ ")[1:]):
        words, _, code = command.partition("  # exits with ")
        program, *arguments = shlex.split(words)
        done = subprocess.run(
            [sys.executable, *PROGRAMS[program], *arguments],
            cwd=tree,
            env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == int(code or 0), f"{command}\n{done.stdout}\n{done.stderr}"
        assert missing(shown, done.stdout.splitlines()) == [], f"{command}\n{done.stdout}"


def understand(block: str, tree: Path) -> None:
    """Parse each command of a block, and run none."""
    for command, *_ in map(str.splitlines, block.split("$ ")[1:]):
        program, *arguments = shlex.split(command.partition("  # exits with ")[0])
        is_ours = program == "kafka-eos"
        assert is_understood(arguments) if is_ours else (tree / arguments[0]).exists()


def follow(guide: str, tree: Path, run: Callable[[str, Path], None] = run) -> Iterator[str]:
    """Do what a guide says, block by block; the files that it touches."""
    for language, block in BLOCK.findall(guide):
        if language == "diff":
            yield apply(block, tree)
        elif language == "console":
            run(block, tree)
        elif language in ("python", "story"):
            yield create(block, tree)


def words_of(picture: Path) -> list[str]:
    """What is written in a picture: its axes, and the names and numbers on them."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text(encoding="utf-8"))


def named_in(guide: str) -> set[str]:
    """The files that a guide says it touches."""
    named = re.findall(r"^\*\*Files:\*\* (.*)$", guide, flags=re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", named[0]))


LONGER = ["add_a_fault", "add_a_scope", "audit_topics", "query_runs", "tutorial"]
"""`make full` alone runs their commands: a minute."""


@pytest.mark.parametrize("name", LONGER)
def test_a_longer_guide_has_edits_that_apply_and_commands_that_are_understood(
    name: str, tree: Path
) -> None:
    guide = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    assert set(follow(guide, tree, understand)) == named_in(guide)


@pytest.mark.parametrize("name", sized(NAMES, LONGER))
def test_a_guide_does_what_it_says_and_names_every_file_that_it_touches(
    name: str, tree: Path
) -> None:
    guide = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    touched = set(follow(guide, tree))
    for picture in PICTURE.findall(guide):
        assert words_of(tree / picture) == words_of(GUIDES / picture)
    assert touched == named_in(guide)


def test_each_guide_is_in_the_list() -> None:
    listed = (GUIDES / "index.md").read_text(encoding="utf-8")
    assert all(f"({name}.md)" in listed for name in NAMES)
