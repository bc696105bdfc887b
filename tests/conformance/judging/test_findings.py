"""Which traces are judged anew, whatever the memo has."""

from __future__ import annotations

import pytest

from conformance.judging.findings import LATER, is_anew

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("first", "anew"), [(0, 80), (LATER - 640, 80), (LATER, 20)])
def test_fewer_traces_are_judged_anew_from_a_million_on(first: int, anew: int) -> None:
    assert sum(map(is_anew, range(first, first + 640))) == anew
