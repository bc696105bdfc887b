"""What became of one run of a client: its judgement, and what it shows of the guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.client.guaranteed import observe_run
from conformance.client.judgement import DIVERGES, EXPLAINED, ClientJudgement, judge_trace
from conformance.client.record_order import renumber_records
from conformance.client.trace import (
    UNFINISHED,
    ClientTrace,
    ProduceAnswered,
    ProducerIdAnswered,
)
from conformance.findings import Finding, Summary
from conformance.guaranteed import ObservedProperties
from conformance.rows import Found, from_json, to_json
from model.idempotent.configuration import Variant
from model.idempotent.messages import Error


@dataclass(frozen=True, slots=True)
class ClientRunOutcome:
    """What became of one run: `found` counts it as one trace whose steps are its requests."""

    verdict: str
    unfinished: bool
    found: Found

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain data."""
        found = to_json(self.found)
        return {"verdict": self.verdict, "unfinished": self.unfinished, "found": found}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> ClientRunOutcome:
        """The outcome that `to_json` gave."""
        return cls(row["verdict"], row["unfinished"], from_json(row["found"]))


def outcome_of(variant: Variant, trace: ClientTrace) -> ClientRunOutcome:
    """Judge one run. One whose records were counted in another order shows nothing of
    guarantees."""
    judgement = judge_trace(variant, trace)
    diverges = judgement.verdict == DIVERGES
    summary = Summary(
        traces=1,
        steps=judgement.requests,
        rules=frozenset(judgement.rules),
        error_codes=errors_in(trace) if judgement.verdict == EXPLAINED else frozenset(),
        divergences=int(diverges),
        findings=(finding_of(trace, judgement),) if diverges else (),
    )
    seen = ObservedProperties()
    in_order = renumber_records(trace) is trace
    if judgement.client is not None and not trace.problem and in_order:
        seen = observe_run(variant, trace, judgement.client)
    return ClientRunOutcome(judgement.verdict, trace.problem == UNFINISHED, Found(summary, seen))


def errors_in(trace: ClientTrace) -> frozenset[str]:
    """The names of the error codes that were answered, as far as the model has them."""
    codes = {e.value: e.name for e in Error}
    answered = [e.error for e in trace.events if isinstance(e, ProducerIdAnswered)] + [
        row.error for e in trace.events if isinstance(e, ProduceAnswered) for row in e.partitions
    ]
    return frozenset(codes[code] for code in answered if code in codes)


def finding_of(trace: ClientTrace, judgement: ClientJudgement) -> Finding:
    """A divergence as data, as in `conformance.plan`; its `trace` is a file's name."""
    return {
        "id": trace.plan.number,
        "trace": trace_name(trace.plan.number),
        "steps": judgement.position + 1,
        "rule": judgement.rule,
        "expected": dict(judgement.expected),
        "observed": dict(judgement.observed),
        "allowed": list(judgement.allowed),
        "one_minimal": False,
    }


def trace_name(run: int) -> str:
    """The file of a run's trace."""
    return f"run-{run:05d}.jsonl"
