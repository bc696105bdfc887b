"""A configuration of the unchanged model, and the effect of a small change on it.

1. A configuration is lifted and explored once. For a change, only the rules and guarantees that can
   reach the changed function are lifted again.
2. The reachable states decide whether a change matters: in one of them a rule must be enabled, or
   must write, differently. If no state shows a difference, the changed model has the same states.
3. Otherwise the changed model is explored to the first guarantee that it breaks. If it breaks none,
   it is explored completely: exactly what happens in the configuration must still happen
   (`proofs/coverage/footprint.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any, Final, cast

from proofs.coverage.footprint import Footprint, FootprintGraph, decisions, difference
from proofs.explore.explorer import ExplorationRun, PreparedMachine, explore, prepare, searched
from proofs.explore.packed import IntsSearch
from proofs.explore.result import EndReason, Exploration, SearchProgress
from proofs.explore.scope import Finding, asked, finding, header_of
from proofs.lift import dag
from proofs.lift.build import Lifted, checks, choices, concrete, lift, lift_rule, symbolic_world
from proofs.lift.call_graph import name_of, reached
from proofs.lift.dag import FALSE, TRUE, Node
from proofs.lift.ints_form import ints_form
from proofs.lift.machine import Machine, RuleInstance
from proofs.lift.patch import Patch
from proofs.lift.source import Model, model_for
from proofs.lift.specialise import constant_leaves, substitute
from proofs.lift.values import Shapes, scalars
from proofs.trace.format import Choice
from proofs.trace.replay import Stepper, configuration_of

COMPILED_FROM: Final = 20_000
"""Configurations with at least this many states are explored in C; Python is sooner for smaller
ones."""
GROWS: Final = 50
"""The growth at which a configuration is abandoned: the changed model has this many times its
states."""

Key = tuple[str, Choice]


class Overgrown(Exception):
    """The changed model has far more states than the configuration."""


@dataclass(frozen=True, slots=True)
class MutantEffect:
    """The effect of a change on a configuration.

    `fate` is "same" (the machine is the same graph), "unmet" (no rule behaves differently in a
    reachable state, and guarantees hold there), "differs" (and no verb has a finding), "strays"
    (the footprint is different), "loses" (a witness of the configuration) or "breaks"; `how` says
    where, or what.
    """

    fate: str
    how: str = ""


class Baseline:
    """A configuration of the unchanged model: its machine, all its states, and the calls of each
    rule."""

    def __init__(self, scope: str, variant: str) -> None:
        self.scope = scope
        self.variant = variant
        self.model = model_for(scope)
        self._k = configuration_of(self.model, scope, variant)
        stepper = Stepper(self.model, self._k)
        self._asked = asked(self.model, stepper, guaranteed_only=True)
        self.machine = self._guaranteed(lift(self.model, self._k, scope).machine)
        self._constants = constant_leaves(self.machine)
        self._rules = {(rule.rule, rule.choice): rule for rule in self.machine.rules}

    def _guaranteed(self, machine: Machine) -> Machine:
        guarantees = {n: node for n, node in machine.guarantees.items() if n in self._asked}
        return replace(machine, guarantees=guarantees)

    def _guarantees(self, model: Model) -> list[Any]:
        """Return the guarantees of this configuration."""
        return [
            guarantee for guarantee in model.guarantees.GUARANTEES if guarantee.name in self._asked
        ]

    @cached_property
    def _calls(self) -> Mapping[str, frozenset[str]]:
        """The functions that each rule, guarantee and witness reaches."""
        sentences = (*self._guarantees(self.model), *self.model.guarantees.WITNESSES)
        named = dict(self.model.rules) | {said.name: said.check for said in sentences}
        return {
            name: frozenset(map(name_of, reached(self.model, [cast(FunctionType, function)])))
            for name, function in named.items()
        }

    @cached_property
    def _prepared(self) -> PreparedMachine:
        return prepare(self.machine)

    @cached_property
    def _search(self) -> IntsSearch:
        """The search that has found all states."""
        search = IntsSearch(self._prepared.machine, self._prepared.layout, with_edges=True)
        searched(ExplorationRun(self.machine, "ints", search, None), lambda: None, False, None)
        return search

    @cached_property
    def _reached(self) -> Exploration:
        """The exploration of all states."""
        run = ExplorationRun(self.machine, "ints", self._search, None)
        return run.result(EndReason.COMPLETE, None)

    @cached_property
    def _decisions(self) -> Mapping[str, Node]:
        """The decisions of the text."""
        return decisions(self.model, self._k)

    @cached_property
    def _footprint(self) -> Footprint:
        """The footprint of the configuration."""
        return FootprintGraph(self.machine, self._search.graph()).footprint(self._decisions)

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self._search.states)

    # One change

    def see(self, model: Model) -> MutantEffect:
        """Return the effect of a model with one patch on the configuration.

        Raises LiftError, RangeBroken, EnginesDisagree, Overgrown, and an IndexError if a rule is no
        longer total.
        """
        [patch] = model.patches
        touched = {name for name, called in self._calls.items() if patch.function in called}
        if not touched:
            return MutantEffect("same")
        changed = self._changed(model, touched)
        where = self._first_difference(changed)
        if where is None and sentences_of(changed) == sentences_of(self.machine):
            alike = changed.rules == self.machine.rules and changed.initial == self.machine.initial
            return MutantEffect("same" if alike else "unmet")
        result = self._explored(changed)
        found = self._broken(model, patch, changed, result)
        if found is not None:
            return MutantEffect("breaks", f"{found.property}, {found.steps} steps")
        lost = sorted(self._reached.witnesses.keys() - result.witnesses.keys())
        if lost:
            return MutantEffect("loses", f"{lost[0]} is lost")
        assert result.graph is not None
        after = FootprintGraph(changed, result.graph).footprint(self._decisions)
        strays = difference(self._footprint, after)
        if strays is not None:
            return MutantEffect("strays", strays)
        return MutantEffect("differs", where) if where else MutantEffect("unmet")

    def _changed(self, model: Model, touched: set[str]) -> Machine:
        """Return the machine of the changed model; the parts that the change does not reach are
        shared."""
        k = configuration_of(model, self.scope, self.variant)
        shapes = Shapes(k.bounds)
        world = symbolic_world(model, shapes)
        values = list(scalars(concrete(model, k)))
        places = zip(scalars(world), values, strict=True)
        initial = {place.name: value.value for place, value in places if place.op == "leaf"}
        aside = Lifted(self.machine, world, {}, {})
        rules: list[RuleInstance] = []
        for name, function in model.rules.items():
            for choice in choices(shapes, function):
                if name in touched:
                    lifted = lift_rule(model, k, world, function, choice, aside)
                else:
                    lifted = self._rules.get((name, choice))
                rules += [] if lifted is None else [lifted]
        guarantees = [p for p in self._guarantees(model) if p.name in touched]
        witnesses = [w for w in model.guarantees.WITNESSES if w.name in touched]
        return replace(
            self.machine,
            initial=tuple(initial[leaf.name] for leaf in self.machine.leaves),
            rules=tuple(rules),
            guarantees={**self.machine.guarantees, **checks(model, k, world, guarantees)},
            witnesses={**self.machine.witnesses, **checks(model, k, world, witnesses)},
        )

    def _first_difference(self, changed: Machine) -> str | None:
        """Return the first state in which a rule behaves differently, and the rule; None if there
        is none."""
        if changed.initial != self.machine.initial:
            return "at the beginning"
        tests = dict(self._tests(changed))
        if not tests:
            return None
        probes = replace(self.machine, rules=(), guarantees=tests)
        form = ints_form(probes, self._prepared.layout)
        first, label = len(self._search.states), None
        for name, is_same in form.guarantees.items():
            states = enumerate(self._search.states[:first])
            found = next((number for number, state in states if not is_same(state)), None)
            if found is not None:
                first, label = found, name
        return label and f"{len(self._search.path(first))} steps, {label}"

    def _tests(self, changed: Machine) -> Iterator[tuple[str, Node]]:
        """Yield for rule instances the condition that they behave as before, unless it is always
        true."""
        leaves = {
            leaf.name: dag.leaf(leaf.name, leaf.lo, leaf.hi, is_bool=leaf.is_bool)
            for leaf in self.machine.leaves
        }
        after = {(rule.rule, rule.choice): rule for rule in changed.rules}
        for key in {**self._rules, **after}:
            before, now = self._rules.get(key), after.get(key)
            if before == now:
                continue
            [test] = substitute([alike(before, now, leaves)], self._constants)
            if test is not TRUE:
                rule = now or before
                assert rule is not None
                yield rule.label, test

    def _explored(self, changed: Machine) -> Exploration:
        """Explore the changed machine to the first guarantee that it breaks, else completely."""
        most = GROWS * self.states

        def grown(progress: SearchProgress) -> None:
            if progress.distinct > most:
                raise Overgrown(f"more than {most} states")

        engine = "c" if self.states >= COMPILED_FROM else "ints"
        return explore(changed, engine, stop=True, want_edges=True, progress=grown)

    def _broken(
        self, model: Model, patch: Patch, changed: Machine, result: Exploration
    ) -> Finding | None:
        """Return the first guarantee that the changed model breaks, with its trace replayed on its
        text."""
        stepper = Stepper(model, configuration_of(model, self.scope, self.variant))
        header = header_of(stepper, self.scope, [patch])
        for name, steps in result.violations.items():
            path = [(changed.rules[n].rule, changed.rules[n].choice) for n in steps]
            return finding(stepper, header, name, path)
        return None


def sentences_of(machine: Machine) -> tuple[Mapping[str, Node], Mapping[str, Node]]:
    """Return the guarantees and witnesses of a machine."""
    return machine.guarantees, machine.witnesses


def alike(
    before: RuleInstance | None, now: RuleInstance | None, leaves: Mapping[str, Node]
) -> Node:
    """Return that both instances are disabled, or both are enabled and write the same."""
    was, written = (before.guard, before.updates) if before else (FALSE, {})
    is_, writes = (now.guard, now.updates) if now else (FALSE, {})
    names: Sequence[str] = [*written, *(name for name in writes if name not in written)]
    same = dag.conjunction(
        dag.eq(written.get(name, leaves[name]), writes.get(name, leaves[name])) for name in names
    )
    return dag.ite(was, dag.both(is_, same), dag.negate(is_))
