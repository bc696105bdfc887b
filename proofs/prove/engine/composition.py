"""Any world of a composition: its rules as steps, and the obligations that its clauses hold always.

Theory of operation. A map or a set whose size is 0 in the bounds has any number of keys, and
numbers have no ends. Each rule of the world is evaluated as its text stands, for any choice; what
it requires is assumed, and the limits of scopes are left out. So a composition brings its clauses
and what of its configuration is unknown; what its rules do is said by its text alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proofs.lift.containers import FunctionMap
from proofs.lift.dag import Node, reachable
from proofs.lift.patch import Patch
from proofs.lift.source import Model
from proofs.prove.engine.formulas import Lifter
from proofs.prove.engine.induction import (
    Clause,
    ClauseFormulas,
    Induction,
    Named,
    ProofStep,
    of_nothing,
)
from proofs.prove.engine.regime import UNCOUNTED, Regime
from proofs.prove.engine.scope_check import ScopeCheck, ScopeOfProof, check_clauses
from proofs.prove.engine.sizes import Overrides, unknown_sizes
from proofs.prove.engine.smt import Formula, ProofObligation
from proofs.prove.engine.step_evaluator import StepEvaluator
from proofs.prove.engine.unknowns import Unknowns, number
from proofs.prove.engine.world_simulation import simulate_rules


@dataclass(frozen=True, slots=True)
class Obligations:
    """What proves a theorem: obligations by name, made as they are asked for. If they are those of
    an induction, its steps must be all that can happen to what its `clauses` speak of."""

    named: Named
    induction: Induction | None = None
    clauses: tuple[Clause, ...] = ()


Kept = dict[tuple[Any, ...], Any]
"""What the theorems of one plan share, by what it was made of."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What the proofs say of a model of `proofs.lift.source.COMPOSITIONS`, for one theorem.

    `bounds` sizes its worlds: 0 is any number; `unknown` are attributes of its configuration, by
    class and name, that may be anything, besides all sizes that are not `claimed`. `axioms` say
    what is so of them, or of functions: of ghosts, which no rule reads, and of `contracts`, which
    replace functions of the text; `lemmas` prove of the text what they say of a contract.

    `worlds` makes steps that are not the rules of the world as they stand, but those that `steps`
    names; `promises` are assumed of each step whose inputs they name.

    A trace that breaks a guarantee under another variant is looked for in `searched` first. For the
    check in `scopes`, each under each of `variants`, clauses and axioms are evaluated on each
    world; or `check` does it all. Without `variants` its scopes are searched under the theorem's.

    The theorem is about the `goal` alone, if there is one; else about all clauses. `assumes` is
    what is assumed of each proof that is made in this way. `patches` change the model first.
    """

    home: str
    bounds: Mapping[str, int]
    unknown: Mapping[tuple[str, str], Node]
    clauses: tuple[Clause, ...]
    axioms: tuple[Clause, ...] = ()
    contracts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    lemmas: Callable[[Worlds], Iterator[ProofObligation]] | None = None
    scopes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()
    worlds: Callable[[Composition, Model, str], Worlds] | None = None
    check: Callable[[Composition, ScopeOfProof], ScopeCheck] | None = None
    steps: tuple[str, ...] = ()
    promises: tuple[Callable[..., bool], ...] = ()
    claimed: frozenset[str] = frozenset()
    goal: Clause | None = None
    regime: Regime = UNCOUNTED
    assumes: tuple[str, ...] = ()
    patches: tuple[Patch, ...] = ()

    def obligations(self, model: Model, variant: str, usual: str, kept: Kept) -> Obligations:
        """What proves a theorem whose usual variant is another one or this. What theorems share is
        taken from `kept`, or added there."""
        ruled = self.ruled_by(model, variant, usual)
        induction = CompositionInduction(ruled, model, variant)
        return Obligations(induction.obligations(), induction, ruled.clauses)

    def speaks_of(self, variant: Any, usual: Any) -> bool:
        """Whether a variant is one that these proofs can be made under, as under the usual one."""
        return True

    def ruled_by(self, model: Model, variant: str, usual: str) -> Composition:
        """What the proofs would say under a variant that is not the usual one: the rules in which
        it differs are its own, and so are those that are assumed together with them; what was
        assumed of them is not."""
        asked, known = (model.variants.parse(text) for text in (variant, usual))
        rules = {name for owner, name in self.unknown if owner == "Variant"}
        differs = {name for name in rules if getattr(asked, name) != getattr(known, name)}
        lifter = Lifter(model, self.configuration(model, usual), self.unknown, {}, lambda s: s)
        speaks = {
            axiom: rules & {node.name for node in reachable([axiom.formula(lifter, None)[1]])}
            for axiom in self.axioms
            if axiom.subject is of_nothing
        }
        dropped = {axiom for axiom, of in speaks.items() if of & differs}
        fixed = differs.union(*(speaks[axiom] for axiom in dropped))
        unknown = {key: node for key, node in self.unknown.items() if key[1] not in fixed}
        axioms = tuple(axiom for axiom in self.axioms if axiom not in dropped)
        return replace(self, unknown=unknown, axioms=axioms)

    def configuration(self, model: Model, variant: str) -> Any:
        """The configuration of the proofs."""
        parts = model.configuration
        bounds = parts.Bounds(**self.bounds)
        chosen = model.variants.parse(variant)
        return parts.Configuration(variant=chosen, bounds=bounds, budgets=parts.Budgets())


class Worlds:
    """The steps of one composition's model, from any world."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        self.of = of
        self.model = model
        self.k = of.configuration(model, variant)
        self.unknowns = Unknowns(self.k.bounds)
        self.before: Any = self.unknowns.record(model.world.World, "w")

    @property
    def overrides(self) -> Overrides:
        """What is unknown of the configuration: all sizes but those that are claimed."""
        return {**unknown_sizes(self.k.bounds, self.of.claimed), **self.of.unknown}

    def evaluator(self) -> StepEvaluator:
        """An evaluator without a scope's limits."""
        contracts: dict[str, Callable[..., Any]] = {
            "filled": _filled,
            "within_scope": no_limit,
            **self.of.contracts,
        }
        return StepEvaluator(self.model, self.k, self.overrides, contracts)

    @property
    def lifter(self) -> Lifter:
        """What reads clauses."""
        contracts = self.of.contracts
        return Lifter(self.model, self.k, self.overrides, contracts, lambda state: state)

    def initial(self) -> Any:
        """The world that every scope begins in."""
        result: Any = self.evaluator().call(self.model.scopes.initial, [self.k])
        return result

    def step(self, rule: str, function: Callable[..., Any]) -> ProofStep:
        """One rule, its choices any numbers."""
        names = list(inspect.signature(function).parameters)[2:]
        choices = {name: number(name) for name in names}
        evaluator = self.evaluator()
        after = evaluator.call(function, [self.k, self.before, *choices.values()])
        required: list[Formula] = [((), limit.condition) for limit in evaluator.limits]
        assumed = (*required, *evaluator.choices)
        return ProofStep(rule, self.before, after, assumed, choices)

    def steps(self) -> Iterator[ProofStep]:
        """All rules, in the order of the text."""
        for rule, function in self.model.rules.items():
            yield self.step(rule, function)


