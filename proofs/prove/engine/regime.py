"""What is said of numbers that have an end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Regime:
    """What a proof says of numbers that have an end, and what it assumes of them."""

    says: str
    assumptions: tuple[str, ...]


UNCOUNTED = Regime("no sequence is in it", ())
"""Of what is not about sequences."""
