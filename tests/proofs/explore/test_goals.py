"""Goals: each rule, each error code, and the branches that a scope reaches."""

import pytest

from proofs.explore.goals import UnknownGoal, goals, shortest
from proofs.lift.build import lift
from proofs.lift.text import plain
from proofs.trace.format import TraceStep
from proofs.trace.replay import Stepper, setting_of

MODEL = plain()


def way(name, scope="idempotent-default"):
    k = setting_of(MODEL, scope, "4.3.1")
    path = shortest(MODEL, k, scope, name, engine="ints")
    if path is not None:
        list(Stepper(MODEL, k).run([TraceStep(*instance) for instance in path]))
    return path


REPLICAS = {"high_watermark_advances", "leader_fails_over"}


@pytest.mark.parametrize("rule", MODEL.rules)
def test_every_rule_is_reached(rule):
    path = way(rule, "idempotent-failover" if rule in REPLICAS else "idempotent-default")
    assert path[-1][0] == rule


@pytest.mark.parametrize(
    ("error", "steps"),
    [
        ("NONE", 2),
        ("NOT_ENOUGH_REPLICAS", 2),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", 6),
        ("INVALID_PRODUCER_EPOCH", 13),
    ],
)
def test_every_error_code_is_answered(error, steps):
    assert len(way(error)) == steps


def test_both_outcomes_of_a_check():
    assert len(way("leader.check_producer_epoch#1:else")) == 2
    assert way("leader.check_producer_epoch#1:then") == way("INVALID_PRODUCER_EPOCH")


def test_a_goal_out_of_reach_has_no_way():
    assert way("leader.snapshot#1:then") is None


def test_an_unknown_goal_is_refused_with_those_that_there_are():
    with pytest.raises(UnknownGoal, match="leader_restarts"):
        way("nothing")
    with pytest.raises(UnknownGoal, match=r"client\.failure#1:then"):
        way("client.failure#99:then")


def test_branches_are_numbered_in_the_order_of_the_text():
    k = setting_of(MODEL, "idempotent-default", "4.3.1")
    names = [name for name in goals(MODEL, k, lift(MODEL, k, "x", promises=False)) if "#" in name]
    assert {"leader.check_append#1:then", "leader.check_append#1:else"} <= set(names)
    assert len(names) == len(set(names)) > 40
