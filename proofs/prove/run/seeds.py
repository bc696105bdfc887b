"""The same proof with other seeds: how much the solvers' time depends on luck."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

UNSTABLE = 5
"""How many times its median a query may take with another seed."""
NOTICED_S = 1.0
"""Queries that are always faster than this are not looked at."""


def ratio(seconds: Sequence[float]) -> float:
    """The worst by the median."""
    return max(seconds) / max(statistics.median(seconds), 1e-9)


def unstable(times: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Queries whose time depends on the seed: median and worst, in seconds, by name."""
    return {
        name: (round(statistics.median(seconds), 3), round(max(seconds), 3))
        for name, seconds in times.items()
        if max(seconds) >= NOTICED_S and ratio(seconds) > UNSTABLE
    }
