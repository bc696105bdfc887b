"""A recorded run, judged once more: its differences, and the lines and page that show it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from conformance.adapters.clients.judgement import DIVERGES, ClientJudgement, judge_trace
from conformance.adapters.clients.outcome import ClientRunOutcome, outcome_of
from conformance.adapters.clients.processes import JAVA
from conformance.adapters.clients.trace import FORMAT, ClientTrace, read_trace
from conformance.adapters.clients.trace_text import format_run
from conformance.adapters.clients.transactional_judgement import (
    judgement_of_finding,
    outcome_of_transactions,
)
from conformance.adapters.clients.transactional_plan import TransactionalPlan
from conformance.judging.reports.report import sentence
from model.idempotent.configuration import Variant
from model.idempotent.variants import DEFAULT_VARIANT, parse

WORST_FIRST = ("a promise", "the protocol")


class JudgedRun(NamedTuple):
    """A run; the worst of its `findings`, None if nothing differs; and the run as lines and as a
    page."""

    trace: ClientTrace
    outcome: ClientRunOutcome
    finding: Mapping[str, Any] | None
    lines: list[str]


def is_client_trace(path: Path) -> bool:
    """Whether a file is a run of a client; False if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return f'"format":"{FORMAT}"' in file.readline().replace('": ', '":')
    except OSError:
        return False


def judge_file(path: Path, variant: str | None = None) -> JudgedRun:
    """Judge the run in a file by the given variant, else by the variant of the run or of its
    release.

    Raises BadClientTrace, UnknownVariant, OSError.
    """
    trace = read_trace(path)
    own = trace.client.removeprefix(JAVA) if trace.client.startswith(JAVA) else DEFAULT_VARIANT
    return judge_run(parse(variant or trace.variant or own), trace)


def judge_run(variant: Variant, trace: ClientTrace) -> JudgedRun:
    """Judge a run."""
    outcome = judge_one(variant, trace)
    found = [o.shortest[0] for o in outcome.found.summary.findings.values()]
    found.sort(key=lambda one: (one["breaks"] not in WORST_FIRST, one["steps"]))
    finding = found[0] if found else None
    return JudgedRun(trace, outcome, finding, lines_of(variant, trace, finding))


def judge_one(variant: Variant, trace: ClientTrace) -> ClientRunOutcome:
    """The outcome of one run, of either kind."""
    if isinstance(trace.plan, TransactionalPlan):
        return outcome_of_transactions(trace)
    return outcome_of(variant, trace)


def lines_of(variant: Variant, trace: ClientTrace, finding: Mapping[str, Any] | None) -> list[str]:
    """The run as text, up to the event that differs, and what the difference breaks."""
    judged = judgement_for(variant, trace, finding)
    if finding is None:
        return [*format_run(trace, judged)]
    told = [sentence(finding), f"breaks {finding['breaks']}"]
    return [*format_run(trace, judged, finding["steps"]), "", *told]


def judgement_for(
    variant: Variant, trace: ClientTrace, finding: Mapping[str, Any] | None
) -> ClientJudgement:
    """The judgement by the model of the Java client; for transactions, by the rules."""
    if not isinstance(trace.plan, TransactionalPlan):
        return judge_trace(variant, trace)
    if finding is not None:
        return judgement_of_finding(finding)
    outcome = outcome_of_transactions(trace)
    verdict = outcome.verdict
    assert verdict != DIVERGES
    return ClientJudgement(verdict, outcome.found.summary.steps, why=outcome.why)
