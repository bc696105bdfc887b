"""The obligations that prove theorems, each question once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proofs.lift.source import Model, load_model
from proofs.lift.values import Rec
from proofs.prove.engine.assumptions import LEFT_OUT, STAY
from proofs.prove.engine.composition import CompositionInduction
from proofs.prove.engine.formulas import Lifter
from proofs.prove.engine.induction import ARITHMETIC, Clause, Induction, Named
from proofs.prove.engine.missing_steps import actors_read, demand_all_steps, missing_steps
from proofs.prove.engine.possible_events import demand_possible_events
from proofs.prove.engine.sizes import names_of
from proofs.prove.engine.smt import Formula, ProofObligation
from proofs.prove.engine.step_evaluator import exchanged
from proofs.prove.engine.theorem import Theorem
from proofs.prove.engine.world_events import WorldEvents
from proofs.prove.idempotent import clauses
from proofs.prove.idempotent.invariant import (
    GUARANTEED,
    HELPERS,
    HELPERS_WITH_RESETS,
    IN_TURN,
    NEIGHBOURS,
    ORDERED,
    UNFENCED,
    WHOLE,
)
from proofs.prove.idempotent.state import BEFORE_KIP_360, VARIANT, Seen, resets
from proofs.prove.idempotent.steps import IdempotentSteps


@dataclass(frozen=True, slots=True)
class Duty:
    """An obligation, and the theorems that need it."""

    obligation: ProofObligation
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """All obligations of some theorems, each question once; `unchanged` need no solver."""

    duties: tuple[Duty, ...]
    unchanged: tuple[str, ...]


def configuration(model: Model, variant: str) -> Any:
    """The configuration of the proofs: five in flight, five remembered, two partitions."""
    faults = replace(model.configuration.USUAL, timeouts=1)
    bounds = model.configuration.Bounds(
        partitions=2, in_flight=5, records=0, log=0, max_epoch=1, faults=faults
    )
    return model.configuration.Configuration(
        variant=model.variants.parse(variant), bounds=bounds, budgets=model.configuration.Budgets()
    )


OPTIONAL = (*WHOLE, *ORDERED, *IN_TURN, *NEIGHBOURS, *UNFENCED, GUARANTEED["remembers_five"])
"""Clauses of some theorems, under the rules of their variants."""

GROUPS = 5
"""A goal of many parts is asked for in so many groups: a slot each, where it is about slots."""


class IdempotentInduction(Induction):
    """The induction about one producer at one partition.

    The helpers are inductive by themselves; a guarantee stands on them.
    """

    def __init__(
        self,
        steps: IdempotentSteps,
        extra: tuple[Clause, ...] = (),
        rules: tuple[Formula, ...] = (),
    ) -> None:
        helpers = HELPERS_WITH_RESETS if resets(steps.k.variant) else HELPERS
        self.proved = {c.name for c in (*helpers, *extra)}
        super().__init__(
            steps.formulas,
            steps.before,
            steps.initial,
            lambda: steps.all,
            {c.name: c for c in (*helpers, *extra, *GUARANTEED.values())}.values(),
            groups=GROUPS,
            regime=steps.regime,
            absent=frozenset(c.name for c in OPTIONAL) - self.proved,
        )
        self.builder = steps.builder
        self.helpers = (*self.lemmas(), *self.of_clauses(helpers), *self.of_clauses(extra, rules))

    def of_clauses(self, clauses: Sequence[Clause], rules: Sequence[Formula] = ()) -> Named:
        """As of any clauses; none stands on a guarantee that nothing proves beside it."""
        proved = self.proved.union(c.name for c in clauses)
        for c in clauses:
            unproved = c.uses & GUARANTEED.keys() - proved
            assert c.follows or not unproved, f"{c.name} uses what nothing proves"
        yield from super().of_clauses(clauses, rules)

    def guaranteed(self, clause: Clause, rules: Sequence[Formula]) -> Named:
        """The helpers' obligations, whatever the variant's rules; and those of the guarantee that
        stands on them, under its variant's rules."""
        yield from self.helpers
        yield from self.of_clauses((clause,), rules)
        if clause.in_words:
            asked = self.in_words(clause)
            yield asked.name, asked

    def below(self, clause: Clause) -> Iterator[Clause]:
        """A clause, and all that it stands on."""
        found, frontier = {clause.name}, [clause]
        while frontier:
            yield (one := frontier.pop())
            new = [n for n in one.uses if n in self.known and n not in found]
            found.update(new)
            frontier += [self.known[n] for n in new]

    def in_words(self, clause: Clause) -> ProofObligation:
        """That the model's guarantee, as its text says it, follows from the clause. Where sequences
        matter, what they mean is said of the places that the text looks at."""
        uses = {clause.name, *clause.in_words}
        assumed, goal = self.builder.in_words(clause.name, self.state)
        if ARITHMETIC in uses:
            seen, numbered = Seen(self.state), clauses.is_numbered
            places = (*(place for place, _ in goal.records), *goal.kept)
            assumed += [self.lifter.formula(numbered, seen, place) for place in places]
        known = [*self.assumed(uses), *assumed]
        return self.posed(f"always/{clause.name}/in_words", uses, known, ((), goal.node))


