"""The work of a worker: it judges a range of traces, and observes the guarantees there."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from conformance.backends import TraceRange
from conformance.findings import Summary, judge_range
from conformance.guaranteed import GuaranteeWalker, ObservedProperties, observe_transitions
from conformance.plan import PreparedPlan, configuration
from conformance.rows import Found


def load(directory: Path) -> PreparedPlan:
    """What was prepared in a directory. Raises BadPlan."""
    return PreparedPlan.load(directory)


def judge(prepared: PreparedPlan, part: TraceRange) -> Found:
    """All that the range's traces give."""
    summary = judge_range(prepared, part.first, part.last)
    return Found(summary, guarantees_of(prepared, part, summary))


@functools.lru_cache(maxsize=8)
def walker_of(k: Any) -> GuaranteeWalker:
    """A configuration's walker serves all ranges that this process judges."""
    return GuaranteeWalker(k)


def guarantees_of(prepared: PreparedPlan, part: TraceRange, summary: Summary) -> ObservedProperties:
    """What the traces showed of the guarantees, as far as system and model agreed.

    Where traces have to be walked, and more diverged than the summary keeps, those after the last
    one kept do not count.
    """
    if prepared.transitions_total is not None:
        return observe_transitions(prepared, summary.transitions)
    agreed = {finding["id"]: max(finding["steps"] - 1, 0) for finding in summary.findings}
    last = max(agreed) + 1 if len(agreed) < summary.divergences else part.last
    walker = walker_of(configuration(prepared.plan))
    seen = ObservedProperties()
    for number in range(part.first, last):
        steps = prepared.trace(number)
        seen = seen.merge(walker.walk(steps[: agreed.get(number, len(steps))]))
    return seen
