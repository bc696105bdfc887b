"""What a consumer group reads, who is to have which partitions, and who gets them when (KIP-848).

Four rules:

1. A changed subscription or topic raises the group epoch, which asks for a new target assignment.
   Two targets are at least `assignment_interval_ms` apart.
2. After that one member, the one that has spoken, is reconciled, one step.
3. The protocol by which a member speaks makes no difference.
4. A regular expression is resolved after the answer; its topics are for the next heartbeat.

Theory of operation: nothing here changes a group: a `GroupDraft` has the records of one request
applied to a copy. `topics` is kept up to date by `set_topics`.
Source: `GroupMetadataManager.updateSubscriptionMetadata`, `maybeUpdateTargetAssignment`,
`maybeReconcile`, `maybeUpdateRegularExpressions`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from impl.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerGroupMember,
    GroupRecord,
    RecordKind,
    ResolvedRegex,
)
from impl.coordinator.consumer_group_messages import GroupDecision, GroupRefusal, SubscribedTopic
from impl.coordinator.consumer_group_records import (
    current_record,
    epoch_record,
    member_record,
    regex_record,
    target_epoch_record,
    target_record,
)
from impl.coordinator.reconciliation import Reconciliation
from impl.coordinator.regular_expressions import Expression, InvalidExpression
from impl.coordinator.server_assignors import ASSIGNORS, DEFAULT_ASSIGNOR, MemberSpec
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicIdPartition
from impl.settings import INT_MAX

REFRESH_INTERVAL_MS: Final = INT_MAX
"""How long topics are taken to be what they were, if nothing says that they have changed."""
REGEX_REFRESH_MIN_MS: Final = 10_000
REGEX_REFRESH_MAX_MS: Final = 600_000


class GroupDraft:
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


class SubscriptionChange(NamedTuple):
    """What a member's request changes: `is_resubscribed`, whether it reads something else.

    `refreshed_epoch`, `regexes`: as in `GroupDecision`.
    """

    is_resubscribed: bool
    refreshed_epoch: int | None
    regexes: frozenset[str]


class GroupTargets:
    """The topics, and the groups' views of them. Read-only: `topics` by name."""

    __slots__ = ("_created_version", "_interval_ms", "_refreshed", "_version", "topics")

    def __init__(self, interval_ms: Callable[[str], int]) -> None:
        """`interval_ms` is the least time between two targets of a group."""
        self.topics: Mapping[str, SubscribedTopic] = {}
        self._interval_ms = interval_ms
        self._version = self._created_version = -1
        self._refreshed: dict[str, tuple[int, int]] = {}

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
                self.forget(group.group_id)

    def forget(self, group_id: str) -> None:
        """The group looks at its topics again."""
        self._refreshed.pop(group_id, None)

    def on_refreshed(self, group_id: str, epoch: int, now_ms: int) -> None:
        """The records of a decision that looked at topics for this epoch are in the log."""
        self._refreshed[group_id] = (now_ms + REFRESH_INTERVAL_MS, epoch)

    # ---- what a group reads

    def subscribe(
        self, draft: GroupDraft, old: ConsumerGroupMember, new: ConsumerGroupMember, now_ms: int
    ) -> SubscriptionChange:
        """Store a member, and raise the group epoch if it, or a topic, asks for that.

        Raises `GroupRefusal`.
        """
        if new != old or new.member_id not in draft.group.members:
            draft.write(member_record(new))
        names_changed = new.topics != old.topics
        regex_changed, regex_is_known = _update_regex(draft, old, new)
        regexes = self._stale_regexes(draft.group, now_ms)
        refreshed_epoch = None
        raises_epoch = names_changed or regex_is_known
        if raises_epoch or self._needs_refresh(draft.group, now_ms):
            refreshed_epoch = self._refresh(draft, raises_epoch=raises_epoch)
        return SubscriptionChange(names_changed or regex_changed, refreshed_epoch, regexes)

    def _needs_refresh(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Topics may have changed since the group's epoch was raised for them."""
        due_ms, epoch = self._refreshed.get(group.group_id, (0, 0))
        return now_ms >= due_ms or group.epoch < epoch

    def _refresh(self, draft: GroupDraft, *, raises_epoch: bool) -> int:
        """Raise the group epoch if it has to be, or if topics have changed; the epoch then."""
        found = self.hash_topics(draft.group)
        epoch = draft.group.epoch
        if raises_epoch or found != draft.group.metadata_hash:
            epoch += 1
            draft.write(epoch_record(epoch, found))
        if draft.group.has_topics_record:
            draft.write(GroupRecord(RecordKind.TOPICS))
        return epoch

    def hash_topics(self, group: ConsumerGroup) -> int:
        """Another number for other topics; 0 for none. Kafka's is XXH3 of the same facts."""
        read = sorted(group.subscribed_topics & self.topics.keys())
        text = repr([(name, *self.topics[name]) for name in read])
        digest = blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True) if read else 0

    def _topic_ids(self, group: ConsumerGroup, member: ConsumerGroupMember) -> frozenset[bytes]:
        names = group.topics_of(member) & self.topics.keys()
        return frozenset(self.topics[name].topic_id for name in names)

    # ---- who has what

    def assign(
        self,
        draft: GroupDraft,
        member: ConsumerGroupMember,
        owned: Collection[TopicIdPartition] | None,
        now_ms: int,
        *,
        is_resubscribed: bool,
    ) -> ConsumerGroupMember:
        """Make a target assignment if one is due, and reconcile a member that reports `owned`."""
        self._retarget(draft, now_ms)
        group = draft.group
        reconciliation = Reconciliation(
            group.assignment_epoch,
            group.target.get(member.member_id, frozenset()),
            self._topic_ids(group, member),
            group.owners,
            owned,
        )
        moved = reconciliation.step(member, is_resubscribed=is_resubscribed)
        if moved != member:
            draft.write(current_record(moved))
        return moved

    def _retarget(self, draft: GroupDraft, now_ms: int) -> None:
        """Make a target assignment for a new group epoch. `maybeUpdateTargetAssignment`."""
        group = draft.group
        interval_ms, last_ms = self._interval_ms(group.group_id), group.assignment_timestamp_ms
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

    # ---- regular expressions

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
        draft, is_other, subscribed = GroupDraft(group), False, group.subscribed_regexes
        for regex in sorted(regexes):
            if not subscribed[regex]:
                continue
            pattern = _compile(regex)
            matching = (name for name in self.topics if pattern.matches(name))
            topics = frozenset(name for name in matching if may_describe(name))
            is_other |= draft.group.regexes.get(regex, ResolvedRegex()).topics != topics
            draft.write(regex_record(regex, ResolvedRegex(topics, self._version, now_ms)))
        epoch, found = None, self.hash_topics(draft.group)
        if is_other or found != draft.group.metadata_hash:
            epoch = draft.group.epoch + 1
            draft.write(epoch_record(epoch, found))
        return GroupDecision(group.group_id, tuple(draft.records), refreshed_epoch=epoch)


def _update_regex(
    draft: GroupDraft, old: ConsumerGroupMember, new: ConsumerGroupMember
) -> tuple[bool, bool]:
    """Whether the member's expression is another one, and whether its topics are known.

    Raises `GroupRefusal`. `maybeUpdateRegularExpressions`.
    """
    if old.regex == new.regex:
        return False, False
    drop_unread_regexes(draft, old.regex)
    if not new.regex:
        return True, bool(old.regex)
    _compile(new.regex)
    return True, new.regex in draft.group.regexes


def drop_unread_regexes(draft: GroupDraft, *regexes: str | None) -> None:
    """Forget the topics of those expressions that no member subscribes to any more."""
    subscribed = draft.group.subscribed_regexes
    for regex in sorted({regex for regex in regexes if regex}):
        if not subscribed[regex]:
            draft.write(GroupRecord(RecordKind.REGEX, regex))


def _compile(regex: str) -> Expression:
    """Raises `GroupRefusal`."""
    try:
        return Expression(regex)
    except InvalidExpression as error:
        text = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise GroupRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error
