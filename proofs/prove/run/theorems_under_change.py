"""Decides theorems under a change of the model, one after the other, while time remains.

Each theorem is compared with itself under the base, which is unchanged. If both have the same
obligations, the change does not affect the theorem, and no solver is asked. Otherwise the new
obligations are asked first. If one fails, the base is asked too, because the theorem may have
failed before the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from proofs.prove.engine.missing_steps import MissingSteps
from proofs.prove.engine.solvers import SOLVERS
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.answer_source import AnswerSource, OutOfTime, unseen
from proofs.prove.run.plan import Duty, Planner, ProofPlan
from proofs.prove.run.report import Proof
from proofs.prove.run.target import ProofTarget
from proofs.prove.run.vacuity import look_for_vacuity
from proofs.prove.run.verdicts import failed, solve


class TheoremOutcome(StrEnum):
    """The outcome for a theorem; the value is the text for users."""

    NOT_REACHED = "not reached"
    HOLDS = "holds"
    LOST = "not proved any more"
    NEVER_HELD = "not proved of the base either"
    VACUOUS = "vacuous"
    WITHOUT_STEPS = "without steps for all that happens"
    NOT_DECIDED = "not decided in the time given"


@dataclass(frozen=True)
class TheoremTrial:
    """Compares the theorems about `changed` with those about `base`."""

    changed: ProofTarget
    base: ProofTarget
    source: AnswerSource

    def decide(
        self, theorems: Sequence[Theorem], seen: Callable[[int, int], None] = unseen
    ) -> dict[str, TheoremOutcome]:
        """Return the outcome of each theorem, by name; calls `seen(done, total)` after each. If
        time ends, the outcomes decided so far are kept."""
        found = dict.fromkeys((t.name for t in theorems), TheoremOutcome.NOT_DECIDED)
        planners = [Planner(*of.models.values()) for of in (self.changed, self.base)]
        try:
            for number, theorem in enumerate(theorems, start=1):
                self.source.demand_time()
                found[theorem.name] = self._outcome(theorem, *planners)
                seen(number, len(theorems))
        except OutOfTime:
            pass
        return found

    def _outcome(self, theorem: Theorem, planner: Planner, base_planner: Planner) -> TheoremOutcome:
        before = duties_of(theorem, base_planner, self.base)
        try:
            duties = duties_of(theorem, planner, self.changed)
        except MissingSteps:
            return TheoremOutcome.WITHOUT_STEPS
        shared = {duty.obligation for duty in before}
        new = [duty for duty in duties if duty.obligation not in shared]
        if not new and len(duties) == len(before):
            return TheoremOutcome.NOT_REACHED
        if not self._is_proved(new):
            return TheoremOutcome.LOST if self._is_proved(before) else TheoremOutcome.NEVER_HELD
        if not self._is_proved(duties):
            return TheoremOutcome.NEVER_HELD
        vacuity = look_for_vacuity(duties, self.source)
        verdicts = solve(ProofPlan(tuple(duties), ()), self.source)
        done = Proof(ProofPlan(tuple(duties), ()), verdicts, vacuity, len(SOLVERS))
        if not done.is_labelled:
            return TheoremOutcome.VACUOUS
        return TheoremOutcome.NOT_DECIDED if done.unsettled else TheoremOutcome.HOLDS

    def _is_proved(self, duties: Sequence[Duty]) -> bool:
        """Whether all these obligations are proved; stops at the first batch in which one fails."""
        some = (duties[at : at + AT_A_TIME] for at in range(0, len(duties), AT_A_TIME))
        return not any(failed(solve(ProofPlan(tuple(those), ()), self.source)) for those in some)


AT_A_TIME = 16
"""The number of obligations that are asked before failures are checked."""


def duties_of(theorem: Theorem, planner: Planner, of: ProofTarget) -> list[Duty]:
    """Return the obligations of a theorem. Raises MissingSteps."""
    needs = planner.needs(theorem, of.under(theorem))
    asked = dict.fromkeys(obligation for _, obligation in needs if obligation is not None)
    return [Duty(obligation, (theorem.name,)) for obligation in asked]
