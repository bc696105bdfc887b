"""Obligations put to solvers, one after the other."""

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
    """One obligation and what one solver said of it."""

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
    """Every obligation that is not trivial put to one solver, then to the next, equal questions
    once; `seen(done, total)` after each answer.

    What one solver has not proved fails, so the next, which is slower, confirms only what theorems
    need that have not failed; and only for those a solver gets its full time.
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
"""How long each solver looks first: what is proved seldom takes longer, what fails often does."""


def is_cut_short(answer: SolverAnswer, timeout_s: float) -> bool:
    """Whether a solver might have said more in more time: it has not given up by itself."""
    return answer.result not in RESULTS.values() and answer.seconds >= timeout_s / 2


def needed(duty: Duty, lost: Collection[str]) -> bool:
    """Whether a theorem needs an obligation that is not among those that have failed."""
    return any(name not in lost for name in duty.needed_by)


def failed(verdicts: Sequence[ObligationVerdict]) -> tuple[str, ...]:
    """The theorems with an obligation that some solver did not prove."""
    unproved = (v.duty.needed_by for v in verdicts if v.answer.result != "proved")
    names = {name for needed_by in unproved for name in needed_by}
    return tuple(t.name for t in THEOREMS if t.name in names)
