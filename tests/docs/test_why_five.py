"""Every claim of `docs/why_five.md` is a command, and the command says so."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from benchmarks import in_flight
from benchmarks.in_flight import Case, Simulation
from proofs.lift.source import load_model
from proofs.trace.format import Trace, read
from proofs.trace.replay import configuration_of, replay
from tests.docs.pages import REPOSITORY, STORIES, called, is_understood, missing, page

PAGE = page(REPOSITORY / "docs" / "why_five.md")
LONGER = {
    "explore idempotent-five-in-flight/refusals=1 --engine ints --variant first_sequence=strict",
    "explore idempotent-six-in-flight --engine ints",
}
"""`make full` alone runs these."""

CASES = [Case(on, loss, n) for on in (True, False) for loss in (0.0, 0.01) for n in (1, 5)]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=run[0], marks=pytest.mark.full if run[0] in LONGER else ())
        for run in PAGE.runs
    ],
)
def test_each_command_prints_what_is_shown(
    run: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    called(run[0])
    assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


def test_a_line_that_is_not_printed_is_missed() -> None:
    assert missing(["a 1", "c ... e"], ["a 1", "b 2", "c d e"]) == []
    assert missing(["c ... e", "a 1"], ["a 1", "b 2", "c d e"]) == ["a 1"]
    assert missing(["a"], ["a 1"]) == ["a"]


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_longer_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_understood(command)
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(PAGE.runs) >= 12
    assert {run[0] for run in PAGE.runs} >= LONGER
    assert len(PAGE.parsed) >= 3


def kept(trace: Trace) -> tuple[set[str], set[str]]:
    """Guarantees that hold after every step, and those that do not."""
    model = load_model("idempotent")
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    worlds = replay(trace, model)
    holds = {p.name for p in model.guarantees.GUARANTEES if all(p.check(k, w) for w in worlds)}
    return holds, {p.name for p in model.guarantees.GUARANTEES} - holds


@pytest.mark.parametrize("name", ["request_refused", "answer_lost_five", "second_of_five"])
def test_these_stories_end_well(name: str) -> None:
    trace = read(STORIES / f"{name}.jsonl")
    assert kept(trace)[1] == set()
    last = replay(trace)[-1]
    entry = last.clients[0].partitions[0]
    assert not entry.in_flight
    stored = [stored.batch.first_record for stored in last.leaders[0].log]
    assert stored == sorted(stored)
    assert sum(s.batch.record_count for s in last.leaders[0].log) == entry.records_sent


def test_the_lost_answer_ends_in_a_false_error() -> None:
    assert kept(read(STORIES / "answer_lost.jsonl"))[1] == {"no_false_error"}


def test_the_table_and_the_figure_are_of_the_command() -> None:
    outcomes = [Simulation(case, 2000 * in_flight.RECORDS_A_BATCH, 0).run() for case in CASES]
    assert "\n".join(in_flight.format_table(outcomes)) in PAGE.text
    figure = (REPOSITORY / "docs" / "in_flight.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'points="([^"]+)"', figure)
    left = in_flight.Panel(70, "", 1000, lambda o: o.records_per_second)
    right = in_flight.Panel(440, "", 500, lambda o: o.duplicates + o.reordered)
    for outcome in outcomes:
        for panel in (left, right):
            point = panel.point(outcome)
            assert any(point in points.split() for points in drawn)
