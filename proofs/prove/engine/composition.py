"""Proofs about any world of a composition: its rules become steps, its clauses become obligations.

Theory of operation. A map or a set with size 0 in the bounds has any number of keys, and numbers
have no ends. Each rule of the world is evaluated as its text stands, with unknown choices. The
requirements of the rule are assumed, and the limits of scopes are ignored. A composition therefore
supplies only its clauses and the unknown parts of its configuration; the text of the model says
what the rules do.
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
    """The obligations that prove a theorem, by name, made when they are asked for. If they come
    from an induction, its steps must cover every change of the state that its `clauses` read."""

    named: Named
    induction: Induction | None = None
    clauses: tuple[Clause, ...] = ()


Kept = dict[tuple[Any, ...], Any]
"""Objects that the theorems of one plan share, by what they were made of."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The input of the proofs for one theorem about a model of `proofs.lift.source.COMPOSITIONS`.

    `bounds` sizes the worlds; size 0 means any number. `unknown` lists attributes of the
    configuration, by class and name, that may have any value, in addition to all sizes that are not
    `claimed`. `axioms` constrain the unknown attributes and the functions: the ghosts, which no
    rule reads, and the `contracts`, which replace functions of the text. `lemmas` prove from the
    text what the axioms say of a contract.

    `worlds` makes steps other than the rules of the world as written; `steps` names these steps.
    `promises` are assumed of each step whose inputs they name.

    A trace that breaks a guarantee under another variant is searched for in `searched` first. For
    the check in `scopes`, under each of `variants`, clauses and axioms are evaluated on each world,
    unless `check` replaces this. Without `variants` the scopes are searched under the theorem's own
    variant.

    The theorem is about the `goal` alone if one is given, else about all clauses. `assumes` names
    the assumptions of every proof that is made in this way. `patches` change the model first.
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
        """Return what proves a theorem under `variant`; `usual` is the theorem's own variant. Parts
        that theorems share are taken from `kept`, or added to it."""
        ruled = self.ruled_by(model, variant, usual)
        induction = CompositionInduction(ruled, model, variant)
        return Obligations(induction.obligations(), induction, ruled.clauses)

    def speaks_of(self, variant: Any, usual: Any) -> bool:
        """Whether these proofs can be made under `variant` as under the usual one."""
        return True

    def ruled_by(self, model: Model, variant: str, usual: str) -> Composition:
        """Return the composition for a variant that may differ from the usual one. Rules in which
        the two differ become those of `variant`, and so do the rules that an axiom ties to them;
        the axioms about such rules are dropped."""
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
        """Return the configuration of the proofs."""
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
        """Return the unknown parts of the configuration: all sizes except those that are claimed,
        and `unknown`."""
        return {**unknown_sizes(self.k.bounds, self.of.claimed), **self.of.unknown}

    def evaluator(self) -> StepEvaluator:
        """Return an evaluator that ignores a scope's limits."""
        contracts: dict[str, Callable[..., Any]] = {
            "filled": _filled,
            "within_scope": no_limit,
            **self.of.contracts,
        }
        return StepEvaluator(self.model, self.k, self.overrides, contracts)

    @property
    def lifter(self) -> Lifter:
        """Return the lifter that reads clauses."""
        contracts = self.of.contracts
        return Lifter(self.model, self.k, self.overrides, contracts, lambda state: state)

    def initial(self) -> Any:
        """Return the world in which every scope begins."""
        result: Any = self.evaluator().call(self.model.scopes.initial, [self.k])
        return result

    def step(self, rule: str, function: Callable[..., Any]) -> ProofStep:
        """Return one rule as a step whose choices are any numbers."""
        names = list(inspect.signature(function).parameters)[2:]
        choices = {name: number(name) for name in names}
        evaluator = self.evaluator()
        after = evaluator.call(function, [self.k, self.before, *choices.values()])
        required: list[Formula] = [((), limit.condition) for limit in evaluator.limits]
        assumed = (*required, *evaluator.choices)
        return ProofStep(rule, self.before, after, assumed, choices)

    def steps(self) -> Iterator[ProofStep]:
        """Yield all rules as steps, in the order of the text."""
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
        """Yield the obligations of the composition's lemmas, then those of its clauses."""
        for lemma in self.of.lemmas(self.worlds) if self.of.lemmas else ():
            yield lemma.name, lemma
        yield from self.of_clauses(self.of.clauses)


def check_world_scope(of: Composition, scope: ScopeOfProof) -> ScopeCheck:
    """Check each clause and axiom in each world of a scope, and match each transition with a
    step."""
    k, found = scope.k, scope.graph
    check = check_clauses((*of.clauses, *of.axioms), scope, found.worlds)
    ghosts = {n: f for n, f in of.clauses[0].holds.__globals__.items() if n in of.contracts}
    steps = Worlds(of, scope.model, k.variant.name).steps()
    simulated = simulate_rules(steps, k, found, ghosts)
    failed = (*check.failed, *map(str, simulated.unmatched.values()))
    return replace(check, failed=failed, matched=simulated.matched)
