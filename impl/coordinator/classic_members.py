"""Members of the classic protocol in a consumer group: JoinGroup to LeaveGroup (KIP-848).

Five rules:

1. Each such request is answered at once: nobody waits for other members. A member's epoch is its
   generation; it has no leader, and is not told of the others.
2. JoinGroup says what the member reads and has, and takes it one step further, as a heartbeat does
   for others; SyncGroup tells what it has then.
3. A member is to join again (REBALANCE_IN_PROGRESS) when it is behind the target assignment, has
   something to revoke, or can get something that was another's.
4. After JoinGroup a member has its rebalance timeout to ask for its assignment; when it is told to
   join again, it has that long to do so. Else it is fenced.
5. A static member may come in the place of one of the other protocol. If that was the last one, the
   group becomes a classic group.

Theory of operation: as `consumer_groups`, whose timers and fencing these members share.
Source: `GroupMetadataManager.classicGroupJoinToConsumerGroup`, `classicGroupSyncToConsumerGroup`,
`classicGroupHeartbeatToConsumerGroup`, `classicGroupLeaveToConsumerGroup`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from impl.coordinator.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerGroupMember,
    ReconciliationState,
)
from impl.coordinator.consumer_group_messages import GroupDecision, GroupRefusal, TimerChange
from impl.coordinator.consumer_groups import (
    END_JOIN,
    END_REVOCATION,
    END_SESSION,
    END_SYNC,
    ConsumerGroupCoordinator,
    find_static,
    take_place,
    unknown_member,
)
from impl.coordinator.group_messages import (
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from impl.coordinator.group_targets import GroupDraft
from impl.coordinator.offsets_groups import NO_MEMBER
from impl.protocol.consumer_protocol import (
    CONSUMER_PROTOCOL,
    MemberSubscription,
    decode_subscription,
    encode_assignment,
    read_version,
)
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.fields import TopicIdPartition

_State = ReconciliationState


class ClassicMembers:
    """Those of all consumer groups of one broker."""

    __slots__ = ("_coordinator",)

    def __init__(self, coordinator: ConsumerGroupCoordinator) -> None:
        self._coordinator = coordinator

    # ---- JoinGroup

    def join(
        self, group: ConsumerGroup, asked: JoinRequest, new_id: str, now_ms: int
    ) -> tuple[JoinAnswer, GroupDecision]:
        """Join, or join again; `new_id` is for a member without one. Raises `GroupRefusal`."""
        member_id = asked.member_id or new_id
        self._check_join(group, asked, member_id)
        is_static = asked.group_instance_id is not None
        if asked.needs_known_id and not is_static and asked.member_id == NO_MEMBER:
            answer = JoinAnswer(0, ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return answer, GroupDecision(group.group_id)
        subscription = _read_subscription(asked)
        draft = GroupDraft(group)
        member = _subscribe(draft, asked, member_id)
        updated = _update(member, asked, subscription)
        return self._advance(group, draft, member, updated, subscription, now_ms)

    def _check_join(self, group: ConsumerGroup, asked: JoinRequest, member_id: str) -> None:
        """`throwIfClassicMemberCannotJoinConsumerGroup` and those after it."""
        if not self._coordinator.config.mixes:
            raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._coordinator.check_size(group, member_id)
        if not group.supports(asked.protocol_type, (name for name, _ in asked.protocols)):
            raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _advance(
        self,
        group: ConsumerGroup,
        draft: GroupDraft,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        subscription: MemberSubscription,
        now_ms: int,
    ) -> tuple[JoinAnswer, GroupDecision]:
        """Take the member a step further, in this group or in the classic one that it becomes."""
        targets = self._coordinator.targets
        change = targets.subscribe(draft, member, updated, now_ms)
        is_last = self._replaces_last_consumer(group, draft, updated)
        rebalances = is_last and draft.group.assignment_epoch < draft.group.epoch
        if not rebalances:
            owned = self._places(subscription)
            updated = targets.assign(
                draft, updated, owned, now_ms, is_resubscribed=change.is_resubscribed
            )
        answer = _answer_join(updated)
        if is_last:
            return answer, self._coordinator.downgrade(draft, group, rebalances=rebalances)
        decision = GroupDecision(
            group.group_id,
            tuple(draft.records),
            timers=_timers_of_joined(updated, now_ms),
            refreshed_epoch=change.refreshed_epoch,
            regexes=change.regexes,
        )
        return answer, decision

    def _replaces_last_consumer(
        self, group: ConsumerGroup, draft: GroupDraft, member: ConsumerGroupMember
    ) -> bool:
        """`validateOnlineDowngradeWithReplacedMember`."""
        holder = _holder(group, member.instance_id)
        was_consumer = holder is not None and holder.classic is None
        return was_consumer and self._coordinator.is_to_be_classic(draft.group)

    def _places(self, subscription: MemberSubscription) -> frozenset[TopicIdPartition]:
        """What the member says that it has, without topics that are gone."""
        topics = self._coordinator.targets.topics
        owned = ((name, index) for name, index in subscription.owned if name in topics)
        return frozenset((topics[name].topic_id, index) for name, index in owned)

    # ---- SyncGroup, Heartbeat, LeaveGroup

    def sync(
        self, group: ConsumerGroup, asked: SyncRequest, now_ms: int
    ) -> tuple[SyncAnswer, GroupDecision]:
        """Tell a member what it has. Raises `GroupRefusal`."""
        identity = MemberIdentity(asked.member_id, asked.group_instance_id)
        member, classic = _find(group, identity, asked.generation_id)
        in_use = (CONSUMER_PROTOCOL, classic.protocols[0][0])
        for named, used in zip((asked.protocol_type, asked.protocol_name), in_use, strict=True):
            if named not in (None, used):
                raise GroupRefusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_behind = group.assignment_epoch > member.epoch
        if is_behind and member.state is not _State.UNREVOKED_PARTITIONS:
            timers = (_end_join(member, now_ms),)
            answer = SyncAnswer(0, ErrorCode.REBALANCE_IN_PROGRESS)
            return answer, GroupDecision(group.group_id, timers=timers)
        assignment = encode_assignment(self._named(member), read_version(classic.protocols[0][1]))
        return (
            SyncAnswer(0, ErrorCode.NONE, asked.protocol_type, asked.protocol_name, assignment),
            GroupDecision(
                group.group_id,
                timers=(
                    TimerChange(END_SYNC, member.member_id, None),
                    _end_session(member, classic, now_ms),
                ),
            ),
        )

    def _named(self, member: ConsumerGroupMember) -> list[tuple[str, int]]:
        topics = self._coordinator.targets.topics
        names = {image.topic_id: name for name, image in topics.items()}
        return [(names[topic_id], i) for topic_id, i in member.assigned if topic_id in names]

    def heartbeat(
        self, group: ConsumerGroup, generation_id: int, identity: MemberIdentity, now_ms: int
    ) -> tuple[ErrorCode, GroupDecision]:
        """A member is alive; REBALANCE_IN_PROGRESS asks it to join again. Raises `GroupRefusal`."""
        member, classic = _find(group, identity, generation_id)
        timers: tuple[TimerChange, ...] = (_end_session(member, classic, now_ms),)
        error = ErrorCode.NONE
        if _is_to_rejoin(group, member):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            timers += (_end_join(member, now_ms),)
        return error, GroupDecision(group.group_id, timers=timers)

    def leave(
        self, group: ConsumerGroup, identities: Sequence[MemberIdentity]
    ) -> tuple[list[ErrorCode], GroupDecision]:
        """Members leave; an error for each. QUIRK: those of the other protocol, too."""
        errors, gone = [], dict[str, None]()
        for identity in identities:
            try:
                gone[_find_leaving(group, identity).member_id] = None
                errors.append(ErrorCode.NONE)
            except GroupRefusal as refusal:
                errors.append(refusal.error)
        left = self._coordinator.fence(group, *gone) if gone else GroupDecision(group.group_id)
        return errors, left


def _read_subscription(asked: JoinRequest) -> MemberSubscription:
    """All its protocols say the same. QUIRK: what cannot be read is Kafka's own error."""
    try:
        return decode_subscription(asked.protocols[0][1])
    except DecodeError:
        raise GroupRefusal(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _subscribe(draft: GroupDraft, asked: JoinRequest, member_id: str) -> ConsumerGroupMember:
    """The member as it was, or a new one. Raises `GroupRefusal`."""
    if asked.group_instance_id is None:
        return draft.group.members.get(member_id) or ConsumerGroupMember(member_id)
    if asked.member_id == NO_MEMBER:
        return take_place(draft, member_id, asked.group_instance_id)
    return find_static(draft.group, member_id, asked.group_instance_id)


def _update(
    member: ConsumerGroupMember, asked: JoinRequest, subscription: MemberSubscription
) -> ConsumerGroupMember:
    """The member with what its request says."""
    return member._replace(
        instance_id=asked.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        topics=subscription.topics,
        regex="",
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=ClassicMetadata(asked.session_timeout_ms, asked.protocols),
    )


def _answer_join(member: ConsumerGroupMember) -> JoinAnswer:
    assert member.classic is not None, "it has just joined with this protocol"
    name = member.classic.protocols[0][0]
    me = member.member_id
    return JoinAnswer(0, ErrorCode.NONE, me, member.epoch, CONSUMER_PROTOCOL, name)


def _timers_of_joined(member: ConsumerGroupMember, now_ms: int) -> tuple[TimerChange, ...]:
    """What is due is SyncGroup; a limit to revoke that it had before stays while it has to."""
    assert member.classic is not None, "it has just joined with this protocol"
    me = member.member_id
    timers = (
        TimerChange(END_JOIN, me, None),
        _end_session(member, member.classic, now_ms),
        TimerChange(END_SYNC, me, now_ms + member.rebalance_timeout_ms),
    )
    if member.state is _State.UNREVOKED_PARTITIONS:
        return timers
    return (*timers, TimerChange(END_REVOCATION, me, None))


def _end_session(member: ConsumerGroupMember, classic: ClassicMetadata, now_ms: int) -> TimerChange:
    return TimerChange(END_SESSION, member.member_id, now_ms + classic.session_timeout_ms)


def _end_join(member: ConsumerGroupMember, now_ms: int) -> TimerChange:
    due_ms = now_ms + member.rebalance_timeout_ms
    return TimerChange(END_JOIN, member.member_id, due_ms, keeps_earlier=True)


def _find(
    group: ConsumerGroup, identity: MemberIdentity, generation_id: int
) -> tuple[ConsumerGroupMember, ClassicMetadata]:
    """The sender, if it uses this protocol in its epoch. Raises `GroupRefusal`.

    `validateConsumerGroupMember`, `throwIfMemberDoesNotUseClassicProtocol`,
    `throwIfGenerationIdUnmatched`.
    """
    member = _find_member(group, identity)
    if member.classic is None:
        raise unknown_member(group, identity.member_id)
    if member.epoch != generation_id:
        raise GroupRefusal(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _find_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    member_id, instance_id = identity
    if instance_id is not None:
        return find_static(group, member_id, instance_id)
    if member_id not in group.members:
        raise unknown_member(group, member_id)
    return group.members[member_id]


def _find_leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    """Administrators know instance ids alone."""
    holder = _holder(group, identity.group_instance_id)
    if identity.member_id == NO_MEMBER and holder is not None:
        return holder
    return _find_member(group, identity)


def _holder(group: ConsumerGroup, instance_id: str | None) -> ConsumerGroupMember | None:
    return None if instance_id is None else group.static_member(instance_id)


def _is_to_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    if member.state is _State.UNRELEASED_PARTITIONS and not group.awaits_release(member):
        return True
    return member.epoch < group.assignment_epoch or member.state is _State.UNREVOKED_PARTITIONS
