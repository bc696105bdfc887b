"""Nodes that are stopped and moved, and the model: scripts, recorded answers, planted faults."""

import functools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.__main__ import main
from conformance.adapters.brokers.backend import BrokersBackend
from conformance.adapters.brokers.exchange import BrokerFault, TraceEnd, Wait
from conformance.adapters.brokers.fault_schedule import (
    HOLD,
    MOVE,
    RELEASE,
    STEP_S,
    FaultSchedule,
    is_gone,
    open_spans,
    stage,
    transaction_times,
)
from conformance.adapters.brokers.kafka.admin import Supported
from conformance.adapters.brokers.transactions.nodes_script import NodeScript, NodesWriter
from conformance.adapters.brokers.transactions.nodes_session import NodesSession
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_session import TraceResources
from conformance.adapters.brokers.wire import Requests, conversation
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.generate.broker_graph import LEAVES, MARKER, NEEDS_LEADER, RETURNS, SKIP
from conformance.judging.backend import TraceRange
from conformance.judging.compositions import SERVER_ACTORS
from conformance.judging.plan import Plan, PreparedPlan, configuration, prepare
from conformance.judging.rows import found_in
from impl import decode_response, encode_response
from proofs.java import MissingTool
from tests.conformance.adapters.brokers.recorded_traces import steps_of, with_field

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED: list[Requests] = ["v1", "v2"]
LEADERLESS = "transactions-leaderless"
EVERY_VERSION = Supported(dict.fromkeys(range(100), (0, 12)), {})
SCOPE = "transactions-small/delays=0/unheard=0"
FAR = 1


@functools.cache
def writer_of(variant: str, scope: str = "transactions-small") -> NodesWriter:
    plan = Plan(scope=scope, variant=variant, actors=SERVER_ACTORS)
    return NodesWriter(tables_of(with_room(configuration(plan))))


# Scripts


@pytest.fixture(scope="module", params=["v1", "v2"])
def scripts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[PreparedPlan, int, NodeScript]]:
    """Those of some hunts."""
    plan = Plan(
        scope=SCOPE, variant=request.param, actors=SERVER_ACTORS, traces_from=("hunts",), traces=150
    )
    prepared = prepare(plan, tmp_path_factory.mktemp("nodes"))
    writer = NodesWriter(tables_of(with_room(configuration(plan))))
    return [(prepared, n, writer.script(prepared.trace(n))) for n in range(prepared.count)]


def test_all_of_a_trace_is_played(scripts: list[tuple[PreparedPlan, int, NodeScript]]) -> None:
    for prepared, number, script in scripts:
        steps = prepared.trace(number)
        assert script.steps[: len(steps)] == steps


def test_traces_have_what_is_done_to_nodes(
    scripts: list[tuple[PreparedPlan, int, NodeScript]],
) -> None:
    met = Counter(deed for *_, script in scripts for deed in script.faults)
    assert min(met[HOLD], met[RELEASE], met[MOVE]) > 10
    assert any(script.times_out for *_, script in scripts)
    assert any(script.branch for *_, script in scripts)


def test_a_leader_is_gone_from_before_a_decision_until_its_marker(
    scripts: list[tuple[PreparedPlan, int, NodeScript]],
) -> None:
    """Meanwhile nobody asks it, nor looks at it, and the decision stays."""
    for *_, script in scripts:
        is_held = False
        for moved in script.moved:
            deeds = script.faults_at.get(moved.step, ())
            rule, choice = script.instance(moved.step)
            assert not (is_held and HOLD in deeds)
            if RELEASE in deeds:
                assert is_held
                assert (rule, dict(choice)["partition"]) == (MARKER, FAR)
            is_held = (is_held or HOLD in deeds) and RELEASE not in deeds
            if is_held:
                assert not (rule in NEEDS_LEADER and dict(choice)["partition"] == FAR)
                shown = moved.shown
                assert shown is None or FAR not in dict(shown.leaders)
                if shown is not None and shown.coordinator is not None:
                    state, *_, partitions = shown.coordinator
                    assert (state[:7], partitions) == ("Prepare", (False, True))
        assert not is_held


def test_after_a_late_marker_the_far_log_has_one_more(
    scripts: list[tuple[PreparedPlan, int, NodeScript]],
) -> None:
    for *_, script in scripts:
        if not script.branch:
            continue
        assert script.other is not None
        assert script.other.steps == script.steps
        at = next(i for i, moved in enumerate(script.moved) if moved.step == script.branch)
        logs = []
        for one in (script, script.other):
            shown = one.moved[at].shown
            assert shown is not None
            _, leader = shown.leaders[-1]
            logs.append(leader[2])
        once, twice = logs
        assert twice == (*once, once[-1])


