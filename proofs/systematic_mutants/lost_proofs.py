"""Finds a theorem that a change of the model leaves without a proof.

Only obligations that the change reaches are asked: those whose text is different. A solver must
find a state that breaks one of them; if it cannot decide in time, this is no finding.
"""

from __future__ import annotations

import functools
import time
from typing import Final

from proofs.lift.annotations import LiftError
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.prove.engine.missing_steps import MissingSteps
from proofs.prove.engine.solvers import SOLVERS, ask
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.plan import Duty, plan
from proofs.prove.run.target import ProofTarget

TIMEOUT_S: Final = 5.0
"""The time for one obligation."""
PATIENCE_S: Final = 20.0
"""The processor time for all obligations of a mutant; the remaining ones are not asked."""


def first_lost(group: str, patch: Patch) -> str | None:
    """Return the first theorem that is lost, and the obligation; None if none is found."""
    known = known_texts(group)
    began = time.process_time()
    try:
        changed = [duty for duty in duties(group, patch) if duty.obligation.text not in known]
    except MissingSteps as refusal:
        return str(refusal).partition("\n")[0]
    except LiftError:
        return None
    for duty in changed:
        if time.process_time() - began > PATIENCE_S:
            return None
        if not duty.obligation.is_trivial and is_refuted(duty.obligation.text):
            return f"{duty.needed_by[0]}, {duty.obligation.name}"
    return None


def is_refuted(text: str) -> bool:
    """Whether the first solver that can decide finds a state in which the obligation fails."""
    answers = (ask(solver, text, timeout_s=TIMEOUT_S).result for solver in SOLVERS)
    return next((result == "failed" for result in answers if result != "unknown"), False)


@functools.cache
def known_texts(group: str) -> frozenset[str]:
    """Return the obligations' texts for the unchanged model."""
    return frozenset(duty.obligation.text for duty in duties(group))


def duties(group: str, *patches: Patch) -> tuple[Duty, ...]:
    """Return the obligations of a composition's theorems. Raises MissingSteps, LiftError."""
    of = ProofTarget({group: patches} if patches else {})
    theorems = [theorem for theorem in THEOREMS if theorem.home == group]
    return plan(theorems, of.under, [load_model(group, patches)]).duties
