"""Who of a group reads which partitions, as the leader of a classic group decides.

Pure functions, the same in all clients of the group: members are ordered by static id, then by
member id; topics by name. What members say of what they had is their user data.

Source: `RangeAssignor`, `RoundRobinAssignor`, `StickyAssignor`, `CooperativeStickyAssignor`,
`AbstractPartitionAssignor` of Kafka 4.3.1; racks are not regarded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from impl.client.errors import InvalidArgumentError
from impl.consumer.sticky import assign_sticky
from impl.protocol.errors import ProtocolError
from impl.protocol.fields import TopicPartition, topic_rows
from impl.protocol.state_records import decode_fields, encode_fields

NO_GENERATION: Final = -1


class Subscription(NamedTuple):
    """A member and the topics that it reads.

    `owned` are the partitions that it had last, in the generation `owned_generation`, -1 if
    unknown; `user_data` is what its assignor says beside.
    """

    member_id: str
    group_instance_id: str | None
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    owned_generation: int = NO_GENERATION
    user_data: bytes = b""


Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id; each member has an entry."""


def _ordered(members: Iterable[Subscription]) -> list[Subscription]:
    def key(member: Subscription) -> tuple[bool, str]:
        static_id = member.group_instance_id
        return static_id is None, member.member_id if static_id is None else static_id

    return sorted(members, key=key)


class PartitionAssignor(ABC):
    """Assigns partitions to the members of a group that has chosen its `name`.

    In a rebalance members of a *cooperative* assignor keep what they need not give up (KIP-429).
    """

    name: ClassVar[str]
    is_cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, members: Sequence[Subscription], partitions: Mapping[str, int]) -> Assignment:
        """From members, and the number of partitions of each topic."""

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        """What a member says to the leader: it had these in its last generation."""
        return None


class RangePartitionAssignor(PartitionAssignor):
    """Of each topic, successive partitions to each member; the first members may get one more."""

    name = "range"

    def assign(self, members: Sequence[Subscription], partitions: Mapping[str, int]) -> Assignment:
        """See `PartitionAssignor`."""
        assignment: Assignment = {member.member_id: [] for member in members}
        for topic, count in sorted(partitions.items()):
            readers = [member for member in _ordered(members) if topic in member.topics]
            first = 0
            for rank, member in enumerate(readers):
                size = count // len(readers) + (rank < count % len(readers))
                assignment[member.member_id] += [(topic, first + index) for index in range(size)]
                first += size
        return assignment


class RoundRobinPartitionAssignor(PartitionAssignor):
    """All partitions, one after the other, each to the next member that reads its topic."""

    name = "roundrobin"

    def assign(self, members: Sequence[Subscription], partitions: Mapping[str, int]) -> Assignment:
        """See `PartitionAssignor`."""
        assignment: Assignment = {member.member_id: [] for member in members}
        in_turn = cycle(_ordered(members))
        read = frozenset().union(*(member.topics for member in members))
        for topic, count in sorted(partitions.items()):
            for index in range(count if topic in read else 0):
                member = next(member for member in in_turn if topic in member.topics)
                assignment[member.member_id].append((topic, index))
        return assignment


class StickyPartitionAssignor(PartitionAssignor):
    """As balanced as possible, and of what members had as much as possible (KIP-54).

    In a rebalance members give up all, and get most of it again. The user data is what they had.
    """

    name = "sticky"

    def assign(self, members: Sequence[Subscription], partitions: Mapping[str, int]) -> Assignment:
        """See `PartitionAssignor`."""
        told = [self._with_owned(member) for member in _ordered(members)]
        topics = {member.member_id: member.topics for member in told}
        owners = _owners(told)
        sure = {place: found[0] for place, found in owners.items() if len(found) == 1}
        return self._adjust(assign_sticky(topics, partitions, sure), owners)

    def _adjust(
        self, assignment: Assignment, owners: Mapping[TopicPartition, list[str]]
    ) -> Assignment:
        """What can be assigned now."""
        return assignment

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        """`StickyAssignor.serializeTopicPartitionAssignment`, version 1."""
        rows = topic_rows(sorted(owned), name="topic")
        told = {"previous_assignment": rows, "generation": generation}
        return encode_fields("STICKY_ASSIGNOR_USER_DATA", 1, told)

    def _with_owned(self, member: Subscription) -> Subscription:
        """With what its user data says, in version 1 or 0; what cannot be read says nothing."""
        for version in (1, 0):
            try:
                told = decode_fields("STICKY_ASSIGNOR_USER_DATA", version, member.user_data)
            except ProtocolError:
                continue
            rows = told["previous_assignment"]
            owned = frozenset((row["topic"], i) for row in rows for i in row["partitions"])
            return member._replace(owned=owned, owned_generation=told["generation"])
        return member._replace(owned=frozenset())


