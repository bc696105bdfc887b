"""What the proofs say of one producer at one partition, and of single rules."""

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
"""Where a trace is looked for that answers a failed obligation, the smallest first."""

BOUNDS = {"partitions": 2, "in_flight": 5, "records": 0, "log": 0, "max_epoch": 1}


def configuration(model: Model, variant: str) -> Any:
    """The configuration of the proofs: five in flight, five remembered, two partitions."""
    faults = replace(model.configuration.USUAL, timeouts=1)
    bounds = model.configuration.Bounds(**BOUNDS, faults=faults)
    return model.configuration.Configuration(
        variant=model.variants.parse(variant), bounds=bounds, budgets=model.configuration.Budgets()
    )


@dataclass(frozen=True, slots=True)
class OneProducer(Composition):
    """A guarantee of one producer at one partition: the `goal`, which stands on the helper clauses
    and on `extra` ones, that hold under the rules of the theorem's variant."""

    extra: tuple[Clause, ...] = ()

    def obligations(self, model: Model, variant: str, usual: str, kept: Kept) -> Obligations:
        """Those of the helpers, whatever the rules of the variant, and those of the goal."""
        assert self.goal is not None
        induction, rules = self.induction(model, variant, kept), rules_of(model, variant)
        named, below = induction.guaranteed(self.goal, rules), induction.below(self.goal)
        return Obligations(named, induction, tuple(below))

    def speaks_of(self, variant: Any, usual: Any) -> bool:
        """Its steps have a producer that recovers as the usual one does."""
        return resets(variant) == resets(usual)

    def induction(self, model: Model, variant: str, kept: Kept) -> IdempotentInduction:
        """The induction over the steps; with clauses of its own, under the rules of a variant."""
        steps = self.producer_steps(model, variant, kept)
        rules = rules_of(model, variant) if self.extra else ()
        key = (id(steps), rules, self.extra)
        if key not in kept:
            kept[key] = IdempotentInduction(steps, self.extra, rules)
        found: IdempotentInduction = kept[key]
        return found

    def producer_steps(self, model: Model, variant: str, kept: Kept) -> IdempotentSteps:
        """The steps in a regime: the same for all variants that differ in unknown rules only, which
        no step can read."""
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
    """What single rules do, as `rule_lemmas` say it of a model and a configuration."""

    rule_lemmas: Callable[[Model, Any], Iterator[ProofObligation]] | None = None

    def obligations(self, model: Model, variant: str, usual: str, kept: Kept) -> Obligations:
        """The lemmas: nothing is assumed of what happens before."""
        assert self.rule_lemmas is not None
        found = self.rule_lemmas(model, configuration(model, variant))
        return Obligations((lemma.name, lemma) for lemma in found)


def one_producer(
    goal: Clause,
    regime: SequenceArithmetic,
    extra: tuple[Clause, ...] = (),
    patches: tuple[Patch, ...] = (),
) -> OneProducer:
    """What the proofs say of a guarantee."""
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
    """What lemmas say of single rules."""
    return SingleRules(
        "idempotent",
        BOUNDS,
        unknown={},
        clauses=(),
        searched=SEARCHED_SCOPES,
        regime=regime,
        rule_lemmas=rule_lemmas,
    )
