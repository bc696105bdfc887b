"""The regimes of theorems: how a proof treats numbers that have an end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Regime:
    """Says how a proof treats numbers that have an end, and what it assumes about them."""

    says: str
    assumptions: tuple[str, ...]


UNCOUNTED = Regime("no sequence is in it", ())
"""The regime of theorems that are not about sequences."""
