"""Cases of a parametrised test, of which the larger ones are run by `make full` alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sized(cases: Iterable[Any], full: Collection[Any]) -> list[Any]:
    """The cases as parameters; those in `full` are marked so. A tuple is several parameters."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.full if case in full else (),
        )
        for case in cases
    ]
