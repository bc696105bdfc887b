"""The coordinator of consumer groups: heartbeats, and who is fenced (KIP-848).

Six rules:

1. Members do all by heartbeats: they join with epoch 0, leave with -1, or -2 until their next
   instance comes; else they say what has changed, and with which epoch they live. What follows for
   the group is in `group_targets`.
2. A wrong epoch is fenced; the epoch before is accepted from a member whose answer may have been
   lost: one that reports only partitions that it was assigned.
3. A member without heartbeats for the session timeout, or that does not revoke in time, is fenced.
4. A static member takes the place that the one before it has left, or that uses another protocol.
5. The first member of a consumer group that joins a classic group upgrades it, if
   `group.consumer.migration.policy` lets it. Those that are there stay, and go on with the
   classic protocol: see `classic_members`.
6. When only those are left, the group is a classic one again, and rebalances.

Theory of operation: each request returns a `GroupDecision` or raises `GroupRefusal`; the caller
appends the records, applies them to the group, and calls `on_appended`. Nothing here changes a
group.
Source: `GroupMetadataManager.consumerGroupHeartbeat`, `consumerGroupLeave`,
`consumerGroupFenceMembers`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerGroupMember,
    ReconciliationState,
)
from impl.coordinator.consumer_group_messages import (
    GroupDecision,
    GroupRefusal,
    HeartbeatAnswer,
    HeartbeatRequest,
    TimerChange,
)
from impl.coordinator.consumer_group_records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from impl.coordinator.group_config import ConsumerGroupConfig
from impl.coordinator.group_conversion import check_upgrade, downgrade, upgrade_members
from impl.coordinator.group_targets import GroupDraft, GroupTargets, drop_unread_regexes
from impl.coordinator.offsets_groups import GroupState
from impl.coordinator.timers import Timers
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from impl.settings import INT_MAX

END_SESSION: Final = "end session"
END_REVOCATION: Final = "end revocation"
END_JOIN: Final = "end join"
END_SYNC: Final = "end sync"
"""What a member of the classic protocol has to do in time: the last two."""
_KINDS: Final = (END_SESSION, END_REVOCATION, END_JOIN, END_SYNC)

_Timer = tuple[str, str, str]
"""Its kind, the group, the member."""


class ConsumerGroupCoordinator:
    """The consumer groups of one broker. Read-only: `config`, `targets`, `timers`.

    `config_of` is what a group follows: `config`, or that with settings of its own.
    """

    __slots__ = ("_max_classic_size", "config", "config_of", "targets", "timers")

    def __init__(
        self,
        config: ConsumerGroupConfig | None = None,
        config_of: Callable[[str], ConsumerGroupConfig] | None = None,
        max_classic_size: int = INT_MAX,
    ) -> None:
        """`max_classic_size`: how many members a classic group may have."""
        self._max_classic_size = max_classic_size
        self.config = config or ConsumerGroupConfig()
        self.config_of = config_of or (lambda _: self.config)
        self.targets = GroupTargets(lambda name: self.config_of(name).assignment_interval_ms)
        self.timers: Timers[_Timer] = Timers()

    # ---- heartbeats

    def heartbeat(
        self,
        group: ConsumerGroup | None,
        classic: ClassicGroup | None,
        asked: HeartbeatRequest,
        now_ms: int,
    ) -> GroupDecision:
        """A member joins, lives or leaves; `classic` is a group of the other kind with this id.

        Raises `GroupRefusal`.
        """
        if asked.leaves:
            return self._leave(_find(group, classic, asked), asked)
        replaces = group is None and classic is not None and asked.member_epoch == JOIN_EPOCH
        draft = self._find_or_create(group, classic, asked)
        self.check_size(draft.group, asked.member_id)
        member = self._subscribe(draft, asked)
        decision = self._live(draft, member, asked, now_ms)
        if not replaces:
            return decision
        timers = (*_classic_sessions(draft.group, now_ms), *decision.timers)
        return decision._replace(replaces_classic=True, timers=timers)

    def _find_or_create(
        self, group: ConsumerGroup | None, classic: ClassicGroup | None, asked: HeartbeatRequest
    ) -> GroupDraft:
        """QUIRK: only a group that is joined is not found because it is of the other kind."""
        if group is not None or asked.member_epoch != JOIN_EPOCH:
            missing = "Consumer group {} not found."
            return GroupDraft(_find(group, classic, asked, missing=missing))
        draft = GroupDraft(ConsumerGroup(asked.group_id))
        if classic is not None and classic.state is not GroupState.EMPTY:
            self._upgrade(draft, classic)
        return draft

    def _upgrade(self, draft: GroupDraft, classic: ClassicGroup) -> None:
        """Write the members and the epoch of a classic group. Raises `GroupRefusal`.

        `convertToConsumerGroup`.
        """
        check_upgrade(classic, self.config)
        members = upgrade_members(classic, self.targets.topics)
        epoch = classic.generation_id
        draft.write(*map(member_record, members))
        draft.write(epoch_record(epoch, self.targets.hash_topics(draft.group)))
        draft.write(*(target_record(member.member_id, member.assigned) for member in members))
        draft.write(target_epoch_record(epoch, 0), *map(current_record, members))

    def check_size(self, group: ConsumerGroup, member_id: str) -> None:
        """Whether there is room for the member. Raises `GroupRefusal`."""
        most = self.config.max_size
        if len(group.members) >= most and member_id not in group.members:
            text = f"The consumer group has reached its maximum capacity of {most} members."
            raise GroupRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _subscribe(self, draft: GroupDraft, asked: HeartbeatRequest) -> ConsumerGroupMember:
        """The member as it was, or a new one. Raises `GroupRefusal`."""
        group, joins = draft.group, asked.member_epoch == JOIN_EPOCH
        if asked.instance_id is not None and joins:
            _check_released(group.static_member(asked.instance_id), asked)
            return take_place(draft, asked.member_id, asked.instance_id)
        if asked.instance_id is not None:
            holder = find_static(group, asked.member_id, asked.instance_id)
            return _check_epoch(holder, asked)
        member = group.members.get(asked.member_id)
        if member is None and not joins:
            raise unknown_member(group, asked.member_id)
        return _check_epoch(member or ConsumerGroupMember(asked.member_id), asked)

    def _live(
        self, draft: GroupDraft, member: ConsumerGroupMember, asked: HeartbeatRequest, now_ms: int
    ) -> GroupDecision:
        """A heartbeat of a member that is, or becomes, one. `consumerGroupHeartbeat`."""
        updated = _update(member, asked)
        change = self.targets.subscribe(draft, member, updated, now_ms)
        moved = self.targets.assign(
            draft, updated, asked.owned, now_ms, is_resubscribed=change.is_resubscribed
        )
        config = self.config_of(asked.group_id)
        due_ms = now_ms + config.session_timeout_ms
        timers = [TimerChange(END_SESSION, asked.member_id, due_ms)]
        if moved != updated:
            timers.append(_revocation_timer(moved, now_ms))
        tells = asked.member_epoch == JOIN_EPOCH or asked.is_full
        tells = tells or moved.assigned != member.assigned
        answer = HeartbeatAnswer(
            moved.member_id,
            moved.epoch,
            config.heartbeat_interval_ms,
            frozenset(moved.assigned) if tells else None,
        )
        return GroupDecision(
            asked.group_id,
            tuple(draft.records),
            answer,
            tuple(timers),
            change.refreshed_epoch,
            change.regexes,
        )

    # ---- members leave

    def _leave(self, group: ConsumerGroup, asked: HeartbeatRequest) -> GroupDecision:
        """`consumerGroupLeave`."""
        answer = HeartbeatAnswer(asked.member_id, asked.member_epoch)
        if asked.instance_id is None:
            if asked.member_id not in group.members:
                raise unknown_member(group, asked.member_id)
            return self.fence(group, asked.member_id)._replace(answer=answer)
        member = find_static(group, asked.member_id, asked.instance_id)
        if asked.member_epoch != STATIC_LEAVE_EPOCH:
            return self.fence(group, member.member_id)._replace(answer=answer)
        gone = member._replace(
            epoch=STATIC_LEAVE_EPOCH, revoking={}, assigned=dict.fromkeys(member.assigned, 0)
        )
        timer = TimerChange(END_REVOCATION, member.member_id, None)
        return GroupDecision(group.group_id, (current_record(gone),), answer, (timer,))

    def fence(self, group: ConsumerGroup, *member_ids: str) -> GroupDecision:
        """Remove members. `consumerGroupFenceMembers`."""
        draft, regexes = GroupDraft(group), [group.members[name].regex for name in member_ids]
        draft.write(*member_tombstones(*member_ids))
        if self.is_to_be_classic(draft.group):
            return self.downgrade(draft, group, rebalances=True)
        drop_unread_regexes(draft, *regexes)
        epoch = draft.group.epoch + 1
        draft.write(epoch_record(epoch, self.targets.hash_topics(draft.group)))
        timers = tuple(_no_timers(member_ids))
        return GroupDecision(group.group_id, tuple(draft.records), timers=timers)

    def is_to_be_classic(self, group: ConsumerGroup) -> bool:
        """Whether a group without its last member of this protocol becomes a classic one.

        `validateOnlineDowngradeWithFencedMember` and the one after it.
        """
        fits = len(group.members) <= self._max_classic_size
        return self.config.downgrades and group.uses_classic_alone and fits

    def downgrade(
        self, draft: GroupDraft, group: ConsumerGroup, *, rebalances: bool
    ) -> GroupDecision:
        """A group whose draft has members of the classic protocol alone becomes a classic one.

        `convertToClassicGroup`.
        """
        classic = downgrade(draft.group, group.epoch, self.targets.topics)
        return GroupDecision(
            group.group_id,
            (*draft.records, *group_tombstones(draft.group)),
            timers=tuple(_no_timers(group.members)),
            becomes_classic=classic,
            rebalances=rebalances,
        )

    # ---- time

    def on_appended(self, decision: GroupDecision, now_ms: int) -> None:
        """The records of a decision are in the log."""
        for kind, member_id, due_ms, keeps_earlier in decision.timers:
            timer = (kind, decision.group_id, member_id)
            if due_ms is None:
                self.timers.cancel(timer)
            elif not keeps_earlier or timer not in self.timers:
                self.timers.set(timer, due_ms)
        if decision.becomes_classic:
            self.targets.forget(decision.group_id)
        if decision.refreshed_epoch is not None:
            self.targets.on_refreshed(decision.group_id, decision.refreshed_epoch, now_ms)

    def load(self, groups: Iterable[ConsumerGroup], now_ms: int) -> None:
        """Members of loaded groups live for a session more, and have as long again to revoke.

        QUIRK: those of the classic protocol live for a session of the others, too.
        """
        for group in groups:
            self.targets.forget(group.group_id)
            due_ms = now_ms + self.config_of(group.group_id).session_timeout_ms
            for member in group.members.values():
                self.timers.set((END_SESSION, group.group_id, member.member_id), due_ms)
                timer = _revocation_timer(member, now_ms)
                if timer.due_ms is not None:
                    self.timers.set((END_REVOCATION, group.group_id, timer[1]), timer.due_ms)

    def pop_due(self, now_ms: int) -> Iterator[tuple[str, str]]:
        """The group and member of each timer that is due: `expire` says what follows."""
        while (timer := self.timers.pop_due(now_ms)) is not None:
            yield timer[1:]

    def postpone(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member that could not be removed is due again after another session."""
        due_ms = now_ms + self.config_of(group_id).session_timeout_ms
        self.timers.set((END_SESSION, group_id, member_id), due_ms)

    def expire(self, group: ConsumerGroup | None, member_id: str) -> GroupDecision | None:
        """A member's time is over; None if it is not in the group any more."""
        if group is None or member_id not in group.members:
            return None
        return self.fence(group, member_id)


