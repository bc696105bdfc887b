"""Commands that texts name, `python -m MODULE`, are there, also after a module has moved."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tests.docs.pages import REPOSITORY

pytestmark = pytest.mark.fast

COMMAND = re.compile(r"python -m ((?:benchmarks|conformance|impl|kafka_eos|proofs|tests)[\w.]*)")
TEXTS = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
"""Pages by hand; what a build writes lies elsewhere."""


def test_each_command_of_a_page_is_there() -> None:
    found = {name.rstrip(".") for text in TEXTS for name in COMMAND.findall(text.read_text())}
    assert len(found) > 10
    assert {name for name in found if find_spec(name) is None} == set()