def rules_of(model: Model, variant: str) -> tuple[Formula, ...]:
    """What a variant says of the rules that are unknown to the helpers."""
    parsed = model.variants.parse(variant)
    return tuple(((), unknown.eq(getattr(parsed, rule))) for rule, unknown in VARIANT.items())


class Planner:
    """Makes the obligations of theorems; those of the helpers once.

    Theorems of other compositions than those of the models are about their source without patches.
    """

    def __init__(self, *models: Model) -> None:
        self.composed = {model.name: model for model in models}
        self.model = self.composed.get("idempotent") or load_model("idempotent")
        self.inductions: dict[tuple[Any, ...], IdempotentInduction] = {}
        self.made: dict[tuple[Any, ...], IdempotentSteps] = {}

    def steps(self, variant: str, theorem: Theorem) -> IdempotentSteps:
        """The steps in a regime: the same for all variants that differ in unknown rules only, which
        no step can read."""
        parsed = self.model.variants.parse(variant)
        unknown = dict.fromkeys(VARIANT, 0)
        unknown |= dict.fromkeys(BEFORE_KIP_360, 1) if resets(parsed) else {}
        same = replace(parsed, name="", release="", **unknown)
        key = (same, theorem.regime.name, theorem.patches)
        if key not in self.made:
            model = load_model("idempotent", (*self.model.patches, *theorem.patches))
            self.made[key] = IdempotentSteps(model, configuration(model, variant), theorem.regime)
        return self.made[key]

    def induction(self, variant: str, theorem: Theorem) -> IdempotentInduction:
        """The induction over these steps; for a theorem with clauses of its own, under the rules of
        its variant."""
        steps = self.steps(variant, theorem)
        rules = rules_of(self.model, variant) if theorem.extra else ()
        key = (id(steps), rules, theorem.extra)
        if key not in self.inductions:
            self.inductions[key] = IdempotentInduction(steps, theorem.extra, rules)
        return self.inductions[key]

    def needs(self, theorem: Theorem, variant: str) -> Iterator[tuple[str, ProofObligation | None]]:
        """(name, obligation or None where nothing changes) of a theorem."""
        if theorem.composition is not None:
            model = self.composed.get(theorem.home) or load_model(theorem.home)
            ruled = theorem.composition.ruled_by(model, variant, theorem.variant)
            induction = CompositionInduction(ruled, model, variant)
            demand_steps(theorem, variant, model, induction, ruled.clauses)
            yield from induction.obligations()
        if theorem.lemmas is not None:
            for lemma in theorem.lemmas(self.model, configuration(self.model, variant)):
                yield lemma.name, lemma
        if theorem.clause is not None:
            rules = rules_of(self.model, variant)
            one = self.induction(variant, theorem)
            demand_steps(theorem, variant, one.builder.model, one, one.below(theorem.clause))
            yield from one.guaranteed(theorem.clause, rules)


def demand_steps(
    theorem: Theorem, variant: str, model: Model, induction: Induction, clauses: Iterable[Clause]
) -> None:
    """Raises MissingSteps if something can happen that is no step of the theorem's."""
    if not isinstance(getattr(induction.state, "leader", None), Rec):
        return  # its steps are the rules of the world, as they stand
    events = WorldEvents(
        model,
        variant,
        frozenset(induction.lifter.overrides),
        frozenset(event for a in theorem.assumptions for event in LEFT_OUT.get(a, ())),
        frozenset(part for a in theorem.assumptions for part in STAY.get(a, ())),
        frozenset(claims_of(induction.lifter)),
    )
    speak = [induction.before[c.name] for c in clauses]
    actors = actors_read(induction.state, speak, exchanged(model))
    demand_all_steps(theorem.name, missing_steps(events, induction.steps, actors))


def claims_of(lifter: Lifter) -> Iterator[tuple[str, int]]:
    """The sizes that a proof claims: those that it does not leave unknown."""
    bounds = lifter.k.bounds
    for name in names_of(type(bounds)):
        if (type(bounds).__name__, name) not in lifter.overrides:
            yield name, getattr(bounds, name)


def plan(
    theorems: Iterable[Theorem], under: Callable[[Theorem], str], models: Iterable[Model] = ()
) -> ProofPlan:
    """The obligations of the theorems, each under the variant that `under` says; see Planner.
    Raises MissingSteps; and ImpossibleEvent, of what patches have changed."""
    planner = Planner(*models)
    for model in planner.composed.values():
        demand_possible_events(model)
    duties: dict[tuple[str, str], Duty] = {}
    unchanged: dict[str, None] = {}
    for theorem in theorems:
        for name, found in planner.needs(theorem, under(theorem)):
            if found is None:
                unchanged[f"{under(theorem)}: {name}"] = None
            else:
                key = (found.name, found.question)
                before = duties[key].needed_by if key in duties else ()
                duties[key] = Duty(found, (*before, theorem.name))
    return ProofPlan(tuple(duties.values()), tuple(unchanged))
