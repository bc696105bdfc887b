"""Exactly once under crashes, and without transactions not."""

import pytest

from impl.simulator.consume_transform_produce import JOB, Program, simulate
from impl.simulator.faults import Faults
from impl.simulator.job import Order

pytestmark = pytest.mark.slow  # whole clusters, simulated from end to end

TRANSACTION = Program()
STEPS = simulate(0, Faults(), TRANSACTION).steps


def outcomes(faults, program=TRANSACTION, every=3):
    for step in range(0, STEPS, every):
        settings = {name: getattr(faults, name) for name in Faults.__dataclass_fields__}
        yield simulate(step, Faults(**settings | {"crash_step": step}), program)


def test_a_life_without_faults_does_all_the_work_at_once():
    outcome = simulate(3, Faults(), TRANSACTION)
    assert outcome.is_exactly_once
    assert (outcome.clients, outcome.crashed, outcome.aborted) == (1, False, 0)
    assert outcome.steps > 40


@pytest.mark.parametrize("requests", ["v1", "v2"])
def test_a_crash_at_each_step_leaves_each_result_once(requests):
    crashed = aborted = 0
    for outcome in outcomes(Faults(), Program(requests=requests)):
        assert outcome.is_at_rest
        assert outcome.is_exactly_once, outcome
        crashed += outcome.crashed
        aborted += outcome.aborted
    assert crashed > STEPS // 5
    assert aborted > 0, "some crash must come in the middle of a transaction"


@pytest.mark.parametrize(
    "faults",
    [
        Faults(is_zombie=True),
        Faults(break_rate=0.03),
        Faults(break_rate=0.01, stop_every_ms=300, coordinator_lag_ms=100, coordinator_load_ms=100),
    ],
    ids=["zombies", "connections", "nodes"],
)
def test_other_faults_leave_each_result_once(faults):
    for outcome in outcomes(faults, every=6):
        assert outcome.is_at_rest
        assert outcome.is_exactly_once, outcome


def test_with_an_id_of_its_own_a_client_waits_for_the_offsets_of_the_last_one():
    """KIP-447: no client is fenced, but no offset is read while a transaction could move it."""
    slow_markers = Faults(broker_delay_ms=(200, 900), loss_rate=0.0)
    aborted = 0
    for outcome in outcomes(slow_markers, Program(has_own_id=True), every=2):
        assert outcome.is_at_rest
        assert outcome.is_exactly_once, outcome
        aborted += outcome.aborted
    assert aborted > 0


def test_with_an_id_of_its_own_a_zombie_is_not_fenced():
    """What the generation of a group is for: here no group fences the zombie."""
    found = outcomes(Faults(is_zombie=True), Program(has_own_id=True), every=2)
    assert any(outcome.duplicated for outcome in found)


def test_a_zombie_is_fenced():
    failures = [
        failure for outcome in outcomes(Faults(is_zombie=True)) for failure in outcome.failures
    ]
    assert any(failure.startswith("ProducerFenced") for failure in failures)


@pytest.mark.parametrize(
    ("order", "what"),
    [(Order.PRODUCE_THEN_COMMIT, "duplicated"), (Order.COMMIT_THEN_PRODUCE, "lost")],
)
def test_without_a_transaction_a_crash_shows(order, what):
    other = {"duplicated": "lost", "lost": "duplicated"}[what]
    found = [
        outcome for outcome in outcomes(Faults(), Program(order), every=2) if getattr(outcome, what)
    ]
    assert found
    assert not any(getattr(outcome, other) for outcome in found)


def test_the_judge_sees_what_is_missing_or_there_twice():
    outcome = simulate(36, Faults(crash_step=36), Program(Order.COMMIT_THEN_PRODUCE))
    for value in outcome.lost:
        partition, number = map(int, value.removeprefix("result of ").split("."))
        assert partition < JOB.partitions
        assert number < JOB.records_a_partition


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_has_the_same_history(seed):
    faults = Faults(crash_step=30, break_rate=0.03, stop_every_ms=200, is_zombie=bool(seed % 2))
    first, second = (simulate(seed, faults, TRANSACTION, keeps_log=True) for _ in range(2))
    assert first == second
    assert len(first.story) > 50
    assert simulate(seed + 100, faults, TRANSACTION, keeps_log=True).story != first.story
