"""Consumer groups (KIP-848): what time does to members, what a restart keeps, and who gets what."""

from __future__ import annotations

from typing import Any

import pytest

from impl.coordinator.consumer_group import ConsumerGroup, ReconciliationState
from impl.coordinator.consumer_group_messages import (
    GroupDecision,
    GroupRefusal,
    HeartbeatAnswer,
    HeartbeatRequest,
    SubscribedTopic,
)
from impl.coordinator.consumer_group_records import (
    decode_consumer_group_record,
    encode_group_record,
)
from impl.coordinator.consumer_groups import ConsumerGroupCoordinator
from impl.coordinator.group_config import ConsumerGroupConfig
from impl.coordinator.server_assignors import MemberSpec, assign_uniform
from impl.protocol.errors import ErrorCode

T, U = b"t" * 16, b"u" * 16
SESSION_MS, INTERVAL_MS, REVOCATION_MS = 45_000, 1_000, 5_000


class Members:
    """A coordinator, and its log."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.group: ConsumerGroup | None = None
        self.now_ms = 1_000_000
        self.start()

    def start(self) -> None:
        """A new coordinator loads the log."""
        self.group = None
        for row in self.log:
            self.apply(row)
        self.coordinator = ConsumerGroupCoordinator(ConsumerGroupConfig())
        self.coordinator.targets.set_topics({"t": SubscribedTopic(T, 4)}, 0, ())
        self.coordinator.load([self.group] if self.group else [], self.now_ms)

    def apply(self, row: tuple[bytes, bytes | None]) -> None:
        found = decode_consumer_group_record(*row)
        assert found is not None
        self.group = self.group or ConsumerGroup("g")
        self.group.apply(found[1])

    def perform(self, decision: GroupDecision) -> None:
        for record in decision.records:
            self.log.append(encode_group_record("g", record))
            self.apply(self.log[-1])
        self.coordinator.on_appended(decision, self.now_ms)

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        for _, member_id in self.coordinator.pop_due(self.now_ms):
            decision = self.coordinator.expire(self.group, member_id)
            if decision is not None:
                self.perform(decision)

    def live(self, member_id: str, epoch: int, **more: Any) -> HeartbeatAnswer:
        asked = HeartbeatRequest("g", member_id, epoch, **more)
        decision = self.coordinator.heartbeat(self.group, None, asked, self.now_ms)
        self.perform(decision)
        assert decision.answer is not None
        return decision.answer

    def enter(self, member_id: str) -> HeartbeatAnswer:
        topics, owned = frozenset({"t"}), frozenset[Any]()
        timeout = {"rebalance_timeout_ms": REVOCATION_MS}
        return self.live(member_id, 0, topics=topics, owned=owned, **timeout)

    @property
    def ids(self) -> list[str]:
        return sorted(self.group.members) if self.group else []


def test_a_member_without_heartbeats_is_removed_and_its_partitions_are_free() -> None:
    members = Members()
    members.enter("one")
    members.advance(SESSION_MS - 1)
    members.live("one", 2)
    members.advance(SESSION_MS - 1)
    assert members.ids == ["one"]
    members.advance(1)
    assert members.ids == []
    answer = members.enter("two")
    assert answer.assignment == frozenset((T, index) for index in range(4))


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    members = Members()
    members.enter("one")
    members.advance(INTERVAL_MS)
    members.enter("two")
    members.live("one", 2)
    assert members.group is not None
    assert members.group.members["one"].state is ReconciliationState.UNREVOKED_PARTITIONS
    members.advance(REVOCATION_MS)
    assert members.ids == ["two"]
    with pytest.raises(GroupRefusal) as refused:
        members.live("one", 2)
    assert refused.value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_targets_are_an_interval_apart() -> None:
    members = Members()
    members.enter("one")
    assert members.enter("two").member_epoch == 2
    members.advance(INTERVAL_MS - 1)
    assert members.live("two", 2).member_epoch == 2
    members.advance(1)
    assert members.live("two", 2).member_epoch == 3


def test_a_restart_keeps_the_group_and_its_members_for_a_session_more() -> None:
    members = Members()
    members.enter("one")
    members.advance(INTERVAL_MS)
    members.enter("two")
    members.live("one", 2)
    before = members.group
    members.advance(REVOCATION_MS - 1)
    members.start()
    assert members.group == before
    assert members.live("one", 2).assignment is None
    members.advance(REVOCATION_MS)
    assert members.ids == ["two"]


def test_a_failed_append_changes_nothing() -> None:
    members = Members()
    members.enter("one")
    assert members.group is not None
    before = members.group.copy()
    asked = HeartbeatRequest("g", "one", -1)
    assert members.coordinator.heartbeat(members.group, None, asked, members.now_ms).records
    assert members.group == before


def test_uniform_balances_members_with_different_subscriptions() -> None:
    held = frozenset((T, index) for index in range(4))
    one = MemberSpec("one", None, frozenset({T}), held)
    two = MemberSpec("two", None, frozenset({T, U}), frozenset())
    targets = assign_uniform([one, two], {T: 4, U: 2})
    assert {len(places) for places in targets.values()} == {3}
    assert targets["one"] < held
    assert not targets["one"] & targets["two"]