def _classic_sessions(group: ConsumerGroup, now_ms: int) -> Iterator[TimerChange]:
    """The sessions of members of the classic protocol begin again."""
    for member in group.members.values():
        if member.classic is not None:
            due_ms = now_ms + member.classic.session_timeout_ms
            yield TimerChange(END_SESSION, member.member_id, due_ms)


def _no_timers(member_ids: Iterable[str]) -> Iterator[TimerChange]:
    for member_id in member_ids:
        yield from (TimerChange(kind, member_id, None) for kind in _KINDS)


def _update(member: ConsumerGroupMember, asked: HeartbeatRequest) -> ConsumerGroupMember:
    """The member with what its request says."""
    timeout_ms = None if asked.rebalance_timeout_ms == -1 else asked.rebalance_timeout_ms
    said: dict[str, Any] = {
        "instance_id": asked.instance_id,
        "rack_id": asked.rack_id,
        "rebalance_timeout_ms": timeout_ms,
        "topics": asked.topics,
        "regex": asked.regex,
        "assignor": asked.assignor,
        "client_id": asked.client_id,
        "client_host": asked.client_host,
    }
    changed = {name: value for name, value in said.items() if value is not None}
    return member._replace(**changed, classic=None)


def _revocation_timer(member: ConsumerGroupMember, now_ms: int) -> TimerChange:
    has_to_revoke = member.state is ReconciliationState.UNREVOKED_PARTITIONS
    due_ms = now_ms + max(member.rebalance_timeout_ms, 0) if has_to_revoke else None
    return TimerChange(END_REVOCATION, member.member_id, due_ms)


