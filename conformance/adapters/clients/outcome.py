"""The outcome of one run of a client: its judgement, and the guarantees that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from conformance.adapters.clients.guaranteed import (
    client_by_outcomes,
    configuration_of_guarantees,
    observe_run,
)
from conformance.adapters.clients.judgement import (
    DIVERGES,
    EXPLAINED,
    UNDECIDED,
    ClientJudgement,
    judge_trace,
)
from conformance.adapters.clients.protocol_rules import (
    BESIDE_THE_MODEL,
    RULES,
    Breach,
    first_breach,
)
from conformance.adapters.clients.record_order import renumber_records
from conformance.adapters.clients.trace import (
    UNFINISHED,
    ClientTrace,
    ProduceAnswered,
    ProducerIdAnswered,
)
from conformance.judging.causes import Severity
from conformance.judging.findings import Summary
from conformance.judging.guaranteed import ObservedProperties, not_guaranteed
from conformance.judging.rows import Found, from_json, to_json
from conformance.judging.signatures import Finding, count_findings
from model.idempotent.configuration import Variant
from model.idempotent.guarantees import GUARANTEES
from model.idempotent.messages import Error

SENT_NOTHING: Final = "the client sent nothing"
TOLD_LITTLE: Final = "the client closed, and did not tell what became of most records"


@dataclass(frozen=True, slots=True)
class ClientRunOutcome:
    """The outcome of one run: `found` counts the run as one trace whose steps are its requests.
    `why` says why it is undecided; for a run that diverges from the model, why the protocol leaves
    it undecided. `shows_nothing`: neither the protocol's rules nor the
    acknowledgements could be judged."""

    verdict: str
    unfinished: bool
    found: Found
    why: str = ""
    shows_nothing: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether the client ended and reported the outcome of each record, but sent no request."""
        return self.why == SENT_NOTHING

    def is_undecided(self, judge: str) -> bool:
        """Whether the criterion of the verdict stays open. The protocol's rules need no explanation
        of the client's behaviour, only that the client acted and reported outcomes to its
        application."""
        if judge == "protocol":
            return self.shows_nothing if self.verdict == UNDECIDED else bool(self.why)
        return self.verdict == UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain data."""
        found = to_json(self.found)
        named = ("verdict", "unfinished", "why", "shows_nothing")
        return {name: getattr(self, name) for name in named} | {"found": found}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> ClientRunOutcome:
        """The outcome that `to_json` gave."""
        return cls(**row | {"found": from_json(row["found"])})


def outcome_of(variant: Variant, trace: ClientTrace) -> ClientRunOutcome:
    """Judge one run. If its records were counted in another order, it shows no guarantees.

    A run that the model does not explain is judged by the protocol's rules and by the guarantees
    alone, which hold for any client. A run that the model explains is also judged by the rules
    about behaviour that the model lacks.
    """
    judgement = judge_trace(variant, trace)
    is_explained = judgement.verdict == EXPLAINED
    breach = first_breach(trace, BESIDE_THE_MODEL if is_explained else RULES)
    seen = observe(variant, trace, judgement)
    k = configuration_of_guarantees(variant, 1, 1)
    broken = seen.broken - set(not_guaranteed(k))
    if broken and breach is None and judgement.verdict == DIVERGES:
        breach = broken_guarantee(trace, min(broken))
    verdict, why = decide(trace, judgement, breach)
    diverges = verdict == DIVERGES
    summary = Summary(
        traces=1,
        steps=judgement.requests,
        rules=frozenset(judgement.rules),
        error_codes=errors_in(trace),
        findings=count_findings(
            [finding_of(trace, judgement, breach, bool(broken))] if diverges else []
        ),
    )
    shows_nothing = bool(trace.problem) or not judgement.requests or why == TOLD_LITTLE
    return ClientRunOutcome(
        verdict, trace.problem == UNFINISHED, Found(summary, seen), why, shows_nothing
    )


def decide(
    trace: ClientTrace, judgement: ClientJudgement, breach: Breach | None
) -> tuple[str, str]:
    """The verdict of a run, and why it is undecided. A run that breaks a rule is decided, whatever
    comes after. A run that did not end, or sent no request, shows nothing; nor does a run that the
    model does not explain and whose application received few outcomes."""
    if breach is not None:
        return DIVERGES, ""
    if judgement.verdict == DIVERGES:
        return DIVERGES, "" if trace.problem else untold(trace)
    if judgement.verdict == UNDECIDED or trace.problem:
        return UNDECIDED, judgement.why or trace.problem
    return (EXPLAINED, "") if judgement.requests else (UNDECIDED, SENT_NOTHING)


def untold(trace: ClientTrace) -> str:
    """The missing outcomes, if the client has closed and reported the outcomes of few records. One
    or two may be missing after a fatal error, which is a policy."""
    sends = trace.plan.sends
    told = sum((send.partition, send.number) in trace.outcomes for send in sends)
    return TOLD_LITTLE if 2 * told < len(sends) else ""


def observe(variant: Variant, trace: ClientTrace, judgement: ClientJudgement) -> ObservedProperties:
    """The guarantees that a run shows, if it ended and its records were counted in order."""
    if trace.problem or renumber_records(trace) is not trace:
        return ObservedProperties()
    return observe_run(variant, trace, judgement.client or client_by_outcomes(variant, trace))


def broken_guarantee(trace: ClientTrace, name: str) -> Breach:
    """A guarantee that is broken although no rule is, reported at the end of the run."""
    stored = {(batch.partition, record) for batch in trace.stored for record in batch.records}
    acknowledged = {record for record, outcome in trace.outcomes.items() if not outcome.error}
    missing = ", ".join(f"{p}:{n}" for p, n in sorted(acknowledged - stored)) or "none"
    (guarantee,) = (one for one in GUARANTEES if one.name == name)
    text = " ".join((guarantee.check.__doc__ or name).split())
    path = "application.records"
    said = f"acknowledged and not stored: {missing}"
    return Breach(name, len(trace.events) - 1, {path: text}, {path: said})


def errors_in(trace: ClientTrace) -> frozenset[str]:
    """The names of the error codes in answers, as far as the model has them."""
    codes = {e.value: e.name for e in Error}
    answered = [e.error for e in trace.events if isinstance(e, ProducerIdAnswered)] + [
        row.error for e in trace.events if isinstance(e, ProduceAnswered) for row in e.partitions
    ]
    return frozenset(codes[code] for code in answered if code in codes)


def finding_of(
    trace: ClientTrace,
    judgement: ClientJudgement,
    breach: Breach | None,
    breaks_promise: bool,
) -> Finding:
    """A divergence as data, as in `conformance.judging.plan`; its `trace` is the name of a file. A
    breach of the protocol takes precedence over a difference from the model of the Java client."""
    first = judgement if breach is None else breach
    breaks = Severity.POLICY if breach is None else Severity.PROTOCOL
    return {
        "id": trace.plan.number,
        "trace": trace_name(trace.plan.number),
        "steps": first.position + 1,
        "rule": first.rule,
        "expected": dict(first.expected),
        "observed": dict(first.observed),
        "breaks": Severity.PROMISE if breaks_promise else breaks,
        "allowed": list(judgement.allowed),
        "one_minimal": False,
    }


def trace_name(run: int) -> str:
    """The name of the file with a run's trace."""
    return f"run-{run:05d}.jsonl"
