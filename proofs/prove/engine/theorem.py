"""What a theorem is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from proofs.lift.patch import Patch
from proofs.lift.source import Model
from proofs.prove.engine.assumptions import (
    EVERYWHERE,
    OF_ONE_PRODUCER,
    OF_STEPS,
    OF_TRANSACTIONS,
)
from proofs.prove.engine.composition import Composition
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.smt import ProofObligation
from proofs.prove.idempotent.invariant import HELPERS
from proofs.prove.idempotent.sequence_arithmetic import SequenceArithmetic


@dataclass(frozen=True, slots=True)
class Theorem:
    """What is proved: `clause` in every state, or `lemmas` about single rules.

    `variant` is the text of the variant it needs; `answered_by` names the guarantees whose broken
    trace answers a failure. `extra` are helper clauses of its own, that hold under its variant's
    rules; `patches` change the model that it is about. A theorem of a `composition` is all of its
    clauses. It is a `part` if its guarantee is given also where it assumes too much. What its proof
    leaves out of the world is `left_out`; `guarantee` is the one that its lemmas are all of.
    """

    name: str
    says: str
    variant: str
    regime: SequenceArithmetic
    rests_on: tuple[str, ...]
    answered_by: tuple[str, ...]
    clause: Clause | None = None
    extra: tuple[Clause, ...] = ()
    patches: tuple[Patch, ...] = ()
    lemmas: Callable[[Model, Any], Iterator[ProofObligation]] | None = None
    composition: Composition | None = None
    part: bool = False
    left_out: tuple[str, ...] = EVERYWHERE
    guarantee: str = ""

    @property
    def home(self) -> str:
        """The composition that it is about."""
        return self.composition.home if self.composition else "idempotent"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it rests on, its regime, and what the abstraction of its proof is about."""
        left_out = self.left_out if self.clause else ()
        return (*self.regime.assumptions, *self.rests_on, *left_out, *self.of_abstraction)

    @property
    def of_abstraction(self) -> tuple[str, ...]:
        """What is assumed of each proof that is made in the same way."""
        if self.clause is not None:
            return OF_ONE_PRODUCER
        made = OF_STEPS if self.composition is not None and self.composition.worlds else ()
        return (*made, *(OF_TRANSACTIONS if self.home == "transactions" else ()))

    @property
    def uses(self) -> tuple[str, ...]:
        """The helper clauses below it; or the guarantee that its lemmas prove."""
        if self.composition is not None:
            return tuple(c.name for c in self.composition.clauses)
        if self.guarantee:
            return (self.guarantee,)
        return tuple(c.name for c in (*HELPERS, *self.extra)) if self.clause else ()
