"""Every claim of `docs/why_five.md` is a command, and the command says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import in_flight
from benchmarks.in_flight import Case, Simulation
from conformance.__main__ import main as conformance
from proofs.__main__ import main as proofs
from proofs.lift.text import plain
from proofs.trace.format import Trace, read
from proofs.trace.replay import replay, setting_of

REPOSITORY = Path(__file__).parents[2]
STORIES = REPOSITORY / "docs" / "stories"
PAGE = (REPOSITORY / "docs" / "why_five.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)
ROOMS: dict[str, Callable[[Sequence[str]], int]] = {"proofs": proofs, "conformance": conformance}

RUNS = [
    run.splitlines()
    for language, block in BLOCKS
    if language == "console"
    for run in block.split("$ python -m ")[1:]
]
"""Each command with the lines that are shown of its output."""

PARSED = [
    line.split()[2:]
    for language, block in BLOCKS
    if not language
    for line in block.splitlines()
    if line.startswith("python -m proofs ")
]
"""Commands that take longer: other tests prove the same theorems."""

CASES = [Case(on, loss, n) for on in (True, False) for loss in (0.0, 0.01) for n in (1, 5)]


def missing(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Lines shown that are not printed, in this order; `...` stands for anything."""
    left, absent = iter(printed), []
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        if not any(re.fullmatch(pattern, other) for other in left):
            absent.append(line)
    return absent


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run[0])
def test_each_command_prints_what_is_shown(
    run: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    words, _, remark = run[0].partition("  # exits with ")
    room, *arguments = words.split()
    assert ROOMS[room](arguments) == int(remark or 0)
    assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


def test_a_line_that_is_not_printed_is_missed() -> None:
    assert missing(["a 1", "c ... e"], ["a 1", "b 2", "c d e"]) == []
    assert missing(["c ... e", "a 1"], ["a 1", "b 2", "c d e"]) == ["a 1"]
    assert missing(["a"], ["a 1"]) == ["a"]


@pytest.mark.parametrize("command", PARSED, ids=" ".join)
def test_each_longer_command_is_understood(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert proofs([*command[1:], "--help"]) == 0
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(RUNS) >= 12
    assert len(PARSED) >= 3


def kept(trace: Trace) -> tuple[set[str], set[str]]:
    """Promises that hold after every step, and those that do not."""
    model = plain()
    k = setting_of(model, trace.header.scope, trace.header.variant)
    worlds = replay(trace, model)
    holds = {p.name for p in model.promises.PROMISES if all(p.check(k, w) for w in worlds)}
    return holds, {p.name for p in model.promises.PROMISES} - holds


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
    assert "\n".join(in_flight.shown(outcomes)) in PAGE
    figure = (REPOSITORY / "docs" / "in_flight.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'points="([^"]+)"', figure)
    left = in_flight.Panel(70, "", 1000, lambda o: o.records_per_second)
    right = in_flight.Panel(440, "", 500, lambda o: o.duplicates + o.reordered)
    for outcome in outcomes:
        for panel in (left, right):
            point = "{:.1f},{:.1f}".format(*panel.point(outcome))
            assert any(point in points.split() for points in drawn)
