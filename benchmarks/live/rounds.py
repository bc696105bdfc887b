"""What live benchmarks share: turns, medians, ratios, and the report's head."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")


def alternated(
    names: Sequence[str], rounds: int, measure: Callable[[str], T]
) -> dict[str, list[T]]:
    """What `measure` gives for each name, round by round; the one that begins changes."""
    found: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[:: 1 if number % 2 == 0 else -1]:
            found[name].append(measure(name))
    return found


def ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    """Ours to the peer's: the median of the rounds' ratios."""
    return median(mine / theirs for mine, theirs in zip(ours, peer, strict=True))


def cpu_ratio(ours: Sequence[float], peer: Sequence[float]) -> float | None:
    """The peer's processor time to ours, of all rounds; None where ours is less than a tick."""
    return rounded(sum(peer) / sum(ours)) if sum(ours) else None


def shown_ratios(of_time: float | None, of_cpu: float | None) -> str:
    """Two columns; empty where there is nothing to compare."""
    return "".join(f"{'' if r is None else f'{r:.3g}x':>9}" for r in (of_time, of_cpu)).rstrip()


def rounded(value: float) -> float:
    """Four figures that count."""
    return float(f"{value:.4g}")


def positive(text: str) -> int:
    """A number of a command line. Raises ValueError, which argparse tells the user."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def load_average() -> float:
    """How many processes wanted to run in the last minute, this benchmark's own included."""
    return round(os.getloadavg()[0], 2)


def write_report(file: Path, benchmark: str, content: Mapping[str, Any]) -> None:
    """Write `content` as JSON under a head that says which machine this was."""
    head = {
        "benchmark": benchmark,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**head, **content}, indent=2) + "\n", encoding="utf-8")
