"""The page of settings says what the tables of the broker say."""

from __future__ import annotations

from tests.docs.pages import REPOSITORY
from tests.docs.settings_page import page

PAGE = REPOSITORY / "docs" / "reference" / "settings.md"


def test_the_page_is_that_of_the_tables() -> None:
    """`python -m tests.docs.settings_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
