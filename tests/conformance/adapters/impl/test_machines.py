"""impl against rule-based machines: exhaustive over a graph, and as Hypothesis likes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, settings

from conformance.adapters.impl.idempotent.system import ImplSystem
from conformance.judging.idempotent.judge import Judge
from conformance.judging.idempotent.tables import Tables
from conformance.judging.judge import Differs
from model.idempotent.world import World
from proofs.explore.source import source_graph
from proofs.lift.source import load_model
from proofs.trace.replay import configuration_of
from tests.machines import execute_all, machine

ACTORS = frozenset({"client", "leader"})
TINY = configuration_of(load_model("idempotent"), "idempotent-tiny", "4.3.1")
DEFAULT = configuration_of(load_model("idempotent"), "idempotent-default", "4.3.1")


class JudgedMachine:
    """Wraps a judge. `step` raises `Differs` where system and model differ, or judge and world."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def reset(self) -> None:
        """Back to the beginning of the scope."""
        self._judge.begin()

    def step(self, rule: str, choice: Mapping[str, int], before: World, after: World) -> None:
        """One event; `choice` is in the order of the rule's parameters."""
        self._judge.step((rule, tuple(choice.items())))
        self._judge.check_all()
        clients = tuple(node.state for node in self._judge.clients)
        leaders = tuple(node.state for node in self._judge.leaders)
        assert clients == after.clients.values(), f"{rule}: the judge's clients are not the world's"
        assert leaders == after.leaders.values(), f"{rule}: the judge's leaders are not the world's"


def judged(k: object) -> JudgedMachine:
    return JudgedMachine(Judge(Tables(k), ImplSystem(k, ACTORS, "bytes")))  # type: ignore[arg-type]


def test_every_labelled_transition_of_the_tiny_scope_is_executed_on_impl() -> None:
    graph = source_graph(load_model("idempotent"), TINY, "idempotent-tiny")
    executed, steps = execute_all(load_model("idempotent"), TINY, graph, judged(TINY))
    assert executed == frozenset(graph.edges)
    assert len(executed) == graph.exploration.transitions
    assert steps >= len(executed)


def test_a_machine_stops_where_impl_differs() -> None:
    k = configuration_of(
        load_model("idempotent"), "idempotent-tiny/breaks=0", "restart_window=full"
    )
    graph = source_graph(load_model("idempotent"), k, "restart_window=full")
    with pytest.raises(Differs, match=r"leader\[0\]\.producers\[0\]\.batches"):
        execute_all(load_model("idempotent"), k, graph, judged(k))


TABLES = Tables(DEFAULT)
TestImpl = machine(
    load_model("idempotent"),
    DEFAULT,
    lambda: JudgedMachine(Judge(TABLES, ImplSystem(DEFAULT, ACTORS, "bytes"))),
).TestCase
TestImpl.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    # Of all rules few are enabled at a time; the others are filtered.
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
