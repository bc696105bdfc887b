"""Requests in flight in virtual time: what more of them are worth, and what idempotence keeps."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import in_flight
from benchmarks.in_flight import Case, Outcome, Simulation

REQUESTS = 400
LOSSY = 0.01


@pytest.fixture(scope="module")
def outcomes() -> dict[Case, Outcome]:
    return {outcome.case: outcome for outcome in in_flight.simulate_cases(REQUESTS, seed=0)}


def test_more_in_flight_is_faster_whatever_is_lost(outcomes: dict[Case, Outcome]) -> None:
    for idempotence, loss in itertools.product((True, False), in_flight.LOSSES):
        row = [outcomes[Case(idempotence, loss, n)] for n in in_flight.IN_FLIGHT]
        rates = [outcome.records_per_second for outcome in row]
        assert rates == sorted(set(rates))
    best = outcomes[Case(True, 0.0, 5)].records_per_second
    assert 4.5 < best / outcomes[Case(True, 0.0, 1)].records_per_second <= 5


def test_lost_answers_cost_time_and_retries(outcomes: dict[Case, Outcome]) -> None:
    for idempotence, n in itertools.product((True, False), in_flight.IN_FLIGHT):
        never, often = (outcomes[Case(idempotence, loss, n)] for loss in (0.0, LOSSY))
        assert never.retries == 0 < often.retries
        assert often.records_per_second < never.records_per_second


def test_with_idempotence_the_log_is_what_was_sent(outcomes: dict[Case, Outcome]) -> None:
    for case, outcome in outcomes.items():
        assert outcome.missing == 0
        if case.idempotence or case.loss == 0:
            assert (outcome.duplicates, outcome.reordered) == (0, 0)


def test_a_leader_that_knows_no_duplicates_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("impl.partition.leader.find_duplicate", lambda *_: None)
    assert Simulation(Case(True, LOSSY, 5), 800, seed=0).run().duplicates > 0


def test_without_it_records_are_there_twice_and_out_of_order(
    outcomes: dict[Case, Outcome],
) -> None:
    lossy = [outcomes[Case(False, LOSSY, n)] for n in in_flight.IN_FLIGHT]
    assert all(outcome.duplicates > 0 for outcome in lossy)
    assert lossy[0].reordered == 0, "one in flight cannot overtake itself"
    assert lossy[-1].reordered > 0


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    case = Case(False, LOSSY, 5)
    first, second, other = (Simulation(case, 800, seed).run() for seed in (1, 1, 2))
    assert first == second != other


def test_the_counting_sees_what_it_should() -> None:
    assert in_flight.behind_a_later_one([0, 1, 2]) == 0
    assert in_flight.behind_a_later_one([0, 3, 1, 2]) == 2


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, drawing = tmp_path / "new" / "out.json", tmp_path / "new" / "figure.svg"
    words = ["--requests", "30", "--json", str(report), "--svg", str(drawing)]
    assert in_flight.main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 31
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["benchmark"] == "in_flight"
    assert len(written["outcomes"]) == 30
    assert written["outcomes"][0]["records"] == 120
    root = ElementTree.fromstring(drawing.read_text(encoding="utf-8"))
    assert sum(child.tag.endswith("polyline") for child in root) == 12
