"""The obligations that prove theorems, each question once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proofs.lift.dag import conjunction
from proofs.lift.source import Model, composition
from proofs.prove.clauses import LENGTH, Clause, Formula, conjuncts
from proofs.prove.cuts import Lemma
from proofs.prove.invariant import (
    ARITHMETIC,
    GUARANTEED,
    HELPERS,
    HELPERS_WITH_RESETS,
    HISTORY,
    IN_TURN,
    NEIGHBOURS,
    ORDERED,
    RULED,
    UNFENCED,
    WHOLE,
)
from proofs.prove.regimes import Regime
from proofs.prove.smt import Obligation, obligation
from proofs.prove.state import BEFORE_KIP_360, VARIANT, resets
from proofs.prove.steps import StepOutcome, Steps, initial
from proofs.prove.theorem import Theorem
from proofs.prove.worlds import WorldInduction


@dataclass(frozen=True, slots=True)
class Duty:
    """An obligation, and the theorems that need it."""

    obligation: Obligation
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All obligations of some theorems, each question once; `unchanged` need no solver."""

    duties: tuple[Duty, ...]
    unchanged: tuple[str, ...]


def configuration(model: Model, variant: str) -> Any:
    """The configuration of the proofs: five in flight, five remembered, two partitions."""
    bounds = model.configuration.Bounds(
        partitions=2, in_flight=5, records=0, log=0, max_epoch=1, max_timeouts=1
    )
    return model.configuration.Configuration(
        variant=model.variants.parse(variant),
        bounds=bounds,
        budgets=model.configuration.Budgets(),
    )


OPTIONAL = (*WHOLE, *ORDERED, *IN_TURN, *NEIGHBOURS, *UNFENCED, GUARANTEED["remembers_five"])
"""Clauses of some theorems, under the rules of their variants."""

GROUPS = 5
"""A goal of many parts is asked for in so many groups: a slot each, where it is about slots."""


