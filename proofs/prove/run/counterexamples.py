"""Explains failed theorems by traces: searches scopes for one that breaks a guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from proofs.explore.scope import Finding, ScopeReport, explore_scope
from proofs.lift.patch import Patch
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.target import ProofTarget


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A trace from the initial state that breaks the guarantee of a failed theorem."""

    theorem: str
    scope: str
    finding: Finding


def counterexample(theorem: Theorem, of: ProofTarget) -> Counterexample | None:
    """Return a shortest trace in the first scope that has one; None if no scope has one."""
    names = (of.shown_as,) if of.shown_as else theorem.answered_by
    patches = of.patches.get(theorem.home, ())
    for scope, variant in places(theorem, of):
        report = explored(
            scope, variant, patches, "source" if theorem.home == "idempotent" else "ints"
        )
        for name in names:
            finding = report.found(name)
            if finding is not None:
                return Counterexample(theorem.name, scope, finding)
    return None


@lru_cache(maxsize=8)
def explored(scope: str, variant: str, patches: tuple[Patch, ...], engine: str) -> ScopeReport:
    """Explore a scope. The result is cached, because one trace may answer several failed
    theorems."""
    return explore_scope(scope, variant, patches=patches, engine=engine)


def places(theorem: Theorem, of: ProofTarget) -> Iterator[tuple[str, str]]:
    """Yield the scopes, with variants, in which a trace is searched for."""
    composed = theorem.composition
    if of.scopes:
        yield from product(of.scopes, (of.shown_in or of.under(theorem),))
    elif not composed.variants or "*" in of.variants or theorem.home in of.patches:
        yield from product((*composed.searched, *composed.scopes), (of.under(theorem),))
    else:
        yield from product(composed.scopes, composed.variants)