def _filled(_evaluator: StepEvaluator, size: Node, value: Any) -> FunctionMap:
    return FunctionMap(size, lambda _key: value)


def no_limit(_evaluator: StepEvaluator, _condition: Node) -> None:
    """A contract for `within_scope`: the limits of scopes are left out."""


class CompositionInduction(Induction):
    """The obligations by which a composition's clauses hold in every world."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        self.of = of
        self.worlds = (of.worlds or Worlds)(of, model, variant)
        worlds, prefix = self.worlds, f"{of.home}/"
        axioms = {a.name: a.formula(worlds.lifter, worlds.before) for a in of.axioms}
        super().__init__(
            ClauseFormulas(worlds.lifter),
            worlds.before,
            worlds.initial(),
            worlds.steps,
            of.clauses,
            facts=axioms,
            prefix=prefix,
        )

    def obligations(self) -> Named:
        """Of the composition's lemmas, and of its clauses."""
        for lemma in self.of.lemmas(self.worlds) if self.of.lemmas else ():
            yield lemma.name, lemma
        yield from self.of_clauses(self.of.clauses)


def check_world_scope(of: Composition, scope: ScopeOfProof) -> ScopeCheck:
    """Check each clause, and each axiom, in each world of a scope; and each transition, which a
    step must match."""
    k, found = scope.k, scope.graph
    check = check_clauses((*of.clauses, *of.axioms), scope, found.worlds)
    ghosts = {n: f for n, f in of.clauses[0].holds.__globals__.items() if n in of.contracts}
    steps = Worlds(of, scope.model, k.variant.name).steps()
    simulated = simulate_rules(steps, k, found, ghosts)
    failed = (*check.failed, *map(str, simulated.unmatched.values()))
    return replace(check, failed=failed, matched=simulated.matched)