def _check_epoch(member: ConsumerGroupMember, asked: HeartbeatRequest) -> ConsumerGroupMember:
    """The member, if the epoch is its own. `throwIfConsumerGroupMemberEpochIsInvalid`."""
    told = asked.member_epoch
    owned = asked.owned
    has_lost_answer = told == member.previous_epoch and owned is not None
    if has_lost_answer and owned is not None and owned <= member.assigned.keys():
        return member
    if told in (JOIN_EPOCH, member.epoch):
        return member
    size = "greater" if told > member.epoch else "smaller"
    text = (
        f"The consumer group member has a {size} member epoch ({told}) than the one known by the"
        f" group coordinator ({member.epoch}). The member must abandon all its partitions and"
        " rejoin."
    )
    raise GroupRefusal(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _find(
    group: ConsumerGroup | None,
    classic: ClassicGroup | None,
    asked: HeartbeatRequest,
    missing: str = "Group {} not found.",
) -> ConsumerGroup:
    if group is not None:
        return group
    text = missing if classic is None else "Group {} is not a consumer group."
    raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, text.format(asked.group_id))


def _check_released(holder: ConsumerGroupMember | None, asked: HeartbeatRequest) -> None:
    """Whether the holder of an instance id makes room. Raises `GroupRefusal`.

    `throwIfInstanceIdIsUnreleased`.
    """
    if holder is not None and holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        text = (
            f"Static member {asked.member_id} with instance id {asked.instance_id} cannot join"
            f" the group because the instance id is owned by {holder.member_id} member."
        )
        raise GroupRefusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)


def take_place(draft: GroupDraft, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """A static member in the place of the one before it, or a new one. `replaceMember`."""
    holder = draft.group.static_member(instance_id)
    if holder is None:
        return draft.group.members.get(member_id) or ConsumerGroupMember(member_id)
    member = holder._replace(member_id=member_id, epoch=0, previous_epoch=0)
    target = draft.group.target.get(holder.member_id, frozenset())
    draft.write(
        *member_tombstones(holder.member_id),
        member_record(member),
        target_record(member.member_id, target),
        current_record(member),
    )
    return member


def find_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """The holder of an instance id, if it is the sender. Raises `GroupRefusal`."""
    holder = group.static_member(instance_id)
    if holder is None:
        raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        text = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {holder.member_id}."
        )
        raise GroupRefusal(ErrorCode.FENCED_INSTANCE_ID, text)
    return holder


def unknown_member(group: ConsumerGroup, member_id: str) -> GroupRefusal:
    """The refusal of a member that is not in the group."""
    text = f"Member {member_id} is not a member of group {group.group_id}."
    return GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, text)
