"""What workers do with a range of traces: judge it, and ask what became of the guarantees."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from conformance.backends import Range
from conformance.guaranteed import Seen, Walker, seen_on
from conformance.plan import Prepared, Summary, configuration, judge_range
from conformance.rows import Found


def load(directory: Path) -> Prepared:
    """What was prepared in a directory. Raises BadPlan."""
    return Prepared.load(directory)


def judge(prepared: Prepared, part: Range) -> Found:
    """All that the range's traces give."""
    summary = judge_range(prepared, part.first, part.last)
    return Found(summary, guarantees_of(prepared, part, summary))


@functools.lru_cache(maxsize=8)
def walker_of(k: Any) -> Walker:
    """A configuration's walker serves all ranges that this process judges."""
    return Walker(k)


def guarantees_of(prepared: Prepared, part: Range, summary: Summary) -> Seen:
    """What the traces showed of the guarantees, as far as system and model agreed.

    Where traces have to be walked, and more diverged than the summary keeps, those after the last
    one kept do not count.
    """
    if prepared.transitions_total is not None:
        return seen_on(prepared, summary.transitions)
    agreed = {finding["id"]: max(finding["steps"] - 1, 0) for finding in summary.findings}
    last = max(agreed) + 1 if len(agreed) < summary.divergences else part.last
    walker = walker_of(configuration(prepared.plan))
    seen = Seen()
    for number in range(part.first, last):
        steps = prepared.trace(number)
        seen = seen.merge(walker.walk(steps[: agreed.get(number, len(steps))]))
    return seen
