"""States and edges: what Kafka allows, what scopes show, and what a planted bug does."""

import pytest

from proofs.__main__ import main
from proofs.coverage.report import coverage
from proofs.coverage.search import shortest
from proofs.coverage.states import CLIENTS, COORDINATORS, STATES, enum_of, state_points
from proofs.coverage.stored import name_of, points_of_last_step, stored
from proofs.coverage.survey import SurveyCase
from proofs.coverage.survey_cases import surveys
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.trace.format import read
from proofs.trace.replay import configuration_of

MODEL = load_model("transactions")
LOOK = SurveyCase("transactions-tiny", "4.3.1", "ints")


def looked(*patches):
    """What a small scope shows of a patched model."""
    (survey,) = surveys([LOOK], patches).values()
    survey.look(LOOK)
    return survey


@pytest.fixture(scope="module")
def survey():
    return looked()


@pytest.mark.parametrize("states", STATES, ids=lambda states: states.enum)
def test_the_tables_speak_of_the_models_states(states):
    names = enum_of(MODEL, states).__members__
    assert states.legal.keys() == set(names)
    assert {begin for begins in states.legal.values() for begin in begins} <= set(names)
    assert len(states.edges()) == len(set(states.edges()))


@pytest.mark.parametrize("states", STATES, ids=lambda states: states.enum)
def test_what_is_passed_within_a_step_is_legal_in_two(states):
    for edge, between in states.passed.items():
        begin, end = edge.split("->")
        assert begin not in states.legal[end]
        assert begin in states.legal[between]
        assert between in states.legal[end]


def test_a_model_without_such_actors_has_no_such_points():
    assert state_points(load_model("idempotent")) == []
    assert len(state_points(MODEL)) == sum(
        len(states.legal) + len(states.edges()) for states in (COORDINATORS, CLIENTS)
    )


def test_a_small_scope_shows_some_of_them_and_nothing_that_kafka_has_not(survey):
    edges = {name for name in survey.points if "->" in name}
    assert edges >= {
        "ABSENT->EMPTY",
        "EMPTY->ONGOING",
        "ONGOING->PREPARE_COMMIT",
        "READY->IN_TRANSACTION",
    }
    assert coverage([survey], {}).wrong_edges == {}
    assert (len(survey.points["ABSENT"].way.steps), len(survey.points["EMPTY"].way.steps)) == (0, 2)


def test_each_way_does_on_the_source_what_it_is_called_after(survey):
    traces = stored(survey)
    assert len(traces) > 30
    for name, trace in traces.items():
        assert name in points_of_last_step(MODEL, trace), name


def test_the_verb_stores_them(survey, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("proofs.verbs.witness.survey_cases", lambda scopes, engine: [LOOK])
    assert main(["witness", "--store", str(tmp_path / "stored")]) == 0
    files = (tmp_path / "stored").glob("*.jsonl")
    assert {name_of(path): read(path) for path in files} == stored(survey)


def test_a_search_of_its_own_finds_no_shorter_way(survey):
    k = configuration_of(MODEL, LOOK.scope, LOOK.variant)
    for name in ("PREPARE_COMMIT->COMPLETE_COMMIT", "ONGOING->ONGOING", "COMMITTING", "ABSENT"):
        way = shortest(MODEL, k, LOOK.scope, survey.events, name, engine="ints")
        assert len(way.steps) == len(survey.points[name].way.steps), name


def test_an_edge_that_kafka_has_not_is_a_violation():
    """A coordinator that completes the other way."""
    survey = looked(
        Patch(
            "coordinator.completed",
            "metadata.state == TransactionState.PREPARE_COMMIT",
            "metadata.state == TransactionState.PREPARE_ABORT",
        )
    )
    found = coverage([survey], {})
    assert found.wrong_edges.keys() == {
        "EMPTY->COMPLETE_COMMIT",
        "PREPARE_COMMIT->COMPLETE_ABORT",
        "PREPARE_ABORT->COMPLETE_COMMIT",
    }
    assert found.verdict == "violated"
