"""A classic group: its members, what protocols they have in common, and its generation.

Four rules:

1. The first member is the leader, until it leaves or does not rejoin.
2. A generation begins when all members have joined, and has a protocol that all of them support:
   the one that most of them prefer.
3. A static member has a group instance id, and keeps its place when it comes back with another
   member id (KIP-345).
4. A dynamic member is pending between the answer with its id and its first join with it (KIP-394).

Theory of operation: the state of one group, without time and without answers; `groups` decides what
happens. Source: `ClassicGroup`, `ClassicGroupMember`; release 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from impl.coordinator.offsets_groups import GroupMembers, GroupState
from impl.protocol.consumer_protocol import (
    CONSUMER_PROTOCOL,
    GroupProtocol,
    decode_subscription,
)
from impl.protocol.errors import DecodeError, ErrorCode


@dataclass(slots=True)
class GroupMember:
    """A member. `join_request`, `sync_request`: the request that waits for an answer."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    client_host: str = ""
    is_new: bool = False
    join_request: Hashable | None = None
    sync_request: Hashable | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it awaits an answer, and so needs no heartbeats."""
        return self.join_request is not None or self.sync_request is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol, b"" without."""
        return dict(self.protocols).get(protocol or "", b"")


@dataclass(slots=True)
class ClassicGroup:
    """The state of one group."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.DEAD
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, GroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_member_ids: set[str] = field(default_factory=set)
    pending_sync_ids: set[str] = field(default_factory=set)
    has_new_member: bool = False
    state_timestamp_ms: int | None = None
    """Since when it is in this state; None if its record, an old one, does not say."""
    known_topics: frozenset[str] | None = None
    """What the consumers of the last generation subscribe to; None if that cannot be read."""

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state."""
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    @property
    def is_empty(self) -> bool:
        """Whether it may be removed: nobody is in it, or about to be."""
        return self.state is GroupState.EMPTY

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of a group of consumers; None if it may be any. `isSubscribedToTopic`."""
        return self.known_topics if self.protocol_type == CONSUMER_PROTOCOL else frozenset()

    @property
    def membership(self) -> GroupMembers:
        """What commits of offsets are held to."""
        return GroupMembers(
            self.state, self.generation_id, frozenset(self.members), dict(self.static_members)
        )

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin: none is being prepared."""
        return self.state in (
            GroupState.STABLE,
            GroupState.COMPLETING_REBALANCE,
            GroupState.EMPTY,
        )

    @property
    def joined_ids(self) -> list[str]:
        """Who waits for the next generation."""
        return [m.member_id for m in self.members.values() if m.join_request is not None]

    @property
    def have_all_joined(self) -> bool:
        """Whether each member waits for the next generation, and nobody is pending."""
        is_waiting = len(self.joined_ids) == len(self.members)
        return is_waiting and not self.pending_member_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members have to rejoin: the longest of theirs."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # ---- members

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """`ClassicGroup.validateMember`."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: GroupMember) -> None:
        """Add a member; the first one leads."""
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_member_ids.discard(member.member_id)
        self.leader = self.leader or member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member; another one leads if it did."""
        member = self.members.pop(member_id)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        self.pending_sync_ids.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static(self, member: GroupMember, member_id: str) -> None:
        """Give a static member another member id, in the place that it has."""
        old_id, member.member_id = member.member_id, member_id
        self.members = {
            (member_id if known == old_id else known): each for known, each in self.members.items()
        }
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = member_id
        self.pending_sync_ids.discard(old_id)
        if self.leader == old_id:
            self.leader = member_id

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has rejoined, else elect another; whether any member has."""
        joined = self.joined_ids
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    # ---- protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols fits in."""
        wanted = set(names)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and wanted)
        return protocol_type == self.protocol_type and bool(wanted & self._common_protocols())

    def _common_protocols(self) -> set[str]:
        names = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*names) if names else set()

    def select_protocol(self) -> str:
        """The common protocol that most members prefer."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def begin_generation(self, now_ms: int) -> None:
        """The next generation, of all members that are left. `initNextGeneration`."""
        self.generation_id += 1
        self.pending_sync_ids.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.read_topics()
        is_empty = not self.members
        self.transition_to(
            GroupState.EMPTY if is_empty else GroupState.COMPLETING_REBALANCE, now_ms
        )

    def read_topics(self) -> None:
        """Read what the members subscribe to. `computeSubscribedTopics`."""
        metadata = [member.metadata(self.protocol_name) for member in self.members.values()]
        self.known_topics = _topics_of(metadata)


def _topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    try:
        return frozenset().union(*(decode_subscription(each).topics for each in subscriptions))
    except DecodeError:
        return None
