"""The input of the proofs about one producer at one partition, and about single rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from proofs.lift.patch import Patch
from proofs.lift.source import Model, load_model
from proofs.prove.engine.composition import Composition, Kept, Obligations
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.smt import ProofObligation
from proofs.prove.idempotent.assumptions import OF_ONE_PRODUCER
from proofs.prove.idempotent.clause_groups import HELPERS
from proofs.prove.idempotent.induction import IdempotentInduction, rules_of
from proofs.prove.idempotent.sequence_arithmetic import SequenceArithmetic
from proofs.prove.idempotent.steps import IdempotentSteps
from proofs.prove.idempotent.symbolic_state import BEFORE_KIP_360, CLAIMED, VARIANT, resets

SEARCHED_SCOPES = (
    "idempotent-tiny",
    "idempotent-wrap",
    "idempotent-restart",
    "idempotent-failover",
    "idempotent-default",
)
"""The scopes that are searched for a trace when an obligation fails, the smallest first."""

BOUNDS = {"partitions": 2, "in_flight": 5, "records": 0, "log": 0, "max_epoch": 1}


def configuration(model: Model, variant: str) -> Any:
    """Return the configuration of the proofs: five in flight, five remembered, two partitions."""
    faults = replace(model.configuration.USUAL, timeouts=1)
    bounds = model.configuration.Bounds(**BOUNDS, faults=faults)
    return model.configuration.Configuration(
        variant=model.variants.parse(variant), bounds=bounds, budgets=model.configuration.Budgets()
    )


@dataclass(frozen=True, slots=True)
class OneProducer(Composition):
    """The proof of a guarantee of one producer at one partition. The guarantee is the `goal`; it
    uses the helper clauses and `extra` clauses, which hold under the rules of the theorem's
    variant."""

    extra: tuple[Clause, ...] = ()

    def obligations(self, model: Model, variant: str, usual: str, kept: Kept) -> Obligations:
        """Return the obligations of the helpers, which hold under any rules of the variant, and
        those of the goal."""
        assert self.goal is not None
        induction, rules = self.induction(model, variant, kept), rules_of(model, variant)
        named, below = induction.guaranteed(self.goal, rules), induction.below(self.goal)
        return Obligations(named, induction, tuple(below))

    def speaks_of(self, variant: Any, usual: Any) -> bool:
        """Whether the variant's producer recovers in the same way as the usual one's."""
        return resets(variant) == resets(usual)

    def induction(self, model: Model, variant: str, kept: Kept) -> IdempotentInduction:
        """Return the induction over the steps; with extra clauses, under the rules of a variant."""
        steps = self.producer_steps(model, variant, kept)
        rules = rules_of(model, variant) if self.extra else ()
        key = (id(steps), rules, self.extra)
        if key not in kept:
            kept[key] = IdempotentInduction(steps, self.extra, rules)
        found: IdempotentInduction = kept[key]
        return found

    def producer_steps(self, model: Model, variant: str, kept: Kept) -> IdempotentSteps:
        """Return the steps in a regime, shared by all variants that differ only in unknown rules,
        which no step can read."""
        assert isinstance(self.regime, SequenceArithmetic)
        parsed = model.variants.parse(variant)
        unknown = dict.fromkeys(VARIANT, 0)
        unknown |= dict.fromkeys(BEFORE_KIP_360, 1) if resets(parsed) else {}
        same = replace(parsed, name="", release="", **unknown)
        key = (same, self.regime.name, self.patches)
        if key not in kept:
            patched = load_model(self.home, (*model.patches, *self.patches))
            kept[key] = IdempotentSteps(patched, configuration(patched, variant), self.regime)
        found: IdempotentSteps = kept[key]
        return found


@dataclass(frozen=True, slots=True)
class SingleRules(Composition):
    """The proof of lemmas about single rules; `rule_lemmas` makes them for a model and a
    configuration."""

    rule_lemmas: Callable[[Model, Any], Iterator[ProofObligation]] | None = None

    def obligations(self, model: Model, variant: str, usual: str, kept: Kept) -> Obligations:
        """Return the lemmas; they assume nothing about earlier steps."""
        assert self.rule_lemmas is not None
        found = self.rule_lemmas(model, configuration(model, variant))
        return Obligations((lemma.name, lemma) for lemma in found)


def one_producer(
    goal: Clause,
    regime: SequenceArithmetic,
    extra: tuple[Clause, ...] = (),
    patches: tuple[Patch, ...] = (),
) -> OneProducer:
    """Return the proof of a guarantee of one producer."""
    return OneProducer(
        "idempotent",
        BOUNDS,
        unknown={},
        clauses=(*HELPERS, *extra),
        searched=SEARCHED_SCOPES,
        goal=goal,
        regime=regime,
        assumes=OF_ONE_PRODUCER,
        claimed=CLAIMED,
        patches=patches,
        extra=extra,
    )


def single_rules(
    rule_lemmas: Callable[[Model, Any], Iterator[ProofObligation]], regime: SequenceArithmetic
) -> SingleRules:
    """Return the proof of lemmas about single rules."""
    return SingleRules(
        "idempotent",
        BOUNDS,
        unknown={},
        clauses=(),
        searched=SEARCHED_SCOPES,
        regime=regime,
        rule_lemmas=rule_lemmas,
    )
