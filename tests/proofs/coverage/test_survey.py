"""What a survey says is so: on the source, in a search of its own, state by state."""

from dataclasses import replace

import pytest

from proofs.coverage.columns import evaluated
from proofs.coverage.goals import goals
from proofs.coverage.points import points, sites
from proofs.coverage.search import UnknownGoal, resolved, shortest
from proofs.coverage.space import Space
from proofs.coverage.survey import Survey, SurveyCase, every_pair
from proofs.explore.explorer import explore
from proofs.explore.scope import explore_scope
from proofs.lift import dag
from proofs.lift.build import lift
from proofs.lift.source import load_model
from proofs.lift.step import evaluate
from proofs.trace.format import Header
from proofs.trace.replay import Stepper, configuration_of, record
from tests.proofs.coverage.oracle import EVENTS, met_by_source, shortest_pairs

MODEL = load_model("idempotent")
VARIANT = "4.3.1"
SCOPE = "idempotent-restart"
"""A hundred worlds or two, with branches, refusals by limits, and four kinds of trouble."""


@pytest.fixture(scope="module")
def survey():
    looked = Survey(MODEL, EVENTS)
    looked.look(SurveyCase(SCOPE, VARIANT, "ints"))
    return looked


@pytest.fixture(scope="module")
def lifted():
    return lift(MODEL, configuration_of(MODEL, SCOPE, VARIANT), SCOPE, guarantees=False)


@pytest.fixture(scope="module")
def wanted():
    return goals(MODEL, configuration_of(MODEL, SCOPE, VARIANT), sites(MODEL))


def test_the_source_decides_just_the_same(survey):
    errors = set(MODEL.messages.Error.__members__)
    assert survey.points.keys() - errors == met_by_source(SCOPE, VARIANT)
    assert 100 < len(survey.points) < len(points(MODEL))


def test_no_way_is_longer_than_a_search_finds(survey, lifted, wanted):
    never = {
        f"{point} {number}": dag.negate(goal.condition)
        for point, ways in wanted.items()
        for number, goal in enumerate(ways)
    }
    found = explore(replace(lifted.machine, guarantees=never), "ints").violations
    shortest_paths = {}
    for name, path in found.items():
        point = name.split()[0]
        shortest_paths[point] = min(len(path), shortest_paths.get(point, len(path)))
    assert {
        point: len(seen.way.steps) - (seen.way.tried is None)
        for point, seen in survey.points.items()
    } == shortest_paths


def test_every_way_replays(survey):
    stepper = Stepper(MODEL, configuration_of(MODEL, SCOPE, VARIANT))
    for seen in (*survey.points.values(), *survey.pairs.values()):
        trace, _ = record(stepper, Header(SCOPE, VARIANT), seen.way.steps)
        assert len(trace.steps) == len(seen.way.steps)


def test_pairs_are_those_of_the_product(survey):
    found = {pair: len(seen.way.steps) for pair, seen in survey.pairs.items()}
    assert found == shortest_pairs(SCOPE, VARIANT)
    assert len(found) == 6


def test_an_error_code_is_answered_where_the_source_answers_it(survey):
    stepper = Stepper(MODEL, configuration_of(MODEL, SCOPE, VARIANT))
    met = survey.points.keys() & set(MODEL.messages.Error.__members__)
    assert met == {"NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"}
    for error in ("NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"):
        trace, _ = record(stepper, Header(SCOPE, VARIANT), survey.points[error].way.steps)
        assert any(answer["error"] == error for answer in trace.steps[-1].answers)


def test_columns_are_what_single_states_are(lifted, wanted):
    space = Space(lifted.machine, "ints")
    nodes = space.folded(goal.condition for ways in wanted.values() for goal in ways)
    columns = list(evaluated(nodes, space.layout, space.states, space.inputs))
    names = [leaf.name for leaf in space.layout.leaves]
    for state in range(0, len(space.states), 10):
        packed = sum(int(word) << 64 * n for n, word in enumerate(space.states[state]))
        leaves = dict(zip(names, space.layout.unpack(packed), strict=True))
        alone = evaluate(nodes, leaves, space.inputs)
        assert [int(column[state]) for column in columns] == [int(value) for value in alone]


