"""Obligations given to solvers by worker processes, and failures answered by traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from proofs.explore.scope import Finding, ScopeReport, explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import (
    COMPOSITIONS,
    Model,
    composition_of,
    load_model,
    patches_by_composition,
)
from proofs.mutants import find
from proofs.mutants.table import ModelMutant
from proofs.prove.engine.solvers import RESULTS, SOLVERS, TIMEOUT_S, SolverAnswer
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.asking import AnswerSource, SolverQuestion, unseen
from proofs.prove.run.plan import Duty, ProofPlan
from proofs.prove.run.theorems import THEOREMS
from proofs.prove.transactions.theorems import PROVED_AS
from proofs.run import nearest


@dataclass(frozen=True, slots=True)
class ObligationVerdict:
    """One obligation and what one solver said of it."""

    duty: Duty
    answer: SolverAnswer


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A reachable trace that breaks what a failed theorem guarantees."""

    theorem: str
    scope: str
    finding: Finding


class UnknownName(ValueError):
    """No theorem, or no assumption, has this name."""


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


def chosen(only: str | None) -> tuple[Theorem, ...]:
    """The theorem of that name, or that is about all of the guarantee of that name; those of a
    composition; or all. Raises UnknownName with the names most like it."""
    names = {t.name for t in THEOREMS}
    name = only if only in names else PROVED_AS.get(only or "", only)
    homes = tuple(dict.fromkeys(home(t) for t in THEOREMS))
    found = tuple(t for t in THEOREMS if name in (None, t.name, home(t)))
    if not found:
        names.update(PROVED_AS, homes)
        near = nearest(str(only), sorted(names), "list theorems")
        raise UnknownName(f"no theorem is called {only!r}; {near}")
    return found


def home(theorem: Theorem) -> str:
    """The composition that a theorem is about."""
    return theorem.home


def failed(verdicts: Sequence[ObligationVerdict]) -> tuple[str, ...]:
    """The theorems with an obligation that some solver did not prove."""
    unproved = (v.duty.needed_by for v in verdicts if v.answer.result != "proved")
    names = {name for needed_by in unproved for name in needed_by}
    return tuple(t.name for t in THEOREMS if t.name in names)


@dataclass(frozen=True, slots=True)
class ProofTarget:
    """What is proved, and where traces are looked for that answer a failure.

    `patches` change the models, by composition. `variants` replaces the variants of theorems: of
    all ("*"), by name, or of those that need just the rule that a mutant takes back. `scopes`,
    `shown_in` and `shown_as` are the scope, the variant and the guarantee of a mutant's entry;
    `home` is the composition that it is of, if any.
    """

    patches: Mapping[str, tuple[Patch, ...]] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    shown_in: str | None = None
    shown_as: str | None = None
    home: str = ""

    @property
    def models(self) -> dict[str, Model]:
        """The models that the patches change, by composition."""
        return {name: load_model(name, own) for name, own in self.patches.items()}

    def under(self, theorem: Theorem) -> str:
        """The variant that a theorem is proved under."""
        names = ("*", theorem.name, theorem.variant)
        return next((self.variants[n] for n in names if n in self.variants), theorem.variant)

    def asks(self, theorems: Sequence[Theorem]) -> tuple[Theorem, ...]:
        """Those of the theorems that can say something: of patches, those about what they change;
        of a mutant of a composition, those whose failure its guarantee would answer; of a variant,
        those whose model knows it.

        Raises UnknownVariant if none does.
        """
        changed = self.patches if not self.home else (self.home,)
        mine = tuple(t for t in theorems if not changed or t.home in changed)
        if self.home:
            return tuple(t for t in mine if self.shown_as in t.answered_by) or mine
        if "*" not in self.variants:
            return mine
        known = tuple(t for t in mine if knows(t, self.variants["*"]))
        if not known:
            model_of(theorems[0]).variants.parse(self.variants["*"])
        return known


def model_of(theorem: Theorem) -> Model:
    """The model that a theorem is about, as its text stands."""
    return load_model(theorem.home)


