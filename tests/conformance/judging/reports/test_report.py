"""Reports: their keys, their verdicts, and that they hold nothing that differs between runs."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conformance.judging.causes import Severity
from conformance.judging.compositions import IDEMPOTENT, JUDGED_COMPOSITIONS
from conformance.judging.findings import Summary, finding_of
from conformance.judging.guaranteed import (
    GuaranteeWalker,
    ObservedProperties,
    not_guaranteed,
    statuses,
    without_unshown,
)
from conformance.judging.known_differences import (
    KNOWN_DIFFERENCES,
    BadBaseline,
    KnownDifference,
    explanation,
    read_baseline,
    stale,
)
from conformance.judging.plan import Plan, PreparedPlan, configuration
from conformance.judging.reports import report as reports
from conformance.judging.reports.report import (
    ReportedDivergence,
    Result,
    junit,
    report_json,
    run_json,
    sentence,
)
from conformance.judging.runner import Wave
from conformance.judging.signatures import Occurrences, fields_of, signature_of
from model.properties import Guarantee
from proofs.explore.scope import explore_scope
from proofs.trace.format import read
from proofs.trace.replay import replay

SCHEMA = json.loads((Path(reports.__file__).parent / "report.schema.json").read_text())

FINDING = {
    "id": 3,
    "trace": [["client_sends", {"producer": 0, "partition": 0}]],
    "steps": 1,
    "rule": "client_sends",
    "choice": {"producer": 0, "partition": 0},
    "expected": {"client[0].sends[0].base_sequence": 0},
    "observed": {"client[0].sends[0].base_sequence": 7},
    "one_minimal": True,
}
ONCE = Occurrences(1, 3, (FINDING,))
SIGNATURE = signature_of(FINDING)
KNOWN = KnownDifference(
    "4.3.1", "client_sends", ("client.sends.base_sequence",), "KAFKA-0", "traces/x.jsonl"
)


# A small part of JSON Schema: what the schema uses

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def has_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def problems(value: Any, schema: dict[str, Any], at: str = "$") -> Iterator[str]:
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(has_type(value, name) for name in names):
        yield f"{at} is no {names}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is not in {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not {schema['const']}"
    if isinstance(value, dict):
        yield from (
            f"{at} lacks {name}" for name in schema.get("required", ()) if name not in value
        )
        rest = schema.get("additionalProperties", True)
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name, rest)
            if known is False:
                yield f"{at} has an unknown key {name}"
            elif isinstance(known, dict):
                yield from problems(inner, known, f"{at}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            yield from problems(inner, schema["items"], f"{at}[{i}]")


def floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from floats(inner)


# A result without a run


@pytest.fixture
def result(whole_run) -> Result:
    prepared = PreparedPlan.load(whole_run.out / "prepared")
    return Result(prepared, Summary(traces=9), "model", (), {"at_most_once": "holds"}, ())


def diverged(result: Result, explained: KnownDifference | None = None, **others: Any) -> Result:
    return replace(
        result, divergences=[ReportedDivergence(FINDING, "a.jsonl", explained, ONCE)], **others
    )


# Keys


def test_the_schema_knows_every_key_of_a_run(whole_run):
    both = json.loads((whole_run.out / "both.json").read_text())
    assert list(problems(both, SCHEMA)) == []
    assert both == {**whole_run.report, "run": whole_run.run}


def test_the_schema_knows_divergences(result):
    assert list(problems(report_json(diverged(result, KNOWN)), SCHEMA)) == []


@pytest.mark.parametrize(
    "change", [{"seed": "0"}, {"verdict": "fine"}, {"seconds": 1}, {"traces": True}]
)
def test_the_schema_refuses_what_is_wrong(change, whole_run):
    assert list(problems({**whole_run.report, **change}, SCHEMA))


def test_reports_hold_no_floats_and_no_place(whole_run):
    assert list(floats(whole_run.report)) == []
    assert str(whole_run.out) not in (whole_run.out / "report.json").read_text()


def test_a_whole_run_covers_its_scope(whole_run):
    report = whole_run.report
    assert whole_run.code == 0
    assert report["verdict"] == "holds"
    assert report["conforms"] is True
    transitions = report["coverage"]["transitions"]
    assert transitions["covered"] == transitions["total"] > 0
    assert report["coverage"]["rules"]["missing"] == []
    assert report["cover"]["bound"] <= report["cover"]["steps"]


def test_run_json_has_the_waves_and_the_rate(whole_run):
    run = whole_run.run
    assert len(run["waves"]) >= 4
    assert run["waves"][-1]["last"] == whole_run.report["traces"]
    assert sum(wave["steps"] for wave in run["waves"]) == whole_run.report["steps"]
    assert run["backend"] == ["processes"]
    wave = Wave(0, 10, 2.0, 1000, "spark", 4)
    assert run_json([wave])["steps_per_second"] == 125
    assert run_json([wave])["steps_per_second_in_all"] == 500
    assert run_json([])["steps_per_second"] == 0


# Verdicts


@pytest.mark.parametrize(
    ("change", "conforms", "verdict"),
    [
        ({}, False, "violated"),
        ({"explained": KNOWN}, True, "holds"),
        ({"explained": KNOWN, "undecided": 1}, True, "undecided"),
        ({"undecided": 1}, False, "violated"),
        ({"judge": "guarantees"}, False, "undecided"),
        ({"judge": "guarantees", "explained": KNOWN}, True, "holds"),
        ({"judge": "guarantees", "guarantees": {"no_gap": "violated"}}, False, "violated"),
    ],
)
def test_the_verdict_answers_the_question_asked(change, conforms, verdict, result):
    found = diverged(result, **change)
    assert (found.conforms, found.verdict) == (conforms, verdict)


@pytest.mark.parametrize(
    ("judge", "breaks", "verdict"),
    [
        ("model", Severity.POLICY, "violated"),
        ("guarantees", Severity.POLICY, "undecided"),
        ("protocol", Severity.POLICY, "holds"),
        ("protocol", Severity.PROTOCOL, "violated"),
        ("protocol", Severity.PROMISE, "violated"),
    ],
)
def test_policy_is_told_apart_from_the_protocol(judge, breaks, verdict, result):
    row = ReportedDivergence(FINDING | {"breaks": breaks}, "a.jsonl", None, ONCE)
    found = replace(result, judge=judge, divergences=[row])
    assert found.verdict == verdict
    (told,) = report_json(found)["divergences"]
    assert told["breaks"] == breaks


def test_a_guarantee_that_nobody_gives_is_no_fault(result):
    broken = replace(
        result, judge="guarantees", guarantees={"no_gap": "violated"}, not_guaranteed=["no_gap"]
    )
    assert broken.verdict == "holds"


def test_a_guarantee_is_not_judged_by_the_model_alone(result):
    assert replace(result, guarantees={"no_gap": "violated"}).verdict == "holds"


# Guarantees


@pytest.mark.parametrize("name", JUDGED_COMPOSITIONS)
def test_each_guarantee_has_a_witness_of_its_antecedent(name):
    named = JUDGED_COMPOSITIONS[name].model.guarantees
    assert {p.witness for p in named.GUARANTEES} <= {w.check for w in named.WITNESSES}


def test_a_guarantee_without_a_witness_is_never_put_to_the_test(monkeypatch):
    """Nothing tells whether a run could have broken it; one that did has."""
    added = Guarantee("is_new", lambda k, w: True, lambda k: True)
    monkeypatch.setattr(IDEMPOTENT.model.guarantees, "GUARANTEES", (added,))
    k = configuration(Plan(scope="idempotent-restart"))
    met = frozenset(w.name for w in IDEMPOTENT.model.guarantees.WITNESSES)
    assert statuses(ObservedProperties(met=met), k) == {"is_new": "not_exercised"}
    assert statuses(ObservedProperties(frozenset({"is_new"})), k) == {"is_new": "violated"}


def test_what_no_system_shows_is_not_judged_by_what_it_shows():
    every = frozenset(p.name for p in IDEMPOTENT.model.guarantees.GUARANTEES)
    assert without_unshown(ObservedProperties(every), IDEMPOTENT).broken == {
        "at_most_once", "acked_is_stored", "no_gap", "no_gap_behind_first", "order_kept",
        "acked_once", "no_false_error", "bumps_have_causes", "nothing_fails",
    }  # fmt: skip


def test_guarantees_are_exercised_only_if_their_witness_was_met():
    seen = ObservedProperties(
        broken=frozenset({"no_gap"}), met=frozenset({"something_acknowledged"})
    )
    found = statuses(seen, configuration(Plan(scope="idempotent-restart")))
    assert found["no_gap"] == "violated"
    assert found["acked_is_stored"] == "holds"
    assert found["at_most_once"] == "not_exercised"


@pytest.mark.parametrize(
    ("scope", "status"),
    [("transactions-offsets", "holds"), ("transactions-default", "not_exercised")],
)
def test_offsets_are_exercised_where_there_are_some(scope, status):
    k = configuration(Plan(scope=scope))
    assert statuses(ObservedProperties(), k)["offsets_with_outcome"] == "not_exercised"
    met = ObservedProperties(met=frozenset({"something_committed"}))
    assert statuses(met, k)["offsets_with_outcome"] == status
    broken = ObservedProperties(broken=frozenset({"offsets_with_outcome"}))
    assert statuses(broken, k)["offsets_with_outcome"] == "violated"


def test_a_whole_run_breaks_what_the_explored_scope_breaks(whole_run):
    explored = explore_scope("idempotent-restart", whole_run.report["variant"], engine="source")
    broken = {f.property for f in explored.violations}
    states = whole_run.report["guarantees"]
    assert {name for name, state in states.items() if state == "violated"} == broken
    without_antecedent = {name for name, state in states.items() if state == "not_exercised"}
    assert without_antecedent == {"unknown_is_unresolved"}, "no batch is given up in this scope"
    k = configuration(Plan(scope="idempotent-restart"))
    assert whole_run.report["not_guaranteed"] == not_guaranteed(k)


def test_a_walk_sees_every_world_of_its_trace():
    k = configuration(Plan(scope="idempotent-restart"))
    explored = explore_scope("idempotent-restart", engine="source")
    walker = GuaranteeWalker(k)
    assert explored.violations
    for finding in explored.violations:
        steps = tuple((step.rule, step.choice) for step in finding.trace.steps)
        assert finding.property in walker.walk(steps).broken
        assert finding.property not in walker.walk(steps[:-1]).broken


# junit.xml


def test_junit_has_a_case_for_conformance_and_one_for_each_guarantee(whole_run):
    suite = ElementTree.fromstring((whole_run.out / "junit.xml").read_text())
    names = [case.get("name") for case in suite]
    assert sorted(names[1:]) == list(whole_run.report["guarantees"])
    assert suite.get("failures") == "0"
    assert suite.get("tests") == str(len(names))
    not_exercised = list(whole_run.report["guarantees"].values()).count("not_exercised")
    skipped = len(whole_run.report["not_guaranteed"]) + not_exercised
    assert suite.get("skipped") == str(skipped)


def test_junit_counts_what_nothing_explains(result):
    suite = ElementTree.fromstring(junit(report_json(diverged(result))))
    (failure,) = suite.iter("failure")
    assert failure.get("message") == sentence(FINDING)
    assert suite.get("failures") == "1"
    explained = ElementTree.fromstring(junit(report_json(diverged(result, KNOWN))))
    assert explained.get("failures") == "0"


def test_a_difference_reads_as_a_sentence():
    assert sentence(FINDING) == (
        "client_sends, step 1: client[0].sends[0].base_sequence is 7, the model says 0"
    )


# Known differences


def test_a_row_explains_its_release_rule_and_fields_only():
    assert fields_of(FINDING) == KNOWN.fields
    assert explanation([KNOWN], "4.3.1", SIGNATURE) is KNOWN
    assert explanation([KNOWN], "3.9.2", SIGNATURE) is None
    assert explanation([replace(KNOWN, rule="client_retries")], "4.3.1", SIGNATURE) is None
    assert explanation([replace(KNOWN, fields=("client",))], "4.3.1", SIGNATURE) is None


def test_a_row_that_nothing_shows_is_stale():
    assert stale([KNOWN], "4.3.1", [SIGNATURE]) == []
    assert stale([KNOWN], "4.3.1", []) == [KNOWN]
    assert stale([KNOWN], "3.9.2", []) == []


def test_our_own_table_has_no_stale_row(whole_run):
    """Each row's stored trace must exist; a run that shows it no longer is reported."""
    folder = Path(reports.__file__).parent
    assert all((folder / row.trace).is_file() for row in KNOWN_DIFFERENCES)
    assert whole_run.report["stale_explanations"] == []


