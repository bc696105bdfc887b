"""impl against rule-based machines: exhaustive over a graph, and as Hypothesis likes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from conformance.judge import Differs, Judge
from conformance.machines import Judged
from conformance.systems.impl import ImplSystem
from conformance.tables import Tables
from proofs.explore.source import source_graph
from proofs.lift.text import plain
from proofs.machines import execute_all, machine
from proofs.trace.replay import setting_of

ACTORS = frozenset({"client", "leader"})
TINY = setting_of(plain(), "idempotent-tiny", "4.3.1")
DEFAULT = setting_of(plain(), "idempotent-default", "4.3.1")


def judged(k: object) -> Judged:
    return Judged(Judge(Tables(k), ImplSystem(k, ACTORS, "bytes")))  # type: ignore[arg-type]


def test_every_labelled_transition_of_the_tiny_scope_is_executed_on_impl() -> None:
    graph = source_graph(plain(), TINY, "idempotent-tiny")
    executed, steps = execute_all(plain(), TINY, graph, judged(TINY))
    assert executed == frozenset(graph.edges)
    assert len(executed) == graph.exploration.transitions
    assert steps >= len(executed)


def test_a_machine_stops_where_impl_differs() -> None:
    k = setting_of(plain(), "idempotent-tiny/breaks=0", "restart_window=full")
    graph = source_graph(plain(), k, "restart_window=full")
    with pytest.raises(Differs, match=r"leader\[0\]\.producers\[0\]\.batches"):
        execute_all(plain(), k, graph, judged(k))


TABLES = Tables(DEFAULT)
TestImpl = machine(
    plain(), DEFAULT, lambda: Judged(Judge(TABLES, ImplSystem(DEFAULT, ACTORS, "bytes")))
).TestCase
TestImpl.settings = settings(
    max_examples=25,
    stateful_step_count=40,
    # Of all rules few are enabled at a time; the others are filtered.
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
