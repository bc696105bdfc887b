"""A judge of clients is believed once it finds those that are wrong, and leaves the right one."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.clients import processes, runs
from conformance.adapters.clients.__main__ import main as judge_file
from conformance.adapters.clients.judgement import (
    DIVERGES,
    EXPLAINED,
    UNDECIDED,
    ClientJudgement,
    judge_trace,
)
from conformance.adapters.clients.outcome import SENT_NOTHING, TOLD_LITTLE, outcome_of
from conformance.adapters.clients.processes import ClientCommand
from conformance.adapters.clients.programs import lines
from conformance.adapters.clients.recorder import record_runs
from conformance.adapters.clients.run_plan import (
    ClientSettings,
    FaultKind,
    RequestFault,
    RunPlan,
    Send,
)
from conformance.adapters.clients.trace import (
    UNFINISHED,
    ClientTrace,
    ProduceRequested,
    RecordOutcome,
    format_trace,
    parse_trace,
)
from conformance.judging.causes import Severity
from conformance.judging.signatures import Finding, count_findings
from impl.protocol.errors import ErrorCode
from model.idempotent.variants import DEFAULT_VARIANT, parse

CLIENT = Path(__file__).with_name("small_client.py")
REPOSITORY = Path(__file__).parents[4]
SENDS = tuple(Send(partition, number) for number in range(6) for partition in (0, 1))
REFUSED = RequestFault(FaultKind.REFUSE, ErrorCode.NOT_ENOUGH_REPLICAS)
CUT = RequestFault(FaultKind.CUT_ANSWERED)
PASS = RequestFault()
PLANS = (
    RunPlan(
        0, 0, ClientSettings(max_in_flight=1), SENDS, (PASS, PASS, CUT, PASS, REFUSED, PASS, CUT)
    ),
    RunPlan(
        0,
        1,
        ClientSettings(max_in_flight=1),
        SENDS,
        (REFUSED, RequestFault(FaultKind.CUT), PASS, REFUSED),
    ),
)


@pytest.fixture(autouse=True)
def finds_our_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


def small(mode: str) -> ClientCommand:
    return ClientCommand(mode, (sys.executable, str(CLIENT), mode), runs_at_once=1)


async def traces_of(mode: str) -> list[ClientTrace]:
    return [trace async for trace in record_runs(small(mode), PLANS, at_once=2)]


def judgements(mode: str) -> list[tuple[ClientTrace, ClientJudgement]]:
    traces = asyncio.run(traces_of(mode))
    assert [trace.problem for trace in traces] == ["", ""]
    return [(trace, judge_trace(parse(DEFAULT_VARIANT), trace)) for trace in traces]


def test_a_right_client_is_explained():
    for trace, judgement in judgements("right"):
        assert judgement.verdict == EXPLAINED, judgement
        sent = [event for event in trace.events if isinstance(event, ProduceRequested)]
        assert judgement.requests > len(sent) > len(SENDS)
        assert {"send_new", "send_again", "on_answer"} <= judgement.rules


@pytest.mark.parametrize(
    ("mode", "rule", "fields"),
    [
        ("skips", "produce", {"base_sequence"}),
        ("renumbers", "produce", {"base_sequence"}),
        ("overtakes", "produce", {"records"}),
        ("asks", "init_producer_id", {"request"}),
    ],
)
def test_a_wrong_client_is_found(mode: str, rule: str, fields: set[str]):
    found = [judgement for _, judgement in judgements(mode)]
    assert {judgement.verdict for judgement in found} == {DIVERGES}
    for judgement in found:
        assert judgement.rule == rule
        assert fields <= {path.rpartition(".")[2] for path in judgement.observed}
        assert judgement.observed.keys() == judgement.expected.keys()
        assert judgement.allowed


def test_a_client_that_pretends_is_found_by_what_it_tells():
    found = [judgement for _, judgement in judgements("pretends")]
    assert {judgement.verdict for judgement in found} == {DIVERGES}


def test_a_recorded_run_is_judged_as_the_run_itself():
    for trace, judgement in judgements("overtakes"):
        again = parse_trace(format_trace(trace), "memory")
        assert again == trace
        assert judge_trace(parse(DEFAULT_VARIANT), again) == judgement


def command_line(mode: str, out: Path) -> list[str]:
    client = f"{sys.executable} {CLIENT} {mode}"
    arguments = ["--system", "client", "--client", client, "--faults", "none", "--traces", "3"]
    return ["run", *arguments, "--out", str(out)]


def test_a_command_is_judged_and_reported(tmp_path: Path):
    out = tmp_path / "right"
    assert main(command_line("right", out)) == 0
    report = json.loads((out / "report.json").read_text())
    assert (report["verdict"], report["conforms"], report["traces"]) == ("holds", True, 3)
    assert report["steps"] > 3 * 6
    assert report["divergences"] == []
    assert "violated" not in report["guarantees"].values()
    assert report["guarantees"]["acked_is_stored"] == "holds"
    before = (out / "report.json").read_bytes()
    assert main(command_line("right", out)) == 0  # nothing is left to run
    assert (out / "report.json").read_bytes() == before


def test_a_divergence_is_a_file_with_its_trace(tmp_path: Path, capsys):
    out = tmp_path / "skips"
    assert main(command_line("skips", out)) == 1
    report = json.loads((out / "report.json").read_text())
    (row,) = report["divergences"]
    assert (row["rule"], row["breaks"]) == ("sequences_follow", Severity.PROTOCOL)
    assert report["diverging_traces"] == row["occurrences"] > 0
    trace = parse_trace((out / row["trace"]).read_text(), row["trace"])
    assert judge_trace(parse(DEFAULT_VARIANT), trace).verdict == DIVERGES
    assert 'failures="1"' in (out / "junit.xml").read_text()
    told = (out / row["trace"]).with_suffix(".txt").read_text()
    assert "base_sequence is 5, the model says 4 at most\nbreaks the protocol\n" in told
    assert re.search(r"^nothing explains this produce, event \d+:$", told, re.MULTILINE)
    assert "the model would have allowed:" in told
    assert judge_file([str(out / row["trace"])]) == 1
    assert "base_sequence is 5, the model says 4" in capsys.readouterr().out


def test_a_client_that_waits_for_the_leader_alone_is_found(tmp_path: Path):
    """The model has no acks: it explains all that this client sends."""
    out = tmp_path / "hurries"
    assert {judgement.verdict for _, judgement in judgements("hurries")} == {EXPLAINED}
    assert main(command_line("hurries", out)) == 1
    (row,) = json.loads((out / "report.json").read_text())["divergences"]
    assert (row["rule"], row["breaks"]) == ("waits_for_all_replicas", Severity.PROTOCOL)
    assert (row["expected"], row["observed"]) == ({"request.acks": -1}, {"request.acks": 1})


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--system", "client"], "--client java:RELEASE"),
        (["--client", "x"], "--system client"),
        (["--system", "client", "--client", "java:1.0.0"], "1.0.0"),
        (["--system", "client", "--client", "x", "--codec", "values"], "--codec"),
        (["--system", "client", "--client", "x", "--scope", "idempotent-tiny"], "--scope is not"),
        (["--system", "client", "--client", "x", "--backend", "processes"], "--backend is not"),
        (["--system", "client", "--client", "x", "--no-automatic-masks"], "--no-automatic-masks"),
        (["--system", "client", "--client", "x", "--faults", "nodes"], "--faults"),
    ],
)
def test_bad_use(arguments: list[str], part: str, tmp_path: Path, capsys):
    assert main(["run", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert part in capsys.readouterr().err


@pytest.mark.parametrize("client", ["/no/such/client", "nosuch", "cat 'x", ""])
def test_a_client_that_is_not_there_is_refused_before_any_work(client: str, tmp_path: Path, capsys):
    arguments = ["--system", "client", "--client", client, "--traces", "1"]
    assert main(["run", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert repr(client) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_client_that_sends_nothing_is_undecided(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    """`cat` gives each line back, and sends no request: nothing was shown, nothing holds."""
    monkeypatch.setattr(RunPlan, "timeout_s", 0.2)
    arguments = ["--system", "client", "--client", "cat", "--traces", "2"]
    assert main(["run", *arguments, "--out", str(tmp_path / "out")]) == 3
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["verdict"], report["undecided"], report["steps"]) == ("undecided", 2, 0)
    assert report["undecided_because"] == {UNFINISHED: 2}
    assert f"2 runs: {UNFINISHED}" in capsys.readouterr().out


def test_a_client_that_hangs_in_a_run_does_not_hold_the_next(tmp_path: Path, monkeypatch):
    """The first process hangs; the next run has another."""
    monkeypatch.setattr(RunPlan, "timeout_s", 1.5)
    text = 'mkdir "$0" && exec sleep 60; while read run rest; do echo "$run closed"; done'
    command = ClientCommand("hangs", ("sh", "-c", text, str(tmp_path / "began")), runs_at_once=1)

    async def recorded() -> list[str]:
        return [trace.problem async for trace in record_runs(command, PLANS, 1)]

    assert asyncio.run(recorded()) == [UNFINISHED, ""]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("read run && exit 7", "the client ended with exit code 7 before its run ended"),
        ("read run rest && exec 1>&- && sleep 60", "the client closed its output before its run"),
        ('read run rest && echo "$run what"', "the client wrote an unknown line: what"),
    ],
)
def test_a_client_that_ends_early_says_how(text: str, problem: str, monkeypatch):
    monkeypatch.setattr(processes, "EXIT_SECONDS", 0.5)
    monkeypatch.setattr(RunPlan, "timeout_s", 10)
    command = ClientCommand("ends", ("sh", "-c", text), runs_at_once=1)

    async def recorded() -> list[str]:
        return [trace.problem async for trace in record_runs(command, PLANS[:1], 8)]

    [found] = asyncio.run(recorded())
    assert problem in found


def test_no_more_processes_are_started_than_there_are_runs(tmp_path: Path):
    text = f'touch {tmp_path}/$$ && read run rest && echo "$run closed"'
    command = ClientCommand("counts", ("sh", "-c", text), runs_at_once=1)

    async def recorded() -> int:
        return len([trace async for trace in record_runs(command, PLANS, 8)])

    assert asyncio.run(recorded()) == len(PLANS) == len(list(tmp_path.iterdir()))


def test_a_run_that_ends_without_a_request_is_undecided():
    """It may tell the application that all failed, as the model allows: nothing was shown."""
    trace, _ = judgements("right")[0]
    failed = {record: RecordOutcome(0, 0, error="Timeout") for record in trace.outcomes}
    silent = replace(trace, events=(), stored=(), outcomes=failed)
    assert judge_trace(parse(DEFAULT_VARIANT), silent).verdict == EXPLAINED
    outcome = outcome_of(parse(DEFAULT_VARIANT), silent)
    assert (outcome.verdict, outcome.why) == (UNDECIDED, SENT_NOTHING)
    busy = outcome_of(parse(DEFAULT_VARIANT), trace)
    assert runs.undecided_runs([outcome, outcome, busy], "protocol") == [outcome, outcome]
    assert runs.undecided_runs([outcome, busy, busy], "protocol") == []


@pytest.mark.parametrize("sends", [True, False])
def test_a_client_that_tells_its_application_nothing_is_undecided(sends):
    """Whether it sent or not: no acknowledgement was judged."""
    trace, _ = judgements("right")[0]
    mute = replace(trace, outcomes={})
    outcome = outcome_of(
        parse(DEFAULT_VARIANT), mute if sends else replace(mute, events=(), stored=())
    )
    assert outcome.why == TOLD_LITTLE
    assert outcome.shows_nothing
    assert runs.undecided_runs([outcome], "protocol") == [outcome]
    assert (outcome.verdict, runs.undecided_runs([outcome], "model")) == (DIVERGES, [])


def test_what_is_acknowledged_and_not_stored_is_decided_whatever_else_was_not_told():
    trace, _ = judgements("right")[0]
    record, told = next((r, o) for r, o in trace.outcomes.items() if not o.error)
    lost = replace(trace, events=(), stored=(), outcomes={record: told})
    outcome = outcome_of(parse(DEFAULT_VARIANT), lost)
    assert (outcome.verdict, outcome.why) == (DIVERGES, "")
    [finding] = outcome.found.summary.findings.values()
    assert finding.shortest[0]["breaks"] == Severity.PROMISE


def test_error_codes_count_where_the_model_does_not_explain_the_client():
    trace, judgement = next(
        found for found in judgements("refreshes") if found[1].verdict == DIVERGES
    )
    codes = outcome_of(parse(DEFAULT_VARIANT), trace).found.summary.error_codes
    assert judgement.verdict == DIVERGES
    assert "NOT_ENOUGH_REPLICAS" in codes


@pytest.mark.parametrize(
    ("mode", "breaks"),
    [
        ("right", set()),
        ("refreshes", {Severity.POLICY}),
        ("overtakes", {Severity.POLICY}),
        ("skips", {Severity.PROTOCOL}),
        ("asks", {Severity.POLICY, Severity.PROTOCOL}),
        ("renumbers", {Severity.PROMISE, Severity.PROTOCOL}),
        ("pretends", {Severity.PROMISE}),
    ],
)
def test_what_a_client_breaks_is_told_apart_from_its_policy(mode: str, breaks: set[Severity]):
    """`refreshes` asks for another producer id where Java takes the next epoch by itself, and
    loses and doubles nothing."""
    traces = asyncio.run(traces_of(mode))
    found = [outcome_of(parse(DEFAULT_VARIANT), trace).found for trace in traces]
    counted = (same for one in found for same in one.summary.findings.values())
    broken = [finding["breaks"] for same in counted for finding in same.shortest]
    assert set(broken) == breaks
    assert any("at_most_once" in one.seen.broken for one in found) == (mode == "renumbers")


def test_a_foreign_client_is_judged_by_the_protocol(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs, "draw_plan", lambda seed, number: PLANS[number])
    out = tmp_path / "refreshes"
    client = f"{sys.executable} {CLIENT} refreshes"
    arguments = ["run", "--system", "client", "--client", client, "--traces", "2"]
    assert main([*arguments, "--out", str(out)]) == 0
    report = json.loads((out / "report.json").read_text())
    assert (report["judge"], report["verdict"], report["conforms"]) == ("protocol", "holds", False)
    assert "breaks nothing: the client's policy differs" in capsys.readouterr().out


def test_a_promise_that_no_rule_names_is_the_finding(tmp_path: Path):
    """`pretends` keeps every rule on the wire, and says of a refused record that it is stored."""
    traces = asyncio.run(traces_of("pretends"))
    found = [outcome_of(parse(DEFAULT_VARIANT), trace).found.summary.findings for trace in traces]
    findings = [f for one in found for same in one.values() for f in same.shortest]
    broken = [f for f in findings if f["breaks"] == Severity.PROMISE]
    assert {f["rule"] for f in broken} == {"acked_is_stored"}
    for finding in broken:
        assert re.fullmatch(
            r"acknowledged and not stored: \d:\d.*", finding["observed"]["application.records"]
        )


def finding(trace: int, sequence: int, breaks: Severity) -> Finding:
    path = "partition[0].batch.records"
    return {
        "id": trace,
        "trace": f"{trace}.jsonl",
        "steps": 10 + trace,
        "rule": "sequences_name_one_record",
        "expected": {path: f"1 at sequence {sequence}"},
        "observed": {path: f"2 at sequence {sequence}"},
        "breaks": breaks,
    }


def test_a_cause_at_several_sequences_is_one_and_shows_the_worst():
    found = count_findings(
        finding(n, n, Severity.PROMISE if n == 3 else Severity.PROTOCOL) for n in range(5)
    )
    (group,) = {signature.without_values for signature in found}
    assert runs.worst_of(found, group)["id"] == 3


class Unwilling:
    """A client that starts at the third attempt, and takes every other record."""

    made = 0

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        type(self).made += 1
        if self.made < 3:
            raise RuntimeError("not yet")

    def send(self, partition: int, value: bytes, told: Callable[[str], None]) -> None:
        if int(value) % 2:
            raise ValueError("refused")
        told("stored 7")

    def pause(self, seconds: float) -> None:
        assert seconds == 0.002

    def close(self) -> None:
        pass


def test_an_application_starts_again_and_goes_on_behind_a_record_that_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "stdin", StringIO("5 here:1 records acks=all 0:0,+2,0:1,0:2\n"))
    monkeypatch.setattr(lines, "BETWEEN_S", 0)
    lines.serve(Unwilling)
    printed = capsys.readouterr().out.splitlines()
    told = ["5 0 0 stored 7", "5 0 1 failed ValueError", "5 0 2 stored 7", "5 closed"]
    assert printed == told
