"""The runs that assumptions exclude, of all compositions."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.explore.scope import Finding
from proofs.prove.engine.assumption_necessity import Dropped, shortest_trace
from proofs.prove.idempotent.without_assumptions import DROPPED as OF_PRODUCERS
from proofs.prove.transactions.without_assumptions import DROPPED as OF_TRANSACTIONS

DROPPED: Mapping[str, Dropped] = {**OF_PRODUCERS, **OF_TRANSACTIONS}
"""By assumption, where a run that it excludes breaks a guarantee."""


def trace_without(name: str) -> Finding | None:
    """A shortest trace that the assumption excludes; None if none is known."""
    return shortest_trace(name, DROPPED[name]) if name in DROPPED else None
