"""The assumptions of all compositions."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.prove.engine import assumptions as engine
from proofs.prove.engine.assumptions import ProofAssumption
from proofs.prove.idempotent import assumptions as idempotent
from proofs.prove.transactions import assumptions as transactions

ASSUMPTIONS: Mapping[str, ProofAssumption] = {
    **idempotent.ASSUMPTIONS,
    **transactions.ASSUMPTIONS,
    **engine.ASSUMPTIONS,
}
"""All that theorems may rest on, by name."""


def parts_that_stay(assumptions: tuple[str, ...]) -> frozenset[str]:
    """The parts of worlds that are, by some of the assumptions, as they were at first."""
    return frozenset(part for name in assumptions for part in ASSUMPTIONS[name].stay)
