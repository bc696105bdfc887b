"""What no trace of a run met: statements of impl, entries of error tables; how a run says it."""

import builtins
import json
from argparse import Namespace

import pytest

from conformance.__main__ import main
from conformance.judging.coverage.functions import count_statements
from conformance.judging.coverage.marks import (
    StatementMarks,
    bits_of,
    codes_in,
    marked_statements,
    numbers_in,
    statement_marks,
)
from conformance.judging.coverage.statements import IMPL, MARK, core, places, protocol_places
from conformance.judging.tables import WatchedRules, watched_modules
from conformance.verbs import all_scopes
from impl import ErrorCode
from impl.partition import errors
from impl.partition.leader import PartitionLeader
from model.idempotent.messages import Error
from proofs.lift.source import load_model
from proofs.run import BadUse

# Statements of impl


def marks_in(function):
    """The places that a function's code marks."""
    codes = [function.__code__, *codes_in(function.__code__)]
    constants = {c for code in codes if MARK in code.co_names for c in code.co_consts}
    return {number for number in constants if isinstance(number, int)}


def lines_of(numbers, module):
    return {places()[n].line for n in numbers if places()[n].module == module}


@pytest.fixture
def judged(monkeypatch):
    """A function of impl that is small; its marks are gone after the test."""
    monkeypatch.setattr(builtins, MARK, None, raising=False)
    return errors.PartitionError.__str__, errors.PartitionError(ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_statement_is_marked_until_it_is_reached(judged):
    function, error = judged
    plain = function.__code__
    with marked_statements("one") as marks:
        assert marks_in(function)
        function(error)
        assert marks_in(function) <= numbers_in(marks.reached())
        assert not marks_in(function)
        function(error)
        assert numbers_in(marks.reached()) >= lines_and_numbers(function)
    assert function.__code__ is plain


def lines_and_numbers(function):
    """The places of a function's lines."""
    first = function.__code__.co_firstlineno
    return {
        number
        for number, place in enumerate(places())
        if place.module == function.__module__ and first < place.line <= first + 1
    }


def test_what_is_reached_belongs_to_its_subject(judged):
    function, error = judged
    with marked_statements("first") as marks:
        function(error)
        reached = marks.reached()
        marks.begin("second")
        assert numbers_in(marks.reached()) == frozenset()
        assert marks_in(function)
        marks.begin("first")
        assert marks.reached() == reached


def test_each_statement_of_the_protocol_can_be_marked():
    with marked_statements("all") as marks:
        numbers = {n for m in marks.modules for f in m.functions for n in marks_in(f)}
    assert protocol_places().keys() <= numbers


def test_what_a_planted_bug_stood_before_is_marked_later(monkeypatch):
    with monkeypatch.context() as planted:
        planted.setattr(PartitionLeader, "produce", lambda *_: None)
        marks = StatementMarks()
    marks.begin("a subject")
    try:
        assert marks_in(PartitionLeader.produce)
    finally:
        marks.end()
    assert not marks_in(PartitionLeader.produce)


def test_a_mark_is_no_statement_of_its_own():
    statement_marks()
    lines = {
        name: (IMPL.parent / f"{name.replace('.', '/')}.py").read_text().splitlines()
        for name in core()
    }
    texts = [lines[places()[n].module][places()[n].line - 1].strip() for n in protocol_places()]
    assert not [text for text in texts if text.startswith("raise ")]


def test_bits_say_the_same_as_numbers():
    last = len(places()) - 1
    assert numbers_in(bits_of([0, 9, last])) == {0, 9, last}
    assert len(bits_of([])) == len(bits_of([last]))


def test_statements_are_counted_by_function():
    number = min(protocol_places())
    covered, total, missing = count_statements(bits_of([number]))
    assert (covered, total) == (1, len(protocol_places()))
    named = f"{places()[number].module}.{protocol_places()[number]}: "
    lines = next((row for row in missing if row.startswith(named)), "").rpartition("lines ")[2]
    assert str(places()[number].line) not in lines.split(", ")
    assert count_statements(b"") == (0, 0, [])


# Entries of error tables


def test_an_entry_is_met_where_something_is_its_error():
    model = load_model("idempotent")
    watched = WatchedRules(model, watched_modules(model))

    def met_by(name, *given):
        watched.begin()
        watched.rules[name](*given)
        return [
            e.partition("in ")[2] for n, e in enumerate(watched.entries) if watched.met >> n & 1
        ]

    assert met_by("is_retriable", Error.NOT_ENOUGH_REPLICAS) == [
        "is_retriable, NOT_ENOUGH_REPLICAS"
    ]
    assert met_by("is_retriable", Error.NONE) == []
    assert met_by("late_error", 1) == ["late_error, REQUEST_TIMED_OUT"]
    assert not [entry for entry in watched.entries if entry.endswith(" NONE")]


def test_tables_beside_the_rules_are_watched():
    model = load_model("transactions")
    watched = WatchedRules(model, watched_modules(model))
    assert any("effects.py" in entry and "NOT_COORDINATOR" in entry for entry in watched.entries)


# What a run says


def test_a_run_names_what_no_trace_met(whole_run, small, capsys):
    covered = whole_run.report["coverage"]
    for kind in ("branches", "error_codes", "table_entries", "statements_of_impl"):
        assert 0 < covered[kind]["covered"] < covered[kind]["total"], kind
    entries, statements = covered["table_entries"], covered["statements_of_impl"]
    assert len(entries["missing"]) == entries["total"] - entries["covered"]
    assert any("end_txn.decide_v2: lines " in name for name in statements["missing"])
    assert not any("find_duplicate: " in name for name in statements["missing"])
    text = (whole_run.out / "report.md").read_text()
    _, title, told = text.partition("## What no trace met")
    assert title
    place, _, what = entries["missing"][0].partition(": ")
    assert f"| {place} | {what} | " in told
    assert "end_txn.decide_v2" in told
    assert "What no trace met" in (whole_run.out / "index.html").read_text()
    assert main([*small, "--out", str(whole_run.out)]) == 0
    (line,) = [row for row in capsys.readouterr().out.splitlines() if "never met" in row]
    assert line.endswith(f"named in {whole_run.out}/report.md")
    assert "table entries" in line


# All scopes


def options(tmp_path, **more):
    given = {"scope": "all", "system": "impl", "out": tmp_path, "json": None, "traces": None}
    return Namespace(**{**given, "write_baseline": None, **more})


def judging(asked, verdicts):
    def judge(one):
        asked.append((one.scope, getattr(one, "traces_from", "")))
        if one.scope.startswith("processing"):
            raise BadUse("not here")
        report = {
            "traces": 2,
            "steps": 9,
            "diverging_traces": 0,
            "undecided": 0,
            "coverage": {"transitions": {"covered": 3, "total": None if one.traces else 3}},
            "verdict": verdicts.get(one.scope, "holds"),
        }
        one.out.mkdir(parents=True)
        (one.out / "report.json").write_text(json.dumps(report))
        times = {"seconds": 1.5, "steps_per_second_in_all": 6}
        (one.out / "run.json").write_text(json.dumps(times))
        return 0

    return judge


def test_all_scopes_is_judged_the_smallest_first_and_the_worst_decides(tmp_path, capsys):
    asked = []
    code = all_scopes.judge_all_scopes(
        options(tmp_path), judging(asked, {"idempotent-tiny": "violated"})
    )
    assert code == 1
    assert len(asked) == len(all_scopes.EXPECTED)
    assert asked[0] == ("idempotent-too-large", "")
    assert asked[-1] == ("idempotent-large", "hunts")
    report = json.loads((tmp_path / "scopes.json").read_text())
    assert report["verdict"] == "violated"
    assert {"idempotent-tiny", "transactions-tiny"} <= {row["scope"] for row in report["runs"]}
    captured = capsys.readouterr()
    assert "| idempotent-large | 2 | 9 | - | 0 | 0 | 1.5 | 6 | holds |" in captured.out
    assert captured.out.rstrip().endswith("verdict: violated")
    assert "not judged there: not here" in captured.err


@pytest.mark.parametrize("more", [{"system": "client"}, {"write_baseline": "file"}])
def test_what_does_not_go_with_all_scopes_is_refused(tmp_path, more):
    with pytest.raises(BadUse):
        all_scopes.judge_all_scopes(options(tmp_path, **more), judging([], {}))


@pytest.mark.xdist_group("mutants")
def test_run_judges_all_scopes(tmp_path, monkeypatch, capsys):
    small = all_scopes.scopes_by_size()[:2]
    monkeypatch.setattr(all_scopes, "scopes_by_size", lambda: small)
    given = ["run", "--scope", "all", "--backend", "processes", "--partitions", "1"]
    assert main([*given, "--out", str(tmp_path), "--traces", "5"]) == 0
    assert all(f"| {scope.name} | 5 |" in capsys.readouterr().out for scope in small[:1])
