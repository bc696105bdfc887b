"""The judge's command line: verbs, defaults, refusals, exit codes."""

import argparse
import json
import re
import socket
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.campaigns.mutants import MUTANTS
from conformance.judging.plan import Plan
from conformance.judging.signatures import fields_of
from conformance.verbs import backend_options
from conformance.verbs.run import plan_of
from kafka_eos.command_line import parser_of
from kafka_eos.verbs import find_verb
from model.idempotent.scopes import SCOPES
from model.idempotent.variants import DEFAULT_VARIANT
from proofs.trace.format import Choice, Header, dumps
from proofs.trace.replay import Stepper, configuration_of, model_of, record

IMPL_VARIANT = "4.3.1/level=2/requests=v2/sequence_order=wraps"


def parsed(*arguments: str) -> argparse.Namespace:
    return parser_of(find_verb("run")).parse_args(arguments)


def a_trace(path: Path, scope: str = "idempotent-tiny") -> Path:
    """The producer sends, the leader handles: recorded with answers and digests."""
    from proofs.lift.source import load_model

    instances = [
        ("client_sends", (("producer", 0), ("partition", 0))),
        ("request_arrives", (("producer", 0), ("partition", 0))),
    ]
    stepper = Stepper(
        load_model("idempotent"), configuration_of(load_model("idempotent"), scope, "4.3.1")
    )
    header = Header(scope, "4.3.1")
    path.write_text(dumps(record(stepper, header, instances)[0]))
    return path


# Verbs


def test_list_names_what_there_is(capsys):
    kinds = ("scopes", "planted_bugs", "systems", "backends", "guarantees", "variants")
    assert [main(["list", kind]) for kind in kinds] == [0] * len(kinds)
    out = capsys.readouterr().out
    for name in (*SCOPES, *MUTANTS, "impl", "spark", "processes", "at_most_once", "4.3.1"):
        assert f"  {name} " in out or f"  {name}\n" in out


# Plans


def test_the_defaults_are_those_of_a_plan():
    assert plan_of(parsed()) == Plan(variant=IMPL_VARIANT)


def test_arguments_become_a_plan():
    plan = plan_of(
        parsed(
            *("--scope", "idempotent-tiny", "--variant", "v2", "--seed", "7", "--codec", "values"),
            *("--actors", "leader", "--faults", "none", "--traces-from", "hunts,cover"),
            *("--traces", "5"),
        )
    )
    assert plan == Plan(
        scope="idempotent-tiny",
        variant=IMPL_VARIANT,
        seed=7,
        on="values",
        actors="leader",
        faults="none",
        traces_from=("cover", "hunts"),
        traces=5,
    )
    assert plan_of(parsed("--actors", "leader,client")).actors == "client,leader"
    deep = plan_of(parsed("--traces-from", "hunts,pct", "--depth", "5"))
    assert (deep.traces_from, deep.depth) == (("pct", "hunts"), 5)
    assert plan_of(parsed("--traces-from", "pct")).depth == 3
    assert plan_of(parsed("--kafka", "4.3.1", "--level", "2")).variant == IMPL_VARIANT
    in_both_modes = [plan_of(parsed("--system", "kafka", "--kafka", name)) for name in BOTH_MODES]
    assert {plan.variant for plan in in_both_modes} == {"3.9.2/level=0/requests=v1"}


def test_a_release_may_be_named_by_its_first_two_numbers():
    in_full = plan_of(parsed("--system", "kafka", "--kafka", "3.9.2"))
    assert plan_of(parsed("--system", "kafka", "--kafka", "3.9")) == in_full
    assert plan_of(parsed("--variant", "2.8")) == plan_of(parsed("--variant", "2.8.2"))
    with_rule = plan_of(parsed("--variant", "2.8/level=0"))
    assert with_rule == plan_of(parsed("--variant", "2.8.2/level=0"))


def test_a_mask_that_hides_nothing_is_warned_of(small, tmp_path, capsys):
    words = ("--traces", "3", "--partitions", "1", "--ignore", "nofield")
    assert main([*small, *words, "--out", str(tmp_path / "out")]) == 0
    assert "  warning      the mask nofield hides nothing" in capsys.readouterr().out


