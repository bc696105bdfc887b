"""Shows that an assumption is necessary: a trace that the assumption excludes breaks a
guarantee."""

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
    """The configuration in which a run that the assumption excludes breaks a guarantee."""

    property: str
    bounds: Mapping[str, int]
    budgets: Mapping[str, int]
    variant: str = NEWEST
    patches: tuple[Patch, ...] = field(default=())
    home: str = "idempotent"


def shortest_trace(name: str, dropped: Dropped) -> Finding | None:
    """Return a shortest trace that breaks a guarantee and that this assumption excludes; None if no
    such trace exists."""
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
