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
echo once more >> installed
"""


def setups(tree: Path) -> int:
    """How often it was installed, once `make setup` has run again."""
    subprocess.run(["make", "--silent", "setup"], cwd=tree, check=True)
    return len((tree / "installed").read_text().splitlines())


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
