"""impl against rule-based machines: exhaustive over a graph, and as Hypothesis likes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from conformance.judge import Differs, Judge
from conformance.machines import JudgedMachine
from conformance.systems.impl import ImplSystem
from conformance.tables import Tables
from proofs.explore.source import source_graph
from proofs.lift.source import composition
from proofs.machines import execute_all, machine
from proofs.trace.replay import configuration_of

ACTORS = frozenset({"client", "leader"})
TINY = configuration_of(composition("idempotent"), "idempotent-tiny", "4.3.1")
DEFAULT = configuration_of(composition("idempotent"), "idempotent-default", "4.3.1")


def judged(k: object) -> JudgedMachine:
    return JudgedMachine(Judge(Tables(k), ImplSystem(k, ACTORS, "bytes")))  # type: ignore[arg-type]


def test_every_labelled_transition_of_the_tiny_scope_is_executed_on_impl() -> None:
    graph = source_graph(composition("idempotent"), TINY, "idempotent-tiny")
    executed, steps = execute_all(composition("idempotent"), TINY, graph, judged(TINY))
    assert executed == frozenset(graph.edges)
    assert len(executed) == graph.exploration.transitions
    assert steps >= len(executed)


def test_a_machine_stops_where_impl_differs() -> None:
    k = configuration_of(
        composition("idempotent"), "idempotent-tiny/breaks=0", "restart_window=full"
    )
    graph = source_graph(composition("idempotent"), k, "restart_window=full")
    with pytest.raises(Differs, match=r"leader\[0\]\.producers\[0\]\.batches"):
        execute_all(composition("idempotent"), k, graph, judged(k))


TABLES = Tables(DEFAULT)
TestImpl = machine(
    composition("idempotent"),
    DEFAULT,
    lambda: JudgedMachine(Judge(TABLES, ImplSystem(DEFAULT, ACTORS, "bytes"))),
).TestCase
TestImpl.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    # Of all rules few are enabled at a time; the others are filtered.
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