def split(goal: Formula) -> Iterator[tuple[str, Formula]]:
    """A goal of many parts as several, each with its number."""
    bound, body = goal
    parts = conjuncts(body)
    if len(parts) < GROUPS:
        yield "", goal
        return
    size = -(-len(parts) // GROUPS)
    for count, start in enumerate(range(0, len(parts), size), 1):
        yield f"/{count}", (bound, conjunction(parts[start : start + size]))


class Induction:
    """The obligations by which clauses hold in every state.

    The helpers are inductive by themselves; the guarantee stands on them.
    """

    def __init__(
        self,
        model: Model,
        k: Any,
        regime: Regime,
        extra: tuple[Clause, ...] = (),
        rules: tuple[Formula, ...] = (),
    ) -> None:
        helpers = HELPERS_WITH_RESETS if resets(k.variant) else HELPERS
        self.known = (*helpers, *extra)
        steps = Steps(model, k, regime)
        self.regime = regime
        self.state = steps.before
        self.steps = steps.all()
        self.first = initial(model, k, regime)
        self.before = {c.name: c.formula(self.state) for c in (*self.known, *GUARANTEED.values())}
        lemmas = (lemma for step in self.steps for lemma in self.lemmas_of(step))
        self.helpers = (*lemmas, *self.inductive(helpers), *self.inductive(extra, rules))

    def assumed(self, uses: Collection[str], step: StepOutcome | None) -> list[Formula]:
        """Clauses and cuts by name: of clauses about prefixes, what they say of the prefix in
        question and of those that the step is about."""
        lengths = (LENGTH, *(step.prefixes if step else ()))
        found: list[Formula] = []
        for c in {c.name: c for c in (*self.known, *GUARANTEED.values())}.values():
            if c.name in uses and c.of_prefix is not None:
                found += [c.of_prefix(self.state, length) for length in lengths]
            elif c.name in uses:
                found.append(self.before[c.name])
        if step:
            found += [lemma.formula for lemma in self.cuts(step) if lemma.name in uses]
            found += [formula for name, formula in step.given if name in uses]
            found += step.assumed
        return found

    def cuts(self, step: StepOutcome) -> list[Lemma]:
        """The lemmas of a step, but those that stand on clauses that are not known here."""
        unknown = {c.name for c in OPTIONAL} - {c.name for c in self.known}
        return [lemma for lemma in step.lemmas if not unknown.intersection(lemma.uses)]

    def posed(
        self, name: str, uses: Collection[str], assumed: Sequence[Formula], goal: Formula
    ) -> Obligation:
        """The obligation, with what sequences mean if it uses that."""
        if ARITHMETIC not in uses:
            return obligation(name, assumed, goal)
        ground = [body for bound, body in (*assumed, goal) if not bound]
        meant: list[Formula] = [((), node) for node in self.regime.definitions(ground)]
        return obligation(name, [*assumed, *meant], goal)

    def goals(
        self, clause: Clause, step: StepOutcome, goal: Formula
    ) -> Iterator[tuple[str, Formula, frozenset[str]]]:
        """(name, clause after the step, clauses to use): the `goal`; if the log may grow, first of
        the old prefixes."""
        if clause.of_prefix is None or not step.grows:
            recalled = (*HISTORY, f"history/{clause.name}") if step.recalls else ()
            yield clause.name, goal, clause.uses.union(recalled)
            return
        length = self.state.log.length
        bound, body = clause.of_prefix(step.after, LENGTH)
        old = length + 1 > LENGTH
        parts = conjunction(old.implies(part) for part in conjuncts(body))
        new = clause.of_prefix(step.after, length + 1)
        yield f"{clause.name}/old", ((LENGTH, *bound), parts), clause.uses
        yield f"{clause.name}/new", new, clause.uses

    def guaranteed(
        self, clause: Clause, rules: Sequence[Formula]
    ) -> Iterator[tuple[str, Obligation | None]]:
        """The helpers' obligations, whatever the variant's rules; and those of the guarantee that
        stands on them, under its variant's rules."""
        yield from self.helpers
        if not clause.follows:
            yield from self.inductive((clause,), rules)
            return
        uses = clause.uses - {clause.name}
        name, assumed = f"always/{clause.name}", self.assumed(uses, None)
        for part, formula in split(self.before[clause.name]):
            full = f"{name}{part}"
            yield full, self.posed(full, uses, assumed, formula)

    def inductive(
        self, clauses: Sequence[Clause], rules: Sequence[Formula] = ()
    ) -> Iterator[tuple[str, Obligation | None]]:
        """(name, obligation) of clauses, None where nothing changes."""
        proved = {c.name for c in (*self.known, *clauses)}
        for c in clauses:
            assert not c.uses & GUARANTEED.keys() - proved, f"{c.name} uses what nothing proves"
            name = f"initial/{c.name}"
            yield name, self.posed(name, c.uses, [], c.formula(self.first))
        for step in self.steps:
            for c in clauses:
                goal = c.formula(step.after)
                if goal == self.before[c.name]:
                    yield f"{step.rule}/{c.name}", None
                else:
                    yield from self.changed(c, step, goal, rules)

    def changed(
        self, clause: Clause, step: StepOutcome, goal: Formula, rules: Sequence[Formula]
    ) -> Iterator[tuple[str, Obligation]]:
        """The obligations that a step leaves a clause true."""
        for name, asked, uses in self.goals(clause, step, goal):
            assumed = [*self.assumed(uses, step), *(rules if RULED in uses else ())]
            for part, formula in split(asked):
                full = f"{step.rule}/{name}{part}"
                yield full, self.posed(full, uses, assumed, formula)

    def lemmas_of(self, step: StepOutcome) -> Iterator[tuple[str, Obligation]]:
        """The cuts of a step, and the inductions that it carries."""
        for lemma in self.cuts(step):
            assumed = self.assumed(lemma.uses, step)
            for part, formula in split(lemma.formula):
                name = f"{step.rule}/{lemma.name}{part}"
                yield name, self.posed(name, lemma.uses, assumed, formula)


def rules_of(model: Model, variant: str) -> tuple[Formula, ...]:
    """What a variant says of the rules that are unknown to the helpers."""
    parsed = model.variants.parse(variant)
    return tuple(((), unknown.eq(getattr(parsed, rule))) for rule, unknown in VARIANT.items())


class Planner:
    """Makes the obligations of theorems; those of the helpers once.

    The theorems of other compositions than the model's are about their source without patches.
    """

    def __init__(self, model: Model) -> None:
        self.model = model if model.name == "idempotent" else composition("idempotent")
        self.composed = {model.name: model}
        self.inductions: dict[tuple[Any, ...], Induction] = {}

    def induction(self, variant: str, theorem: Theorem) -> Induction:
        """The induction in a regime, for all variants that differ in unknown rules only; for a
        theorem with clauses of its own, under its rules."""
        parsed = self.model.variants.parse(variant)
        rules = rules_of(self.model, variant) if theorem.extra else ()
        unknown = {} if rules else dict.fromkeys(VARIANT, 0)
        unknown |= dict.fromkeys(BEFORE_KIP_360, 1) if resets(parsed) else {}
        same = replace(parsed, name="", release="", **unknown)
        extra = tuple(c.name for c in theorem.extra)
        key = (same, theorem.regime.name, theorem.patches, extra)
        if key not in self.inductions:
            model = composition("idempotent", (*self.model.patches, *theorem.patches))
            k = configuration(model, variant)
            self.inductions[key] = Induction(model, k, theorem.regime, theorem.extra, rules)
        return self.inductions[key]

    def needs(self, theorem: Theorem, variant: str) -> Iterator[tuple[str, Obligation | None]]:
        """(name, obligation or None where nothing changes) of a theorem."""
        if theorem.composition is not None:
            model = self.composed.get(theorem.home) or composition(theorem.home)
            ruled = theorem.composition.ruled_by(model, variant, theorem.variant)
            yield from WorldInduction(ruled, model, variant).obligations()
        if theorem.lemmas is not None:
            for lemma in theorem.lemmas(self.model, configuration(self.model, variant)):
                yield lemma.name, lemma
        if theorem.clause is not None:
            rules = rules_of(self.model, variant)
            yield from self.induction(variant, theorem).guaranteed(theorem.clause, rules)


def plan(model: Model, theorems: tuple[Theorem, ...], under: Callable[[Theorem], str]) -> Plan:
    """The obligations of the theorems, each under the variant that `under` says; see Planner."""
    planner = Planner(model)
    duties: dict[str, Duty] = {}
    unchanged: dict[str, None] = {}
    for theorem in theorems:
        for name, found in planner.needs(theorem, under(theorem)):
            if found is None:
                unchanged[f"{under(theorem)}: {name}"] = None
            else:
                known = duties.get(found.text)
                before = known.needed_by if known else ()
                duties[found.text] = Duty(found, (*before, theorem.name))
    return Plan(tuple(duties.values()), tuple(unchanged))