@pytest.mark.parametrize(
    ("variant", "skips"),
    [("4.3.1/requests=v2", True), ("4.3.1/requests=v1", True), ("4.2.1", False), ("3.3.2", False)],
)
def test_a_leader_that_leaves_is_killed_until_it_returns(
    tmp_path: Path, variant: str, skips: bool
) -> None:
    """Its marker is skipped at once, or the decision stays."""
    plan = Plan(
        scope=LEADERLESS, variant=variant, actors=SERVER_ACTORS, traces_from=("hunts",), traces=60
    )
    prepared = prepare(plan, tmp_path)
    met: Counter[str] = Counter()
    for number in range(prepared.count):
        steps = prepared.trace(number)
        script = writer_of(variant, LEADERLESS).script(steps)
        assert script.steps[: len(steps)] == steps
        rules = [rule for rule, _ in script.steps]
        met.update(rules)
        assert script.loses_leader == (LEAVES in rules)
        deeds = {LEAVES: (HOLD,), RETURNS: (RELEASE,)}
        assert script.faults_at == {n: deeds[r] for n, r in enumerate(rules, 1) if r in deeds}
        for moved in script.moved:
            gone = rules[: moved.step].count(LEAVES) - rules[: moved.step].count(RETURNS)
            if moved.shown is None or not gone:
                continue
            assert FAR not in dict(moved.shown.leaders)
            if moved.shown.coordinator is not None:
                state, *_, partitions = moved.shown.coordinator
                waits = str(state).startswith("Prepare")
                met["waits"] += waits
                assert not waits or partitions == (False, True)
    assert met[LEAVES] == met[RETURNS] > 10
    assert bool(met[SKIP]) == skips
    assert bool(met["waits"]) != skips


# Schedules

PAIRS = st.integers(0, 3)
WANTED = st.builds(
    lambda before, move, after: (HOLD, RELEASE) * before + move + (HOLD, RELEASE) * after,
    PAIRS,
    st.sampled_from([(MOVE,), (HOLD, MOVE, RELEASE)]),
    PAIRS,
)


@given(st.lists(WANTED, min_size=1, max_size=8))
def test_a_schedule_has_all_that_each_trace_wants(wanted: list[tuple[str, ...]]) -> None:
    """In its order; and a trace goes on where a leader is gone as the trace wants it to be."""
    schedule = FaultSchedule.around(wanted)
    for faults, turns in zip(wanted, schedule.turns, strict=True):
        assert all(a.resumes_at < b.place for a, b in pairwise(turns))
        assert tuple(schedule.faults[turn.place] for turn in turns) == faults
        for number, turn in enumerate(turns, start=1):
            done = schedule.faults[: turn.resumes_at + 1]
            assert is_gone(done) == is_gone(faults[:number])


@given(WANTED, PAIRS)
def test_where_all_want_the_same_there_is_no_more(faults: tuple[str, ...], pairs: int) -> None:
    for one in (faults, (HOLD, RELEASE) * pairs, ("restart", "recover")):
        schedule = FaultSchedule.around([one, one])
        assert schedule.faults == one
        assert [turn.place for turn in schedule.turns[0]] == [*range(len(one))]


def test_a_time_out_leaves_time_for_all_before_it(
    scripts: list[tuple[PreparedPlan, int, NodeScript]],
) -> None:
    """Who waits for others' time-outs has a longer one; none where nothing times out."""
    played = [script for *_, script in scripts if MOVE in script.faults]
    schedule = FaultSchedule.around([script.faults for script in played])
    places = schedule.turns
    assert Counter(schedule.faults)[MOVE] == 1
    lasts = transaction_times(played, places)
    assert all(bool(script.times_out) == (s > 0) for script, s in zip(played, lasts, strict=True))
    stages = [stage(s, at, s.times_out) for s, at in zip(played, places, strict=True)]
    for script, at, here, lasts_s in zip(played, places, stages, lasts, strict=True):
        if script.times_out:
            first, _ = open_spans(script)[-1]
            meanwhile = range(stage(script, at, first), here)
            waits = [
                max((s for s, i in zip(lasts, stages, strict=True) if i == at), default=0.0)
                for at in meanwhile
            ]
            assert lasts_s > sum(waits) + STEP_S * len(meanwhile)


# What was recorded


def recorded(kind: str) -> tuple[str, list[dict[str, Any]]]:
    """The variant, and the traces."""
    path = FIXTURES / f"nodes-4.3.1-{kind}.jsonl"
    head, *traces = map(json.loads, path.read_text().splitlines())
    return head["variant"], traces


