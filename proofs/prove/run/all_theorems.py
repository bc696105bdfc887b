"""The theorems of all compositions."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.prove.engine.theorem import Theorem
from proofs.prove.idempotent import theorems as idempotent
from proofs.prove.producer_ids import theorems as producer_ids
from proofs.prove.transactions import theorems as transactions
from proofs.prove.transactions.theorems import PROVED_AS, WITH_V1

THEOREMS: tuple[Theorem, ...] = (
    *idempotent.ABOUT_PRODUCERS,
    *producer_ids.ABOUT_PRODUCER_IDS,
    *transactions.TRANSACTIONAL,
)

ONLY_EXPLORED: Mapping[str, Mapping[str, str]] = {
    "idempotent": idempotent.ONLY_EXPLORED,
    "producer_ids": producer_ids.ONLY_EXPLORED,
    "transactions": transactions.ONLY_EXPLORED,
}
"""By composition, the parts of guarantees that no theorem covers, and why; they are explored
only."""


def bears_on(theorem: Theorem, name: str) -> bool:
    """Whether a theorem is about a guarantee: by its clause or, without a clause, by
    `answered_by`."""
    about = (theorem.clause.name,) if theorem.clause else theorem.answered_by
    return name in about


def proves(theorem: Theorem, name: str) -> bool:
    """Whether the theorem covers the whole guarantee."""
    if theorem.clause is not None:
        return theorem.clause.name == name and not theorem.part
    of_transactions = theorem.home == "transactions"
    named = (PROVED_AS.get(name, name), WITH_V1.get(name)) if of_transactions else (name,)
    return theorem.name in named or name in theorem.uses


def part_of(theorem: Theorem) -> tuple[str, ...]:
    """Return the guarantees of which a theorem covers a part only."""
    about = (theorem.clause.name,) if theorem.clause else theorem.answered_by
    return tuple(name for name in about if not proves(theorem, name))
