"""Shrinking: what is left shows the finding, is one-minimal, and is always the same."""

import itertools
import random

import pytest

from proofs.explore.source import instances, successors
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of
from proofs.trace.shrink import NothingToShrink, enabled_only, shrink, without_each

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def stepper():
    return Stepper(
        load_model("idempotent"),
        configuration_of(load_model("idempotent"), "idempotent-default", "4.3.1"),
    )


def breaks(stepper, name):
    guarantee = next(p for p in stepper.model.guarantees.GUARANTEES if p.name == name)

    def shown(steps):
        world = stepper.initial()
        for rule, choice in steps:
            world = stepper.apply(rule, choice, world)
        return not guarantee.check(stepper.k, world)

    return shown


def random_walk(stepper, seed, predicate):
    """Steps at random until the predicate holds; None if the walk ends before."""
    rng, of = random.Random(seed), instances(stepper.model, stepper.k)
    world, steps = stepper.initial(), ()
    while choices := list(successors(stepper, world, of)):
        number, world = rng.choice(choices)
        steps = (*steps, of[number])
        if predicate(steps):
            return steps
    return None


def walks(stepper, name, count):
    found = (random_walk(stepper, seed, breaks(stepper, name)) for seed in range(400))
    return list(itertools.islice((walk for walk in found if walk is not None), count))


@pytest.mark.parametrize("name", ["no_gap", "no_false_error"])
def test_a_walk_is_shrunk_to_a_minimal_run(stepper, name):
    predicate = breaks(stepper, name)
    for walk in walks(stepper, name, 4):
        shrunk = shrink(stepper, walk, predicate)
        assert shrunk == shrink(stepper, walk, predicate)
        assert predicate(shrunk.steps)
        assert enabled_only(stepper, shrunk.steps) == shrunk.steps
        assert shrunk.one_minimal
        assert len(shrunk.steps) <= len(walk)
        for candidate in without_each(shrunk.steps):
            assert not predicate(enabled_only(stepper, candidate))


def test_noise_goes(stepper):
    walk = max(walks(stepper, "no_gap", 8), key=len)
    assert len(shrink(stepper, walk, breaks(stepper, "no_gap")).steps) == 4 < len(walk)


def test_nothing_to_shrink(stepper):
    with pytest.raises(NothingToShrink):
        shrink(stepper, (), breaks(stepper, "no_gap"))


def test_a_finding_without_steps_shrinks_to_nothing(stepper):
    walk = walks(stepper, "no_gap", 1)[0]
    assert shrink(stepper, walk, lambda steps: True).steps == walk[:1]
