"""Machines made from the rules: Hypothesis plays at random, the exhaustive driver everything."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from proofs.explore.source import source_graph
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of
from tests.machines import Play, execute_all, machine

SCOPE, VARIANT = "idempotent-tiny", "4.3.1"


class Recorder:
    """A system that agrees with everything, until it is told a forbidden rule."""

    def __init__(self, forbidden: str = "") -> None:
        self.forbidden = forbidden
        self.world: Any = None
        self.rules: set[str] = set()
        self.resets = 0

    def reset(self) -> None:
        self.world = None
        self.resets += 1

    def step(self, rule: str, choice: Mapping[str, int], before: Any, after: Any) -> None:
        assert self.world is None or self.world == before
        assert rule != self.forbidden, dict(choice)
        self.world = after
        self.rules.add(rule)


@pytest.fixture(scope="module")
def model():
    return load_model("idempotent")


@pytest.fixture(scope="module")
def k(model):
    return configuration_of(model, SCOPE, VARIANT)


def test_exhaustive_executes_exactly_the_explored_transitions(model, k):
    graph = source_graph(model, k, SCOPE)
    system = Recorder()
    executed, steps = execute_all(model, k, graph, system)
    assert executed == frozenset(graph.edges)
    assert len(executed) == graph.exploration.transitions == 3331
    assert steps >= len(executed)


@pytest.mark.parametrize(
    ("composition", "scope", "variant", "transitions"),
    [
        ("transactions", "transactions-tiny", "v2", 262),
        ("transactions", "transactions-tiny", "v1", 525),
        ("processing", "processing/crashes=0/timeouts=0", "processing=commit_first", 764),
    ],
)
def test_exhaustive_executes_the_transitions_of_compositions(
    composition, scope, variant, transitions
):
    made = load_model(composition)
    configuration = configuration_of(made, scope, variant)
    graph = source_graph(made, configuration, scope)
    executed, _ = execute_all(made, configuration, graph, Recorder())
    assert executed == frozenset(graph.edges)
    assert len(executed) == transitions


def test_hypothesis_plays_transactions():
    made = load_model("transactions")
    seen = Recorder()
    run_state_machine_as_test(
        machine(made, configuration_of(made, "transactions-default", "v1"), lambda: seen),
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            derandomize=True,
            suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
        ),
    )
    assert {"transaction_is_ended", "batch_is_produced", "marker_is_written"} <= seen.rules


def test_exhaustive_stops_where_the_system_differs(model, k):
    graph = source_graph(model, k, SCOPE)
    with pytest.raises(AssertionError, match="producer"):
        execute_all(model, k, graph, Recorder("client_bumps_epoch"))


def test_hypothesis_plays_every_rule_that_the_scope_has(model, k):
    seen = Recorder()
    made = machine(model, k, lambda: seen)
    run_state_machine_as_test(
        made,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            derandomize=True,
            # Most rules are disabled in most states; Hypothesis counts those draws as filtered.
            suppress_health_check=[HealthCheck.filter_too_much],
        ),
    )
    graph = source_graph(model, k, SCOPE)
    fired = {graph.instances[instance][0] for _, instance, _ in graph.edges}
    assert len(fired) >= 8
    assert seen.rules >= fired - {"client_bumps_epoch"}
    assert seen.resets >= 40


def test_hypothesis_finds_a_difference_and_shrinks_it(model, k):
    made = machine(model, k, lambda: Recorder("leader_restarts"))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            made,
            settings=settings(
                max_examples=40,
                derandomize=True,
                print_blob=False,
                suppress_health_check=[HealthCheck.filter_too_much],
            ),
        )


def test_a_play_offers_what_is_enabled(model, k):
    play = Play(Stepper(model, k), Recorder())
    assert play.enabled("client_sends") == [(("producer", 0), ("partition", 0))]
    assert play.enabled("answer_arrives") == []
    play.fire(("client_sends", (("producer", 0), ("partition", 0))))
    assert [dict(c)["survivors"] for c in play.enabled("connection_breaks")] == [0, 1]
