"""That packing is right: each written value is in its range, each index within its tuple.

Equal counts of two engines do not show this: a value one too large runs over into its neighbour
in both alike. Most claims follow from the intervals of the graph or from a solver, over all
states in range; what these leave open is decided in the scope, on every state.
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
    """How many claims there are, how many each way decided, and those that fail in the scope."""

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
