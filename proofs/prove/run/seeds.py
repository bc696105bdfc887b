"""Proves again with other seeds, to measure how far the solvers' time depends on the seed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

UNSTABLE = 5
"""The limit on a query's worst time with any seed, as a multiple of its median."""
NOTICED_S = 1.0
"""Queries that are always faster than this are ignored."""


def ratio(seconds: Sequence[float]) -> float:
    """Return the worst time divided by the median."""
    return max(seconds) / max(statistics.median(seconds), 1e-9)


def unstable(times: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Return queries whose time depends on the seed: median and worst, in seconds, by name."""
    return {
        name: (round(statistics.median(seconds), 3), round(max(seconds), 3))
        for name, seconds in times.items()
        if max(seconds) >= NOTICED_S and ratio(seconds) > UNSTABLE
    }
