"""The consumer groups at one node: what their coordinator decides is carried out.

Theory of operation: the groups are in `offsets`, whose partitions are loaded from their logs. The
records of a decision are one batch; once it is appended it is applied to the group, and the member
is answered. A group that changes its kind leaves the classic groups, or joins them, after that.
Regular expressions are resolved right after the answer, as if by another request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from impl.broker.group_settings import with_settings
from impl.broker.memberships import Memberships
from impl.broker.resource_configs import ConfigResourceType
from impl.broker.services import NodeServices
from impl.coordinator.classic_members import ClassicMembers
from impl.coordinator.consumer_group import ConsumerGroup
from impl.coordinator.consumer_group_messages import (
    GroupDecision,
    GroupRefusal,
    HeartbeatAnswer,
    HeartbeatRequest,
    SubscribedTopic,
)
from impl.coordinator.consumer_group_records import encode_group_record, group_tombstones
from impl.coordinator.consumer_groups import ConsumerGroupCoordinator
from impl.coordinator.group_config import ConsumerGroupConfig
from impl.coordinator.group_messages import (
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from impl.coordinator.group_records import encode_group, encode_group_key
from impl.coordinator.offsets import APPEND_ERRORS, OffsetsCoordinator, encode_commit
from impl.coordinator.offsets_state import GroupOffsets
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record

MayDescribe = Callable[[str], bool]
"""Whether a client may know of a topic, by its name."""


class ConsumerMemberships:
    """Read-only: `groups`, the coordinator."""

    __slots__ = ("_classic", "_memberships", "_node", "_offsets", "groups")

    def __init__(
        self, node: NodeServices, offsets: OffsetsCoordinator, memberships: Memberships
    ) -> None:
        self._node = node
        self._offsets = offsets
        self._memberships = memberships
        self.groups = ConsumerGroupCoordinator(
            node.config.consumer_groups, self._config_of, node.config.groups.max_size
        )
        self._classic = ClassicMembers(self.groups)

    def _config_of(self, group_id: str) -> ConsumerGroupConfig:
        """What the group sets for itself comes before what the broker has."""
        configs = self._node.cluster.resources.get(ConfigResourceType.GROUP, group_id)
        base = self._node.config.consumer_groups
        return with_settings(configs, base) if configs else base

    def __iter__(self) -> Iterator[ConsumerGroup]:
        for offsets in self._offsets.partitions.values():
            yield from offsets.consumer_groups.values() if offsets else ()

    def get(self, group_id: str) -> ConsumerGroup | None:
        """The group, None if there is none, or it is not coordinated here."""
        offsets = self._offsets.find(group_id, may_be_empty=True)
        return offsets.consumer_groups.get(group_id) if isinstance(offsets, GroupOffsets) else None

    def heartbeat(
        self, asked: HeartbeatRequest, may_describe: MayDescribe, now_ms: int
    ) -> HeartbeatAnswer:
        """Answer a member of a group that is coordinated here. Raises `GroupRefusal`."""
        group = self.get(asked.group_id)
        classic = None if group else self._memberships.find(asked.group_id)
        decision = self.groups.heartbeat(group, classic, asked, now_ms)
        self._perform(decision, now_ms)
        self._resolve(decision, may_describe, now_ms)
        assert decision.answer is not None, "a heartbeat is answered"
        return decision.answer

    # ---- members of the classic protocol; each raises `GroupRefusal`

    def join(
        self, group: ConsumerGroup, asked: JoinRequest, may_describe: MayDescribe, now_ms: int
    ) -> JoinAnswer:
        """Answer a JoinGroup."""
        new_id = self._memberships.new_consumer_id(now_ms)
        answer, decision = self._classic.join(group, asked, new_id, now_ms)
        self._perform(decision, now_ms)
        self._resolve(decision, may_describe, now_ms)
        return answer

    def sync(self, group: ConsumerGroup, asked: SyncRequest, now_ms: int) -> SyncAnswer:
        """Answer a SyncGroup."""
        answer, decision = self._classic.sync(group, asked, now_ms)
        self._perform(decision, now_ms)
        return answer

    def beat(
        self, group: ConsumerGroup, generation_id: int, identity: MemberIdentity, now_ms: int
    ) -> ErrorCode:
        """Answer a Heartbeat."""
        error, decision = self._classic.heartbeat(group, generation_id, identity, now_ms)
        self._perform(decision, now_ms)
        return error

    def leave(
        self, group: ConsumerGroup, identities: Sequence[MemberIdentity], now_ms: int
    ) -> list[ErrorCode]:
        """Answer a LeaveGroup: an error for each member."""
        errors, decision = self._classic.leave(group, identities)
        self._perform(decision, now_ms)
        return errors

    # ---- decisions

    def _perform(self, decision: GroupDecision, now_ms: int) -> None:
        """Append the records, and apply them. Raises `GroupRefusal`."""
        group_id, becomes = decision.group_id, decision.becomes_classic
        rows = [encode_group_record(group_id, record) for record in decision.records]
        if decision.replaces_classic:
            rows.insert(0, (encode_group_key(group_id), None))
        if becomes is not None:
            becomes.state_timestamp_ms = now_ms
            rows.append((encode_group_key(group_id), encode_group(becomes)))
        error = self._append(group_id, rows, now_ms)
        if error:
            raise GroupRefusal(error)
        self.groups.on_appended(decision, now_ms)
        classic = self._memberships.groups
        if decision.replaces_classic:
            self._memberships.perform(classic.give_up(group_id), now_ms)
        if becomes is not None:
            effects = classic.take_over(becomes, now_ms, rebalances=decision.rebalances)
            self._memberships.perform(effects, now_ms)

    def _resolve(self, decision: GroupDecision, may_describe: MayDescribe, now_ms: int) -> None:
        group = self.get(decision.group_id)
        if decision.regexes and group is not None:
            found = self.groups.targets.resolve(group, decision.regexes, may_describe, now_ms)
            self._perform(found, now_ms)

    def _append(
        self, group_id: str, rows: Iterable[tuple[bytes, bytes | None]], now_ms: int
    ) -> ErrorCode:
        records = [Record(n, now_ms, key, value) for n, (key, value) in enumerate(rows)]
        if not records:
            return ErrorCode.NONE
        partition = self._offsets.partition_of(group_id)
        error = self._memberships.append(partition, encode_commit(records, now_ms), now_ms)
        return APPEND_ERRORS.get(error, error)

    def remove_empty(self, group: ConsumerGroup, now_ms: int) -> ErrorCode:
        """Make room for a classic group. `maybeDeleteEmptyConsumerGroup`."""
        gone = group_tombstones(group)
        rows = [encode_group_record(group.group_id, record) for record in gone]
        return self._append(group.group_id, rows, now_ms)

    # ---- time, leadership, topics

    def advance(self, now_ms: int) -> None:
        """Fence members whose time is over; those whose records cannot be stored, later."""
        for group_id, member_id in self.groups.pop_due(now_ms):
            decision = self.groups.expire(self.get(group_id), member_id)
            if decision is None:
                continue
            try:
                self._perform(decision, now_ms)
            except GroupRefusal:
                self.groups.postpone(group_id, member_id, now_ms)

    def load(self, partition: int, now_ms: int) -> None:
        """Load the groups of a partition whose offsets are loaded."""
        offsets = self._offsets.partitions[partition]
        assert offsets is not None, "its offsets are loaded first"
        self.groups.load(offsets.consumer_groups.values(), now_ms)

    def follow_topics(self) -> None:
        """The metadata has changed."""
        images = {
            topic.name: SubscribedTopic(topic.topic_id, len(topic.partitions))
            for topic in self._node.topics
        }
        self.groups.targets.set_topics(images, self._node.topics.version, self)
