"""The coordinator of consumer groups: heartbeats, targets, and who is fenced (KIP-848).

Six rules:

1. Members do all by heartbeats: they join with epoch 0, leave with -1, or -2 until their next
   instance comes; else they say what has changed, and with which epoch they live.
2. A changed subscription or topic raises the group epoch, which asks for a new target assignment.
   Two targets are at least `assignment_interval_ms` apart.
3. After that the member that sent the heartbeat is reconciled, one step.
4. A wrong epoch is fenced; the epoch before is accepted from a member whose answer may have been
   lost: one that reports only partitions that it was assigned.
5. A member without heartbeats for the session timeout, or that does not revoke in time, is fenced.
6. A regular expression is resolved after the answer; its topics are for the next heartbeat.

Theory of operation: each request returns a `GroupDecision` or raises `GroupRefusal`; the caller
appends the records, applies them to the group, and calls `on_appended`. Nothing here changes a
group: a `_Draft` has the records applied to a copy. `topics` is kept up to date by `set_topics`.
Source: `GroupMetadataManager.consumerGroupHeartbeat`, `consumerGroupLeave`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

from impl.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerGroupMember,
    GroupRecord,
    ReconciliationState,
    RecordKind,
    ResolvedRegex,
)
from impl.coordinator.consumer_group_messages import (
    ConsumerGroupConfig,
    GroupDecision,
    GroupRefusal,
    HeartbeatAnswer,
    HeartbeatRequest,
    SubscribedTopic,
    TimerChange,
)
from impl.coordinator.consumer_group_records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    target_epoch_record,
    target_record,
)
from impl.coordinator.offsets_groups import GroupMembers, GroupState
from impl.coordinator.reconciliation import Reconciliation
from impl.coordinator.regular_expressions import Expression, InvalidExpression
from impl.coordinator.server_assignors import ASSIGNORS, DEFAULT_ASSIGNOR, MemberSpec
from impl.coordinator.timers import Timers
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from impl.settings import INT_MAX

END_SESSION: Final = "end session"
END_REVOCATION: Final = "end revocation"

REFRESH_INTERVAL_MS: Final = INT_MAX
"""How long topics are taken to be what they were, if nothing says that they have changed."""
REGEX_REFRESH_MIN_MS: Final = 10_000
REGEX_REFRESH_MAX_MS: Final = 600_000

_Timer = tuple[str, str, str]
"""Its kind, the group, the member."""


class _Draft:
    """A group as the records of one request leave it."""

    __slots__ = ("group", "records")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[GroupRecord] = []

    def write(self, *records: GroupRecord) -> None:
        """Add records; the first one copies the group."""
        if records and not self.records:
            self.group = self.group.copy()
        for record in records:
            self.group.apply(record)
            self.records.append(record)


class ConsumerGroupCoordinator:
    """The consumer groups of one broker. Read-only: `config`, `topics` by name."""

    __slots__ = ("_created_version", "_refreshed", "_timers", "_version", "config", "topics")

    def __init__(self, config: ConsumerGroupConfig | None = None) -> None:
        self.config = config or ConsumerGroupConfig()
        self.topics: Mapping[str, SubscribedTopic] = {}
        self._version = self._created_version = -1
        self._refreshed: dict[str, tuple[int, int]] = {}
        self._timers: Timers[_Timer] = Timers()

    def set_topics(
        self, topics: Mapping[str, SubscribedTopic], version: int, groups: Iterable[ConsumerGroup]
    ) -> None:
        """The metadata has changed: groups that read a changed topic look at theirs again.

        `onMetadataUpdate`.
        """
        changed = {
            name
            for name in topics.keys() | self.topics.keys()
            if topics.get(name) != self.topics.get(name)
        }
        known = {image.topic_id for image in self.topics.values()}
        if self._version < 0 or any(image.topic_id not in known for image in topics.values()):
            self._created_version = version
        self.topics, self._version = topics, version
        for group in groups:
            if changed & group.subscribed_topics:
                self._refreshed.pop(group.group_id, None)

    # ---- heartbeats

    def heartbeat(
        self,
        group: ConsumerGroup | None,
        classic: GroupMembers | None,
        asked: HeartbeatRequest,
        now_ms: int,
    ) -> GroupDecision:
        """A member joins, lives or leaves; `classic` is a group of the other kind with this id.

        Raises `GroupRefusal`.
        """
        if asked.leaves:
            return self._leave(_find(group, classic, asked), asked)
        replaces = group is None and classic is not None and asked.member_epoch == JOIN_EPOCH
        draft = _Draft(self._find_or_create(group, classic, asked))
        self._check_size(draft.group, asked.member_id)
        member = self._subscribe(draft, asked)
        return self._live(draft, member, asked, now_ms)._replace(replaces_classic=replaces)

    def _find_or_create(
        self, group: ConsumerGroup | None, classic: GroupMembers | None, asked: HeartbeatRequest
    ) -> ConsumerGroup:
        """QUIRK: only a group that is joined is not found because it is of the other kind."""
        if group is not None or asked.member_epoch != JOIN_EPOCH:
            return _find(group, classic, asked, missing="Consumer group {} not found.")
        if classic is not None and classic.state is not GroupState.EMPTY:
            text = (
                f"Cannot upgrade classic group {asked.group_id} to consumer group because"
                " online upgrade is disabled."
            )
            raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return ConsumerGroup(asked.group_id)

    def _check_size(self, group: ConsumerGroup, member_id: str) -> None:
        most = self.config.max_size
        if len(group.members) >= most and member_id not in group.members:
            text = f"The consumer group has reached its maximum capacity of {most} members."
            raise GroupRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _subscribe(self, draft: _Draft, asked: HeartbeatRequest) -> ConsumerGroupMember:
        """The member as it was, or a new one. Raises `GroupRefusal`."""
        group, joins = draft.group, asked.member_epoch == JOIN_EPOCH
        if asked.instance_id is not None and joins:
            holder = group.static_member(asked.instance_id)
            return self._replace_static(draft, holder, asked)
        if asked.instance_id is not None:
            return _check_epoch(_find_static(group, asked, asked.instance_id), asked)
        member = group.members.get(asked.member_id)
        if member is None and not joins:
            raise _unknown_member(group, asked)
        return _check_epoch(member or ConsumerGroupMember(asked.member_id), asked)

    def _replace_static(
        self, draft: _Draft, holder: ConsumerGroupMember | None, asked: HeartbeatRequest
    ) -> ConsumerGroupMember:
        """A static member takes the place that the one before it has left."""
        if holder is None:
            known = draft.group.members.get(asked.member_id)
            return known or ConsumerGroupMember(asked.member_id)
        if holder.epoch != STATIC_LEAVE_EPOCH:
            text = (
                f"Static member {asked.member_id} with instance id {asked.instance_id} cannot join"
                f" the group because the instance id is owned by {holder.member_id} member."
            )
            raise GroupRefusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        member = holder._replace(member_id=asked.member_id, epoch=0, previous_epoch=0)
        target = draft.group.target.get(holder.member_id, frozenset())
        draft.write(
            *member_tombstones(holder.member_id),
            member_record(member),
            target_record(member.member_id, target),
            current_record(member),
        )
        return member

    def _live(
        self, draft: _Draft, member: ConsumerGroupMember, asked: HeartbeatRequest, now_ms: int
    ) -> GroupDecision:
        """A heartbeat of a member that is, or becomes, one. `consumerGroupHeartbeat`."""
        updated = _update(member, asked)
        if updated != member or member.member_id not in draft.group.members:
            draft.write(member_record(updated))
        names_changed = updated.topics != member.topics
        regex_changed, regex_is_known = self._update_regex(draft, member, updated)
        regexes = self._stale_regexes(draft.group, now_ms)
        is_resubscribed = names_changed or regex_changed
        refreshed_epoch = None
        raises_epoch = names_changed or regex_is_known
        if raises_epoch or self._needs_refresh(draft.group, now_ms):
            refreshed_epoch = self._refresh(draft, raises_epoch=raises_epoch)
        self._retarget(draft, now_ms)
        moved = self._reconcile(draft, updated, asked, is_resubscribed=is_resubscribed)
        due_ms = now_ms + self.config.session_timeout_ms
        timers = [TimerChange(END_SESSION, asked.member_id, due_ms)]
        if moved != updated:
            draft.write(current_record(moved))
            timers.append(_revocation_timer(moved, now_ms))
        tells = asked.member_epoch == JOIN_EPOCH or asked.is_full
        tells = tells or moved.assigned != member.assigned
        answer = HeartbeatAnswer(
            moved.member_id,
            moved.epoch,
            self.config.heartbeat_interval_ms,
            frozenset(moved.assigned) if tells else None,
        )
        return GroupDecision(
            asked.group_id,
            tuple(draft.records),
            answer,
            tuple(timers),
            refreshed_epoch,
            regexes,
        )

    # ---- topics

    def _needs_refresh(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Topics may have changed since the group's epoch was raised for them."""
        due_ms, epoch = self._refreshed.get(group.group_id, (0, 0))
        return now_ms >= due_ms or group.epoch < epoch

    def _refresh(self, draft: _Draft, *, raises_epoch: bool) -> int:
        """Raise the group epoch if it has to be, or if topics have changed; the epoch then.

        `updateSubscriptionMetadata`.
        """
        found = self._hash(draft.group)
        epoch = draft.group.epoch
        if raises_epoch or found != draft.group.metadata_hash:
            epoch += 1
            draft.write(epoch_record(epoch, found))
        if draft.group.has_topics_record:
            draft.write(GroupRecord(RecordKind.TOPICS))
        return epoch

    def _hash(self, group: ConsumerGroup) -> int:
        """Another number for other topics; 0 for none. Kafka's is XXH3 of the same facts."""
        read = sorted(group.subscribed_topics & self.topics.keys())
        text = repr([(name, *self.topics[name]) for name in read])
        digest = blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True) if read else 0

    def _topic_ids(self, group: ConsumerGroup, member: ConsumerGroupMember) -> frozenset[bytes]:
        names = group.topics_of(member) & self.topics.keys()
        return frozenset(self.topics[name].topic_id for name in names)

    def _retarget(self, draft: _Draft, now_ms: int) -> None:
        """Make a target assignment for a new group epoch. `maybeUpdateTargetAssignment`."""
        group = draft.group
        interval_ms, last_ms = self.config.assignment_interval_ms, group.assignment_timestamp_ms
        is_early = last_ms and interval_ms and now_ms < last_ms + interval_ms
        if group.assignment_epoch >= group.epoch or is_early:
            return
        specs = [
            MemberSpec(
                member.member_id,
                member.instance_id,
                self._topic_ids(group, member),
                group.target.get(member.member_id, frozenset()),
            )
            for member in group.members.values()
        ]
        read = frozenset().union(*(spec.topic_ids for spec in specs))
        images = sorted(image for image in self.topics.values() if image.topic_id in read)
        assign = ASSIGNORS[group.preferred_assignor(DEFAULT_ASSIGNOR)]
        for member_id, places in assign(specs, dict(images)).items():
            if group.target.get(member_id) != frozenset(places):
                draft.write(target_record(member_id, places))
        draft.write(target_epoch_record(group.epoch, now_ms))

    def _reconcile(
        self,
        draft: _Draft,
        member: ConsumerGroupMember,
        asked: HeartbeatRequest,
        *,
        is_resubscribed: bool,
    ) -> ConsumerGroupMember:
        group = draft.group
        reconciliation = Reconciliation(
            group.assignment_epoch,
            group.target.get(member.member_id, frozenset()),
            self._topic_ids(group, member),
            group.owners,
            asked.owned,
        )
        return reconciliation.step(member, is_resubscribed=is_resubscribed)

    # ---- regular expressions

    def _update_regex(
        self, draft: _Draft, old: ConsumerGroupMember, new: ConsumerGroupMember
    ) -> tuple[bool, bool]:
        """Whether the member's expression is another one, and whether its topics are known.

        Raises `GroupRefusal`. `maybeUpdateRegularExpressions`.
        """
        if old.regex == new.regex:
            return False, False
        if old.regex and not draft.group.subscribed_regexes[old.regex]:
            draft.write(GroupRecord(RecordKind.REGEX, old.regex))
        if not new.regex:
            return True, bool(old.regex)
        _compile(new.regex)
        return True, new.regex in draft.group.regexes

    def _stale_regexes(self, group: ConsumerGroup, now_ms: int) -> frozenset[str]:
        """The group's expressions, if they are to be resolved again; else none."""
        wanted = frozenset(group.subscribed_regexes)
        last = next(iter(group.regexes.values()), None)
        if last is None:
            return wanted
        age_ms = now_ms - last.timestamp_ms
        if age_ms <= REGEX_REFRESH_MIN_MS:
            return frozenset()
        is_stale = (
            len(wanted) != len(group.regexes)
            or last.version < self._created_version
            or age_ms > REGEX_REFRESH_MAX_MS
        )
        return wanted if is_stale else frozenset()

    def resolve(
        self,
        group: ConsumerGroup,
        regexes: Iterable[str],
        may_describe: Callable[[str], bool],
        now_ms: int,
    ) -> GroupDecision:
        """Find the topics of expressions. `handleRegularExpressionsResult`."""
        draft, is_other, subscribed = _Draft(group), False, group.subscribed_regexes
        for regex in sorted(regexes):
            if not subscribed[regex]:
                continue
            pattern = _compile(regex)
            matching = (name for name in self.topics if pattern.matches(name))
            topics = frozenset(name for name in matching if may_describe(name))
            is_other |= draft.group.regexes.get(regex, ResolvedRegex()).topics != topics
            draft.write(regex_record(regex, ResolvedRegex(topics, self._version, now_ms)))
        epoch, found = None, self._hash(draft.group)
        if is_other or found != draft.group.metadata_hash:
            epoch = draft.group.epoch + 1
            draft.write(epoch_record(epoch, found))
        return GroupDecision(group.group_id, tuple(draft.records), refreshed_epoch=epoch)

    # ---- members leave

    def _leave(self, group: ConsumerGroup, asked: HeartbeatRequest) -> GroupDecision:
        """`consumerGroupLeave`."""
        answer = HeartbeatAnswer(asked.member_id, asked.member_epoch)
        if asked.instance_id is None:
            if asked.member_id not in group.members:
                raise _unknown_member(group, asked)
            return self._fence(group, asked.member_id)._replace(answer=answer)
        member = _find_static(group, asked, asked.instance_id)
        if asked.member_epoch != STATIC_LEAVE_EPOCH:
            return self._fence(group, member.member_id)._replace(answer=answer)
        gone = member._replace(
            epoch=STATIC_LEAVE_EPOCH, revoking={}, assigned=dict.fromkeys(member.assigned, 0)
        )
        timer = TimerChange(END_REVOCATION, member.member_id, None)
        return GroupDecision(group.group_id, (current_record(gone),), answer, (timer,))

    def _fence(self, group: ConsumerGroup, member_id: str) -> GroupDecision:
        """Remove a member. `consumerGroupFenceMembers`."""
        draft, regex = _Draft(group), group.members[member_id].regex
        draft.write(*member_tombstones(member_id))
        if regex and not draft.group.subscribed_regexes[regex]:
            draft.write(GroupRecord(RecordKind.REGEX, regex))
        draft.write(epoch_record(draft.group.epoch + 1, self._hash(draft.group)))
        timers = tuple(TimerChange(kind, member_id, None) for kind in (END_SESSION, END_REVOCATION))
        return GroupDecision(group.group_id, tuple(draft.records), timers=timers)

    # ---- time

    def on_appended(self, decision: GroupDecision, now_ms: int) -> None:
        """The records of a decision are in the log."""
        for kind, member_id, due_ms in decision.timers:
            timer = (kind, decision.group_id, member_id)
            if due_ms is None:
                self._timers.cancel(timer)
            else:
                self._timers.set(timer, due_ms)
        if decision.refreshed_epoch is not None:
            due_ms = now_ms + REFRESH_INTERVAL_MS
            self._refreshed[decision.group_id] = (due_ms, decision.refreshed_epoch)

    def load(self, groups: Iterable[ConsumerGroup], now_ms: int) -> None:
        """Members of loaded groups live for a session more, and have as long again to revoke."""
        for group in groups:
            self._refreshed.pop(group.group_id, None)
            for member in group.members.values():
                due_ms = now_ms + self.config.session_timeout_ms
                self._timers.set((END_SESSION, group.group_id, member.member_id), due_ms)
                timer = _revocation_timer(member, now_ms)
                if timer.due_ms is not None:
                    self._timers.set((END_REVOCATION, group.group_id, timer[1]), timer.due_ms)

    @property
    def next_due_ms(self) -> int | None:
        """When `pop_due` has something, None for never."""
        return self._timers.next_due_ms

    def pop_due(self, now_ms: int) -> Iterator[tuple[str, str]]:
        """The group and member of each timer that is due: `expire` says what follows."""
        while (timer := self._timers.pop_due(now_ms)) is not None:
            yield timer[1:]

    def postpone(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member that could not be removed is due again after another session."""
        due_ms = now_ms + self.config.session_timeout_ms
        self._timers.set((END_SESSION, group_id, member_id), due_ms)

    def expire(self, group: ConsumerGroup | None, member_id: str) -> GroupDecision | None:
        """A member's time is over; None if it is not in the group any more."""
        if group is None or member_id not in group.members:
            return None
        return self._fence(group, member_id)


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
    return member._replace(**{name: value for name, value in said.items() if value is not None})


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
    classic: GroupMembers | None,
    asked: HeartbeatRequest,
    missing: str = "Group {} not found.",
) -> ConsumerGroup:
    if group is not None:
        return group
    text = missing if classic is None else "Group {} is not a consumer group."
    raise GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, text.format(asked.group_id))


def _find_static(
    group: ConsumerGroup, asked: HeartbeatRequest, instance_id: str
) -> ConsumerGroupMember:
    """The holder of an instance id, if it is the sender. Raises `GroupRefusal`."""
    holder = group.static_member(instance_id)
    if holder is None:
        raise GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != asked.member_id:
        text = (
            f"Static member {asked.member_id} with instance id {instance_id} was fenced by member"
            f" {holder.member_id}."
        )
        raise GroupRefusal(ErrorCode.FENCED_INSTANCE_ID, text)
    return holder


def _unknown_member(group: ConsumerGroup, asked: HeartbeatRequest) -> GroupRefusal:
    text = f"Member {asked.member_id} is not a member of group {group.group_id}."
    return GroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, text)


def _compile(regex: str) -> Expression:
    """Raises `GroupRefusal`."""
    try:
        return Expression(regex)
    except InvalidExpression as error:
        text = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise GroupRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error
