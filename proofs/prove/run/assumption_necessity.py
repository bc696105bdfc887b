"""For each assumption of any composition, a run that it excludes and that breaks a guarantee."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.explore.scope import Finding
from proofs.prove.engine.assumption_necessity import Dropped, shortest_trace
from proofs.prove.idempotent.without_assumptions import DROPPED as OF_PRODUCERS
from proofs.prove.transactions.without_assumptions import DROPPED as OF_TRANSACTIONS

DROPPED: Mapping[str, Dropped] = {**OF_PRODUCERS, **OF_TRANSACTIONS}
"""The configuration of such a run, by assumption."""


def trace_without(name: str) -> Finding | None:
    """Return a shortest trace that the assumption excludes; None if none is known."""
    return shortest_trace(name, DROPPED[name]) if name in DROPPED else None
