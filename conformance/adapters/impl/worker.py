"""The work of a worker: it judges a range of traces, and checks the guarantees on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from conformance.adapters.impl.judges import judge_range
from conformance.judging.backend import TraceRange
from conformance.judging.coverage.marks import statement_marks
from conformance.judging.guaranteed import guarantees_of
from conformance.judging.plan import PreparedPlan
from conformance.judging.rows import Found


def load(directory: Path) -> PreparedPlan:
    """The prepared plan in a directory. Raises BadPlan."""
    return PreparedPlan.load(directory)


def judge(prepared: PreparedPlan, part: TraceRange) -> Found:
    """The result of the range's traces."""
    marks = statement_marks()
    marks.begin(prepared.plan)
    judged = judge_range(prepared, part.first, part.last)
    summary = replace(judged.summary, statements=marks.reached())
    return Found(summary, guarantees_of(prepared, part, judged))
