"""Puts obligations to the solvers, one solver after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import product

from proofs.prove.engine.solvers import RESULTS, SOLVERS, TIMEOUT_S, SolverAnswer
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.answer_source import AnswerSource, SolverQuestion, unseen
from proofs.prove.run.plan import Duty, ProofPlan


@dataclass(frozen=True, slots=True)
class ObligationVerdict:
    """One obligation, and one solver's answer to it."""

    duty: Duty
    answer: SolverAnswer


def solve(
    plan: ProofPlan,
    source: AnswerSource,
    *,
    seed: int = 0,
    seen: Callable[[int, int], None] = unseen,
    solvers: Sequence[str] = tuple(SOLVERS),
) -> tuple[ObligationVerdict, ...]:
    """Put every obligation that is not trivial to each solver in turn, equal questions once. Calls
    `seen(done, total)` after each answer.

    An obligation fails if one solver does not prove it. The next solver, which is slower, therefore
    confirms only obligations that a theorem which has not failed needs; only for those does a
    solver get its full time.
    """
    duties = [duty for duty in plan.duties if not duty.obligation.is_trivial]
    found: dict[tuple[int, str], ObligationVerdict] = {}
    final: dict[tuple[int, str], ObligationVerdict] = {}
    for timeout_s, solver in product((QUICK_S, TIMEOUT_S), solvers):
        lost = failed(tuple(final.values()))
        asked = {
            number: SolverQuestion(solver, duty.obligation.question, seed, timeout_s)
            for number, duty in enumerate(duties)
            if (number, solver) not in final and needed(duty, lost)
        }
        answers = source.answers(list(asked.values()), seen)
        for number, question in asked.items():
            answer = answers[question]
            found[number, solver] = ObligationVerdict(duties[number], answer)
            if timeout_s == TIMEOUT_S or not is_cut_short(answer, timeout_s):
                final[number, solver] = found[number, solver]
    return tuple(found[key] for key in sorted(found))


QUICK_S = 1
"""The time in seconds that each solver gets first: most proofs take less, many failures take
longer."""


def is_cut_short(answer: SolverAnswer, timeout_s: float) -> bool:
    """Whether a solver might answer with more time: it ran out of time instead of giving up."""
    return answer.result not in RESULTS.values() and answer.seconds >= timeout_s / 2


def needed(duty: Duty, lost: Collection[str]) -> bool:
    """Whether some theorem that has not failed needs an obligation."""
    return any(name not in lost for name in duty.needed_by)


def failed(verdicts: Sequence[ObligationVerdict]) -> tuple[str, ...]:
    """Return the theorems with an obligation that some solver did not prove."""
    unproved = (v.duty.needed_by for v in verdicts if v.answer.result != "proved")
    names = {name for needed_by in unproved for name in needed_by}
    return tuple(t.name for t in THEOREMS if t.name in names)
