"""Replay on the source: what cannot run is named with its step; projections are canonical."""

from dataclasses import replace

import pytest

from model.idempotent.messages import Batch, Error
from model.language import Map, Set, span
from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.trace.format import Header, Trace, TraceStep
from proofs.trace.project import digest, project
from proofs.trace.replay import (
    RecordedDifferently,
    ReplayError,
    StepNotEnabled,
    Stepper,
    UnknownScope,
    configuration_of,
    record,
    replay,
)

pytestmark = pytest.mark.fast

LINK = (("producer", 0), ("partition", 0))
HEADER = Header("idempotent-tiny", "4.3.1")


def stepper(scope="idempotent-tiny"):
    return Stepper(
        load_model("idempotent"), configuration_of(load_model("idempotent"), scope, "4.3.1")
    )


def recorded(*rules):
    return record(stepper(), HEADER, [(rule, LINK) for rule in rules])[0]


def test_a_trace_is_replayed_with_its_answers_and_digests():
    trace = recorded("client_sends", "request_arrives", "answer_arrives")
    worlds = replay(trace)
    assert len(worlds) == 4
    assert 0 in worlds[3].clients[0].partitions[0].acknowledged
    assert [len(step.answers) for step in trace.steps] == [0, 1, 0]
    assert trace.steps[1].answers[0]["error"] == "NONE"
    assert set(trace.steps[0].digests) == {"clients[0]", "leaders[0]", "links[0][0]"}


def test_choices_may_stand_in_any_order():
    step = TraceStep("client_sends", (("partition", 0), ("producer", 0)))
    assert len(replay(Trace(HEADER, (step,)))) == 2


def changed(trace, number, **fields):
    steps = list(trace.steps)
    steps[number - 1] = replace(steps[number - 1], **fields)
    return Trace(trace.header, tuple(steps))


REFUSED = {
    "not enabled": ({"rule": "answer_arrives"}, StepNotEnabled, "step 2, answer_arrives"),
    "no rule": ({"rule": "nothing"}, ReplayError, "no such rule"),
    "no choice": ({"choice": ()}, ReplayError, "its choices are producer, partition"),
    "choice out of range": (
        {"choice": (("producer", 7), ("partition", 0))},
        ReplayError,
        "from 0 to 0",
    ),
    "other answers": ({"answers": ()}, RecordedDifferently, "recorded answers"),
    "other digest": ({"digests": {"clients[0]": "0"}}, RecordedDifferently, "the trace says 0"),
}


@pytest.mark.parametrize(("fields", "error", "says"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_run_is_named_with_its_step(fields, error, says):
    with pytest.raises(error, match="step 2") as raised:
        replay(changed(recorded("client_sends", "request_arrives"), 2, **fields))
    assert says in str(raised.value)
    assert raised.value.step == 2


def test_a_limit_of_the_scope_is_told_from_the_protocol():
    restart = ("leader_restarts", (("partition", 0),))
    with pytest.raises(StepNotEnabled, match="scope") as limit:
        record(stepper(), HEADER, [restart, restart])
    assert limit.value.by_scope
    with pytest.raises(StepNotEnabled, match="protocol") as guard:
        record(stepper(), HEADER, [("client_retries", LINK)])
    assert not guard.value.by_scope


def test_patches_are_part_of_a_trace():
    patch = ("leader.check_producer_epoch", "Error.INVALID_PRODUCER_EPOCH", "Error.NONE")
    model = load_model("idempotent", [Patch(*patch)])
    header = replace(HEADER, patches=(patch,))
    k = configuration_of(model, header.scope, header.variant)
    trace, worlds = record(Stepper(model, k), header, [("client_sends", LINK)])
    assert project(replay(trace)[-1]) == project(worlds[-1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none", "no scope is called 'none'; choose one of those that `kafka-eos list scopes`"),
        ("idempotent-tyny", "did you mean idempotent-tiny or .*`kafka-eos list scopes` shows all"),
        ("transactions-tny", "did you mean transactions-tiny"),
        ("processng", "did you mean processing"),
        ("live-retry", "did you mean live-retries"),
        ("idempotent-tiny/luck=1", "no budget is called 'luck'"),
        ("idempotent-tiny/breaks=3", "from 0 to 2"),
        ("idempotent-tiny/breaks=many", "from 0 to 2"),
    ],
)
def test_a_scope_that_there_is_not(text, says):
    with pytest.raises(UnknownScope, match=says):
        configuration_of(load_model("idempotent"), text, "4.3.1")


def test_budgets_may_be_replaced_by_hand():
    k = configuration_of(load_model("idempotent"), "idempotent-tiny/breaks=1/restarts=0", "4.3.1")
    assert (k.budgets.breaks, k.budgets.restarts, k.budgets.records) == (1, 0, 3)


def test_projections():
    batch = Batch(0, 1, 2, 2, 0, 3)
    assert project(batch) == {
        "producer_id": 0,
        "producer_epoch": 1,
        "base_sequence": 2,
        "record_count": 2,
        "producer": 0,
        "first_record": 3,
    }
    assert project(Map((True, Error.NONE))) == {"0": True, "1": "NONE"}
    assert project(span(1, 2)) == [1, 2]
    assert project((Set(), 5)) == [[], 5]
    assert digest(batch) == digest(Batch(0, 1, 2, 2, 0, 3)) != digest(Batch(0, 1, 2, 1, 0, 3))
    with pytest.raises(TypeError):
        project("text")


def test_digests_are_the_same_on_every_machine_and_day():
    assert digest(stepper().initial()) == "e622b6fd7fa3"


def test_every_counterexample_of_a_report_replays():
    report = explore_scope("idempotent-tiny", engine="ints")
    assert report.violations
    for found in report.violations:
        assert len(replay(found.trace)) == found.steps + 1
