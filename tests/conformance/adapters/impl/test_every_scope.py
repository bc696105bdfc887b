"""impl takes some walks in every scope that `list` shows, and does what the model does. The suite
looks at every third: to make a scope ready takes half a second.

The scopes are those of the registry: a new one is judged without a word here. Walks are drawn over
the source, which needs no exploration, so that the largest scopes are judged too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from conformance.adapters.impl.judges import judge_of
from conformance.judging.compositions import JUDGED_COMPOSITIONS, judged_composition
from conformance.judging.plan import Plan, configuration
from conformance.verbs.run import with_own_rules
from proofs.explore.source import instances
from proofs.lift.source import COMPOSITIONS
from proofs.trace.format import Instance
from proofs.trace.replay import Stepper
from tests.sizes import sized

WALKS = sized((range(6), range(6, 12)), [range(6, 12)])
"""The seeds of walks; the second half is drawn by `make full`."""
MOST_STEPS = 40

SCOPES = [scope for c in JUDGED_COMPOSITIONS.values() for scope in c.model.scopes.SCOPES]


def test_each_composition_is_judged():
    assert JUDGED_COMPOSITIONS.keys() == set(COMPOSITIONS)


def plan_of(scope: str) -> Plan:
    """The scope under the default variant, with the rules in which impl departs from it."""
    composition = judged_composition(scope)
    variant = composition.model.variants.parse(with_own_rules("4.3.1", "impl", scope))
    return Plan(scope=scope, variant=variant.name, actors=composition.actors[0])


def walk(stepper: Stepper, of: Sequence[Instance], draw: random.Random) -> Iterator[Instance]:
    """Steps that change something; of two that are enabled, rather the one taken less often."""
    world: Any = stepper.initial()
    taken = Counter[str]()
    for _ in range(MOST_STEPS):
        ranked = sorted(of, key=lambda instance: taken[instance[0]] + 2 * draw.random())
        steps = ((instance, stepper.after(*instance, world)) for instance in ranked)
        changes = ((step, after) for step, after in steps if after not in (None, world))
        step, world = next(changes, (None, world))
        if step is None:
            return
        taken[step[0]] += 1
        yield step


@pytest.mark.parametrize("seeds", WALKS, ids=str)
@pytest.mark.parametrize("scope", sized(SCOPES, set(SCOPES) - set(SCOPES[::3])))
def test_impl_follows_walks(scope: str, seeds: range):
    plan = plan_of(scope)
    k: Any = configuration(plan)
    stepper = Stepper(judged_composition(scope).model, k)
    of = instances(stepper.model, k)
    judge = judge_of(plan)
    for seed in seeds:
        steps = tuple(walk(stepper, of, random.Random(seed)))
        assert steps
        assert judge.judge(steps).divergence is None, seed
