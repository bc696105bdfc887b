"""A member of a consumer group without I/O: what it says, and what it makes of answers."""

from __future__ import annotations

from typing import Any

import pytest

from impl.client.errors import InvalidArgumentError
from impl.consumer.member_core import MemberCore, MembershipState
from impl.consumer.membership import GroupSettings
from impl.protocol.errors import ErrorCode

T = b"t" * 16
U = b"u" * 16
WHO = {"group_id": "g", "member_id": "me", "instance_id": None}
INTERVAL_MS = 5_000


def core(**settings: Any) -> MemberCore:
    return MemberCore(GroupSettings("g", protocol="consumer", **settings), "me")


def answer(epoch: int = 1, *places: tuple[bytes, int], error: int = 0) -> dict[str, Any]:
    rows = [{"topic_id": topic_id, "partitions": [index]} for topic_id, index in places]
    return {
        "error_code": error,
        "member_epoch": epoch,
        "heartbeat_interval_ms": INTERVAL_MS,
        "assignment": {"topic_partitions": rows} if places else None,
    }


def joined(**settings: Any) -> MemberCore:
    """A stable member in epoch 1, at time 0, that owns partition 0 of T."""
    me = core(**settings)
    me.subscribe(["t"])
    me.poll(0)
    me.receive(answer(1, (T, 0)), 0)
    me.own(me.target)
    me.poll(0)
    me.receive(answer(1), 0)
    return me


def test_the_first_heartbeat_says_all_and_the_next_one_only_what_it_owns() -> None:
    me = core(remote_assignor="range", max_poll_interval_ms=7)
    assert me.poll(0) is None
    me.subscribe(["u", "t"])
    assert me.poll(0) == {
        **WHO,
        "member_epoch": 0,
        "rebalance_timeout_ms": 7,
        "subscribed_topic_names": ["t", "u"],
        "server_assignor": "range",
        "topic_partitions": [],
    }
    me.receive(answer(3, (T, 0), (T, 1), (U, 0)), 0)
    assert (me.state, me.target) == (MembershipState.RECONCILING, {(T, 0), (T, 1), (U, 0)})
    assert me.poll(1) is None
    me.own([(T, 1), (U, 0), (T, 0)])
    owned = [{"topic_id": T, "partitions": [0, 1]}, {"topic_id": U, "partitions": [0]}]
    assert me.poll(1) == {**WHO, "member_epoch": 3, "topic_partitions": owned}
    me.receive(answer(3), 1)
    assert (me.state, me.poll(2)) == (MembershipState.STABLE, None)
    assert me.poll(1 + INTERVAL_MS) == {**WHO, "member_epoch": 3}


def test_a_changed_subscription_is_said_at_once() -> None:
    me = joined()
    assert me.poll(1) is None
    me.subscribe(["u"])
    assert me.poll(1) == {**WHO, "member_epoch": 1, "subscribed_topic_names": ["u"]}


@pytest.mark.parametrize("error", [0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_after_a_heartbeat_that_nobody_heard_all_is_said_again(error: int) -> None:
    """So the broker accepts the epoch before, of a member whose answer was lost."""
    me = joined()
    me.poll(INTERVAL_MS)
    if error:
        assert me.receive(answer(error=error), INTERVAL_MS) == error
    else:
        me.fail()
    said = me.poll(INTERVAL_MS)
    assert said is not None
    assert said["topic_partitions"] == [{"topic_id": T, "partitions": [0]}]
    assert said.keys() >= {"rebalance_timeout_ms", "subscribed_topic_names"}
    assert (said["member_epoch"], me.state) == (1, MembershipState.STABLE)


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_is_fenced_is_silent_until_it_has_given_all_up(error: ErrorCode) -> None:
    me = joined()
    assert me.receive(answer(error=error), 1) is ErrorCode.NONE
    assert (me.is_fenced, me.poll(INTERVAL_MS)) == (True, None)
    me.own([(T, 0)])  # a rebalance that ends too late
    assert me.is_fenced
    me.receive(answer(9, (T, 5)), 1)
    assert me.epoch == 0
    me.rejoin()
    said = me.poll(1)
    assert said is not None
    assert (said["member_id"], said["member_epoch"], said["topic_partitions"]) == ("me", 0, [])


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_who_leaves_says_so_once(instance_id: str | None, epoch: int) -> None:
    me = joined(group_instance_id=instance_id)
    said = me.leave()
    assert said == {**WHO, "instance_id": instance_id, "member_epoch": epoch}
    assert (me.leave(), me.poll(INTERVAL_MS)) == (None, None)
    me.receive(answer(9, (T, 5)), 1)
    assert me.state is MembershipState.UNSUBSCRIBED


def test_an_assignment_that_changes_meanwhile_is_reconciled_next() -> None:
    me = joined()
    me.receive(answer(2, (T, 1)), 1)
    me.receive(answer(3, (T, 2)), 1)
    me.own([(T, 1)])
    assert (me.state, me.epoch, me.target) == (MembershipState.RECONCILING, 3, {(T, 2)})


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"protocol": "consumer", "session_timeout_ms": 9_000}, "session_timeout_ms"),
        ({"protocol": "consumer", "heartbeat_interval_ms": 9}, "heartbeat_interval_ms"),
        ({"protocol": "consumer", "assignors": ("range",)}, "partition_assignment_strategy"),
        ({"remote_assignor": "range"}, "group_remote_assignor"),
        ({"protocol": "consumer", "remote_assignor": ""}, "group_remote_assignor"),
        ({"protocol": "streams"}, "group_protocol"),
    ],
)
def test_what_a_protocol_does_not_have_is_refused(settings: Any, argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        GroupSettings("g", **settings).check()
    assert refused.value.argument == argument