def answer_to(ask: Any, row: dict[str, Any] | None) -> Any:
    """What was recorded, if that was asked."""
    if isinstance(ask, BrokerFault):
        assert row is not None
        assert row["deed"] == ask.name
        return row["epoch"]
    request = ask.call.request
    if row is None or (request.api_key, request.api_version) != (
        row.get("api"),
        row.get("version"),
    ):
        raise AssertionError(f"{request.api_key} was not asked when it was recorded")
    payload = bytes.fromhex(row["answer"])
    _, body = decode_response(request.api_key, request.api_version, payload)
    return ask.call.read(body)


def replayed(
    trace: dict[str, Any], variant: str, requests: Requests, script: NodeScript | None = None
) -> TraceEnd:
    """How a trace ends with the answers that were recorded."""
    script = script or writer_of(variant).script(steps_of(trace))
    partitions = tuple((name, index) for name, index in trace["partitions"])
    ground = TraceResources(
        trace["id"], partitions, tuple(trace["log_ends"]), trace["coordinator_epoch"]
    )
    asking: Any = NodesSession(script, ground, conversation(EVERY_VERSION, requests)).run()
    calls = iter(trace["calls"])
    asks = next(asking)
    while True:
        asked = [ask for ask in asks if not isinstance(ask, Wait)]
        answers = [answer_to(ask, next(calls, None)) for ask in asked]
        try:
            asks = asking.send(answers)
        except StopIteration as ended:
            outcome: TraceEnd = ended.value
            return outcome


@pytest.mark.parametrize("requests", RECORDED)
def test_the_nodes_are_as_their_model(requests: Requests) -> None:
    variant, traces = recorded(requests)
    deeds = Counter(row["deed"] for trace in traces for row in trace["calls"] if "deed" in row)
    assert min(deeds[deed] for deed in (HOLD, RELEASE, MOVE)) >= 3
    for trace in traces:
        ended = replayed(trace, variant, requests)
        assert (ended.difference, ended.is_undecided) == (None, False)
        assert ended.steps == len(trace["steps"])


@pytest.mark.parametrize(
    ("requests", "wrong"),
    [
        ("v1", "fence=same_epoch"),
        ("v2", "fence=same_epoch"),
        ("v2", "marker_epoch=strictly_newer"),
    ],
)
def test_another_kafkas_rules_are_noticed(requests: Requests, wrong: str) -> None:
    """That a marker which comes again is refused is seen only where a coordinator moved."""
    variant, traces = recorded(requests)
    differs = [t for t in traces if is_noticed(t, f"{variant}/{wrong}", requests)]
    assert differs
    if wrong.startswith("marker_epoch"):
        for trace in differs:
            assert "coordinator_moves" in {rule for rule, _ in steps_of(trace)}


def test_that_a_marker_waits_is_noticed_where_it_is_skipped() -> None:
    """The brokers of 4.3.1 are as their model, and not as that of 4.2 (KAFKA-20734)."""
    variant, traces = recorded("leaderless")
    skipping = [trace for trace in traces if SKIP in {rule for rule, _ in steps_of(trace)}]
    assert 0 < len(skipping) < len(traces)
    for trace in traces:
        script = writer_of(variant, LEADERLESS).script(steps_of(trace))
        assert replayed(trace, variant, "v2", script).difference is None
    for trace in skipping:
        waits = writer_of(f"{variant}/leaderless_marker=waits", LEADERLESS)
        ended = replayed(trace, variant, "v2", waits.script(steps_of(trace)))
        assert ended.difference is not None
        assert ended.difference.expected["coordinator.state"].startswith("Prepare")


def is_noticed(trace: dict[str, Any], variant: str, requests: Requests) -> bool:
    """A difference; or what is asked under these rules was never asked of these nodes."""
    try:
        return replayed(trace, variant, requests).difference is not None
    except AssertionError as other:
        return "was not asked" in str(other)


def test_a_late_marker_is_seen_and_not_guessed() -> None:
    """Where it was written, the log has it before the new coordinator's; nowhere else."""
    met: Counter[bool] = Counter()
    for requests in RECORDED:
        variant, traces = recorded(requests)
        for trace in traces:
            script = writer_of(variant).script(steps_of(trace))
            is_late = replayed(trace, variant, requests).departs_at > 0
            met[is_late] += 1
            if is_late:
                without = replace(script, other=replace(script, branch=0))
                ended = replayed(trace, variant, requests, without)
                assert ended.difference is not None
                assert any(".log" in path for path in ended.difference.expected)
    assert min(met[True], met[False]) > 0


