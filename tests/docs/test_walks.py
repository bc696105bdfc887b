"""The walks through the code name functions that are there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import REPOSITORY

pytestmark = pytest.mark.fast

TEXT = (REPOSITORY / "docs" / "walks.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([\w.]+)` in `([\w/]+\.py)`")
FILE = re.compile(r"`([\w]+/[\w/]+\.py)`")
LONGEST = 10
"""Lines of a walk."""


def names_in(file: str) -> set[str]:
    """Functions, classes and constants of a module, and the methods of its classes."""
    found: set[str] = set()
    for node in ast.parse((REPOSITORY / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, inner)}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {each.id for each in targets if isinstance(each, ast.Name)}
    return found


@pytest.mark.parametrize(("name", "file"), NAME.findall(TEXT))
def test_a_step_of_a_walk_is_there(name: str, file: str) -> None:
    assert name in names_in(file)


def test_each_file_of_a_walk_is_there_and_no_walk_is_long() -> None:
    assert [file for file in FILE.findall(TEXT) if not (REPOSITORY / file).is_file()] == []
    walks = TEXT.split("\n## ")[1:]
    assert len(walks) == 5
    for walk in walks:
        assert len([line for line in walk.splitlines() if re.match(r"\d+\. ", line)]) <= LONGEST
