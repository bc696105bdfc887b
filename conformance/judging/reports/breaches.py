"""Finds the trace that breaks a guarantee that a Kafka does not give: the first one, cut at the
breach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from conformance.generate.graph import Numbers
from conformance.judging.guaranteed import observe_transitions
from conformance.judging.plan import PreparedPlan
from conformance.judging.reports.pages import story_of, trace_of
from conformance.judging.signatures import Finding
from proofs import arrays as np
from proofs.run.files import write_whole
from proofs.trace.format import dumps
from proofs.trace.html import page


def broken_by(prepared: PreparedPlan, edges: Numbers) -> frozenset[str]:
    """The guarantees that the worlds of these transitions break."""
    met = np.zeros(prepared.transitions_total or 0, dtype=bool)
    met[edges] = True
    return observe_transitions(prepared, np.packbits(met, bitorder="little").tobytes()).broken


def first_breaches(prepared: PreparedPlan, agreed: Iterable[int]) -> Mapping[str, tuple[int, int]]:
    """The first trace that breaks each guarantee, and the number of steps up to the breach."""
    found: dict[str, tuple[int, int]] = {}
    for number in sorted(agreed):
        _, edges = prepared.walk(number)
        if edges is None:
            continue
        for name in broken_by(prepared, edges) - found.keys():
            found[name] = number, _steps(prepared, edges, name)
    return found


def _steps(prepared: PreparedPlan, edges: Numbers, name: str) -> int:
    """The fewest steps that break the guarantee. A broken guarantee stays broken, so a search by
    halves works."""
    least, most = 1, len(edges)
    while least < most:
        middle = (least + most) // 2
        if name in broken_by(prepared, edges[:middle]):
            most = middle
        else:
            least = middle + 1
    return least


def write_breaches(
    prepared: PreparedPlan, agreed: Iterable[int], directory: Path, system: str
) -> None:
    """Write `PROMISE.jsonl` and `PROMISE.html` into a folder for each guarantee that was seen
    broken."""
    named = replace(prepared, plan=replace(prepared.plan, system=system))
    for name, (number, steps) in first_breaches(prepared, agreed).items():
        trace = trace_of(named, _finding(prepared, number, steps))
        write_whole(directory / f"{name}.jsonl", dumps(trace))
        write_whole(directory / f"{name}.html", page(story_of(trace), f"{name} is broken"))


def _finding(prepared: PreparedPlan, number: int, steps: int) -> Finding:
    """As `conformance.judging.plan.finding_of`, without a difference from the model."""
    trace = [[rule, dict(choice)] for rule, choice in prepared.trace(number)[:steps]]
    return {"id": number, "trace": trace, "steps": steps, "expected": {}, "observed": {}}
