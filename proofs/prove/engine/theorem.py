"""What a theorem is."""

from __future__ import annotations

from dataclasses import dataclass

from proofs.prove.engine.composition import Composition
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.regime import Regime


@dataclass(frozen=True, slots=True)
class Theorem:
    """What is proved, by what the proofs say of a `composition`.

    `variant` is the text of the variant it needs; `answered_by` names the guarantees whose broken
    trace answers a failure. It is a `part` if its guarantee is given also where it assumes too
    much. What its proof leaves out of the world is `left_out`; `guarantee` is the one that its
    lemmas are all of.
    """

    name: str
    says: str
    variant: str
    rests_on: tuple[str, ...]
    answered_by: tuple[str, ...]
    composition: Composition
    part: bool = False
    left_out: tuple[str, ...] = ()
    guarantee: str = ""

    @property
    def home(self) -> str:
        """The composition that it is about."""
        return self.composition.home

    @property
    def regime(self) -> Regime:
        """What its proof says of numbers that have an end."""
        return self.composition.regime

    @property
    def clause(self) -> Clause | None:
        """The one clause that it is about, if it is not about all of them."""
        return self.composition.goal

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it rests on, its regime, and what the abstraction of its proof is about."""
        made = self.composition
        return (*made.regime.assumptions, *self.rests_on, *self.left_out, *made.assumes)

    @property
    def uses(self) -> tuple[str, ...]:
        """The clauses below it; or the guarantee that its lemmas prove."""
        if self.guarantee:
            return (self.guarantee,)
        return tuple(c.name for c in self.composition.clauses)
