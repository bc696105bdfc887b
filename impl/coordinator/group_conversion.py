"""A classic group becomes a consumer group, and back (KIP-848, "Online migration").

Four rules:

1. The generation becomes the group epoch, the epoch of its target assignment, and that of each
   member; back, the group epoch becomes the generation.
2. What members were assigned becomes both their target and what they have; back, their target
   becomes what they are assigned.
3. Members that are converted use the classic protocol, before and after.
4. A group whose members' subscriptions or assignments cannot be read stays what it is, and so does
   one whose assignor adds data of its own, which would be lost.

Pure functions: the caller appends records, and tells members. Source:
`ConsumerGroup.fromClassicGroup`, `ClassicGroup.fromConsumerGroup`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from impl.coordinator.classic_group import ClassicGroup, GroupMember
from impl.coordinator.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerGroupMember,
)
from impl.coordinator.consumer_group_messages import GroupRefusal, SubscribedTopic
from impl.coordinator.group_config import ConsumerGroupConfig
from impl.coordinator.offsets_groups import GroupState
from impl.protocol.consumer_protocol import (
    CONSUMER_PROTOCOL,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    read_version,
)
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.fields import TopicIdPartition


def check_upgrade(group: ClassicGroup, config: ConsumerGroupConfig) -> None:
    """Whether it may become a consumer group. Raises `GroupRefusal`. `validateOnlineUpgrade`."""
    problems = {
        "online upgrade is disabled": not config.upgrades,
        "the group does not use the consumer embedded protocol": group.protocol_type
        != CONSUMER_PROTOCOL,
        "the group size exceeds the consumer group maximum size": len(group.members)
        > config.max_size,
    }
    for why, is_wrong in problems.items():
        if is_wrong:
            raise _refuse_upgrade(group, why)


def _refuse_upgrade(group: ClassicGroup, why: str) -> GroupRefusal:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return GroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, text)


def upgrade_members(
    group: ClassicGroup, topics: Mapping[str, SubscribedTopic]
) -> list[ConsumerGroupMember]:
    """The members of the consumer group that a classic group becomes. Raises `GroupRefusal`."""
    try:
        return [_upgrade(group, member, topics) for member in group.members.values()]
    except DecodeError:
        raise _refuse_upgrade(group, "the embedded consumer protocol is malformed") from None


def _upgrade(
    group: ClassicGroup, member: GroupMember, topics: Mapping[str, SubscribedTopic]
) -> ConsumerGroupMember:
    if group.protocol_name not in dict(member.protocols):
        raise GroupRefusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # QUIRK: a rebalance has just begun
    subscription = decode_subscription(member.metadata(group.protocol_name))
    return ConsumerGroupMember(
        member.member_id,
        group.generation_id,
        group.generation_id,
        member.group_instance_id,
        subscription.rack_id,
        member.rebalance_timeout_ms,
        member.client_id,
        member.client_host,
        topics=subscription.topics,
        assigned=dict.fromkeys(_assigned(group, member, topics), group.generation_id),
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(
    group: ClassicGroup, member: GroupMember, topics: Mapping[str, SubscribedTopic]
) -> list[TopicIdPartition]:
    """Without the partitions of topics that are gone."""
    if not member.assignment:
        return []
    places, user_data = decode_assignment(member.assignment)
    if user_data:
        why = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch"
            " to a default assignor before re-attempting the upgrade"
        )
        raise _refuse_upgrade(group, why)
    return [(topics[name].topic_id, index) for name, index in places if name in topics]


def downgrade(
    group: ConsumerGroup, generation_id: int, topics: Mapping[str, SubscribedTopic]
) -> ClassicGroup:
    """The classic group that a consumer group of members of that protocol becomes.

    Raises `GroupRefusal`.
    """
    names = {image.topic_id: name for name, image in topics.items()}
    classic = ClassicGroup(
        group.group_id,
        GroupState.STABLE,
        generation_id=generation_id,
        protocol_type=CONSUMER_PROTOCOL,
    )
    for member in group.members.values():
        classic.add(_downgrade(member))
    classic.protocol_name = classic.select_protocol()
    classic.read_topics()
    for each in classic.members.values():
        target = group.target.get(each.member_id, frozenset())
        places = [(names[topic_id], index) for topic_id, index in target if topic_id in names]
        version = read_version(each.metadata(classic.protocol_name))
        each.assignment = encode_assignment(places, version)
    return classic


def _downgrade(member: ConsumerGroupMember) -> GroupMember:
    assert member.classic is not None, "a member of another protocol does not stay"
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        member.classic.protocols,
        client_host=member.client_host,
    )
