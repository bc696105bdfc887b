"""Finds obligations that hold only because nothing can meet their hypotheses.

Each set of hypotheses is asked about once: can all of them hold? A state that meets a set meets
each of its subsets. The largest sets are therefore asked about first, then only the sets that are
contained in no satisfiable one. If a set cannot be met, a solver's core says which hypotheses
exclude the step. The exclusion is intended if the theorem assumes what `EXCLUDED` names. Otherwise
the rule can no longer be applied, and the proofs about it are worth nothing. If no solver can
answer in any of the `WAYS`, the set is undecided, and so is the theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proofs.lift.source import COMPOSITIONS
from proofs.prove.engine.simple_states import but_for_one_place, with_slopes
from proofs.prove.engine.smt import Formula, ProofObligation
from proofs.prove.engine.solvers import TIMEOUT_S
from proofs.prove.engine.theorem import Theorem
from proofs.prove.idempotent import assumptions as idempotent
from proofs.prove.run.answer_source import AnswerSource, SolverQuestion, unseen
from proofs.prove.run.plan import Duty
from proofs.prove.transactions import assumptions as transactions

WAYS: tuple[tuple[Callable[[str], str], float], ...] = (
    (but_for_one_place, 0.3),
    (str, 0.3),
    (with_slopes, TIMEOUT_S),
)
"""The forms of states in which a solver searches for one that meets hypotheses, with the time for
each: simple states first, which is quick; then any state, where the solver soon finds that there is
none."""

OWN_GUARDS = "its own guards"

EXCLUDED: Mapping[str, frozenset[str]] = {
    **idempotent.EXCLUDED_STEPS,
    **transactions.EXCLUDED_STEPS,
}
"""The steps that assumptions exclude: a theorem with these assumptions says nothing about the
step."""


@dataclass(frozen=True, slots=True)
class Vacuity:
    """The hypotheses that exclude a step, keyed by text and step, because two steps may give one
    text different names; and the hypotheses for which no solver could answer."""

    by: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()

    def excluded_by(self, duty: Duty) -> tuple[str, ...]:
        """Return the names of what excludes an obligation; empty if nothing is known to."""
        return self.by.get((duty.obligation.hypotheses, step_of(duty)), ())

    def is_undecided(self, duty: Duty) -> bool:
        """Whether no solver could say that the hypotheses can be met."""
        return duty.obligation.hypotheses in self.undecided


def look_for_vacuity(
    duties: Sequence[Duty], source: AnswerSource, seen: Callable[[int, int], None] = unseen
) -> Vacuity:
    """Ask whether each set of hypotheses can be met and, for a set that cannot, which hypotheses
    exclude each other."""
    told = {
        (d.obligation.hypotheses, step_of(d)): d.obligation
        for d in duties
        if not d.obligation.is_trivial
    }
    results = ask_hypotheses(
        {text: obligation for (text, _), obligation in told.items()}, source, seen
    )
    empty = [key for key in told if results.get(key[0]) == "proved"]
    named = {key: SolverQuestion("z3", told[key].named_hypotheses) for key in empty}
    cores = source.answers(list(named.values()))
    return Vacuity(
        {key: names_in(cores[question].core) for key, question in named.items()},
        frozenset(text for text, result in results.items() if result == "unknown"),
    )


def ask_hypotheses(
    obligations: Mapping[str, ProofObligation],
    source: AnswerSource,
    seen: Callable[[int, int], None] = unseen,
) -> dict[str, str]:
    """Ask whether sets of hypotheses can be met, by their text: `failed` means that a state meets
    them, `proved` that none can. A subset of a set that can be met is left out."""

    def ask(texts: Iterable[str]) -> dict[str, str]:
        left, found = list(texts), dict[str, str]()
        for in_form, patience_s in WAYS:
            asked = {t: SolverQuestion("z3", in_form(t), timeout_s=patience_s) for t in left}
            answers = source.answers(list(asked.values()), seen)
            said = {text: answers[question].result for text, question in asked.items()}
            conclusive = ("failed",) if in_form is not str else ("failed", "proved")
            found |= {text: result for text, result in said.items() if result in conclusive}
            left = [text for text in left if text not in found]
        return found | dict.fromkeys(left, "unknown")

    members = members_of(obligations)
    first = ask(largest(members))
    met = [members[text] for text, result in first.items() if result == "failed"]
    left = (text for text in members if text not in first and not is_in_one(members[text], met))
    return first | ask(left)


def members_of(obligations: Mapping[str, ProofObligation]) -> dict[str, int]:
    """Return the assumptions of each obligation, as a bit for each formula."""
    bits: dict[Formula, int] = {}
    for obligation in obligations.values():
        for formula in obligation.assumed:
            bits.setdefault(formula, 1 << len(bits))
    return {
        text: sum(bits[formula] for formula in set(obligation.assumed))
        for text, obligation in obligations.items()
    }


def largest(members: Mapping[str, int]) -> list[str]:
    """Return the sets that no other set contains."""
    found: dict[str, int] = {}
    for text in sorted(members, key=lambda text: -members[text].bit_count()):
        if not is_in_one(members[text], found.values()):
            found[text] = members[text]
    return list(found)


def is_in_one(members: int, others: Iterable[int]) -> bool:
    """Whether a set is part of one of the others."""
    return any(members & ~other == 0 for other in others)


def names_in(core: Collection[str]) -> tuple[str, ...]:
    """Return the names of the hypotheses in a core; the hypotheses of one clause share a name."""
    names = sorted({name.partition("#")[0] for name in core} - {""})
    return tuple(names) or (OWN_GUARDS,)


def step_of(duty: Duty) -> str:
    """Return the step that an obligation is about: `end` of
    `transactions/end/fenced_change_nothing`."""
    home, _, name = duty.obligation.name.partition("/")
    return name.partition("/")[0] if home in COMPOSITIONS else home


def is_labelled(duty: Duty, by: Sequence[str], theorems: Mapping[str, Theorem]) -> bool:
    """Whether each theorem that needs an excluded obligation assumes what excludes its step."""
    of = [theorems[name] for name in duty.needed_by]
    needed = EXCLUDED.get(step_of(duty))
    return (
        needed is not None
        and (OWN_GUARDS not in by or not needed)
        and all(needed <= set(theorem.assumptions) for theorem in of)
    )
