"""A consumer group of KIP-848: its members, what each has, and what each is to have.

Four rules:

1. The group epoch rises when subscriptions or topics change; a target assignment is made for an
   epoch, and members reach it one by one. A group is stable when all have.
2. A partition has one owner: the member to which it is assigned, or that still has to revoke it.
3. A member leaves its epoch when it has revoked what its target lacks.
4. The state follows from records alone: `apply` is the only way to change it.
5. Members of the classic protocol may be among them, with what they told when they joined.

Theory of operation: a coordinator decides on a copy, whose records it appends; what is in the log
is applied to the group itself, now and when the partition is loaded again.
Source: `ConsumerGroup`, `ConsumerGroupMember`, `ModernGroup`; release 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.protocol.consumer_protocol import CONSUMER_PROTOCOL, GroupProtocol
from impl.protocol.errors import InvalidRecord
from impl.protocol.fields import LEAVE_EPOCH, TopicIdPartition

FIRST_GROUP_EPOCH: Final = 1
"""Of a group before its first member, so that its first assignment has 2; 0 before 4.3."""


class ReconciliationState(IntEnum):
    """A member's way to its target; the numbers are those of records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupState(Enum):
    """`ConsumerGroup.ConsumerGroupState`."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class RecordKind(IntEnum):
    """What a record is about; the numbers are the versions of its key."""

    GROUP = 3
    TOPICS = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


class GroupRecord(NamedTuple):
    """A record of a group. `name`: a member id or a regular expression, "" for the group itself.

    `value` has the fields of the kind's schema; None removes.
    """

    kind: RecordKind
    name: str = ""
    value: Mapping[str, Any] | None = None


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol told in JoinGroup. `ClassicMemberMetadata`."""

    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]


class ConsumerGroupMember(NamedTuple):
    """A member; `classic` if it uses that protocol.

    `assigned`, `revoking`: partitions to the epoch in which they were assigned.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: Mapping[TopicIdPartition, int] = MappingProxyType({})
    revoking: Mapping[TopicIdPartition, int] = MappingProxyType({})
    classic: ClassicMetadata | None = None

    def has_reached(self, epoch: int) -> bool:
        """Whether it has all that it is to have in this epoch. `isReconciledTo`."""
        return self.state is ReconciliationState.STABLE and self.epoch == epoch


class ResolvedRegex(NamedTuple):
    """The topics that match; of which version of the metadata, and when, ms."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