BOTH_MODES = ("3.9.2", "3.9.2-zookeeper")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "client"], "--system client needs --client java:RELEASE or --client CMD"),
        (["--system", "frob://x:1"], "invalid --system 'frob'; valid: impl, nodes, serve, kafka"),
        (["--client", "java:3.9"], "--client goes with --system client"),
        (["--level", "7"], "level is '7'; choose one of 0, 1, 2"),
        (["--variant", "2.0.0/level=2"], "Kafka 2.0.0 has no transaction.version 2"),
        (["--kafka", "3.9.2-zookeeper", "--level", "1"], "Kafka 3.9.2-zookeeper has no"),
        (["--kafka", "2.8.2", "--variant", "4.3.1"], "--kafka 2.8.2 contradicts --variant"),
        (["--variant", "4.3.1", "--level", "1"], "--level 1 contradicts --variant"),
        (["--variant", "v1/level=1", "--level", "2"], "--level 2 contradicts --variant"),
        (["--variant", "1.0"], "release is '1.0'; choose one of"),
        (["--kafka", "1.0"], "invalid --kafka '1.0'; valid: 4.3.1"),
        (["--nodes", "3"], "--nodes 3 needs brokers that are started"),
        (["--nodes", "2"], "write --nodes 1 or --nodes 3"),
        (["--traces-from", "luck"], "invalid --traces-from 'luck'; valid: cover, pct"),
        (["--depth", "2"], "--depth goes with --traces-from pct"),
        (["--traces-from", "pct", "--depth", "0"], "--depth is 0; write 1 or more"),
        (["--traces-from", "pct", "--depth", "201"], "depth is 201; it must be 1 to 200"),
        (["--judge", "me"], "valid: model, guarantees, protocol"),
        (["--codec", "paper"], "valid: bytes, values"),
        (["--faults", "all"], "valid: nodes, connections, none"),
        (["--actors", "client"], "valid: client,leader, leader"),
        (["--backend", "threads"], "valid: spark, processes"),
        (["--partitions", "0"], "--partitions is 0; write 1 or more"),
        (["--traces", "0"], "--traces is 0; write 1 or more"),
        (["--ignore", "requst_arrives:sends.error"], "there are request_arrives"),
        (["--kafka", "2"], "invalid --kafka '2'; valid: 4.3.1"),
        (["--scope", "nowhere"], "no scope is called 'nowhere'"),
        (["--baseline", "none.json"], "name a readable JSON file"),
        (["--backend", "processes", "--master", "local[1]"], "belong to --backend spark"),
        (["--traces", "many"], "invalid int value"),
        (["--frob"], "unrecognized arguments"),
    ],
)
def test_what_is_not_there_is_refused_with_what_there_is(arguments, message, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out"), "--scope", "idempotent-restart"]
    assert main(["run", *out, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_requests_of_a_variant_go_with_a_level(tmp_path):
    out = tmp_path / "out"
    few = ["--scope", "transactions-tiny", "--traces", "3", "--backend", "processes"]
    assert main(["run", *few, "--variant", "v1", "--level", "0", "--out", str(out)]) == 0
    assert "4.3.1/level=0/requests=v1" in (out / "report.md").read_text()


@pytest.mark.parametrize("scope", ["idempotent-tiny", "transactions-tiny"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--system", "kafka"], "Java is missing"), (["--backend", "spark"], "Spark needs Java")],
)
def test_java_is_looked_for_before_any_work(
    scope, arguments, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    out = tmp_path / "out"
    assert main(["run", "--out", str(out), "--scope", scope, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("scope", ["idempotent-tiny", "transactions-tiny"])
def test_a_broker_is_asked_before_any_work(scope, tmp_path, capsys):
    """It does not listen: a port that was bound, and is free again."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "{}:{}".format(*listening.getsockname())
    out = tmp_path / "out"
    assert main(["run", "--out", str(out), "--scope", scope, "--system", f"wire://{address}"]) == 2
    assert address in capsys.readouterr().err
    assert not out.exists()


def test_an_unknown_scope_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--scope", "nowhere"]) == 2
    assert list(tmp_path.iterdir()) == []


# run


def test_run_says_coverage_cover_guarantees_verdict_and_where(small, whole_run, capsys):
    assert main([*small, "--out", str(whole_run.out)]) == 0
    said = capsys.readouterr()
    for word in ("coverage", "cover", "guarantees", "divergences  none", "verdict      holds"):
        assert f"  {word}" in said.out
    assert str(whole_run.out / "report.json") in said.out
    assert "judged before" in said.err


def test_without_out_each_set_of_arguments_has_its_own_folder(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ("--traces", "3", "--partitions", "1")
    assert main([*small, *short]) == 0
    assert main([*small, *short, "--seed", "1"]) == 0
    folders = list((tmp_path / "out").iterdir())
    assert len(folders) == 2
    assert all(folder.name.startswith("impl-idempotent-restart-") for folder in folders)


def test_other_arguments_in_the_same_folder_are_refused_by_name(small, whole_run, capsys):
    assert main([*small, "--seed", "5", "--out", str(whole_run.out)]) == 2
    assert "seed 0, this one has 5; use another --out" in capsys.readouterr().err


def test_where_it_runs_is_no_argument_of_the_report(small, whole_run):
    before = (whole_run.out / "report.json").read_bytes()
    assert main([*small, "--partitions", "1", "--out", str(whole_run.out)]) == 0
    assert (whole_run.out / "report.json").read_bytes() == before


def test_guarantees_are_a_question_of_their_own(small, whole_run, tmp_path):
    out = tmp_path / "out"
    assert main([*small, "--judge", "guarantees", "--out", str(out)]) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["judge"] == "guarantees"
    assert {k: v for k, v in report.items() if k != "judge"} == {
        k: v for k, v in whole_run.report.items() if k != "judge"
    }


def test_a_system_that_differs_is_violated_with_a_trace(tmp_path, capsys):
    """As Kafka, `impl` is not: it compares acknowledged sequences around the wrap."""
    out = tmp_path / "out"
    short = ("--traces", "300", "--backend", "processes", "--partitions", "1")
    as_kafka = ("--scope", "idempotent-wrap", "--variant", "sequence_order=raw")
    run = ["run", *as_kafka, *short, "--out", str(out)]
    assert main(run) == 1
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "violated"
    assert report["conforms"] is False
    first = report["divergences"][0]
    assert first["one_minimal"]
    assert first["steps"] <= 15
    trace = out / first["trace"]
    said = capsys.readouterr().out
    assert "in_flight" in said
    assert f"       kafka-eos replay {trace} --system impl\n" in said
    left_out = re.search(r"^  left out     (--traces left out .*: run without it)$", said, re.M)
    assert left_out
    assert f"{left_out[1]}." in (out / "report.md").read_text()
    assert trace.with_suffix(".html").is_file()
    assert main(["replay", str(trace)]) == 0
    said = capsys.readouterr().out
    assert "that is the model; impl differs behind the last step: " in said
    assert f"kafka-eos replay {trace} --system impl\n" in said
    assert main(["replay", str(trace), "--system", "impl"]) == 1
    assert first["rule"] in capsys.readouterr().out
    baseline = tmp_path / "known.json"
    rows = [
        {
            "release": "4.3.1",
            "rule": divergence["rule"],
            "fields": list(fields_of(divergence)),
            "reference": "https://example.org/why",
            "trace": "x.jsonl",
        }
        for divergence in report["divergences"]
    ]
    baseline.write_text(json.dumps(rows))
    # What explains the differences of a few traces explains those of many.
    for traces in ("12", "300"):
        known = tmp_path / traces
        there = ["--traces", traces, "--out", str(known), "--baseline", str(baseline)]
        assert main([*run[:-2], *there]) == 0
        report = json.loads((known / "report.json").read_text())
        assert report["conforms"] is True
        assert {d["explained_by"] for d in report["divergences"]} == {"https://example.org/why"}
        assert sum(d["occurrences"] for d in report["divergences"]) == report["diverging_traces"]
    assert report["diverging_traces"] > 20


# replay and explain


@pytest.mark.parametrize("system", ["model", "impl"])
def test_a_trace_replays(system, tmp_path, capsys):
    path = a_trace(tmp_path / "t.jsonl")
    answer = tmp_path / "answer.json"
    assert main(["replay", str(path), "--system", system, "--json", str(answer)]) == 0
    assert "2 steps, no difference" in capsys.readouterr().out
    value = json.loads(answer.read_text())
    assert (value["steps"], value["first_divergence"], value["verdict"]) == (2, None, "holds")


@pytest.mark.parametrize("system", ["model", "impl"])
def test_the_order_of_choices_in_a_file_means_nothing(system, tmp_path, capsys):
    """JSON objects have none; judges read by place."""
    path = tmp_path / "t.jsonl"
    sent = [{"partition": 1, "producer": 0}, {"producer": 0, "partition": 1}]
    head = a_trace(path, scope="idempotent-partitions").read_text().splitlines()[0]
    rows = [{"rule": "client_sends", "choice": choice} for choice in sent]
    path.write_text("\n".join([head, *map(json.dumps, rows)]))
    assert main(["replay", str(path), "--system", system]) == 0
    assert "2 steps, no difference" in capsys.readouterr().out


def test_a_trace_that_recorded_something_else_differs(tmp_path, capsys):
    path = a_trace(tmp_path / "t.jsonl")
    path.write_text(path.read_text().replace('"base_offset": 0', '"base_offset": 9'))
    assert main(["replay", str(path)]) == 1
    out = capsys.readouterr().out
    assert "first difference: recorded answers" in out
    assert "verdict: violated" in out


@pytest.mark.parametrize("verb", ["replay", "explain"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"version": 1', '"version": 7'), "t.jsonl:1"),
        (("client_sends", "client_sings"), "no such rule"),
        (('"producer": 0', '"client": 0'), "its choices are producer, partition"),
        ((', "partition": 0', ""), "its choices are producer, partition"),
        (('"producer": 0', '"producer": 7'), "producer is from 0 to 0"),
        (("idempotent-tiny", "nowhere"), "no scope is called"),
        (("client_sends", "request_arrives"), "not enabled"),
    ],
)
def test_a_malformed_trace_is_bad_input(verb, change, message, tmp_path, capsys):
    path = a_trace(tmp_path / "t.jsonl")
    path.write_text(path.read_text().replace(*change))
    assert main([verb, str(path)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["replay", "explain"])
def test_a_missing_trace_is_bad_input(verb, tmp_path, capsys):
    missing = tmp_path / "none.jsonl"
    assert main([verb, str(missing)]) == 2
    said = capsys.readouterr().err
    assert f"{missing}: No such file or directory; name a readable trace file" in said


def test_replay_refuses_systems_that_are_not_built(tmp_path, capsys):
    assert main(["replay", str(a_trace(tmp_path / "t")), "--system", "client"]) == 2
    assert "valid: model, impl" in capsys.readouterr().err


PATCH = ("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False")


def patched_trace(path: Path, before: str = PATCH[1]) -> Path:
    """A record that is stored twice, because the leader knows no duplicates."""
    head = Header("idempotent-tiny", DEFAULT_VARIANT, patches=(PATCH,))
    here: Choice = (("producer", 0), ("partition", 0))
    lost: Choice = (*here, ("survivors", 0))
    steps = [("client_sends", here), ("request_arrives", here), ("connection_breaks", lost)]
    again = [("client_retries", here), ("request_arrives", here)]
    model = model_of(head)
    stepper = Stepper(model, configuration_of(model, head.scope, head.variant))
    trace, _ = record(stepper, head, (*steps, *again))
    path.write_text(dumps(trace).replace(PATCH[1], before))
    return path


def test_a_trace_of_a_patched_model_replays_on_that_model(tmp_path, capsys):
    path = patched_trace(tmp_path / "t.jsonl")
    assert main(["replay", str(path), "--json", str(tmp_path / "answer.json")]) == 0
    out = capsys.readouterr().out
    assert f"patched in leader.is_duplicate: {PATCH[1]}  =>  False" in out
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["patches"] == [list(PATCH)]


@pytest.mark.parametrize("system", ["impl", "kafka", "wire://localhost:1"])
def test_a_patch_is_not_dropped_where_a_system_is_judged(system, tmp_path, capsys):
    path = patched_trace(tmp_path / "t.jsonl")
    assert main(["replay", str(path), "--system", system]) == 2
    assert "a patch in leader.is_duplicate" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["replay", "explain"])
def test_a_patch_that_no_longer_applies_is_refused(verb, tmp_path, capsys):
    path = patched_trace(tmp_path / "t.jsonl", before="no_such_name")
    assert main([verb, str(path)]) == 2
    assert "'no_such_name' is found 0 times" in capsys.readouterr().err


def test_replay_says_what_the_end_of_a_counterexample_breaks(capsys):
    story = Path(__file__).parents[3] / "docs/stories/delayed_end_txn_shown.jsonl"
    assert main(["replay", str(story)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^no_aborted_read is broken by step \d+, .*Where: ", said, re.MULTILINE)
    assert "verdict: holds (model does what the trace says, and that breaks: " in said


def test_explain_tells_the_story_and_draws_it(tmp_path, capsys):
    page = tmp_path / "pages" / "t.html"
    assert main(["explain", str(a_trace(tmp_path / "t.jsonl")), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "producer 0 sends #1" in out
    assert "partition 0 handles #1" in out
    assert page.read_text().startswith("<!doctype html>")


# Ends


def test_a_defect_of_ours_is_not_a_verdict(small, monkeypatch, tmp_path, capsys):
    def broken(*_arguments: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("conformance.judging.reports.pipeline.prepare", broken)
    assert main([*small, "--out", str(tmp_path / "out")]) == 3
    assert "RuntimeError: a defect" in capsys.readouterr().err


TINY_RUN = ("run", "--scope", "idempotent-tiny", "--traces", "5", "--partitions", "1")


def test_where_spark_is_not_installed_a_run_is_judged_on_processes_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backend_options, "find_spec", lambda _name: None)
    assert main([*TINY_RUN, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert "judging on processes of this machine: pyspark is not installed" in said


def test_where_java_is_not_installed_a_run_is_judged_on_processes_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main([*TINY_RUN, "--out", str(tmp_path / "out")]) == 0
    assert "judging on processes of this machine: Java is not" in capsys.readouterr().err


def test_whoever_asks_for_spark_is_told_that_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for asked in (("--backend", "spark"), ("--master", "local[1]")):
        assert main([*TINY_RUN, *asked, "--out", str(tmp_path / "out")]) == 2
        assert "Spark needs Java" in capsys.readouterr().err
