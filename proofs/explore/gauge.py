"""Explores a small scope, the gauge, next to a scope for which it is unknown what must happen.

Guarantees also hold of a model in which nothing happens. No claims exist for a larger scope of an
older release, for budgets that are given by hand, or for a variant with a replaced rule. The gauge
of the composition therefore says, in less than a second, whether the model does under that variant
what it must.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from proofs.explore.engines import ENGINES, EngineCounts, EngineJob, say_on_stderr
from proofs.explore.release_claims import CORE, GAUGES, release_of
from proofs.explore.sometimes import Sometimes, happened, sometimes_explored, without
from proofs.lift.source import composition_of, model_for
from proofs.trace.replay import configuration_of


def with_gauge(claims: Sometimes, scope: str, variant: str) -> Sometimes:
    """Return what the composition's gauge has lost under the same variant, for a scope whose
    `claims` decide nothing; if the gauge has lost nothing, return these claims."""
    gauge = GAUGES.get(composition_of(scope))
    lost = lost_in(gauge, variant) if gauge else ()
    if not gauge or not lost:
        return claims
    return replace(claims, lost=lost, is_enforced=True, looked_in=f"{gauge} [{variant}]")


@functools.lru_cache(maxsize=64)
def lost_in(gauge: str, variant: str) -> tuple[str, ...]:
    """Return what must happen in a gauge and does not, for the model without patches."""
    counts, model = counts_of_gauge(gauge, variant), model_for(gauge)
    if release_of(composition_of(gauge), model.variants.parse(variant)):
        return sometimes_explored(model, gauge, variant, counts, enforce=True).lost
    return without(sorted(CORE[gauge]), happened(counts))


def counts_of_gauge(gauge: str, variant: str) -> EngineCounts:
    """Return what happens in a gauge; no guarantee is checked."""
    model = model_for(gauge)
    job = EngineJob(
        model=model,
        k=configuration_of(model, gauge, variant),
        name=gauge,
        workers=1,
        stop=False,
        max_depth=None,
        guarantees=frozenset(),
        progress=None,
        say=say_on_stderr,
    )
    return ENGINES["ints"](job)
