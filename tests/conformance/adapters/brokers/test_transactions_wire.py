"""Brokers held to the model of transactions: recorded answers, planted differences, bad use."""

import asyncio
import functools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.clock import MACHINE_CLOCK, BrokersClock, MachineClock
from conformance.adapters.brokers.exchange import BrokerFault, TraceEnd, Wait
from conformance.adapters.brokers.kafka.admin import Supported
from conformance.adapters.brokers.transactions import testbed_of_servers, transaction_session
from conformance.adapters.brokers.transactions.testbed_of_servers import TRANSACTION_S
from conformance.adapters.brokers.transactions.transaction_probes import with_room
from conformance.adapters.brokers.transactions.transaction_script import (
    TransactionScript,
    TransactionScriptWriter,
)
from conformance.adapters.brokers.transactions.transaction_session import (
    Times,
    TraceResources,
    TransactionSession,
)
from conformance.adapters.brokers.wire import Requests, conversation
from conformance.adapters.impl.transactions.tables import tables_of
from conformance.generate.broker_graph import AT_ONE, MARKER, TIMES_OUT, events_at
from conformance.judging.compositions import SERVER_ACTORS, judged_composition
from conformance.judging.plan import Plan, configuration, prepare
from conformance.judging.reports.breaches import write_breaches
from impl import decode_response, encode_response
from impl.broker.config import NodeConfig
from impl.broker.server import Server
from impl.coordinator.config import TransactionConfig
from impl.partition.log_config import LogConfig
from impl.partition.rules import DEFAULT_RULES
from proofs.java import MissingTool
from proofs.trace.format import Header, Instance, dumps, loads
from proofs.trace.replay import Stepper, configuration_of, record, replay
from tests.conformance.adapters.brokers.recorded_traces import steps_of, with_field

pytestmark = pytest.mark.xdist_group("transactions wire")  # what is explored is cached

FIXTURES = Path(__file__).parent / "fixtures"
KINDS: list[Requests] = ["v1", "v2"]
SCOPES = ["default", "offsets", "exhausted", "small", "forgotten"]
RECORDED = [(scope, kind) for scope in SCOPES for kind in KINDS]
END_TXN = 26
PRODUCERS = 61
"""DescribeProducers."""
EVERY_VERSION = Supported(dict.fromkeys(range(100), (0, 12)), {})


def plan_of(variant: str, scope: str = "transactions-default") -> Plan:
    return Plan(scope=scope, variant=variant, actors=SERVER_ACTORS, faults="connections")


@functools.cache
def writer_of(variant: str, scope: str) -> TransactionScriptWriter:
    return TransactionScriptWriter(tables_of(with_room(configuration(plan_of(variant, scope)))))