@dataclass(slots=True)
class ConsumerGroup:
    """The state of one group. `target` and `members` are by member id, `regexes` by expression."""

    group_id: str
    epoch: int = FIRST_GROUP_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    target: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    has_topics_record: bool = False

    def copy(self) -> ConsumerGroup:
        """A group that can be changed without this one."""
        return replace(
            self,
            members=dict(self.members),
            target=dict(self.target),
            regexes=dict(self.regexes),
            owners=dict(self.owners),
        )

    # ---- views

    @property
    def protocol_type(self) -> str:
        """Its members are consumers."""
        return CONSUMER_PROTOCOL

    @property
    def state(self) -> ConsumerGroupState:
        """`maybeUpdateGroupState`."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        reached = all(m.has_reached(self.assignment_epoch) for m in self.members.values())
        return ConsumerGroupState.STABLE if reached else ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it may be removed: nobody is in it."""
        return not self.members

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of all members, and what their regular expressions match."""
        named = (member.topics for member in self.members.values())
        matched = (resolved.topics for resolved in self.regexes.values())
        return frozenset().union(*named, *matched)

    @property
    def subscribed_regexes(self) -> Counter[str]:
        """The number of members for each regular expression."""
        return Counter(member.regex for member in self.members.values() if member.regex)

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """What a member reads; an expression that is not resolved matches nothing."""
        resolved = self.regexes.get(member.regex or "", ResolvedRegex())
        return member.topics | resolved.topics

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        """The member with this instance id, None without."""
        found = (m for m in self.members.values() if m.instance_id == instance_id)
        return next(found, None)

    @property
    def uses_classic_alone(self) -> bool:
        """Whether there are members, and all use the classic protocol."""
        return bool(self.members) and all(member.classic for member in self.members.values())

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member of the classic protocol fits in. `supportsClassicProtocols`."""
        classic = [member.classic for member in self.members.values() if member.classic]
        known = [{name for name, _ in each.protocols} for each in classic]
        fits = (all(name in each for each in known) for name in names)
        return protocol_type == CONSUMER_PROTOCOL and any(fits)

    def awaits_release(self, member: ConsumerGroupMember) -> bool:
        """Whether a part of its target is still another's. `waitingOnUnreleasedPartition`."""
        target = self.target.get(member.member_id, frozenset())
        return any(place in self.owners for place in target - member.assigned.keys())

    def preferred_assignor(self, default: str) -> str:
        """What most members want. `computePreferredServerAssignor`."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor)
        return votes.most_common(1)[0][0] if votes else default

    # ---- records

    def apply(self, record: GroupRecord) -> None:
        """Change the state by a record, but for the one that removes the group.

        Raises `InvalidRecord`.
        """
        _APPLY[record.kind](self, record.name, record.value)

    def _apply_epoch(self, _: str, value: Mapping[str, Any] | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value["epoch"], value["metadata_hash"]

    def _apply_topics(self, _: str, value: Mapping[str, Any] | None) -> None:
        self.has_topics_record = value is not None

    def _apply_member(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._put(ConsumerGroupMember(member_id))
            del self.members[member_id]
            return
        member = self.members.get(member_id, ConsumerGroupMember(member_id))
        self.members[member_id] = member._replace(
            instance_id=value["instance_id"],
            rack_id=value["rack_id"],
            rebalance_timeout_ms=value["rebalance_timeout_ms"],
            client_id=value["client_id"],
            client_host=value["client_host"],
            topics=frozenset(value["subscribed_topic_names"]),
            regex=value["subscribed_topic_regex"],
            assignor=value["server_assignor"],
            classic=_read_classic(value["classic_member_metadata"]),
        )

    def _apply_target_epoch(self, _: str, value: Mapping[str, Any] | None) -> None:
        self.assignment_epoch = LEAVE_EPOCH if value is None else value["assignment_epoch"]
        self.assignment_timestamp_ms = 0 if value is None else value["assignment_timestamp"]

    def _apply_target(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = frozenset(read_places(value["topic_partitions"]))

    def _apply_current(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            if member_id in self.members:
                gone = self.members[member_id]._replace(
                    epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH
                )
                self._put(gone._replace(assigned={}, revoking={}))
            return
        epoch = value["member_epoch"]
        if value["state"] not in tuple(ReconciliationState):
            raise InvalidRecord(f"a member of {self.group_id} has state {value['state']}", 0)
        self._put(
            self.members.get(member_id, ConsumerGroupMember(member_id))._replace(
                epoch=epoch,
                previous_epoch=value["previous_member_epoch"],
                state=ReconciliationState(value["state"]),
                assigned=read_epochs(value["assigned_partitions"], epoch),
                revoking=read_epochs(value["partitions_pending_revocation"], epoch),
            )
        )

    def _put(self, member: ConsumerGroupMember) -> None:
        """Store a member; it owns what it has, unless a later record gave that to another."""
        old = self.members.get(member.member_id, member)
        for place in (*old.assigned, *old.revoking):
            if self.owners.get(place) == member.member_id:
                del self.owners[place]
        self.members[member.member_id] = member
        self.owners |= dict.fromkeys((*member.assigned, *member.revoking), member.member_id)

    def _apply_regex(self, regex: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
            return
        topics = frozenset(value["topics"])
        self.regexes[regex] = ResolvedRegex(topics, value["version"], value["timestamp"])


_APPLY: Final[
    Mapping[RecordKind, Callable[[ConsumerGroup, str, Mapping[str, Any] | None], None]]
] = MappingProxyType(
    {
        RecordKind.GROUP: ConsumerGroup._apply_epoch,
        RecordKind.TOPICS: ConsumerGroup._apply_topics,
        RecordKind.MEMBER: ConsumerGroup._apply_member,
        RecordKind.TARGET_EPOCH: ConsumerGroup._apply_target_epoch,
        RecordKind.TARGET: ConsumerGroup._apply_target,
        RecordKind.CURRENT: ConsumerGroup._apply_current,
        RecordKind.REGEX: ConsumerGroup._apply_regex,
    }
)


def _read_classic(value: Mapping[str, Any] | None) -> ClassicMetadata | None:
    """What a member of the classic protocol has; it has a protocol at least.

    Kafka writes null for others. Our broker left the field out at first.
    """
    if value is None or not value["supported_protocols"]:
        return None
    protocols = tuple((row["name"], row["metadata"]) for row in value["supported_protocols"])
    return ClassicMetadata(value["session_timeout_ms"], protocols)


def read_places(rows: Iterable[Mapping[str, Any]]) -> list[TopicIdPartition]:
    """The partitions of rows with `topic_id` and `partitions`."""
    return [(row["topic_id"], index) for row in rows for index in row["partitions"]]


def read_epochs(rows: Iterable[Mapping[str, Any]], epoch: int) -> dict[TopicIdPartition, int]:
    """The partitions of a member's record; before 4.3 all have the member's epoch."""
    found = {}
    for row in rows:
        indexes, epochs = row["partitions"], row["assignment_epochs"]
        if epochs is None or len(epochs) != len(indexes):
            epochs = [max(epoch, 0)] * len(indexes)
        found.update({(row["topic_id"], i): e for i, e in zip(indexes, epochs, strict=True)})
    return found