class CooperativeStickyPartitionAssignor(StickyPartitionAssignor):
    """As `StickyPartitionAssignor`, but members keep in a rebalance what stays theirs (KIP-429).

    A partition that another member has still is assigned to nobody: that member gives it up, and
    the next rebalance, which follows at once, assigns it.
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def _adjust(
        self, assignment: Assignment, owners: Mapping[TopicPartition, list[str]]
    ) -> Assignment:
        """Without what another member has."""
        return {
            member: [place for place in places if owners.get(place, [member]) == [member]]
            for member, places in assignment.items()
        }

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        """The generation alone: `CooperativeStickyAssignor.subscriptionUserData`."""
        return encode_fields("COOPERATIVE_STICKY_USER_DATA", 0, {"generation": generation})

    def _with_owned(self, member: Subscription) -> Subscription:
        """What it owns is no user data; old clients say only there of which generation that is."""
        if member.owned_generation != NO_GENERATION or not member.user_data:
            return member
        try:
            told = decode_fields("COOPERATIVE_STICKY_USER_DATA", 0, member.user_data)
        except ProtocolError:
            return member
        return member._replace(owned_generation=told["generation"])


def _owners(members: Iterable[Subscription]) -> dict[TopicPartition, list[str]]:
    """Who had which partition: those that say so of the newest generation."""
    newest: dict[TopicPartition, int] = {}
    owners: dict[TopicPartition, list[str]] = {}
    for member in members:
        for place in member.owned:
            if member.owned_generation > newest.get(place, NO_GENERATION - 1):
                newest[place], owners[place] = member.owned_generation, []
            if member.owned_generation == newest[place]:
                owners[place].append(member.member_id)
    return owners


ASSIGNORS: Final[Mapping[str, PartitionAssignor]] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (
            RangePartitionAssignor(),
            RoundRobinPartitionAssignor(),
            StickyPartitionAssignor(),
            CooperativeStickyPartitionAssignor(),
        )
    }
)
"""By the names that members announce."""

DEFAULT_ASSIGNORS: Final = (ASSIGNORS["range"], ASSIGNORS["roundrobin"])


def parse_assignors(strategy: Any) -> tuple[PartitionAssignor, ...]:
    """The assignors of `partition_assignment_strategy`: names, classes or objects.

    Another client's class is taken for ours of the same name. Raises `InvalidArgumentError`.
    """
    may_be = f"must list classes, or names of {', '.join(ASSIGNORS)}"
    if isinstance(strategy, str) or not isinstance(strategy, Iterable):
        raise InvalidArgumentError("partition_assignment_strategy", may_be, strategy)
    chosen = tuple(map(_parse_assignor, strategy))
    if not chosen or None in chosen:
        raise InvalidArgumentError("partition_assignment_strategy", may_be, strategy)
    return tuple(assignor for assignor in chosen if assignor is not None)


def _parse_assignor(given: Any) -> PartitionAssignor | None:
    if isinstance(given, type) and issubclass(given, PartitionAssignor):
        return given()
    if isinstance(given, PartitionAssignor):
        return given
    name = getattr(given, "name", given)
    return ASSIGNORS.get(name) if isinstance(name, str) else None