def test_a_baseline_is_read(tmp_path):
    row = {
        "release": "4.3.1",
        "rule": "client_sends",
        "fields": ["client.sends.base_sequence"],
        "reference": "KAFKA-0",
        "trace": "traces/x.jsonl",
    }
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps([row]))
    assert read_baseline(path) == (KNOWN,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "name a readable JSON file"),
        ("{}", "not a list"),
        ('[{"release": "4.3.1"}]', "row 1 is not an object with just the keys"),
        ('["x"]', "row 1 is not an object"),
        (
            '[{"release": "4.3.1", "rule": 1, "fields": [], "reference": "r", "trace": "t"}]',
            "are texts",
        ),
        (
            '[{"release": "4", "rule": "r", "fields": "f", "reference": "r", "trace": "t"}]',
            "fields is not a list",
        ),
    ],
)
def test_a_malformed_baseline_is_refused_with_its_place(text, message, tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(BadBaseline, match=message):
        read_baseline(path)


def test_a_missing_baseline_is_refused(tmp_path):
    with pytest.raises(BadBaseline, match="name a readable"):
        read_baseline(tmp_path / "none.json")


# Files of a divergence


def test_a_divergence_has_a_trace_that_replays_and_a_page_that_needs_no_network(
    whole_run, tmp_path
):
    from conformance.judging.judge import Divergence as Judged
    from conformance.judging.reports import pages

    prepared = PreparedPlan.load(whole_run.out / "prepared")
    steps = prepared.trace(0)
    finding = finding_of(0, Judged(steps, {"leader[0].log": 1}, {"leader[0].log": 2}))
    pages.write(prepared, finding, tmp_path / "d" / "01-x")
    trace = read(tmp_path / "d" / "01-x.jsonl")
    assert len(replay(trace)) == len(steps) + 1
    assert trace.header.system == "impl"
    page = (tmp_path / "d" / "01-x.html").read_text()
    assert sentence(finding) in page
    assert re.search(r"(src|href|action)=|@import|fetch\(|url\((?!#)", page) is None
