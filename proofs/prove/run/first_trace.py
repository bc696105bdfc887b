"""A trace that answers a theorem before any solver is asked: `prove --variant` looks for it first.

The trace breaks the guarantee in a scope in which the theorem's own variant keeps it, so that the
changed rules break it, and nothing that the theorem assumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from proofs.explore.expected import EXPECTED
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.counterexamples import Counterexample, explored, places
from proofs.prove.run.target import ProofTarget, model_of
from proofs.risks import risks_of

MOST_STATES = 2_000
"""Scopes with more states, under the default variant, are looked at only after the solvers; unless
a known risk of the variant shows there."""


def first_traces(theorems: Sequence[Theorem], of: ProofTarget) -> list[Counterexample]:
    """A trace for each theorem; none at all if one of them has none."""
    found: list[Counterexample] = []
    for theorem in theorems:
        trace = first_trace(theorem, of)
        if trace is None:
            return []
        found.append(trace)
    return found


def first_trace(theorem: Theorem, of: ProofTarget) -> Counterexample | None:
    """A trace of the changed rules that breaks what the theorem says; None if none is near."""
    if of.patches:
        return None
    for scope in first_scopes(theorem, of):
        report = explored(scope, of.under(theorem), (), "c")
        finding = next(filter(None, map(report.found, theorem.answered_by)), None)
        if finding and not explored(scope, theorem.variant, (), "c").found(finding.property):
            return Counterexample(theorem.name, scope, finding)
    return None


def first_scopes(theorem: Theorem, of: ProofTarget) -> Iterator[str]:
    """Where known risks of the changed rules show, as far as the theorem is about such scopes; and
    its smallest scopes."""
    scopes = tuple(dict.fromkeys(scope for scope, _ in places(theorem, of)))
    families = {scope.partition("/")[0] for scope in scopes}
    changed = changed_rules(theorem, of.under(theorem))
    for risk in risks_of(theorem.home, of.under(theorem)):
        at_risk = changed & risk.rules.keys() and set(theorem.answered_by) & set(risk.breaks)
        if at_risk and risk.scope.partition("/")[0] in families:
            yield risk.scope
    yield from (s for s in scopes if EXPECTED[s.partition("/")[0]].distinct <= MOST_STATES)


def changed_rules(theorem: Theorem, variant: str) -> set[str]:
    """The rules in which a variant differs from the theorem's own."""
    parse = model_of(theorem).variants.parse
    own, other = parse(theorem.variant), parse(variant)
    return {f.name for f in fields(own) if value(own, f.name) != value(other, f.name)}


def value(variant: Any, rule: str) -> Any:
    """The value of a rule; names of variants say nothing."""
    return None if rule in ("name", "release") else getattr(variant, rule)
