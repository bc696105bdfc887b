"""Judges one transactional run: by the protocol's rules, the guarantees, and the policies of Java's
client. Unlike for idempotent runs, no model explains each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conformance.adapters.clients.judgement import DIVERGES, EXPLAINED, UNDECIDED, ClientJudgement
from conformance.adapters.clients.outcome import SENT_NOTHING, ClientRunOutcome, trace_name
from conformance.adapters.clients.protocol_rules import Breach
from conformance.adapters.clients.trace import (
    UNFINISHED,
    ClientTrace,
    CoordinatorAnswered,
    CoordinatorRequested,
    ProduceAnswered,
    ProduceRequested,
    ProducerIdAnswered,
    ProducerIdRequested,
)
from conformance.adapters.clients.transactional_rules import broken_rules, differing_policies
from conformance.adapters.clients.visible_records import GUARANTEES, observe_transactions
from conformance.judging.causes import Severity
from conformance.judging.findings import Summary
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.rows import Found
from conformance.judging.signatures import Finding, count_findings
from impl.protocol.errors import ErrorCode

REQUESTS: Final = (CoordinatorRequested, ProduceRequested, ProducerIdRequested)


def outcome_of_transactions(trace: ClientTrace) -> ClientRunOutcome:
    """Judge one run."""
    requests = sum(isinstance(event, REQUESTS) for event in trace.events)
    seen = observe_transactions(trace)
    findings = findings_of(trace, seen)
    is_over = not trace.problem and requests > 0
    verdict = DIVERGES if findings else EXPLAINED if is_over else UNDECIDED
    why = "" if verdict != UNDECIDED else trace.problem or SENT_NOTHING
    summary = Summary(
        traces=1,
        steps=requests,
        error_codes=errors_in(trace),
        findings=count_findings(findings),
    )
    found = Found(summary, seen)
    return ClientRunOutcome(verdict, trace.problem == UNFINISHED, found, why, not is_over)


def findings_of(trace: ClientTrace, seen: ObservedProperties) -> list[Finding]:
    """The first rule that is broken, and its severity; if no rule is broken, a broken guarantee;
    and each policy that differs."""
    breaches = broken_rules(trace)[:1]
    if seen.broken and not breaches:
        breaches = [broken_guarantee(trace, min(seen.broken))]
    worst = Severity.PROMISE if seen.broken else Severity.PROTOCOL
    rows = [(breach, worst) for breach in breaches]
    rows += [(policy, Severity.POLICY) for policy in differing_policies(trace)]
    return [finding_of(trace, breach, severity) for breach, severity in rows]


def broken_guarantee(trace: ClientTrace, name: str) -> Breach:
    """A guarantee that is broken although no rule is, reported at the end of the run."""
    text = " ".join((GUARANTEES[name].__doc__ or name).split())
    told = ", ".join(f"{number} {end}" for number, end in sorted(trace.ends.items()))
    path = "application.transactions"
    return Breach(name, len(trace.events) - 1, {path: text}, {path: f"told {told}"})


def finding_of(trace: ClientTrace, breach: Breach, severity: Severity) -> Finding:
    """A finding as data; its `trace` is the name of a file."""
    return {
        "id": trace.plan.number,
        "trace": trace_name(trace.plan.number),
        "steps": breach.position + 1,
        "rule": breach.rule,
        "expected": dict(breach.expected),
        "observed": dict(breach.observed),
        "breaks": severity,
        "allowed": [],
        "one_minimal": False,
    }


def errors_in(trace: ClientTrace) -> frozenset[str]:
    """The names of the error codes in answers."""
    answers = (CoordinatorAnswered, ProducerIdAnswered)
    codes = {event.error for event in trace.events if isinstance(event, answers)} | {
        row.error for e in trace.events if isinstance(e, ProduceAnswered) for row in e.partitions
    }
    return frozenset(ErrorCode(code).name for code in codes)


def judgement_of_finding(finding: Mapping[str, Any]) -> ClientJudgement:
    """A finding in the form that `format_run` takes."""
    return ClientJudgement(
        DIVERGES,
        0,
        position=finding["steps"] - 1,
        rule=finding["rule"],
        observed=finding["observed"],
        expected=finding["expected"],
    )
