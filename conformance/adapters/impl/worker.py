"""The work of a worker: it judges a range of traces, and observes the guarantees there."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.judging.backend import TraceRange
from conformance.judging.coverage.marks import statement_marks
from conformance.judging.findings import JudgedRange, judge_range
from conformance.judging.guaranteed import GuaranteeWalker, ObservedProperties, observe_transitions
from conformance.judging.plan import PreparedPlan, configuration
from conformance.judging.rows import Found


def load(directory: Path) -> PreparedPlan:
    """What was prepared in a directory. Raises BadPlan."""
    return PreparedPlan.load(directory)


def judge(prepared: PreparedPlan, part: TraceRange) -> Found:
    """All that the range's traces give."""
    marks = statement_marks()
    marks.begin(prepared.plan)
    judged = judge_range(prepared, part.first, part.last)
    summary = replace(judged.summary, statements=marks.reached())
    return Found(summary, guarantees_of(prepared, part, judged))


@functools.lru_cache(maxsize=8)
def walker_of(k: Any) -> GuaranteeWalker:
    """A configuration's walker serves all ranges that this process judges."""
    return GuaranteeWalker(k)


def guarantees_of(
    prepared: PreparedPlan, part: TraceRange, judged: JudgedRange
) -> ObservedProperties:
    """What the traces showed of the guarantees, as far as system and model agreed."""
    if prepared.transitions_total is not None:
        return observe_transitions(prepared, judged.summary.transitions)
    agreed = judged.agreed
    walker = walker_of(configuration(prepared.plan))
    seen = ObservedProperties()
    for number in range(part.first, part.last):
        steps = prepared.trace(number)
        seen = seen.merge(walker.walk(steps[: agreed.get(number, len(steps))]))
    return seen
