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
"""By composition, what of its guarantees no theorem covers, and why: they are explored only."""


def bears_on(theorem: Theorem, name: str) -> bool:
    """A theorem is of its clause; where it has none, of the guarantees that answer for it."""
    about = (theorem.clause.name,) if theorem.clause else theorem.answered_by
    return name in about


def proves(theorem: Theorem, name: str) -> bool:
    """Whether all of the guarantee is in the theorem."""
    if theorem.clause is not None:
        return theorem.clause.name == name and not theorem.part
    of_transactions = theorem.home == "transactions"
    named = (PROVED_AS.get(name, name), WITH_V1.get(name)) if of_transactions else (name,)
    return theorem.name in named or name in theorem.uses


def part_of(theorem: Theorem) -> tuple[str, ...]:
    """The guarantees that a theorem says a part of, and not all."""
    about = (theorem.clause.name,) if theorem.clause else theorem.answered_by
    return tuple(name for name in about if not proves(theorem, name))
