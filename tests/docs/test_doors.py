"""The site's navigation: each page stands behind one door, each decision in its index."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.docs.pages import REPOSITORY

pytestmark = pytest.mark.fast

FOLDERS = ("docs", "docs/guides", "docs/reference")
DECISIONS = REPOSITORY / "docs" / "decisions"
FIRST_PAGE_OF_ONE_QUESTION = 16
DATED = re.compile(r"\A# \d{4} .+\n\nDecided 20\d\d-\d\d-\d\d\b.*\n\n## Context\n")


@pytest.fixture(scope="module")
def index() -> str:
    """The text of the site's first page."""
    text: str = runpy.run_path(str(REPOSITORY / "docs" / "build.py"))["INDEX"]
    return text


def test_there_are_four_doors(index: str) -> None:
    doors = dict.fromkeys(re.findall(r"^:caption: ([\w-]+)", index, flags=re.MULTILINE))
    assert list(doors) == ["Tutorials", "How-to", "Reference", "Explanations"]


def test_each_page_stands_behind_one_door(index: str) -> None:
    lines = index.splitlines()
    pages = [
        f"{folder}/{path.stem}" for folder in FOLDERS for path in (REPOSITORY / folder).glob("*.md")
    ]
    assert len(pages) > 30
    assert {page: lines.count(page) for page in pages if lines.count(page) != 1} == {}


def test_the_index_lists_each_decision_by_its_title() -> None:
    listed = (DECISIONS / "index.md").read_text("utf-8")
    titles = {
        path.name: path.read_text("utf-8").partition("\n")[0] for path in DECISIONS.glob("0*")
    }
    rows = [f"- [{title.removeprefix('# ')}]({name})" for name, title in titles.items()]
    assert [row for row in rows if listed.count(row) != 1] == []


def test_a_decision_has_a_date_and_a_context() -> None:
    pages = [
        path for path in DECISIONS.glob("0*") if int(path.name[:4]) >= FIRST_PAGE_OF_ONE_QUESTION
    ]
    assert pages
    texts = {path.name: path.read_text("utf-8") for path in pages}
    assert [name for name, text in texts.items() if not DATED.match(text)] == []
    assert [name for name, text in texts.items() if "\n## Decision\n" not in text] == []
