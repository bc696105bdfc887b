"""Obligations that hold because nothing can meet their hypotheses.

Each set of hypotheses is asked about once: can all of it hold? What meets a set meets each part of
it, so the largest sets are asked about first, and then those alone that are in none that can be
met. Where a set cannot, a solver says which of it excludes the step. That is right where the
theorem assumes what `EXCLUDED` names. Where nothing says so, a rule can no longer be taken, and
what is proved of it is worth nothing. What no solver can say in any of the `WAYS` is undecided, and
so is the theorem.
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
"""In which states a solver looks for one that meets hypotheses, and how long: in those of a simple
form first, which is quick; then in any, where it finds soon if there is none."""

OWN_GUARDS = "its own guards"

EXCLUDED: Mapping[str, frozenset[str]] = {
    **idempotent.EXCLUDED_STEPS,
    **transactions.EXCLUDED_STEPS,
}
"""The steps that assumptions of theorems exclude: who assumes these does not speak of the step."""


@dataclass(frozen=True, slots=True)
class Vacuity:
    """What excludes hypotheses, by their text and their step, since two steps may give one text
    other names; and those of which no solver could say whether anything meets them."""

    by: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()

    def excluded_by(self, duty: Duty) -> tuple[str, ...]:
        """The names of what excludes an obligation; none if nothing is known to."""
        return self.by.get((duty.obligation.hypotheses, step_of(duty)), ())

    def is_undecided(self, duty: Duty) -> bool:
        """Whether nobody knows that the hypotheses can be met."""
        return duty.obligation.hypotheses in self.undecided


def look_for_vacuity(
    duties: Sequence[Duty], source: AnswerSource, seen: Callable[[int, int], None] = unseen
) -> Vacuity:
    """Ask about each set of hypotheses once, and about those that exclude each other what does."""
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
    """Whether something meets sets of hypotheses, by their text: `failed` where something does,
    `proved` where nothing can. A set that is part of one that is met is left out."""

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
    """What each obligation assumes: a bit for each formula."""
    bits: dict[Formula, int] = {}
    for obligation in obligations.values():
        for formula in obligation.assumed:
            bits.setdefault(formula, 1 << len(bits))
    return {
        text: sum(bits[formula] for formula in set(obligation.assumed))
        for text, obligation in obligations.items()
    }


def largest(members: Mapping[str, int]) -> list[str]:
    """The sets that are in no other one."""
    found: dict[str, int] = {}
    for text in sorted(members, key=lambda text: -members[text].bit_count()):
        if not is_in_one(members[text], found.values()):
            found[text] = members[text]
    return list(found)


def is_in_one(members: int, others: Iterable[int]) -> bool:
    """Whether a set is part of one of the others."""
    return any(members & ~other == 0 for other in others)


def names_in(core: Collection[str]) -> tuple[str, ...]:
    """The names of the hypotheses in a core; those of one clause have one name."""
    names = sorted({name.partition("#")[0] for name in core} - {""})
    return tuple(names) or (OWN_GUARDS,)


def step_of(duty: Duty) -> str:
    """The step that an obligation is about: `end` of `transactions/end/fenced_change_nothing`."""
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
