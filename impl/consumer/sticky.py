"""Assigns partitions in balance, and moves few of those that members had.

1. What a member had stays with it, if it still reads the topic.
2. What nobody has goes to the member with the fewest partitions that reads the topic, the topics
   with the fewest readers first.
3. While a member could take one from another that has two more, it takes one: those that were not
   there before go first. Each such step makes the sum of squares smaller, so it ends.

Then either the numbers of partitions differ by at most one, or who has two fewer than another reads
none of its topics. If all read the same topics, no assignment in balance moves fewer.
Source: KIP-54; `AbstractStickyAssignor` of Kafka 4.3.1 keeps the same promises by other steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from impl.protocol.fields import TopicPartition


def assign_sticky(
    topics: Mapping[str, frozenset[str]],
    partitions: Mapping[str, int],
    owners: Mapping[TopicPartition, str],
) -> dict[str, list[TopicPartition]]:
    """Partitions by member id.

    From the topics of each member, in the order in which they are preferred; the number of
    partitions of each topic; and who had which partition.
    """
    readers = {
        topic: [member for member, read in topics.items() if topic in read] for topic in partitions
    }
    places = [
        (topic, index)
        for topic in sorted(partitions, key=lambda topic: (len(readers[topic]), topic))
        for index in range(partitions[topic])
        if readers[topic]
    ]
    owned = {place: owners[place] for place in places if owners.get(place) in readers[place[0]]}
    found: dict[str, list[TopicPartition]] = {member: [] for member in topics}
    for place, member in owned.items():
        found[member].append(place)
    for place in places:
        if place not in owned:
            found[_least(found, readers[place[0]])].append(place)
    while _move_one(found, readers):
        pass
    return {member: sorted(has) for member, has in found.items()}


def _least(found: Mapping[str, list[TopicPartition]], members: list[str]) -> str:
    return min(members, key=lambda member: len(found[member]))


def _move_one(found: dict[str, list[TopicPartition]], readers: Mapping[str, list[str]]) -> bool:
    """Move a partition from a member with many to one that has two fewer; whether there is one.

    What a member did not have before is at the end of its list.
    """
    for member in sorted(found, key=lambda member: -len(found[member])):
        for at, (topic, _) in _from_the_end(found[member]):
            taker = _least(found, readers[topic])
            if len(found[member]) > len(found[taker]) + 1:
                found[taker].append(found[member].pop(at))
                return True
    return False


def _from_the_end(places: list[TopicPartition]) -> Iterator[tuple[int, TopicPartition]]:
    return zip(range(len(places) - 1, -1, -1), reversed(places), strict=True)
