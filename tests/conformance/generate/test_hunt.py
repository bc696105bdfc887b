"""Hunts: a function of seed and trace id; the same walks with and without the graph."""

from __future__ import annotations

import random

import pytest

from conformance.generate.graph import explored, machine_of
from conformance.generate.hunt import (
    MAX_STEPS,
    NO_EDGE,
    GraphWalker,
    MachineWalker,
    aimed,
    drawn,
    hunt,
)
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of

pytestmark = pytest.mark.fast

K = configuration_of(load_model("idempotent"), "idempotent-restart", "4.3.1")
MACHINE = machine_of(K, "idempotent-restart")
GRAPH = explored(MACHINE, lambda _progress: None)
RULES = sorted({rule.rule for rule in MACHINE.rules})
RULE_OF = [RULES.index(rule.rule) for rule in MACHINE.rules]


def test_the_same_seed_and_id_give_the_same_hunt() -> None:
    walker = GraphWalker(GRAPH, [1.0] * len(MACHINE.rules))
    first = [hunt(walker, RULE_OF, 7, number) for number in range(20)]
    again = [hunt(walker, RULE_OF, 7, number) for number in reversed(range(20))]
    assert first == again[::-1]
    assert first != [hunt(walker, RULE_OF, 8, number) for number in range(20)]
    assert len({tuple(steps) for steps in first}) > 10


def test_each_hunt_is_a_walk_that_the_model_allows() -> None:
    walker = GraphWalker(GRAPH, [1.0] * len(MACHINE.rules))
    sources = GRAPH.sources
    stepper = Stepper(load_model("idempotent"), K)
    for number in range(50):
        state, world = 0, stepper.initial()
        steps = hunt(walker, RULE_OF, 0, number)
        for instance, edge in steps:
            assert sources[edge] == state
            state = int(GRAPH.targets[edge])
            rule = MACHINE.rules[instance]
            world = stepper.apply(rule.rule, rule.choice, world)
        assert len(steps) == MAX_STEPS or not walker.enabled(state)


def test_both_walkers_know_the_same_instances() -> None:
    graph, machine = GraphWalker(GRAPH, [1.0] * len(MACHINE.rules)), MachineWalker(MACHINE)
    draw = random.Random(1)
    for _ in range(50):
        at, packed = graph.initial, machine.initial
        for _ in range(60):
            enabled = graph.enabled(at)
            others = machine.enabled(packed)
            assert [instance for instance, _, _ in others] == [i for i, _, _ in enabled]
            assert all(edge == NO_EDGE for _, _, edge in others)
            if not enabled:
                break
            chosen = draw.randrange(len(enabled))
            at, packed = enabled[chosen][1], others[chosen][1]


def test_rare_instances_are_preferred_and_a_walk_has_an_end() -> None:
    class Circle:
        initial = 0
        weights = (1.0, 0.01)

        def enabled(self, state: int) -> list[tuple[int, int, int]]:
            return [(0, state, 0), (1, state, 1)]

    steps = hunt(Circle(), [0, 0], 0, 0)
    assert len(steps) == MAX_STEPS
    assert sum(1 for instance, _ in steps if instance == 1) < MAX_STEPS / 10
    apart = hunt(Circle(), [0, 1], 0, 0)
    assert sum(1 for instance, _ in apart if instance == 1) > 0


def test_each_index_has_its_share() -> None:
    shares = (1.0, 0.0, 3.0)
    assert [drawn(shares, point) for point in (0.0, 0.24, 0.26, 0.99)] == [0, 0, 2, 2]
    assert drawn((1.0,), 1.0) == 0


def test_aimed_hunts_go_straight_to_a_transition_each_and_on() -> None:
    walker = GraphWalker(GRAPH, [1.0] * len(MACHINE.rules))
    depths, sources = GRAPH.depths(), GRAPH.sources
    goals = set()
    for number in range(GRAPH.edges):
        way = walker.way(3, number)
        edges = [edge for _, edge in way]
        assert sources[edges].tolist() == [0, *GRAPH.targets[edges[:-1]].tolist()]
        assert len(way) == depths[sources[edges[-1]]] + 1
        assert [instance for instance, _ in way] == GRAPH.rules[edges].tolist()
        goals.add(edges[-1])
    assert goals == set(range(GRAPH.edges))
    steps = aimed(walker, RULE_OF, 3, 7)
    assert steps[: len(walker.way(3, 7))] == walker.way(3, 7)
    assert len(steps) == MAX_STEPS or not walker.enabled(walker.end(steps))
    assert walker.end([]) == walker.initial == 0


def test_aimed_hunts_are_seldom_equal() -> None:
    walker = GraphWalker(GRAPH, [1.0] * len(MACHINE.rules))
    few = range(GRAPH.edges // 2)
    different = {tuple(aimed(walker, RULE_OF, 0, number)) for number in few}
    hunts = {tuple(hunt(walker, RULE_OF, 0, number)) for number in few}
    assert len(few) >= len(different) > len(hunts)