@functools.cache
def recorded(scope: str, requests: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The scope and variant, and the traces."""
    path = FIXTURES / f"transactions-4.3.1-{scope}-{requests}.jsonl"
    head, *traces = map(json.loads, path.read_text().splitlines())
    return head, traces


class Unasked(AssertionError):
    """Something is asked that was not when it was recorded."""


def replayed(
    trace: dict[str, Any],
    head: dict[str, str],
    requests: Requests,
    rule: str,
    *,
    shows_producers: bool = True,
    faults: list[str] | None = None,
    clock: BrokersClock = MACHINE_CLOCK,
) -> TraceEnd:
    """How a trace ends with the answers that were recorded, where `rule` goes over the variant.
    `faults` are those that it waits for."""
    script = writer_of(head["variant"] + rule, head["scope"]).script(steps_of(trace))
    partitions = tuple((name, index) for name, index in trace["partitions"])
    ground = TraceResources(
        trace["id"],
        partitions,
        (0,) * len(partitions),
        trace["coordinator_epoch"],
        trace["group"],
        trace["first_epoch"],
    )
    times = Times(TRANSACTION_S if script.times_out else 0.0)
    speaks = conversation(EVERY_VERSION, requests)
    trace_session = TransactionSession(
        script, ground, speaks, times=times, shows_producers=shows_producers, clock=clock
    )
    asking = trace_session.run()
    calls = iter([row for row in trace["calls"] if shows_producers or row["api"] != PRODUCERS])
    asks = next(asking)
    while True:
        answers = []
        for ask in asks:
            if isinstance(ask, Wait):
                continue
            if isinstance(ask, BrokerFault):
                answers.append(None if faults is None else faults.append(ask.name))
                continue
            request, row = ask.call.request, next(calls, None)
            if row is None or (request.api_key, request.api_version) != (
                row["api"],
                row["version"],
            ):
                raise Unasked(f"{request.api_key}")
            payload = bytes.fromhex(row["answer"])
            _, body = decode_response(request.api_key, request.api_version, payload)
            answers.append(ask.call.read(body))
        try:
            asks = asking.send(answers)
        except StopIteration as ended:
            outcome: TraceEnd = ended.value
            return outcome


@pytest.mark.parametrize(("scope", "requests"), RECORDED)
def test_the_broker_is_as_its_model(scope: str, requests: Requests) -> None:
    head, traces = recorded(scope, requests)
    assert len(traces) >= 4
    for trace in traces:
        ended = replayed(trace, head, requests, "")
        assert (ended.difference, ended.is_undecided) == (None, False)
        assert ended.steps == len(trace["steps"])
        assert ended.left is not None, "nothing is left open"


@pytest.mark.parametrize("scope", ["default", "offsets"])
def test_a_broker_may_not_tell_of_producers(monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    monkeypatch.setattr(transaction_session, "GROUP_TIMEOUT_S", -1.0)  # nothing comes later
    head, traces = recorded(scope, "v2")
    for trace in traces:
        ended = replayed(trace, head, "v2", "", shows_producers=False)
        assert (ended.difference, ended.is_undecided) == (None, False)
    changes = list(islice(changed(traces, 1, "records", b""), 3))
    assert changes
    for trace in changes:
        assert replayed(trace, head, "v2", "", shows_producers=False).difference is not None


@pytest.mark.parametrize(
    ("scope", "requests", "wrong"),
    [
        ("default", "v1", "verification=none"),
        ("default", "v1", "fence=same_epoch"),
        ("default", "v2", "fence=same_epoch"),
        ("offsets", "v1", "verification=none"),
        ("offsets", "v2", "fence=same_epoch"),
        ("small", "v1", "fence=same_epoch"),
        ("small", "v2", "fence=same_epoch"),
        ("exhausted", "v1", "rotation=clients"),
        ("exhausted", "v2", "rotation=clients"),
    ],
)
def test_another_kafkas_rules_are_noticed(scope: str, requests: Requests, wrong: str) -> None:
    head, traces = recorded(scope, requests)
    found = [replayed(trace, head, requests, f"/{wrong}").difference for trace in traces]
    assert any(found)


@pytest.mark.parametrize("requests", KINDS)
def test_levels_differ_in_nothing_that_this_scope_shows(requests: Requests) -> None:
    head, traces = recorded("default", requests)
    lower = "/level=0" if requests == "v1" else "/level=1"
    for trace in traces:
        ended = replayed(trace, head, requests, lower)
        assert (ended.difference, ended.is_undecided) == (None, False)


def test_behind_its_time_out_who_is_stuck_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    head, traces = recorded("small", "v2")
    monkeypatch.setattr(TransactionScript, "is_stuck", True)
    for trace in traces:
        faults: list[str] = []
        ended = replayed(trace, head, "v2", "", faults=faults)
        assert (ended.difference, ended.is_undecided) == (None, False)
        assert faults == [TIMES_OUT]


# Planted: a broker that shows something else


def changed(
    traces: Sequence[dict[str, Any]], api: int, field: str, value: Any
) -> Iterator[dict[str, Any]]:
    """Traces in one answer of which the field is another: the first that it can be in, for what a
    trace leaves behind is cleared away without a look."""
    for trace in traces:
        for place, row in enumerate(trace["calls"]):
            if row["api"] != api:
                continue
            _, body = decode_response(api, row["version"], bytes.fromhex(row["answer"]))
            payload = encode_response(api, row["version"], 0, with_field(body, field, value))
            if payload.hex() != row["answer"]:
                calls = [*trace["calls"]]
                calls[place] = row | {"answer": payload.hex()}
                yield trace | {"calls": calls}
                break


CHANGED = [
    ("default", 65, "transaction_state", "Dead", "coordinator.state"),
    ("default", 65, "producer_epoch", 7, "coordinator.producer_epoch"),
    ("default", 1, "last_stable_offset", 99, "last_stable_offset"),
    ("default", 1, "high_watermark", 99, "high_watermark"),
    ("default", 1, "records", b"", ".log"),
    ("default", 61, "last_sequence", 9, "last_sequence"),
    ("default", 61, "coordinator_epoch", 9, "coordinator_epoch"),
    ("default", 61, "current_txn_start_offset", 9, "current_txn_first_offset"),
    ("default", 61, "active_producers", [], ".producers"),
    ("default", 26, "error_code", 90, "answer.error"),
    ("default", 22, "producer_epoch", 9, "answer.producer_epoch"),
    ("default", 0, "base_offset", 9, "answer.base_offset"),
    ("offsets", 28, "error_code", 90, "answer.error"),
    ("offsets", 9, "committed_offset", 77, "committed"),
    ("offsets", 9, "error_code", 0, "stable"),
    ("exhausted", 22, "producer_id", 99, ""),
]


@pytest.mark.parametrize("requests", KINDS)
@pytest.mark.parametrize(("scope", "api", "field", "value", "path"), CHANGED)
def test_a_changed_answer_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    requests: Requests,
    scope: str,
    api: int,
    field: str,
    value: Any,
    path: str,
) -> None:
    monkeypatch.setattr(transaction_session, "GROUP_TIMEOUT_S", -1.0)  # nothing comes later
    head, traces = recorded(scope, requests)
    shown = list(islice(changed(traces, api, field, value), 5))
    assert shown
    for trace in shown:
        difference = replayed(trace, head, requests, "").difference
        assert difference is not None
        assert any(path in name for name in difference.expected), difference


class SlowMachine(MachineClock):
    """A minute passes between any two looks at the clock."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        """See `BrokersClock`."""
        self._now_s += 60.0
        return self._now_s


def test_on_a_slow_machine_a_transaction_may_have_timed_out() -> None:
    """It was the coordinator's PRODUCER_FENCED behind a minute that was taken for a divergence."""
    head, traces = recorded("offsets", "v1")
    for trace in islice(changed(traces, END_TXN, "error_code", 90), 5):
        assert replayed(trace, head, "v1", "").difference is not None
        end = replayed(trace, head, "v1", "", clock=SlowMachine())
        assert end.is_undecided


# Traces


@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_traces_take_markers_at_once(tmp_path: Path, variant: str) -> None:
    """Nothing comes between a decision and its markers, and all of a trace can be played."""
    plan = plan_of(variant, "transactions-tiny")
    prepared = prepare(plan, tmp_path)
    writer = TransactionScriptWriter(tables_of(with_room(configuration(plan))))
    assert prepared.cover_traces > 10
    for number in range(prepared.cover_traces):
        steps = prepared.trace(number)
        script = writer.script(steps)
        assert script.steps[: len(steps)] == steps
        assert {rule for rule, _ in steps} <= events_at(AT_ONE)
        written = [i for i, (rule, _) in enumerate(script.steps) if rule == MARKER]
        assert not any(m.shown and m.step in written for m in script.moved)
        markers = [dict(choice)["partition"] for rule, choice in script.steps if rule == MARKER]
        assert all(a < b for a, b in pairwise(markers)), "one transaction, in partition order"


def test_the_first_breach_of_a_guarantee_is_kept(tmp_path: Path) -> None:
    """KAFKA-17754: a delayed EndTxn of V1. One step less breaks nothing."""
    plan = replace(plan_of("v1"), traces_from=("hunts",), traces=150)
    prepared = prepare(plan, tmp_path / "prepared")
    write_breaches(prepared, range(prepared.count), tmp_path / "guarantees", "kafka")
    model, k = judged_composition(plan.scope).model, configuration(plan)
    check = {guarantee.name: guarantee.check for guarantee in model.guarantees.GUARANTEES}
    files = sorted((tmp_path / "guarantees").glob("*.jsonl"))
    assert "one_outcome" in {file.stem for file in files}
    for file in files:
        *earlier, last = replay(loads(file.read_text()), model)
        assert all(check[file.stem](k, world) for world in earlier)
        assert not check[file.stem](k, last)


# Bad use


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--nodes", "3"], "--faults nodes"),
        (["--nodes", "3", "--faults", "connections"], "--faults 'connections'"),
        (["--nodes", "3", "--faults", "nodes", "--kafka", "3.9.2-zookeeper"], "KRaft"),
        (["--faults", "nodes"], "--faults 'nodes'"),
        (["--actors", "client,coordinator,leader"], "--actors"),
        (["--scope", "transactions-log"], "appends"),
        (["--nodes", "3", "--faults", "nodes", "--scope", "transactions-offsets"], "offsets"),
        (["--nodes", "3", "--faults", "nodes", "--scope", "transactions-exhausted"], "last epoch"),
        (["--kafka", "2.0.0"], "--kafka '2.0.0'"),
    ],
)
def test_what_cannot_be_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    given = ["--system", "kafka", "--scope", "transactions-tiny", "--out", str(tmp_path / "o")]
    assert main(["run", *given, *arguments]) == 2
    assert word in capsys.readouterr().err


