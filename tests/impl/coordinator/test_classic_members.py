"""Members of the classic protocol in consumer groups: what time does to them, and conversions."""

from __future__ import annotations

from typing import Any

import pytest

from impl.broker.node_settings import configure
from impl.coordinator.classic_group import ClassicGroup, GroupMember
from impl.coordinator.classic_members import ClassicMembers
from impl.coordinator.consumer_group import ConsumerGroup
from impl.coordinator.consumer_group_messages import (
    GroupDecision,
    GroupRefusal,
    HeartbeatRequest,
    SubscribedTopic,
)
from impl.coordinator.consumer_groups import ConsumerGroupCoordinator
from impl.coordinator.group_config import ConsumerGroupConfig
from impl.coordinator.group_messages import JoinAnswer, JoinRequest, MemberIdentity, SyncRequest
from impl.coordinator.offsets_groups import GroupState
from impl.protocol.consumer_protocol import decode_assignment, encode_assignment
from impl.protocol.errors import ErrorCode
from impl.protocol.state_records import encode_record
from impl.settings import InvalidSetting
from tests.conformance.adapters.brokers.kafka.group_scripts import CONFIG

T = b"t" * 16
ALL = frozenset((T, index) for index in range(4))
SESSION_MS, REBALANCE_MS = 10_000, 3_000
SUBSCRIPTION = encode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", 1, {"topics": ["t"]})


def member(member_id: str, *partitions: int) -> GroupMember:
    assignment = encode_assignment([("t", index) for index in partitions], 1)
    protocols = (("range", SUBSCRIPTION),)
    return GroupMember(member_id, None, "client", REBALANCE_MS, SESSION_MS, protocols, assignment)


def classic_group(*members: GroupMember, generation_id: int = 7) -> ClassicGroup:
    group = ClassicGroup("g", GroupState.STABLE, generation_id=generation_id)
    group.protocol_type, group.protocol_name = "consumer", "range"
    for each in members:
        group.add(each)
    return group


class Mixed:
    """A coordinator and its group, which has been a classic one."""

    def __init__(self, classic: ClassicGroup, **settings: Any) -> None:
        self.coordinator = ConsumerGroupCoordinator(
            ConsumerGroupConfig(assignment_interval_ms=0, **settings)
        )
        self.coordinator.targets.set_topics({"t": SubscribedTopic(T, 4)}, 0, ())
        self.classic: ClassicGroup | None = classic
        self.members = ClassicMembers(self.coordinator)
        self.group: ConsumerGroup | None = None
        self.now_ms = 1_000_000

    def perform(self, decision: GroupDecision) -> None:
        if decision.replaces_classic:
            self.group, self.classic = ConsumerGroup("g"), None
        for record in decision.records if decision.becomes_classic is None else ():
            assert self.group is not None
            self.group.apply(record)
        if decision.becomes_classic is not None:
            self.group, self.classic = None, decision.becomes_classic
        self.coordinator.on_appended(decision, self.now_ms)

    def live(self, member_id: str, epoch: int, **more: Any) -> None:
        asked = HeartbeatRequest("g", member_id, epoch, **more)
        self.perform(self.coordinator.heartbeat(self.group, self.classic, asked, self.now_ms))

    def enter(self, member_id: str) -> None:
        owned = frozenset[Any]()
        self.live(member_id, 0, topics=frozenset({"t"}), owned=owned, rebalance_timeout_ms=9_000)

    def join(self, member_id: str) -> JoinAnswer:
        assert self.group is not None
        protocols = (("range", SUBSCRIPTION),)
        asked = JoinRequest(
            "g", member_id, None, "client", SESSION_MS, REBALANCE_MS, "consumer", protocols
        )
        answer, decision = self.members.join(self.group, asked, "new id", self.now_ms)
        self.perform(decision)
        return answer

    def sync(self, joined: JoinAnswer) -> ErrorCode:
        assert self.group is not None
        who = (joined.generation_id, joined.member_id, None, "consumer", "range")
        answer, decision = self.members.sync(
            self.group, SyncRequest("g", *who, assignments={}), self.now_ms
        )
        self.perform(decision)
        return answer.error

    def beat(self, member_id: str) -> ErrorCode:
        assert self.group is not None
        epoch = self.group.members[member_id].epoch
        error, decision = self.members.heartbeat(
            self.group, epoch, MemberIdentity(member_id), self.now_ms
        )
        self.perform(decision)
        return error

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        for _, member_id in self.coordinator.pop_due(self.now_ms):
            decision = self.coordinator.expire(self.group, member_id)
            if decision is not None:
                self.perform(decision)

    @property
    def ids(self) -> list[str]:
        return [] if self.group is None else list(self.group.members)