def knows(theorem: Theorem, variant: str) -> bool:
    """Whether the model that a theorem is about has this variant, and its proof a producer that
    recovers so."""
    model = model_of(theorem)
    try:
        parsed = model.variants.parse(variant)
    except model.variants.UnknownVariant:
        return False
    return theorem.composition.speaks_of(parsed, model.variants.parse(theorem.variant))


def subject(
    mutant: str | None, variant: str | None, patches: Sequence[Patch] = (), only: str | None = None
) -> ProofTarget:
    """The subject of a mutant's name, of a variant's text, of patches, or the plain one.

    Raises UnknownMutant, UnknownName, PatchError.
    """
    variants = {"*": variant} if variant else {}
    if mutant is None:
        homes = {t.home for t in chosen(only)} if only else COMPOSITIONS
        return ProofTarget(patches_by_composition(patches, homes), variants)
    found = find(mutant)
    home = composition_of(found.scope)
    whose = "" if home == "idempotent" else home
    if found.kind == "variant" and not variants:
        variants = taken_back(found, load_model(home))
    patched = {home: found.patches} if found.patches else {}
    return ProofTarget(patched, variants, (found.scope,), found.variant, found.property, whose)


def taken_back(mutant: ModelMutant, model: Model) -> dict[str, str]:
    """The variants of theorems, by name or text, that a mutant's replaces: those of its twin; in a
    composition of all theorems that hold for the twin's requests, whatever its other rules."""
    twin = model.variants.parse(mutant.twin)
    if composition_of(mutant.scope) == "idempotent":
        own = {t.variant for t in THEOREMS if t.home == "idempotent"}
        return {v: mutant.variant for v in own if model.variants.parse(v) == twin}
    mine = (t for t in THEOREMS if t.home == composition_of(mutant.scope))
    return {t.name: mutant.variant for t in mine if holds_for(t, twin, model)}


def holds_for(theorem: Theorem, twin: Any, model: Model) -> bool:
    """Whether a composition's theorem is about the requests of a mutant's twin."""
    own = model.variants.parse(theorem.variant)
    any_requests = ("Variant", "requests") in theorem.composition.unknown
    return any_requests or getattr(own, "requests", 0) == getattr(twin, "requests", 0)


def counterexample(theorem: Theorem, of: ProofTarget) -> Counterexample | None:
    """A shortest trace in the first of the scopes that has one; None if none has."""
    names = (of.shown_as,) if of.shown_as else theorem.answered_by
    patches = of.patches.get(theorem.home, ())
    for scope, variant in places(theorem, of):
        report = explored(
            scope, variant, patches, "source" if theorem.home == "idempotent" else "ints"
        )
        for name in names:
            finding = report.found(name)
            if finding is not None:
                return Counterexample(theorem.name, scope, finding)
    return None


@lru_cache(maxsize=8)
def explored(scope: str, variant: str, patches: tuple[Patch, ...], engine: str) -> ScopeReport:
    """A scope explored: several theorems that fail may be answered by one trace."""
    return explore_scope(scope, variant, patches=patches, engine=engine)


def places(theorem: Theorem, of: ProofTarget) -> Iterator[tuple[str, str]]:
    """The scopes, with variants, where a trace is looked for."""
    composed = theorem.composition
    if of.scopes:
        yield from product(of.scopes, (of.shown_in or of.under(theorem),))
    elif not composed.variants or "*" in of.variants or theorem.home in of.patches:
        yield from product((*composed.searched, *composed.scopes), (of.under(theorem),))
    else:
        yield from product(composed.scopes, composed.variants)


def write_texts(asked: ProofPlan, folder: Path) -> list[Path]:
    """Each obligation as a file of SMT-LIB 2; `unsat` proves it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, duty in enumerate(asked.duties):
        name = duty.obligation.name.replace("/", ".")
        files.append(folder / f"{number:03d}.{name}.smt2")
        files[-1].write_text(duty.obligation.text, encoding="utf-8")
    return files


def elapsed(since: float) -> float:
    """Seconds since `since`, a reading of the monotonic clock."""
    return round(time.perf_counter() - since, 3)
