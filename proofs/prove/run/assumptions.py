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
"""All assumptions that theorems may rest on, by name."""


def parts_that_stay(assumptions: tuple[str, ...]) -> frozenset[str]:
    """Return the parts of worlds that keep their initial value under some of the assumptions."""
    return frozenset(part for name in assumptions for part in ASSUMPTIONS[name].stay)