# What one era alone shows


@pytest.mark.full  # three eras of a larger scope; the next test looks at two
def test_a_batch_is_lost_in_a_split_in_one_era_alone():
    """Up to 2.4 an exception is in the way: the application never hears of the batch."""
    scope, then = "idempotent-forgotten-split", "responses.on_failure#1:then"
    looked = {era: Survey(MODEL, EVENTS) for era in ("2.4.1", "2.0.0", VARIANT)}
    for era, seen in looked.items():
        seen.look(SurveyCase(scope, era))
    counts = {era: sum(seen.states.values()) for era, seen in looked.items()}
    assert counts == {"2.4.1": 7_015, "2.0.0": 9_287, VARIANT: 3_534}
    assert [era for era, seen in looked.items() if then in seen.points] == ["2.4.1"]
    stepper = Stepper(MODEL, configuration_of(MODEL, scope, "2.4.1"))
    steps = looked["2.4.1"].points[then].way.steps
    trace, worlds = record(stepper, Header(scope, "2.4.1"), steps)
    before, after = (world.clients[0].partitions[0] for world in worlds[-2:])
    (lost,) = before.in_flight
    assert (lost.batch.record_count, after.in_flight) == (2, ())
    assert lost.batch.first_record not in after.acknowledged
    assert lost.batch.first_record not in after.failed
    assert trace.steps[-1].rule == "answer_arrives"


def test_what_fails_of_a_forgotten_id_costs_a_record_in_another_era_alone():
    """In 2.0 the next id gives one sequence to two batches: the second counts as stored."""
    scope = "idempotent-forgotten-split"
    reports = {era: explore_scope(scope, era) for era in ("2.0.0", "2.4.1", VARIANT)}
    assert {report.verdict for report in reports.values()} == {"holds"}
    found = {era: report.found("acked_is_stored") for era, report in reports.items()}
    assert found["2.0.0"] is not None
    assert (found["2.0.0"].guaranteed, found["2.0.0"].events) == (False, 15)
    assert found["2.4.1"] is found[VARIANT] is None


# One goal at a time


def way(name, scope=SCOPE):
    k = configuration_of(MODEL, scope, VARIANT)
    return shortest(MODEL, k, scope, EVENTS, name, engine="ints")


@pytest.mark.parametrize("name", ["leader_restarts", "NONE", "leader.check_append#2:else"])
def test_one_goal(survey, name):
    assert len(way(name).steps) == len(survey.points[name].way.steps)


def test_one_pair(survey):
    for pair in every_pair(EVENTS)[:3]:
        found = way(pair)
        assert (found is None) == (pair not in survey.pairs)
        assert found is None or len(found.steps) == len(survey.pairs[pair].way.steps)


def test_out_of_reach():
    assert way("high_watermark_advances") is None
    assert way("restart+failover") is None


def test_names():
    line = points(MODEL)["leader.check_producer_epoch#1:then"].line
    assert resolved(MODEL, EVENTS, f"leader.check_producer_epoch:{line}:then").endswith("#1:then")
    assert resolved(MODEL, EVENTS, "restart+refusal") == "refusal+restart"
    with pytest.raises(UnknownGoal, match="leader_restarts"):
        resolved(MODEL, EVENTS, "leader_restart")
    with pytest.raises(UnknownGoal, match="`kafka-eos list branches` shows"):
        resolved(MODEL, EVENTS, "nothing")
    with pytest.raises(UnknownGoal, match=r"leader\.in_sequence#1:true"):
        resolved(MODEL, EVENTS, "leader.in_sequence#99:then")
