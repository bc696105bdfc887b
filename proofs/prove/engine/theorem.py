"""The declaration of a theorem."""

from __future__ import annotations

from dataclasses import dataclass

from proofs.prove.engine.composition import Composition
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.regime import Regime


@dataclass(frozen=True, slots=True)
class Theorem:
    """A property to prove, with the `composition` that proves it.

    `variant` is the text of the variant that the theorem needs. `answered_by` names the guarantees
    whose violation explains a failure of the theorem. The theorem is a `part` if its guarantee also
    holds in configurations that its assumptions exclude. `left_out` is what the proof leaves out of
    the world. `guarantee` is the guarantee that all its lemmas belong to.
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
        """The composition that the theorem is about."""
        return self.composition.home

    @property
    def regime(self) -> Regime:
        """How its proof treats numbers that have an end."""
        return self.composition.regime

    @property
    def clause(self) -> Clause | None:
        """The one clause that the theorem is about; None if it is about all clauses."""
        return self.composition.goal

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the theorem, of its regime, and of the abstraction that its proof
        uses."""
        made = self.composition
        return (*made.regime.assumptions, *self.rests_on, *self.left_out, *made.assumes)

    @property
    def uses(self) -> tuple[str, ...]:
        """The clauses that the proof uses, or the guarantee that its lemmas prove."""
        if self.guarantee:
            return (self.guarantee,)
        return tuple(c.name for c in self.composition.clauses)
