"""Assumption necessity: a trace that an assumption excludes, and that breaks a guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.faults import fit
from model.releases import NEWEST
from proofs.explore.scope import Finding, finding, header_of
from proofs.explore.source import explore_source, instances
from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model
from proofs.trace.replay import Stepper


@dataclass(frozen=True, slots=True)
class Dropped:
    """Where a run that the assumption excludes breaks a guarantee."""

    property: str
    bounds: Mapping[str, int]
    budgets: Mapping[str, int]
    variant: str = NEWEST
    patches: tuple[Patch, ...] = field(default=())
    home: str = "idempotent"


def shortest_trace(name: str, dropped: Dropped) -> Finding | None:
    """A shortest trace that the assumption of that name excludes; None if there is none."""
    home = dropped.home
    model: Model = load_model(home, dropped.patches)
    configuration = model.configuration
    budgets = configuration.Budgets(**dropped.budgets)
    k = configuration.Configuration(
        variant=model.variants.parse(dropped.variant),
        bounds=fit(configuration.Bounds(**dropped.bounds), budgets),
        budgets=budgets,
    )
    found = explore_source(model, k, name, only={dropped.property}, stop=True)
    path = found.violations.get(dropped.property)
    if path is None:
        return None
    stepper, every = Stepper(model, k), instances(model, k)
    header = header_of(stepper, f"without {name}", dropped.patches)
    return finding(stepper, header, dropped.property, [every[i] for i in path])
