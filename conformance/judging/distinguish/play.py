"""Plays distinguishing traces in a run, beside the traces of its plan.

A run names the rules that it could not have told apart: those that no observation at this system
shows, and those whose trace it could not play.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Protocol

from conformance.judging.compositions import judged_composition
from conformance.judging.distinguish.alternatives import Alternative, alternatives, base_of
from conformance.judging.distinguish.known import WAYS, RuleVisibility, in_words, rows_about
from conformance.judging.plan import Plan, PreparedPlan, configuration
from conformance.judging.signatures import Finding
from proofs.trace.shrink import Steps

NOT_SEARCHED: Final = "nobody has searched for a trace; see `kafka-eos distinguish`"
LEFT_OUT: Final = "its trace is not played in a run with --traces"


class TraceNotApplicable(Exception):
    """A trace that cannot be played to its end; the message says why."""


class Player(Protocol):
    """A system that plays traces of other scopes than the run's own."""

    @property
    def observer(self) -> str:
        """The way in which this system is observed."""

    def play(
        self, scope: str, traces: Sequence[Steps]
    ) -> Iterator[Finding | TraceNotApplicable | None]:
        """The first difference on each trace. Raises BackendError."""


@dataclass(frozen=True, slots=True)
class DistinguishingReport:
    """The part of a report about rules. `distinguished` has the rules whose traces were played to
    their ends, or to a difference; `not_distinguished` gives the reason for each other rule.
    `findings` are the differences."""

    distinguished: Sequence[RuleVisibility] = ()
    not_distinguished: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    def to_json(self) -> dict[str, Any]:
        """The part of `report.json`."""
        return {
            "distinguished": {
                row.name: {"scope": row.scope, "steps": len(row.steps)}
                for row in self.distinguished
            },
            "not_distinguished": dict(self.not_distinguished),
        }


def rows_of(plan: Plan, observer: str) -> tuple[list[RuleVisibility], dict[str, str]]:
    """The rows whose traces tell the plan's variant from others, and for each other rule the reason
    why it has no trace."""
    composition, variant = judged_composition(plan.scope), configuration(plan).variant
    base = base_of(composition.model, variant)
    known = rows_about(composition.name, base, observer)
    found: list[RuleVisibility] = []
    missing: dict[str, str] = {}
    for one in alternatives(composition.model, variant.name):
        row = row_for(one, known)
        if row is not None and row.is_found:
            found.append(row)
        else:
            missing[one.name] = why_not(one, row, composition.name, base)
    return found, missing


def why_not(one: Alternative, row: RuleVisibility | None, composition: str, variant: str) -> str:
    """Why no trace tells a rule apart at this system: another observer may see it, or no observer
    does."""
    by_others = [row_for(one, rows_about(composition, variant, way)) for way in WAYS]
    answers = [r for r in (row, *by_others) if r is not None]
    seen = [r.observer for r in answers if r.is_found]
    if seen:
        return f"seen by {' and '.join(seen)} alone"
    return in_words(answers[0]) if answers else NOT_SEARCHED


def row_for(one: Alternative, known: Sequence[RuleVisibility]) -> RuleVisibility | None:
    """The row about another value of a rule."""
    return next((row for row in known if row.answers(one)), None)


def play_distinguishing_traces(prepared: PreparedPlan, player: Player) -> DistinguishingReport:
    """Play the traces that tell the plan's variant from others. A run with a limited number of
    traces plays none of them. Raises BackendError."""
    plan = prepared.plan
    found, not_distinguished = rows_of(plan, player.observer)
    if plan.traces is not None:
        return DistinguishingReport(
            not_distinguished=not_distinguished | dict.fromkeys((r.name for r in found), LEFT_OUT)
        )
    distinguished: list[RuleVisibility] = []
    findings: list[Finding] = []
    for scope, of_scope in groupby(sorted(found, key=lambda r: r.scope), lambda r: r.scope):
        group = list(of_scope)
        ends = player.play(scope, [row.steps for row in group])
        for row, end in zip(group, ends, strict=True):
            if isinstance(end, TraceNotApplicable):
                not_distinguished[row.name] = str(end)
                continue
            distinguished.append(row)
            if end is not None:
                number = prepared.count + len(findings)
                findings.append(end | {"id": number, "scope": scope, "alternative": row.name})
    return DistinguishingReport(distinguished, not_distinguished, findings)
