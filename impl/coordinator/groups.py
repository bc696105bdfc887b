"""The coordinator of classic groups: joins, assignments, heartbeats, and who leaves.

Six rules:

1. A rebalance begins when a member joins, leaves, expires, or changes its protocols. It ends when
   all members have rejoined, or after the longest of their rebalance timeouts without the others;
   that of an empty group after a delay, in which more members may come.
2. Then each member is answered, the leader with all members; all wait in SyncGroup for the leader's
   assignments, which are in the log before they are answered.
3. A member lives from request to request for its session timeout; one that awaits an answer needs
   no heartbeats, unless it is new.
4. A static member that comes back replaces itself: without a rebalance, if the group is stable and
   its protocol stays. The one that it replaces is fenced (KIP-345).
5. A new member is sent its id first, and joins with it (KIP-394).
6. A group takes no more than `max_size` members (KIP-389); one that is loaded with more rebalances,
   and those go that rejoin last.

Theory of operation: each request returns effects, among them answers to earlier requests; so does
`advance`, which the broker calls when one of the `timers` is due. An `AppendGroup` effect is
appended to the group's partition, and its result passed to `on_appended`. `memberships` is kept up
to date for the commits of offsets. Groups that only commit offsets are not known here.
Source: `GroupMetadataManager.classicGroup*`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import Final

from impl.coordinator.classic_group import ClassicGroup, GroupMember
from impl.coordinator.group_config import GroupConfig
from impl.coordinator.group_messages import (
    AppendGroup,
    GroupEffect,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    MemberIdentity,
    SyncAnswer,
    SyncRequest,
)
from impl.coordinator.group_records import decode_group, encode_group
from impl.coordinator.offsets_groups import NO_MEMBER, GroupMembers, GroupState
from impl.coordinator.timers import Timers
from impl.protocol.errors import ErrorCode

_Timer = tuple[str, str, str]
"""Its kind, a key of `_ON_TIMER`; the group, the member or ""."""

EXPIRE_MEMBER: Final = "expire member"
EXPIRE_PENDING: Final = "expire pending member"
END_DELAY: Final = "end initial delay"
END_JOIN: Final = "end join"
END_SYNC: Final = "end sync"


class GroupCoordinator:
    """The classic groups of one broker. Read-only: `groups` by id, `config`, `timers`."""

    __slots__ = (
        "_effects",
        "_left_ms",
        "_memberships",
        "_new_member_id",
        "config",
        "groups",
        "timers",
    )

    def __init__(
        self,
        memberships: MutableMapping[str, GroupMembers],
        new_member_id: Callable[[str, int], str],
        config: GroupConfig | None = None,
    ) -> None:
        """`new_member_id` makes a unique id from a client id, or instance id, and the time."""
        self.config = config or GroupConfig()
        self.groups: dict[str, ClassicGroup] = {}
        self._memberships = memberships
        self._new_member_id = new_member_id
        self.timers: Timers[_Timer] = Timers()
        self._left_ms: dict[str, int] = {}
        self._effects: list[GroupEffect] = []

    def _take_effects(self, *groups: ClassicGroup) -> list[GroupEffect]:
        for group in groups:
            self._memberships[group.group_id] = group.membership
        effects, self._effects = self._effects, []
        return effects

    # ---- JoinGroup

    def join(self, request: Hashable, asked: JoinRequest, now_ms: int) -> list[GroupEffect]:
        """Join, or rejoin. `classicGroupJoin`."""
        group = self.groups.get(asked.group_id)
        if not self.is_session_valid(asked.session_timeout_ms):
            return [JoinAnswer(request, ErrorCode.INVALID_SESSION_TIMEOUT, asked.member_id)]
        if group is None and asked.member_id != NO_MEMBER:
            return [JoinAnswer(request, ErrorCode.UNKNOWN_MEMBER_ID, asked.member_id)]
        if group is None:
            group = self._create(asked.group_id, now_ms)
        if not self._has_room(group, asked.member_id):
            self._drop(group, asked.member_id)
            refused = JoinAnswer(request, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
            self._effects.append(refused)
        elif error := _check_join(group, asked):
            self._effects.append(JoinAnswer(request, error, asked.member_id))
        elif asked.member_id != NO_MEMBER:
            self._rejoin(group, request, asked, now_ms)
        else:
            self._join_anew(group, request, asked, now_ms)
        return self._take_effects(group)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """`acceptJoiningMember`."""
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:  # who has not rejoined may yet leave
            return member_id in group.joined_ids or len(group.joined_ids) < self.config.max_size
        return member_id in group.members or len(group.members) < self.config.max_size

    def _drop(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member, or an id that was given out, and rebalance no earlier than due."""
        group.pending_member_ids.discard(member_id)
        self.timers.cancel((EXPIRE_PENDING, group.group_id, member_id))
        if member_id in group.members:
            self.timers.cancel((EXPIRE_MEMBER, group.group_id, member_id))
            group.remove(member_id)

    def is_session_valid(self, session_timeout_ms: int) -> bool:
        """Whether the settings allow this timeout."""
        least, most = self.config.min_session_timeout_ms, self.config.max_session_timeout_ms
        return least <= session_timeout_ms <= most

    def _create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """QUIRK: the group stays even if its first member is refused."""
        group = self.groups[group_id] = ClassicGroup(group_id, state_timestamp_ms=now_ms)
        self._effects.append(AppendGroup(group_id, encode_group(group)))
        return group

    def _join_anew(
        self, group: ClassicGroup, request: Hashable, asked: JoinRequest, now_ms: int
    ) -> None:
        """A member without an id. `classicGroupJoinNewMember`."""
        instance_id = asked.group_instance_id
        member_id = self._new_member_id(
            asked.client_id if instance_id is None else instance_id, now_ms
        )
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, member_id, request, asked, now_ms)
        elif instance_id is None and asked.needs_known_id:
            group.pending_member_ids.add(member_id)
            timer = (EXPIRE_PENDING, group.group_id, member_id)
            self.timers.set(timer, now_ms + asked.session_timeout_ms)
            self._effects.append(JoinAnswer(request, ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, member_id, request, asked, now_ms)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: Hashable,
        asked: JoinRequest,
        now_ms: int,
    ) -> None:
        """`addMemberThenRebalanceOrCompleteJoin`."""
        if not group.members:
            group.protocol_type = asked.protocol_type
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        if is_preparing and group.previous_state is GroupState.EMPTY:
            group.has_new_member = True
        member = GroupMember(member_id, asked.group_instance_id, asked.client_id, 0, 0, ())
        member.client_host, member.is_new = asked.client_host, True
        _update(member, request, asked)
        group.add(member)
        self.timers.cancel((EXPIRE_PENDING, group.group_id, member_id))
        timer = (EXPIRE_MEMBER, group.group_id, member_id)
        self.timers.set(timer, now_ms + self.config.new_member_join_timeout_ms)
        self._rebalance(group, now_ms)

    def _rejoin(
        self, group: ClassicGroup, request: Hashable, asked: JoinRequest, now_ms: int
    ) -> None:
        """A member with an id. `classicGroupJoinExistingMember`."""
        member = group.members.get(asked.member_id)
        if member is None:
            self._add(group, asked.member_id, request, asked, now_ms)
            return
        is_unchanged = member.protocols == asked.protocols
        is_leader = group.leader == member.member_id
        is_completing = group.state is GroupState.COMPLETING_REBALANCE
        is_following = group.state is GroupState.STABLE and not is_leader
        if is_unchanged and (is_completing or is_following):
            self._answer_join(group, member, request, with_members=is_completing)
            return
        _update(member, request, asked)
        self._rebalance(group, now_ms)

    def _replace_static(
        self,
        group: ClassicGroup,
        member_id: str,
        request: Hashable,
        asked: JoinRequest,
        now_ms: int,
    ) -> None:
        """A static member that lost its id. `updateStaticMemberThenRebalanceOrCompleteJoin`."""
        assert asked.group_instance_id is not None
        old_leader = group.leader
        member = group.members[group.static_members[asked.group_instance_id]]
        self._fail_waiting(member, ErrorCode.FENCED_INSTANCE_ID)
        self.timers.cancel((EXPIRE_MEMBER, group.group_id, member.member_id))
        group.replace_static(member, member_id)
        _update(member, request, asked)
        self._restart_session(group, member, now_ms)
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
            self._rebalance(group, now_ms)
            return
        member.join_request = None
        self._effects.append(AppendGroup(group.group_id, encode_group(group)))
        self._answer_static(group, member, request, asked, old_leader)

    def _answer_static(
        self,
        group: ClassicGroup,
        member: GroupMember,
        request: Hashable,
        asked: JoinRequest,
        old_leader: str | None,
    ) -> None:
        """Tell a leader that came back to keep the assignment; older clients, that they follow."""
        is_leader = group.leader == member.member_id
        skips = is_leader and asked.may_skip_assignment
        answer = self._join_answer(group, member, request, with_members=skips)
        leader = answer.leader if asked.may_skip_assignment else old_leader or ""
        self._effects.append(answer._replace(leader=leader, skip_assignment=skips))

    def _answer_join(
        self, group: ClassicGroup, member: GroupMember, request: Hashable, *, with_members: bool
    ) -> None:
        answer = self._join_answer(group, member, request, with_members=with_members)
        self._effects.append(answer)

    def _join_answer(
        self, group: ClassicGroup, member: GroupMember, request: Hashable, *, with_members: bool
    ) -> JoinAnswer:
        members: tuple[JoinedMember, ...] = ()
        if with_members and group.leader == member.member_id:
            members = tuple(
                JoinedMember(m.member_id, m.group_instance_id, m.metadata(group.protocol_name))
                for m in group.members.values()
            )
        return JoinAnswer(
            request,
            ErrorCode.NONE,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader or NO_MEMBER,
            members=members,
        )

    # ---- rebalances

    def _rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin a rebalance, or end the current one. `maybePrepareRebalanceOrCompleteJoin`."""
        if group.can_rebalance:
            self._prepare_rebalance(group, now_ms)
        else:
            self._complete_join_if_ready(group, now_ms)

    def _prepare_rebalance(self, group: ClassicGroup, now_ms: int) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._end_sync(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self.timers.cancel((END_SYNC, group.group_id, ""))
        is_initial = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            delay_ms = self.config.initial_rebalance_delay_ms
            self._left_ms[group.group_id] = max(group.rebalance_timeout_ms - delay_ms, 0)
            self.timers.set((END_DELAY, group.group_id, ""), now_ms + delay_ms)
        else:
            self._limit(END_JOIN, group, now_ms)
            self._complete_join_if_ready(group, now_ms)

    def _limit(self, kind: str, group: ClassicGroup, now_ms: int) -> None:
        """Members have so long to join, or to ask for their assignment."""
        self.timers.set((kind, group.group_id, ""), now_ms + max(group.rebalance_timeout_ms, 1))

    def _end_initial_delay(self, group: ClassicGroup, _: str, now_ms: int) -> None:
        """Wait again while new members come. `tryCompleteInitialRebalanceElseSchedule`."""
        left_ms = self._left_ms.pop(group.group_id, 0)
        if not group.has_new_member or not left_ms:
            self._complete_join(group, "", now_ms)
            return
        group.has_new_member = False
        delay_ms = min(self.config.initial_rebalance_delay_ms, left_ms)
        self._left_ms[group.group_id] = left_ms - delay_ms
        self.timers.set((END_DELAY, group.group_id, ""), now_ms + delay_ms)

    def _complete_join_if_ready(self, group: ClassicGroup, now_ms: int) -> None:
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        is_initial = group.previous_state is GroupState.EMPTY
        if is_preparing and not is_initial and group.have_all_joined:
            self._complete_join(group, "", now_ms)

    def _complete_join(self, group: ClassicGroup, _: str, now_ms: int) -> None:
        """Begin the next generation without dynamic members that did not rejoin."""
        self.timers.cancel((END_JOIN, group.group_id, ""))
        group.has_new_member = False
        for member in list(group.members.values()):
            if member.join_request is None and member.group_instance_id is None:
                self.timers.cancel((EXPIRE_MEMBER, group.group_id, member.member_id))
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            self._limit(END_JOIN, group, now_ms)
            return
        group.begin_generation(now_ms)
        if not group.members:
            self._effects.append(AppendGroup(group.group_id, encode_group(group)))
            return
        for member in group.members.values():
            request, member.join_request = member.join_request, None
            member.is_new = False
            if request is not None:
                self._answer_join(group, member, request, with_members=True)
            group.pending_sync_ids.add(member.member_id)
            self._restart_session(group, member, now_ms)
        self._limit(END_SYNC, group, now_ms)

    # ---- SyncGroup

    def sync(self, request: Hashable, asked: SyncRequest, now_ms: int) -> list[GroupEffect]:
        """Wait for the assignment; the leader brings it. `classicGroupSync`."""
        group = self.groups.get(asked.group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _check_sync(group, asked)
        if error or group is None:
            return [SyncAnswer(request, error)]
        member = group.members[asked.member_id]
        group.pending_sync_ids.discard(member.member_id)
        if not group.pending_sync_ids:
            self.timers.cancel((END_SYNC, group.group_id, ""))
        member.sync_request = request
        if group.state is GroupState.STABLE:
            self._answer_sync(group, member, ErrorCode.NONE, now_ms)
        elif group.leader == member.member_id:
            for each in group.members.values():
                each.assignment = asked.assignments.get(each.member_id, b"")
            self._effects.append(AppendGroup(group.group_id, encode_group(group)))
        return self._take_effects(group)

    def on_appended(self, group_id: str, error: ErrorCode, now_ms: int) -> list[GroupEffect]:
        """The group's record is in the log, or not."""
        group = self.groups.get(group_id)
        if group is None or group.state is not GroupState.COMPLETING_REBALANCE:
            return []
        if error:
            self._end_sync(group, error, now_ms)
            self._rebalance(group, now_ms)
        else:
            group.transition_to(GroupState.STABLE, now_ms)
            for member in group.members.values():
                self._answer_sync(group, member, ErrorCode.NONE, now_ms)
        return self._take_effects(group)

    def _end_sync(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """Answer all that wait with an error. `resetAndPropagateAssignmentWithError`."""
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, error, now_ms)

    def _answer_sync(
        self, group: ClassicGroup, member: GroupMember, error: ErrorCode, now_ms: int
    ) -> None:
        request, member.sync_request = member.sync_request, None
        if request is None:
            return
        self._restart_session(group, member, now_ms)
        self._effects.append(
            SyncAnswer(request, error)
            if error
            else SyncAnswer(
                request, error, group.protocol_type, group.protocol_name, member.assignment
            )
        )

    def _expire_sync(self, group: ClassicGroup, _: str, now_ms: int) -> None:
        """Remove those that joined but did not ask for their assignment. `expirePendingSync`."""
        for member_id in list(group.pending_sync_ids):
            self.timers.cancel((EXPIRE_MEMBER, group.group_id, member_id))
            group.remove(member_id)
        self._rebalance(group, now_ms)

    # ---- Heartbeat, LeaveGroup, time

    def heartbeat(
        self,
        group_id: str,
        generation_id: int,
        identity: MemberIdentity,
        now_ms: int,
    ) -> ErrorCode:
        """A member is alive. `classicGroupHeartbeat`."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(*identity)
        if error:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self._restart_session(group, group.members[identity.member_id], now_ms)
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def restart_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member that commits offsets is alive."""
        group = self.groups.get(group_id)
        if group is not None and member_id in group.members:
            self._restart_session(group, group.members[member_id], now_ms)

    def leave(
        self, group_id: str, identities: Sequence[MemberIdentity], now_ms: int
    ) -> tuple[list[ErrorCode], list[GroupEffect]]:
        """Members leave; an error for each. `classicGroupLeave`."""
        group = self.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities), []
        errors = [self._leave(group, identity, now_ms) for identity in identities]
        return errors, self._take_effects(group)

    def _leave(self, group: ClassicGroup, identity: MemberIdentity, now_ms: int) -> ErrorCode:
        member_id, instance_id = identity
        if member_id in group.pending_member_ids:
            self.timers.cancel((EXPIRE_PENDING, group.group_id, member_id))
            self._expire_pending(group, member_id, now_ms)
            return ErrorCode.NONE
        if member_id == NO_MEMBER and instance_id is not None:
            member_id = group.static_members.get(instance_id, NO_MEMBER)
        error = group.check_member(member_id, instance_id)
        if not error:
            self._remove(group, group.members[member_id], now_ms)
        return error

    def _remove(self, group: ClassicGroup, member: GroupMember, now_ms: int) -> None:
        """`removeMemberAndUpdateClassicGroup`."""
        self._fail_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.timers.cancel((EXPIRE_MEMBER, group.group_id, member.member_id))
        group.remove(member.member_id)
        self._rebalance(group, now_ms)

    def _fail_waiting(self, member: GroupMember, error: ErrorCode) -> None:
        if member.join_request is not None:
            self._effects.append(JoinAnswer(member.join_request, error, member.member_id))
        if member.sync_request is not None:
            self._effects.append(SyncAnswer(member.sync_request, error))
        member.join_request = member.sync_request = None

    def _restart_session(self, group: ClassicGroup, member: GroupMember, now_ms: int) -> None:
        timer = (EXPIRE_MEMBER, group.group_id, member.member_id)
        self.timers.set(timer, now_ms + member.session_timeout_ms)

    def _expire_member(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        member = group.members.get(member_id)
        if member is not None and (member.is_new or not member.is_waiting):
            self._remove(group, member, now_ms)

    def _expire_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        group.pending_member_ids.discard(member_id)
        self._complete_join_if_ready(group, now_ms)

    def advance(self, now_ms: int) -> list[GroupEffect]:
        """Do what is due."""
        changed: dict[str, ClassicGroup] = {}
        while (timer := self.timers.pop_due(now_ms)) is not None:
            kind, group_id, member_id = timer
            group = self.groups.get(group_id)
            if group is not None:
                _ON_TIMER[kind](self, group, member_id, now_ms)
                changed[group_id] = group
        return self._take_effects(*changed.values())

    # ---- leadership, deletion

    def load(self, values: Mapping[str, bytes], now_ms: int) -> None:
        """Load groups from their records; their members live for a session more.

        Raises `DecodeError`.
        """
        for group_id, value in values.items():
            group = self.groups[group_id] = decode_group(group_id, value)
            for member in group.members.values():
                self._restart_session(group, member, now_ms)
            if len(group.members) > self.config.max_size:
                self._prepare_rebalance(group, now_ms)
            self._memberships[group_id] = group.membership

    def resign(self, group_ids: Iterable[str]) -> list[GroupEffect]:
        """Another broker coordinates these groups. `onUnloaded`."""
        return self._dismiss(group_ids, ErrorCode.NOT_COORDINATOR)

    def give_up(self, group_id: str) -> list[GroupEffect]:
        """The group is a consumer group now, which its members are to join."""
        return self._dismiss([group_id], ErrorCode.REBALANCE_IN_PROGRESS)

    def take_over(self, group: ClassicGroup, now_ms: int, *, rebalances: bool) -> list[GroupEffect]:
        """The group was a consumer group until now; it is in the log. `convertToClassicGroup`."""
        self.groups[group.group_id] = group
        for member in group.members.values():
            self._restart_session(group, member, now_ms)
        if rebalances:
            self._prepare_rebalance(group, now_ms)
        return self._take_effects(group)

    def _dismiss(self, group_ids: Iterable[str], error: ErrorCode) -> list[GroupEffect]:
        for group_id in group_ids:
            group = self.groups.get(group_id)
            for member in group.members.values() if group else ():
                self._fail_waiting(member, error)
            self.remove(group_id)
        return self._take_effects()

    def remove(self, group_id: str) -> None:
        """Forget a group, and its timers."""
        group = self.groups.pop(group_id, None)
        self._memberships.pop(group_id, None)
        if group is not None:
            for kind in (END_DELAY, END_JOIN, END_SYNC):
                self.timers.cancel((kind, group_id, ""))
            for member_id in (*group.members, *group.pending_member_ids):
                self.timers.cancel((EXPIRE_MEMBER, group_id, member_id))
                self.timers.cancel((EXPIRE_PENDING, group_id, member_id))


_ON_TIMER: Final[Mapping[str, Callable[[GroupCoordinator, ClassicGroup, str, int], None]]] = {
    EXPIRE_MEMBER: GroupCoordinator._expire_member,
    EXPIRE_PENDING: GroupCoordinator._expire_pending,
    END_DELAY: GroupCoordinator._end_initial_delay,
    END_JOIN: GroupCoordinator._complete_join,
    END_SYNC: GroupCoordinator._expire_sync,
}


def _update(member: GroupMember, request: Hashable, asked: JoinRequest) -> None:
    """The member waits for the next generation, with what it asked for."""
    member.protocols = asked.protocols
    member.session_timeout_ms = asked.session_timeout_ms
    member.rebalance_timeout_ms = asked.rebalance_timeout_ms
    member.join_request = request


def _check_join(group: ClassicGroup, asked: JoinRequest) -> ErrorCode:
    """Whether the member, and its protocols, fit in."""
    if not group.supports(asked.protocol_type, (name for name, _ in asked.protocols)):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if asked.member_id == NO_MEMBER or asked.member_id in group.pending_member_ids:
        return ErrorCode.NONE
    return group.check_member(asked.member_id, asked.group_instance_id)


def _check_sync(group: ClassicGroup, asked: SyncRequest) -> ErrorCode:
    """`validateSyncGroup`, then the state."""
    error = group.check_member(asked.member_id, asked.group_instance_id)
    if error:
        return error
    if asked.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if asked.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if asked.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
