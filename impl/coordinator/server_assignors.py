"""Who of a consumer group is to have which partitions, as its coordinator decides (KIP-848).

1. `range`: of each topic, successive partitions to each reader; static members come first.
2. `uniform`: members have as many partitions as each other, and keep what they had if that is
   possible. Members with different subscriptions are balanced topic by topic.

Pure functions. Racks are not regarded, as by Kafka's since 4.0. Where Kafka takes members and
topics in the order of a Java `HashMap`, these take them in the order of their joins and ids.
Source: `RangeAssignor`, `UniformHomogeneousAssignmentBuilder`,
`UniformHeterogeneousAssignmentBuilder`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.protocol.fields import TopicIdPartition

MAX_ROUNDS: Final = 16
"""Of balancing: a limit for subscriptions that cannot be balanced."""


class MemberSpec(NamedTuple):
    """A member, the topics that it reads and that exist, and its last target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: frozenset[TopicIdPartition]


Targets = dict[str, set[TopicIdPartition]]
"""Partitions by member id; each member has an entry."""

ServerAssignor = Callable[[Sequence[MemberSpec], Mapping[bytes, int]], Targets]
"""From members, and the number of partitions of each topic that one of them reads."""


def assign_range(members: Sequence[MemberSpec], partitions: Mapping[bytes, int]) -> Targets:
    """The first readers of a topic may get one partition more."""

    def key(member: MemberSpec) -> tuple[bool, str]:
        is_dynamic = member.instance_id is None
        return is_dynamic, member.instance_id or member.member_id

    targets: Targets = {member.member_id: set() for member in members}
    for topic_id, count in partitions.items():
        readers = sorted((m for m in members if topic_id in m.topic_ids), key=key)
        first = 0
        for rank, reader in enumerate(readers):
            size = count // len(readers) + (rank < count % len(readers))
            targets[reader.member_id] |= {(topic_id, first + index) for index in range(size)}
            first += size
    return targets


def assign_uniform(members: Sequence[MemberSpec], partitions: Mapping[bytes, int]) -> Targets:
    """Balance before stickiness."""
    is_homogeneous = len({member.topic_ids for member in members}) == 1
    assign = _assign_homogeneous if is_homogeneous else _assign_heterogeneous
    return assign(members, partitions)


def _unassigned(
    members: Iterable[MemberSpec], partitions: Mapping[bytes, int]
) -> list[TopicIdPartition]:
    taken = frozenset().union(*(member.target for member in members))
    return [
        (topic_id, index)
        for topic_id in sorted(partitions)
        for index in range(partitions[topic_id])
        if (topic_id, index) not in taken
    ]


def _assign_homogeneous(members: Sequence[MemberSpec], partitions: Mapping[bytes, int]) -> Targets:
    """All read the same topics: each member up to its quota, what is left to those below it."""
    least, extra = divmod(sum(partitions.values()), len(members))
    free = _unassigned(members, partitions)
    targets: Targets = {}
    unfilled: list[tuple[str, int]] = []
    for rank, member in enumerate(members):
        quota = least + (extra > 0)
        kept = sorted(place for place in member.target if place[0] in partitions)
        free += kept[quota:]
        targets[member.member_id] = set(kept[:quota])
        has_extra, left = extra > 0, quota - len(kept[:quota])
        if left and has_extra and len(members) - rank > extra:
            has_extra, left = False, left - 1  # one of the later members takes the extra partition
        unfilled.append((member.member_id, left))
        extra -= has_extra
    for member_id, left in unfilled:
        targets[member_id] |= set(free[:left])
        free = free[left:]
    return targets


def _assign_heterogeneous(
    members: Sequence[MemberSpec], partitions: Mapping[bytes, int]
) -> Targets:
    readers = {
        topic_id: [member.member_id for member in members if topic_id in member.topic_ids]
        for topic_id in partitions
    }

    def key(topic_id: bytes) -> tuple[float, int, bytes]:
        """Most partitions for a reader first."""
        count = len(readers[topic_id])
        return -partitions[topic_id] / count, count, topic_id

    in_order = sorted(partitions, key=key)
    targets: Targets = {
        member.member_id: {place for place in member.target if place[0] in member.topic_ids}
        for member in members
    }
    held = frozenset().union(*targets.values())
    for topic_id in in_order:
        ranks = _ranks(targets, readers[topic_id])
        for index in range(partitions[topic_id]):
            if (topic_id, index) not in held:
                least = min(ranks, key=lambda m: (len(targets[m]), ranks[m]))
                targets[least].add((topic_id, index))
    shared = [topic_id for topic_id in in_order if len(readers[topic_id]) > 1]
    for _ in range(MAX_ROUNDS):
        if not sum(_balance(targets, readers[topic_id], topic_id) for topic_id in shared):
            break
    return targets


def _ranks(targets: Targets, member_ids: Sequence[str]) -> dict[str, int]:
    """The places of members, those with the fewest partitions first."""
    ordered = sorted(member_ids, key=lambda member_id: len(targets[member_id]))
    return {member_id: rank for rank, member_id in enumerate(ordered)}


def _balance(targets: Targets, member_ids: Sequence[str], topic_id: bytes) -> int:
    """Move partitions of a topic from the fullest reader to the emptiest; how many."""
    ranks, moved = _ranks(targets, member_ids), 0
    while True:
        givers = [m for m in ranks if any(place[0] == topic_id for place in targets[m])]
        if not givers:
            return moved
        most = max(givers, key=lambda m: (len(targets[m]), ranks[m]))
        least = min(ranks, key=lambda m: (len(targets[m]), ranks[m]))
        if len(targets[most]) - len(targets[least]) <= 1:
            return moved
        place = max(place for place in targets[most] if place[0] == topic_id)
        targets[most].remove(place)
        targets[least].add(place)
        moved += 1


ASSIGNORS: Final[Mapping[str, ServerAssignor]] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)
"""`group.consumer.assignors`, the default first."""
DEFAULT_ASSIGNOR: Final = next(iter(ASSIGNORS))
