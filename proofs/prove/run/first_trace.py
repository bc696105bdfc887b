"""Searches for a trace that refutes a theorem before any solver is asked; `prove --variant` uses
it.

The trace breaks the guarantee in a scope in which the theorem's own variant keeps it. So the
changed rules break the guarantee, not something that the theorem assumes away.
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
"""The number of states under the default variant up to which a scope is searched before the solvers
are asked. A larger scope is searched too if a known risk of the variant shows in it."""


def first_traces(theorems: Sequence[Theorem], of: ProofTarget) -> list[Counterexample]:
    """Return a trace for each theorem; an empty list if one of the theorems has no trace."""
    found: list[Counterexample] = []
    for theorem in theorems:
        trace = first_trace(theorem, of)
        if trace is None:
            return []
        found.append(trace)
    return found


def first_trace(theorem: Theorem, of: ProofTarget) -> Counterexample | None:
    """Return a trace of the changed rules that breaks the theorem; None if no small scope has
    one."""
    if of.patches:
        return None
    for scope in first_scopes(theorem, of):
        report = explored(scope, of.under(theorem), (), "c")
        finding = next(filter(None, map(report.found, theorem.answered_by)), None)
        if finding and not explored(scope, theorem.variant, (), "c").found(finding.property):
            return Counterexample(theorem.name, scope, finding)
    return None


def first_scopes(theorem: Theorem, of: ProofTarget) -> Iterator[str]:
    """Yield the scopes in which known risks of the changed rules show, if the theorem is about
    scopes of this kind; then the theorem's smallest scopes."""
    scopes = tuple(dict.fromkeys(scope for scope, _ in places(theorem, of)))
    families = {scope.partition("/")[0] for scope in scopes}
    changed = changed_rules(theorem, of.under(theorem))
    for risk in risks_of(theorem.home, of.under(theorem)):
        at_risk = changed & risk.rules.keys() and set(theorem.answered_by) & set(risk.breaks)
        if at_risk and risk.scope.partition("/")[0] in families:
            yield risk.scope
    yield from (s for s in scopes if EXPECTED[s.partition("/")[0]].distinct <= MOST_STATES)


def changed_rules(theorem: Theorem, variant: str) -> set[str]:
    """Return the rules in which a variant differs from the theorem's own."""
    parse = model_of(theorem).variants.parse
    own, other = parse(theorem.variant), parse(variant)
    return {f.name for f in fields(own) if value(own, f.name) != value(other, f.name)}


def value(variant: Any, rule: str) -> Any:
    """Return the value of a rule; None for the fields that name a variant."""
    return None if rule in ("name", "release") else getattr(variant, rule)
