"""Traces for people: the file that replays, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

from conformance.compositions import judged_composition
from conformance.findings import plan_of, steps_of
from conformance.plan import PreparedPlan, configuration, scope_text
from conformance.report import both_sides, sentence
from conformance.signatures import Finding
from proofs.run.files import write_whole
from proofs.trace.format import Header, Trace, dumps
from proofs.trace.html import page
from proofs.trace.replay import Stepper, model_of, record, replay
from proofs.trace.story import Story, tell


def trace_of(prepared: PreparedPlan, finding: Finding) -> Trace:
    """A finding's steps, with the answers and states that the model gives."""
    plan = plan_of(prepared, finding)
    header = Header(
        scope_text(plan), plan.variant, plan.seed, plan.system, differs=both_sides(finding)
    )
    stepper = Stepper(judged_composition(plan.scope).model, configuration(plan))
    return record(stepper, header, steps_of(finding))[0]


def story_of(trace: Trace) -> Story:
    """The trace as the model tells it. Raises ReplayError, UnknownScope, UnknownVariant."""
    model = model_of(trace.header)
    return tell(model, trace.header, trace.steps, replay(trace, model))


def write(prepared: PreparedPlan, finding: Finding, name: Path) -> None:
    """`name`.jsonl and `name`.html, whose title says what differs."""
    trace = trace_of(prepared, finding)
    write_whole(name.with_suffix(".jsonl"), dumps(trace))
    write_whole(name.with_suffix(".html"), page(story_of(trace), sentence(finding)))
