"""Who of a group reads which partitions, as the leader of a classic group decides.

Pure functions, the same in all clients of the group: members are ordered by static id, then by
member id; topics by name.

Source: `RangeAssignor`, `RoundRobinAssignor`, `AbstractPartitionAssignor` of Kafka 4.3.1;
racks are not regarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.protocol.fields import TopicPartition


class Subscription(NamedTuple):
    """A member and the topics that it reads."""

    member_id: str
    group_instance_id: str | None
    topics: frozenset[str]


Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id; each member has an entry."""

Assignor = Callable[[Sequence[Subscription], Mapping[str, int]], Assignment]
"""From members, and the number of partitions of each topic."""


def _ordered(members: Sequence[Subscription]) -> list[Subscription]:
    def key(member: Subscription) -> tuple[bool, str]:
        static_id = member.group_instance_id
        return static_id is None, member.member_id if static_id is None else static_id

    return sorted(members, key=key)


def assign_range(members: Sequence[Subscription], partitions: Mapping[str, int]) -> Assignment:
    """Of each topic, successive partitions to each member; the first members may get one more."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic, count in sorted(partitions.items()):
        readers = [member for member in _ordered(members) if topic in member.topics]
        first = 0
        for rank, member in enumerate(readers):
            size = count // len(readers) + (rank < count % len(readers))
            assignment[member.member_id] += [(topic, first + index) for index in range(size)]
            first += size
    return assignment


def assign_round_robin(
    members: Sequence[Subscription], partitions: Mapping[str, int]
) -> Assignment:
    """All partitions, one after the other, each to the next member that reads its topic."""
    assignment: Assignment = {member.member_id: [] for member in members}
    in_turn = cycle(_ordered(members))
    read = frozenset().union(*(member.topics for member in members))
    for topic, count in sorted(partitions.items()):
        for index in range(count if topic in read else 0):
            member = next(member for member in in_turn if topic in member.topics)
            assignment[member.member_id].append((topic, index))
    return assignment


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"range": assign_range, "roundrobin": assign_round_robin}
)
"""By the names that members announce."""
