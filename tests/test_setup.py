"""`make setup`: installs what pyproject.toml says now, whatever the times of files are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.test_names import REPOSITORY

pytestmark = [
    pytest.mark.fast,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]

COUNT = """#!/bin/sh
mkdir -p "$1"
echo "$2" >> installed
"""


def installed(tree: Path, target: str = "setup") -> list[str]:
    """What was installed, once `make` has made the target again."""
    command = ["make", "--silent", target, "PYTHON=true"]
    subprocess.run(command, cwd=tree, check=True)
    return (tree / "installed").read_text().split()


def setups(tree: Path) -> int:
    """How often it was installed."""
    return len(installed(tree))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The Makefile, and an installation that only counts."""
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "setup.sh"
    script.write_text(COUNT)
    script.chmod(0o755)
    (tmp_path / "pyproject.toml").write_text("dependencies = []")
    return tmp_path


def test_nothing_is_done_twice(tree: Path) -> None:
    assert (setups(tree), setups(tree)) == (1, 1)


def test_an_older_file_with_other_dependencies_is_installed(tree: Path) -> None:
    assert setups(tree) == 1
    project = tree / "pyproject.toml"
    project.write_text('dependencies = ["sphinx"]')
    os.utime(project, (0, 0))
    assert setups(tree) == 2
    assert len([*(tree / ".venv").glob(".ready*")]) == 1


def test_the_judge_installs_what_it_needs_alone_and_tests_the_rest(tree: Path) -> None:
    assert installed(tree, "conformance") == ["judge"]
    assert installed(tree, "conformance") == ["judge"]
    assert installed(tree, "test") == ["judge", "all"]
    assert installed(tree, "conformance") == ["judge", "all"]


def test_a_group_that_is_not_there_is_refused() -> None:
    script = REPOSITORY / "scripts" / "setup.sh"
    done = subprocess.run(
        [script, ".venv", "everything"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no group 'everything'; there are judge and all" in done.stderr
