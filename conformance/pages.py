"""Traces for people: the file that replays, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

from conformance.files import write_whole
from conformance.plan import Finding, Prepared, scope_text, setting, steps_of
from proofs.lift.text import plain
from proofs.trace.format import Header, Trace, dumps
from proofs.trace.replay import Stepper, record


def trace_of(prepared: Prepared, finding: Finding) -> Trace:
    """A finding's steps, with the answers and states that the model gives."""
    plan = prepared.plan
    header = Header(scope_text(plan), plan.variant, plan.seed, plan.system)
    stepper = Stepper(plain(), setting(plan))
    return record(stepper, header, steps_of(finding))[0]


def write(prepared: Prepared, finding: Finding, name: Path) -> None:
    """`name`.jsonl and `name`.html."""
    trace = trace_of(prepared, finding)
    write_whole(name.with_suffix(".jsonl"), dumps(trace))
