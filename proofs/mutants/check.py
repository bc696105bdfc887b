"""Checks a mutant: a shortest trace must find its defect, and its twin must be clean."""

from __future__ import annotations

from dataclasses import dataclass

from proofs.explore.scope import (
    Finding,
    ScopeReport,
    explore_scope,
    shortest_counterexample,
)
from proofs.lift.build import is_unbounded
from proofs.lift.source import Model, model_for
from proofs.live.check import PropertyOutcome, explore_live
from proofs.mutants.table import ModelMutant
from proofs.trace.events import events
from proofs.trace.replay import configuration_of

MAX_EVENTS = 25
"""The largest number of protocol events in a trace that still convinces a reader."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of exploring a mutant and its twin; `finding` is None if no defect was found."""

    mutant: ModelMutant
    finding: Finding | None
    twin_clean: bool


def is_clean(report: ScopeReport, name: str) -> bool:
    """Whether the exploration was complete, and broke neither a guarantee nor the property in
    question."""
    return report.verdict == "holds" and report.found(name) is None


def is_of_the_end(mutant: ModelMutant) -> bool:
    """Whether the defect shows in runs that go on for ever."""
    model = model_for(mutant.scope)
    return is_unbounded(configuration_of(model, mutant.scope, mutant.variant))


def check(mutant: ModelMutant, *, engine: str | None = None, workers: int = 1) -> Checked:
    """Explore a mutant and its twin. Raises as `explore_scope` and `explore_live`."""
    finding = find_defect(mutant, engine=engine, workers=workers)
    return Checked(mutant, finding, is_twin_clean(mutant, engine=engine, workers=workers))


def find_defect(mutant: ModelMutant, *, engine: str | None, workers: int = 1) -> Finding | None:
    """Return the shortest trace to the property that a mutant breaks; for a liveness property, a
    lasso."""
    if is_of_the_end(mutant):
        live = explore_live(
            mutant.scope, mutant.variant, patches=mutant.patches, engine=engine_of_lassos(engine)
        )
        return lassoed(
            live.stepper.model, live.report(only=[mutant.property]).outcome(mutant.property)
        )
    return shortest_counterexample(
        mutant.scope,
        mutant.variant,
        mutant.property,
        patches=mutant.patches,
        engine=engine,
        workers=workers,
    )


def is_twin_clean(mutant: ModelMutant, *, engine: str | None, workers: int = 1) -> bool:
    """Whether the twin, explored completely, does not have the defect."""
    scope = mutant.twin_scope or mutant.scope
    if is_of_the_end(mutant):
        live = explore_live(scope, mutant.twin, engine=engine_of_lassos(engine))
        return live.report(only=[mutant.property]).verdict == "holds"
    report = explore_scope(scope, mutant.twin, engine=engine, workers=workers)
    return is_clean(report, mutant.property)


def engine_of_lassos(engine: str | None) -> str:
    """Return the requested engine if it can make graphs, else ints."""
    return "c" if engine == "c" else "ints"


def lassoed(model: Model, outcome: PropertyOutcome) -> Finding | None:
    """Return a lasso as a finding."""
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
