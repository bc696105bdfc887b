"""The traces that tell a variant from others, played in a run beside its own.

A run names the rules that it could not have told apart: those that nothing shows where it looks,
and those whose trace it could not play.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Protocol

from conformance.compositions import judged_composition
from conformance.distinguish.known import Row, in_words, rows_about
from conformance.distinguish.rules import Alternative, alternatives, base_of
from conformance.plan import Plan, PreparedPlan, configuration
from conformance.signatures import Finding
from proofs.trace.shrink import Steps

NOT_SEARCHED: Final = "nobody has searched for a trace; see `kafka-eos distinguish`"
LEFT_OUT: Final = "its trace is not played in a run with --traces"


class CannotTell(Exception):
    """A trace that is not played to its end; the message says why."""


class Player(Protocol):
    """A system that plays traces of other scopes than the run's own."""

    @property
    def seen_by(self) -> str:
        """How it is looked at."""

    def play(self, scope: str, traces: Sequence[Steps]) -> Iterator[Finding | CannotTell | None]:
        """The first difference of each trace. Raises BackendError."""


@dataclass(frozen=True, slots=True)
class ToldApart:
    """What a run says of rules. `told` has the rows whose traces were played to their ends, or to a
    difference; `not_told` says why, by the name of a rule. `findings` are the differences."""

    told: Sequence[Row] = ()
    not_told: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    def to_json(self) -> dict[str, Any]:
        """As in `report.json`."""
        return {
            "told_apart": {
                row.name: {"scope": row.scope, "steps": len(row.steps)} for row in self.told
            },
            "not_told_apart": dict(self.not_told),
        }


def rows_of(plan: Plan, seen_by: str) -> tuple[list[Row], dict[str, str]]:
    """The rows whose traces tell the plan's variant from others; and of the other rules, why there
    is none."""
    composition, variant = judged_composition(plan.scope), configuration(plan).variant
    known = rows_about(composition.name, base_of(variant), seen_by)
    found: list[Row] = []
    missing: dict[str, str] = {}
    for one in alternatives(composition.model, variant.name):
        row = row_for(one, known)
        if row is not None and row.is_found:
            found.append(row)
        else:
            missing[one.name] = NOT_SEARCHED if row is None else in_words(row)
    return found, missing


def row_for(one: Alternative, known: Sequence[Row]) -> Row | None:
    """The row that answers for another value of a rule."""
    return next((row for row in known if row.answers(one)), None)


def tell_apart(prepared: PreparedPlan, player: Player) -> ToldApart:
    """Play the traces that tell the plan's variant from others. A run whose traces are limited
    plays none. Raises BackendError."""
    plan = prepared.plan
    found, not_told = rows_of(plan, player.seen_by)
    if plan.traces is not None:
        return ToldApart(not_told=not_told | dict.fromkeys((r.name for r in found), LEFT_OUT))
    told: list[Row] = []
    findings: list[Finding] = []
    for scope, of_scope in groupby(sorted(found, key=lambda r: r.scope), lambda r: r.scope):
        group = list(of_scope)
        ends = player.play(scope, [row.steps for row in group])
        for row, end in zip(group, ends, strict=True):
            if isinstance(end, CannotTell):
                not_told[row.name] = str(end)
                continue
            told.append(row)
            if end is not None:
                number = prepared.count + len(findings)
                findings.append(end | {"id": number, "scope": scope, "told_by": row.name})
    return ToldApart(told, not_told, findings)
