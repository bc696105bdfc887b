"""Writes a trace for people: a file that replays, and a page that shows it."""

from __future__ import annotations

from pathlib import Path

from conformance.judging.compositions import judged_composition
from conformance.judging.findings import plan_of, steps_of
from conformance.judging.plan import PreparedPlan, configuration, scope_text
from conformance.judging.reports.report import both_sides, sentence
from conformance.judging.reports.script import Exchanges, script_of
from conformance.judging.signatures import Finding
from proofs.run.files import write_whole
from proofs.trace.format import Header, Trace, dumps
from proofs.trace.html import page
from proofs.trace.replay import Stepper, model_of, record, replay
from proofs.trace.story import Story, tell


def trace_of(prepared: PreparedPlan, finding: Finding, exchanges: Exchanges = ()) -> Trace:
    """The steps of a finding, with the model's answers and states; and the bytes of the
    exchanges."""
    plan = plan_of(prepared, finding)
    header = Header(
        scope_text(plan),
        plan.variant,
        plan.seed,
        plan.system,
        differs=both_sides(finding),
        exchanges=tuple(exchanges),
    )
    stepper = Stepper(judged_composition(plan.scope).model, configuration(plan))
    return record(stepper, header, steps_of(finding))[0]


def differing(header: Header) -> list[str]:
    """The difference, in words."""
    return [f"{place} is {seen}, the model says {model}" for place, model, seen in header.differs]


def story_of(trace: Trace) -> Story:
    """The trace as the model tells it. Raises ReplayError, UnknownScope, UnknownVariant."""
    model = model_of(trace.header)
    return tell(model, trace.header, trace.steps, replay(trace, model))


def write(prepared: PreparedPlan, finding: Finding, name: Path, exchanges: Exchanges = ()) -> None:
    """Write `name`.jsonl and `name`.html, titled by the difference; and, if exchanges are given,
    the script `name`.py that shows the difference."""
    trace = trace_of(prepared, finding, exchanges)
    title = sentence(finding)
    write_whole(name.with_suffix(".jsonl"), dumps(trace))
    write_whole(name.with_suffix(".html"), page(story_of(trace), title))
    if exchanges:
        script = script_of(exchanges, title, f"{name.name}.py", trace.header.variant)
        write_whole(name.with_suffix(".py"), script)