def test_a_conversion_and_back_keeps_members_what_they_have_and_the_generation() -> None:
    mixed = Mixed(classic_group(member("a", 0, 3), member("b", 1, 2)))
    mixed.enter("new")
    assert mixed.group is not None
    assert mixed.ids == ["a", "b", "new"]
    assert mixed.group.members["a"].assigned == {(T, 0): 7, (T, 3): 7}
    assert [m.epoch for m in mixed.group.members.values()] == [7, 7, 8]
    target = {
        name: sorted(index for _, index in places) for name, places in mixed.group.target.items()
    }
    mixed.live("new", -1)
    assert mixed.group is None
    assert mixed.classic is not None
    found = {
        name: [index for _, index in decode_assignment(each.assignment)[0]]
        for name, each in mixed.classic.members.items()
    }
    del target["new"]
    assert found == target
    assert (mixed.classic.generation_id, mixed.classic.leader) == (8, "a")
    assert mixed.classic.state is GroupState.STABLE


@pytest.mark.parametrize("asks", [False, True])
def test_a_member_that_joined_has_its_rebalance_timeout_to_ask_for_its_assignment(
    asks: bool,
) -> None:
    mixed = Mixed(classic_group(member("a", 0, 1, 2, 3)))
    mixed.enter("new")
    joined = mixed.join("b")
    if asks:
        assert mixed.sync(joined) is ErrorCode.NONE
    mixed.advance(REBALANCE_MS - 1)
    assert "b" in mixed.ids
    mixed.advance(1)
    assert ("b" in mixed.ids) == asks


@pytest.mark.parametrize("joins", [False, True])
def test_a_member_that_is_told_to_join_again_has_its_rebalance_timeout_for_it(
    joins: bool,
) -> None:
    """Heartbeats do not give it more time."""
    mixed = Mixed(classic_group(member("a", 0, 1, 2, 3)))
    mixed.enter("new")
    assert mixed.beat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    mixed.advance(REBALANCE_MS - 1)
    assert mixed.beat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    if joins:
        mixed.sync(mixed.join("a"))
    mixed.advance(1)
    assert ("a" in mixed.ids) == joins


def test_a_member_without_heartbeats_lives_for_the_session_that_it_asked_for() -> None:
    mixed = Mixed(classic_group(member("a", 0, 1, 2, 3)))
    mixed.enter("new")
    mixed.advance(SESSION_MS - 1)
    assert mixed.ids == ["a", "new"]
    mixed.advance(1)
    assert mixed.ids == ["new"]


def test_a_consumer_group_whose_last_consumer_is_fenced_is_a_classic_one() -> None:
    mixed = Mixed(classic_group(member("a", 0, 1, 2, 3)), session_timeout_ms=5_000)
    mixed.enter("new")
    mixed.advance(5_000)
    assert mixed.classic is not None
    assert list(mixed.classic.members) == ["a"]
    assert mixed.coordinator.timers.next_due_ms is None


def test_a_group_is_converted_as_far_as_there_is_room() -> None:
    mixed = Mixed(classic_group(member("a"), member("b"), member("c")), max_size=2)
    with pytest.raises(GroupRefusal, match="exceeds the consumer group maximum size") as raised:
        mixed.enter("new")
    assert raised.value.error is ErrorCode.GROUP_ID_NOT_FOUND
    mixed = Mixed(classic_group(member("a")), max_size=2)
    mixed.enter("new")
    with pytest.raises(GroupRefusal) as raised:
        mixed.join("b")
    assert raised.value.error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_policy_is_one_of_four() -> None:
    name = "group.consumer.migration.policy"
    assert configure(CONFIG, name, "Upgrade").consumer_groups.migration_policy == "upgrade"
    with pytest.raises(InvalidSetting, match="disabled, upgrade, downgrade, bidirectional"):
        configure(CONFIG, name, "sometimes")
