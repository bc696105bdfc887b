"""`pytest tests/model --rewrite` writes what the model says now into the stories."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the stories anew")
