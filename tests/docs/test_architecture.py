"""ARCHITECTURE.md is one screen, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY

pytestmark = pytest.mark.fast

TEXT = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROWS = [row for row in TEXT.splitlines() if row.startswith("| `")]
FOLDER = re.compile(r"`([\w/]+/)`")
FILE = re.compile(r"`([\w/]+\.(?:py|toml|story))`")
NAME = re.compile(r"`([\w.]+)` in `([\w/]+\.py)`")
ONE_SCREEN = 60
"""Lines."""


def folders(row: str) -> list[Path]:
    """The rooms of a row, whose files it may name without them."""
    return [REPOSITORY / name for name in FOLDER.findall(row.split("|")[1])]


def found(row: str, name: str) -> Path:
    """The file that a row names, perhaps relative to its room."""
    places = [folder / name for folder in (REPOSITORY, *folders(row))]
    (file,) = [place for place in places if place.exists()]
    return file


def test_it_is_one_screen_and_each_room_has_one_row() -> None:
    assert len(TEXT.splitlines()) <= ONE_SCREEN
    rooms = [room for row in ROWS for room in folders(row)]
    assert len(set(rooms)) == len(rooms) > 20
    assert all(room.is_dir() for room in rooms)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_each_file_and_function_is_there(row: str) -> None:
    for name in FILE.findall(row):
        assert found(row, name).is_file()
    for name, file in NAME.findall(row):
        assert re.search(rf"\b{name.split('.')[-1]}\b", found(row, file).read_text("utf-8"))
