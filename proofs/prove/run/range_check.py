"""Checks that packing is right: each written value is in its range, each index within its tuple.

Equal counts of two engines do not show this, because a value that is too large overflows into its
neighbour in both engines alike. Most claims follow from the intervals of the graph, or a solver
proves them for all states in range. The remaining claims are checked on every state of the scope.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from proofs.explore.explorer import explore
from proofs.explore.result import RangeBroken
from proofs.lift.build import lift
from proofs.lift.obligations import as_guarantees, decide, decide_ranges, definedness_claims
from proofs.lift.source import Model


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """The number of claims, how many were decided in each way, and the claims that fail in the
    scope."""

    scope: str
    variant: str
    claims: int
    by_interval: int
    by_z3: int
    by_search: int
    failed: tuple[str, ...]


def check_ranges(model: Model, k: Any, name: str) -> RangeCheck:
    """Decide all claims of a scope."""
    lifted = lift(model, k, name, guarantees=False)
    machine, defined = lifted.machine, list(definedness_claims(lifted.obligations))
    decided = (*decide_ranges(machine), *decide(machine, defined))
    held = Counter(d.by for d in decided if d.result == "holds")
    unsettled = {d.name for d in decided if d.result != "holds"}
    guarantees = as_guarantees(claim for claim in defined if claim.name in unsettled)
    try:
        found = explore(replace(machine, guarantees=guarantees), "ints")
        failed = tuple(found.violations)
    except RangeBroken as broken:
        failed = (str(broken),)
    return RangeCheck(
        scope=name,
        variant=k.variant.name,
        claims=len(decided),
        by_interval=held["interval"],
        by_z3=held["z3"],
        by_search=len(decided) - sum(held.values()),
        failed=failed,
    )
