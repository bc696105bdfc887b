"""A mutant checked: its defect is found by a shortest trace, and its twin is clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proofs.explore.scope import Finding, ScopeReport, explore_scope
from proofs.lift.build import is_endless
from proofs.lift.source import Model, model_for
from proofs.live.check import Outcome, explore_live
from proofs.mutants.table import ModelMutant
from proofs.trace.events import events
from proofs.trace.replay import configuration_of

MAX_EVENTS = 25
"""A trace of more protocol events would convince nobody."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What exploring a mutant and its twin showed; `finding` is None if nothing was found."""

    mutant: ModelMutant
    finding: Finding | None
    twin_clean: bool

    @property
    def passed(self) -> bool:
        """Found in few events, and not found in the twin."""
        return self.finding is not None and self.finding.events <= MAX_EVENTS and self.twin_clean


def is_clean(report: ScopeReport, name: str) -> bool:
    """All was seen, nothing guaranteed is broken, and neither is the property in question."""
    return report.verdict == "holds" and report.found(name) is None


def is_of_the_end(mutant: ModelMutant) -> bool:
    """The defect shows in runs that go on for ever."""
    model = model_for(mutant.scope)
    return is_endless(configuration_of(model, mutant.scope, mutant.variant))


def check(mutant: ModelMutant, *, engine: str = "ints", workers: int = 1) -> Checked:
    """Explore a mutant and its twin. Raises as `explore_scope` and `explore_live`."""
    if is_of_the_end(mutant):
        return check_in_the_end(mutant, engine)

    def explored(scope: str, variant: str, patched: bool) -> ScopeReport:
        return explore_scope(
            scope,
            variant,
            patches=mutant.patches if patched else (),
            engine=engine,
            workers=workers,
        )

    found = explored(mutant.scope, mutant.variant, True).found(mutant.property)
    twin = explored(mutant.twin_scope or mutant.scope, mutant.twin, False)
    return Checked(mutant, found, is_clean(twin, mutant.property))


def check_in_the_end(mutant: ModelMutant, engine: str) -> Checked:
    """The same of what a guarantee says that happens in the end: the trace is a lasso's."""
    by = engine if engine in ("c", "ints") else "ints"
    live = explore_live(mutant.scope, mutant.variant, patches=mutant.patches, engine=by)
    outcome = live.report(only=[mutant.property]).outcome(mutant.property)
    twin = explore_live(mutant.scope, mutant.twin, engine=by).report(only=[mutant.property])
    return Checked(mutant, lassoed(live.stepper.model, outcome), twin.verdict == "holds")


def lassoed(model: Model, outcome: Outcome) -> Finding | None:
    """What goes on for ever, as a finding."""
    if outcome.lasso is None:
        return None
    trace = outcome.lasso.trace
    return Finding(
        property=outcome.name,
        guaranteed=outcome.guaranteed,
        trace=trace,
        steps=len(trace.steps),
        events=events(model, trace.steps),
    )


def check_all(
    mutants: tuple[ModelMutant, ...], seen: Callable[[Checked], None], *, engine: str, workers: int
) -> tuple[Checked, ...]:
    """Check several; `seen` is told each as it is done."""
    results = []
    for mutant in mutants:
        results.append(check(mutant, engine=engine, workers=workers))
        seen(results[-1])
    return tuple(results)