# A broker that listens somewhere: ours, over its sockets


@contextmanager
def served(config: NodeConfig) -> Iterator[str]:
    """`impl`'s broker in a thread of its own: its address."""
    ready, over = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        async with Server(config) as server:
            ports.append(server.port)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield f"wire://127.0.0.1:{ports[0]}"
    finally:
        over.set()
        thread.join(10)


HERE = NodeConfig(host="127.0.0.1", port=0)
UNVERIFIED = replace(HERE, log=LogConfig(rules=replace(DEFAULT_RULES, verifies=False)))


def judged(address: str, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the report."""
    code = main(["run", "--system", address, "--out", str(out), "--traces", "20", *more])
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    assert (report["traces"], report["undecided"]) == (20, 0)
    return code, report


@pytest.mark.parametrize("variant", KINDS)
def test_a_broker_that_listens_is_judged(tmp_path: Path, variant: str) -> None:
    with served(HERE) as address:
        more = ["--scope", "transactions-tiny", "--variant", variant]
        code, report = judged(address, tmp_path / "o", *more)
        assert (code, report["divergences"]) == (0, [])


OLDER_MARKERS = replace(
    HERE, log=LogConfig(rules=replace(DEFAULT_RULES, strict_marker_epoch=False))
)


@pytest.mark.parametrize(("config", "differs"), [(HERE, []), (OLDER_MARKERS, ["marker_epoch"])])
def test_an_older_rule_shows_in_its_trace(
    tmp_path: Path, config: NodeConfig, differs: list[str]
) -> None:
    """No trace of `transactions-default` shows which epoch a late marker must have."""
    told = tmp_path / "told.json"
    with served(config) as address:
        more = ["--variant", "v2", "--json", str(told)]
        assert main(["distinguish", "--system", address, *more]) == bool(differs)
    rows = json.loads(told.read_text())["rules"]
    assert [row["rule"] for row in rows if row["says"].startswith("differs")] == differs
    assert sum(row["says"].startswith("told apart") for row in rows) >= 2


def test_the_newest_variant_that_fits_is_taken(tmp_path: Path) -> None:
    level = replace(HERE, transactions=TransactionConfig(transaction_version=0))
    for config, variant in (
        (HERE, "4.3.1/level=2/requests=v2"),
        (level, "4.3.1/level=0/requests=v1"),
    ):
        with served(config) as address:
            out = tmp_path / f"level-{config.transactions.transaction_version}"
            code, report = judged(address, out, "--scope", "transactions-tiny")
            assert (code, report["variant"]) == (0, variant)


def test_probes_find_what_the_traces_do_not_show(tmp_path: Path) -> None:
    """No trace of this scope has a batch that is late: only the probe asks for one."""
    more = ["--scope", "transactions-tiny", "--variant", "v1"]
    with served(UNVERIFIED) as address:
        code, report = judged(address, tmp_path / "o", *more)
    assert code == 1
    rules = {divergence["rule"] for divergence in report["divergences"]}
    assert rules <= {"probe_duplicates", "probe_old_epoch"}, rules


# One trace


def a_trace(path: Path, scope: str, variant: str, steps: Sequence[Instance]) -> Path:
    """A trace file, as `explore` writes it."""
    model = judged_composition(scope).model
    stepper = Stepper(model, configuration_of(model, scope, variant))
    path.write_text(dumps(record(stepper, Header(scope, variant), steps)[0]))
    return path


WRITES: Sequence[Instance] = [
    ("instance_begins", (("instance", 0),)),
    ("producer_id_is_asked", (("instance", 0), ("heard", 1))),
    ("transaction_begins", (("instance", 0),)),
    ("record_is_sent", (("instance", 0), ("partition", 0))),
]
V1_WRITES: Sequence[Instance] = [
    *WRITES,
    ("partitions_are_added", (("instance", 0), ("heard", 1))),
    ("batch_is_produced", (("instance", 0), ("partition", 0), ("heard", 1))),
]
A_TIME_OUT: Sequence[Instance] = [
    *WRITES,
    ("batch_is_produced", (("instance", 0), ("partition", 0), ("heard", 1))),
    ("transaction_times_out", ()),
]
SENDS: Sequence[Instance] = [
    ("client_sends", (("producer", 0), ("partition", 0))),
    ("request_arrives", (("producer", 0), ("partition", 0))),
]


@pytest.mark.parametrize(
    ("scope", "variant", "steps", "config", "code"),
    [
        ("transactions-tiny", "v1", V1_WRITES, HERE, 0),
        ("transactions-tiny", "v1", V1_WRITES, UNVERIFIED, 1),
        ("idempotent-tiny", "4.3.1", SENDS, HERE, 0),
    ],
)
def test_a_trace_replays_at_a_broker(
    tmp_path: Path,
    scope: str,
    variant: str,
    steps: Sequence[Instance],
    config: NodeConfig,
    code: int,
) -> None:
    trace, answer = a_trace(tmp_path / "t", scope, variant, steps), tmp_path / "answer.json"
    with served(config) as address:
        assert main(["replay", str(trace), "--system", address, "--json", str(answer)]) == code
    difference = json.loads(answer.read_text())["first_divergence"]
    assert (difference is not None) == bool(code)
    assert not code or difference["rule"].startswith("probe_")


IMPATIENT = TransactionConfig(abort_timed_out_interval_ms=50)
TWICE = replace(IMPATIENT, fence_bump="twice")


@pytest.mark.parametrize(("config", "code"), [(IMPATIENT, 0), (TWICE, 1)])
def test_a_transaction_times_out_at_a_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: TransactionConfig, code: int
) -> None:
    """Planted: an abort that takes two epochs."""
    monkeypatch.setattr(testbed_of_servers, "TRANSACTION_S", 1.0)
    trace = a_trace(tmp_path / "t", "transactions-small", "v2", A_TIME_OUT)
    with served(replace(HERE, transactions=config)) as address:
        assert main(["replay", str(trace), "--system", address]) == code


def test_what_is_not_played_is_undecided(tmp_path: Path) -> None:
    """Another's broker brings no marker's loss about: the steps behind it are not followed."""
    committed = [
        *V1_WRITES,
        ("commit_is_asked", (("instance", 0),)),
        ("transaction_is_ended", (("instance", 0), ("heard", 1))),
        ("marker_is_written", (("partition", 0), ("heard", 0))),
    ]
    trace = a_trace(tmp_path / "t", "transactions-markers", "v1", committed)
    answer = tmp_path / "answer.json"
    with served(HERE) as address:
        assert main(["replay", str(trace), "--system", address, "--json", str(answer)]) == 3
    assert json.loads(answer.read_text())["left_out"] == "not played there: marker_is_written"


# A broker that runs


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize(
    ("more", "code"),
    [
        ([], 0),
        pytest.param(
            ["--variant", "4.3.1/level=2/requests=v1/verification=none"],
            1,
            marks=pytest.mark.full,
        ),
    ],
)
def test_on_a_broker(tmp_path: Path, more: list[str], code: int) -> None:
    given = ["--system", "kafka", "--scope", "transactions-default", "--faults", "connections"]
    try:
        ended = main(["run", *given, *more, "--traces", "60", "--out", str(tmp_path / "o")])
    except MissingTool as error:
        pytest.skip(str(error))
    assert ended == code
    report = json.loads((tmp_path / "o" / "report.json").read_text())
    assert (report["traces"], report["undecided"]) == (60, 0)
    assert bool(report["divergences"]) == bool(code)
