"""Lockstep: the judge's network is the model's, impl agrees everywhere, a planted bug is found."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.impl.idempotent.system import ImplSystem
from conformance.adapters.impl.shared.memoised import MemoisedActor
from conformance.generate.cover import cover
from conformance.generate.graph import explored, machine_of
from conformance.judging.idempotent.judge import Judge
from conformance.judging.idempotent.tables import Tables
from conformance.judging.judge import NotAllowed, Steps
from conformance.judging.system import Many, Reaction, differences, named
from conformance.judging.tables import InternedMessage, InternedState
from model.idempotent.configuration import Bounds, Budgets, Configuration
from model.idempotent.network import BrokenConnection
from model.idempotent.variants import parse
from model.idempotent.world import World
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("judge")  # what is explored is cached

ALL = frozenset({"client", "leader"})
LEADER = frozenset({"leader"})
TINY: Configuration = configuration_of(
    load_model("idempotent"), "idempotent-tiny/breaks=1", "4.3.1"
)


def configuration(bounds: Bounds, budgets: Budgets, variant: str = "4.3.1") -> Configuration:
    return Configuration(parse(variant), bounds, budgets)


FAILOVERS = configuration(
    Bounds(records=3, in_flight=2, log=4, max_epoch=1, replicas=2),
    Budgets(records=3, breaks=1, restarts=1, failovers=1),
)
TWO_OF_BOTH = configuration(
    Bounds(producers=2, partitions=2, records=1, in_flight=1, log=2),
    Budgets(records=1, breaks=0),
)
EPOCHS = configuration(
    Bounds(records=4, in_flight=3, log=6, max_epoch=2, broken_connections=2),
    Budgets(records=4, breaks=1, restarts=1),
)
AT_THE_WRAP = (
    Bounds(records=5, in_flight=3, log=6, max_epoch=1, first_sequence=30),
    Budgets(records=5, breaks=1, restarts=1),
)
OWN_WRAP = configuration(*AT_THE_WRAP, "sequence_order=wraps")
KAFKAS_WRAP = configuration(*AT_THE_WRAP)


@cache
def traces(k: Configuration) -> tuple[Steps, ...]:
    """A cover of the configuration."""
    machine = machine_of(k, "test")
    graph = explored(machine, lambda _progress: None)
    walks = cover(graph)
    bounds = walks.first.tolist()
    instances = [(rule.rule, rule.choice) for rule in machine.rules]
    return tuple(
        tuple(instances[i] for i in graph.rules[walks.edges[first:end]].tolist())
        for first, end in pairwise(bounds)
    )


def values_of(part: Any) -> Any:
    """A part of the judge's world as the model has it."""
    if isinstance(part, InternedState):
        return part.state
    if isinstance(part, tuple) and part and isinstance(part[0], InternedMessage):
        return part[0].value
    if isinstance(part, tuple):
        return tuple(values_of(element) for element in part)
    if isinstance(part, BrokenConnection):
        return BrokenConnection(values_of(part.requests))
    return part


def assert_same(judge: Judge, world: World) -> None:
    shown = judge.tables.world.world([values_of(cell) for cell in judge._cells])
    assert replace(shown, faults=world.faults) == world


@pytest.mark.parametrize("k", [TINY, FAILOVERS, TWO_OF_BOTH], ids=["tiny", "failovers", "two"])
def test_tables_and_network_are_the_models_world_in_every_transition(k: Configuration) -> None:
    stepper = Stepper(load_model("idempotent"), k)
    judge = Judge(Tables(k), ImplSystem(k, LEADER, "values"))
    for trace in traces(k):
        world = stepper.initial()
        judge.begin()
        for rule, choice in trace:
            world = stepper.apply(rule, choice, world)
            judge.step((rule, choice))
            assert_same(judge, world)


JUDGED = {"all-bytes": (ALL, "bytes"), "leader-values": (LEADER, "values")}
FULL = {"all-values": (ALL, "values"), "leader-bytes": (LEADER, "bytes")}


@pytest.mark.parametrize(
    ("actors", "on"),
    sized([*JUDGED.values(), *FULL.values()], FULL.values()),
    ids=[*JUDGED, *FULL],
)
@pytest.mark.parametrize(
    "k",
    [TINY, FAILOVERS, TWO_OF_BOTH, EPOCHS, OWN_WRAP],
    ids=["tiny", "failovers", "two", "epochs", "wrap"],
)
def test_impl_agrees_with_the_model(k: Configuration, actors: frozenset[str], on: str) -> None:
    judge = Judge(Tables(k), ImplSystem(k, actors, on))
    for trace in traces(k):
        result = judge.judge(trace)
        assert result.divergence is None
        assert result.steps == len(trace)


@pytest.mark.parametrize("on", sized(["bytes", "values"], ["values"]))
@pytest.mark.parametrize(
    ("k", "actors", "differs"),
    [
        (FAILOVERS, ALL, False),
        (EPOCHS, LEADER, False),
        (KAFKAS_WRAP, ALL, True),
        (configuration(TINY.bounds, TINY.budgets, "restart_window=full"), LEADER, True),
    ],
    ids=["failovers", "epochs", "wrap", "variant"],
)
def test_memoised_actors_are_judged_as_the_actors(
    k: Configuration, actors: frozenset[str], differs: bool, on: str
) -> None:
    judge = Judge(Tables(k), ImplSystem(k, actors, on))
    moves = [[judge.move(instance) for instance in trace] for trace in traces(k)]
    actors_under_test: list[Any] = [*judge.system.clients, *judge.system.leaders]
    shared = [(vars(a), name, vars(a)[name]) for a in actors_under_test for name in a.SHARED]
    plain = [judge.follow(trace) for trace in moves]
    assert all(attributes[name] is value for attributes, name, value in shared)
    assert any(result.divergence for result in plain) == differs
    for _ in range(2):
        assert [judge.follow(trace, memoised=True) for trace in moves] == plain
    assert isinstance(judge.system.leaders[0], MemoisedActor)


