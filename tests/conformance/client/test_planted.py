"""A judge of clients is believed once it finds those that are wrong, and leaves the right one."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.client.__main__ import main as judge_file
from conformance.client.judgement import DIVERGES, EXPLAINED, ClientJudgement, judge_trace
from conformance.client.processes import ClientCommand
from conformance.client.recorder import record_runs
from conformance.client.run_plan import ClientSettings, FaultKind, RequestFault, RunPlan, Send
from conformance.client.trace import ClientTrace, ProduceRequested, format_trace, parse_trace
from impl.protocol.errors import ErrorCode
from model.idempotent.variants import DEFAULT_VARIANT, parse

CLIENT = Path(__file__).with_name("small_client.py")
REPOSITORY = Path(__file__).parents[3]
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
    assert row["rule"] == "produce"
    assert report["diverging_traces"] == row["occurrences"] > 0
    trace = parse_trace((out / row["trace"]).read_text(), row["trace"])
    assert judge_trace(parse(DEFAULT_VARIANT), trace).verdict == DIVERGES
    assert 'failures="1"' in (out / "junit.xml").read_text()
    told = (out / row["trace"]).with_suffix(".txt").read_text()
    assert "nothing explains this produce" in told
    assert "the model would have allowed:" in told
    assert judge_file([str(out / row["trace"])]) == 1
    assert "base_sequence is 5, the model says 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--system", "client"], "--client java:RELEASE"),
        (["--client", "x"], "--system client"),
        (["--system", "client", "--client", "java:1.0.0"], "1.0.0"),
        (["--system", "client", "--client", "x", "--on", "values"], "--codec"),
        (["--system", "client", "--client", "x", "--faults", "nodes"], "--faults"),
    ],
)
def test_bad_use(arguments: list[str], part: str, tmp_path: Path, capsys):
    assert main(["run", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert part in capsys.readouterr().err


def test_a_client_that_is_not_there_decides_nothing(tmp_path: Path, capsys):
    arguments = ["--system", "client", "--client", "/no/such/client", "--traces", "1"]
    assert main(["run", *arguments, "--out", str(tmp_path / "out")]) == 3
    assert "/no/such/client" in capsys.readouterr().err