def changed(
    traces: Sequence[dict[str, Any]], api: int, field: str, value: Any
) -> Iterator[dict[str, Any]]:
    """Traces in the first answer of which behind a deed the field is another."""
    for trace in traces:
        deeds = [at for at, row in enumerate(trace["calls"]) if "deed" in row]
        for at, row in enumerate(trace["calls"]):
            if row.get("api") != api or not deeds or at < deeds[0]:
                continue
            _, body = decode_response(api, row["version"], bytes.fromhex(row["answer"]))
            if "Prepare" in str(body):
                continue  # asked again until it is as expected
            payload = encode_response(api, row["version"], 0, with_field(body, field, value))
            if payload.hex() != row["answer"]:
                calls = [*trace["calls"]]
                calls[at] = row | {"answer": payload.hex()}
                yield trace | {"calls": calls}
                break


def is_read_once(script: NodeScript) -> bool:
    """All that is looked at is compared: not where a marker may be late, where time passes, or
    where the trace leaves something open behind."""
    shown = script.settled.coordinator
    is_open = shown is not None and shown[0] == "Ongoing"
    return not (script.branch or script.times_out or is_open)


@pytest.mark.parametrize("requests", RECORDED)
@pytest.mark.parametrize(
    ("api", "field", "value", "path"),
    [
        (65, "transaction_state", "Dead", "coordinator.state"),
        (65, "producer_epoch", 7, "coordinator.producer_epoch"),
        (1, "last_stable_offset", 99, "last_stable_offset"),
        (1, "records", b"", ".log"),
        (61, "coordinator_epoch", 9, "coordinator_epoch"),
        (61, "active_producers", [], ".producers"),
        (26, "error_code", 90, "answer.error"),
    ],
)
def test_a_changed_answer_is_noticed(
    requests: Requests, api: int, field: str, value: Any, path: str
) -> None:
    variant, traces = recorded(requests)
    written = ((trace, writer_of(variant).script(steps_of(trace))) for trace in traces)
    once = [trace for trace, script in written if is_read_once(script)]
    shown = list(islice(changed(once, api, field, value), 5))
    assert shown
    for trace in shown:
        difference = replayed(trace, variant, requests).difference
        assert difference is not None
        assert any(path in name for name in difference.expected), difference


def test_a_coordinator_that_moves_unasked_decides_nothing() -> None:
    variant, traces = recorded("v2")
    held = [t for t in traces if any(row.get("deed") == HOLD for row in t["calls"])]
    assert held
    for trace in held:
        calls = [
            row | {"epoch": row["epoch"] + 1} if row.get("deed") == HOLD else row
            for row in trace["calls"]
        ]
        assert replayed(trace | {"calls": calls}, variant, "v2").is_undecided


def ending(prepared: PreparedPlan, script: NodeScript, departs_at: int) -> BrokersBackend:
    """Nodes at which each trace ends at once as the model says, with or without a late marker."""
    ended = TraceEnd(steps=len(script.steps), departs_at=departs_at)
    writer = writer_of(prepared.plan.variant, prepared.plan.scope)
    backend = BrokersBackend(prepared, writer, SimpleNamespace(broken=frozenset()))
    scheduler: Any = SimpleNamespace(run=lambda scripts: ((n, ended) for n, _ in scripts))
    backend.scheduler = scheduler
    return backend


def test_what_comes_behind_a_late_marker_covers_nothing(
    scripts: list[tuple[PreparedPlan, int, NodeScript]],
) -> None:
    prepared, number, script = next(one for one in scripts if one[2].branch)
    _, edges = prepared.walk(number)
    assert edges is not None
    for departs_at, taken in ((0, len(script.steps)), (script.branch, script.branch - 1)):
        rows = ending(prepared, script, departs_at).judge([TraceRange(number, number + 1)])
        found = found_in(row for row in rows if row is not None)
        assert found.summary.transitions_covered == len(set(edges[:taken]))


# Nodes that run


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka nodes")
def test_on_nodes(tmp_path: Path) -> None:
    """4.3.1 loses the marker of a partition that has no leader: KAFKA-20734. What differs from
    another release's rules is found on what was recorded: shrinking takes minutes at nodes."""
    given = ["--system", "kafka", "--nodes", "3", "--faults", "nodes", "--scope", SCOPE]
    some = ["--variant", "4.3.1/level=2/requests=v2", "--traces-from", "hunts", "--traces", "20"]
    try:
        ended = main(["run", *given, *some, "--out", str(tmp_path / "o")])
    except MissingTool as error:
        pytest.skip(str(error))
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert (ended, report["traces"], report["undecided"]) == (0, 20, 0)
    assert not report["divergences"]
    for name in ("no_lost_write", "no_aborted_read"):
        assert report["guarantees"][name] == "violated"
        assert (tmp_path / "o" / "guarantees" / f"{name}.json").exists()
    done = json.loads((tmp_path / "o" / "nodes.json").read_text())["done"]
    assert done["election of another coordinator"] + done["SIGKILL of the coordinator"] > 1