def test_the_client_departs_from_kafka_across_the_wrap_in_the_order_of_sequences_only() -> None:
    """`impl.producer.sequence_manager` compares serial numbers, where Kafka compares integers."""
    judge = Judge(Tables(KAFKAS_WRAP), ImplSystem(KAFKAS_WRAP, ALL, "bytes"))
    found = [judge.judge(trace).divergence for trace in traces(KAFKAS_WRAP)]
    fields = {path for divergence in found if divergence for path in divergence.observed}
    ordered = ("client[0].partitions[0].in_flight", "client[0].partitions[0].last_acked_sequence")
    assert fields
    assert all(path.startswith(ordered) for path in fields)


def test_a_variant_that_impl_is_not_differs_where_the_variant_does() -> None:
    k = configuration(TINY.bounds, TINY.budgets, "restart_window=full")
    judge = Judge(Tables(k), ImplSystem(k, LEADER, "values"))
    found = [judge.judge(trace).divergence for trace in traces(k)]
    assert {d.instance[0] for d in found if d} == {"leader_restarts"}


def test_a_trace_that_the_model_does_not_allow_is_refused() -> None:
    judge = Judge(Tables(TINY), ImplSystem(TINY, ALL, "values"))
    arrives = ("request_arrives", (("producer", 0), ("partition", 0)))
    with pytest.raises(NotAllowed, match=r"step 1, request_arrives\(producer=0, partition=0\)"):
        judge.judge((arrives,))
    retries = ("client_retries", (("producer", 0), ("partition", 0)))
    with pytest.raises(NotAllowed):
        judge.judge((retries,))


def test_a_failing_actor_is_a_difference() -> None:
    system = ImplSystem(TINY, ALL, "values")

    def fails(*_given: object) -> Reaction:
        raise RuntimeError("out of order")

    system.leaders[0].on_produce = fails  # type: ignore[assignment,method-assign]
    trace = traces(TINY)[0]
    divergence = Judge(Tables(TINY), system).judge(trace).divergence
    assert divergence is not None
    assert divergence.instance[0] == "request_arrives"
    assert divergence.observed == {"raised": "RuntimeError: out of order"}


def test_an_actor_that_changes_while_another_moves_is_found_at_the_end() -> None:
    system = ImplSystem(TINY, ALL, "values")
    sends = ("client_sends", (("producer", 0), ("partition", 0)))
    quiet = system.clients[0].send_new

    def restarts_the_leader(partition: int, record_count: int) -> Reaction:
        system.leaders[0].on_produce(system.request(0, (0, 0, 0, 1, 0)))
        return quiet(partition, record_count)

    system.clients[0].send_new = restarts_the_leader  # type: ignore[method-assign]
    divergence = Judge(Tables(TINY), system).judge((sends,)).divergence
    assert divergence is not None
    assert divergence.expected["leader[0].high_watermark"] == 0
    assert divergence.observed["leader[0].high_watermark"] == 1


def test_differences_name_fields_and_what_is_missing() -> None:
    shape = {"log": Many({"offset": None, "epoch": None}), "end": None}
    assert list(differences("x", shape, (((0, 1),), 1), (((0, 1),), 1))) == []
    assert list(differences("x", shape, (((0, 1), (1, 1)), 2), (((0, 2),), 1))) == [
        ("x.log[0].epoch", 1, 2),
        ("x.log[1]", {"offset": 1, "epoch": 1}, None),
        ("x.end", 2, 1),
    ]
    assert named(shape, (((0, 1),), 1)) == {"log": [{"offset": 0, "epoch": 1}], "end": 1}


PLANTED = """
import json, pathlib, sys
import impl.partition.leader as leader
leader.find_duplicate = lambda *_: None
from conformance.adapters.impl.judges import judge_range, shrink_finding
from conformance.judging.plan import Plan, prepare
plan = Plan(scope="idempotent-tiny/breaks=1/refusals=0", traces_from=("cover",))
prepared = prepare(plan, pathlib.Path(sys.argv[1]))
findings = judge_range(prepared, 0, prepared.count).findings
shrunk = [shrink_finding(prepared, finding) for finding in findings[:20]]
print(json.dumps([len(findings), shrunk]))
"""


def test_a_planted_bug_is_found_and_shrunk(tmp_path: Path) -> None:
    """A leader that does not look for duplicates, in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-c", PLANTED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    divergences, findings = json.loads(told.stdout)
    assert divergences >= len(findings) > 0
    finding = min(findings, key=lambda f: f["steps"])
    assert finding["one_minimal"]
    rules = [rule for rule, _ in finding["trace"]]
    assert len(rules) == finding["steps"] == 5
    assert {"connection_breaks", "client_retries"} < set(rules)
    assert rules[-1] == finding["rule"] in {"request_arrives", "late_request_arrives"}
    assert finding["expected"]["leader[0].sends[0].error"] == 0
    assert finding["observed"]["leader[0].sends[0].error"] == 45
