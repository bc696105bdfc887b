"""Which commits a group accepts: its state, its generation, its members.

Three rules:

1. A group without members accepts commits that claim no generation.
2. A commit that claims a member must come from one of the current generation (KIP-447).
3. A member of a consumer group (KIP-848) commits with its epoch, or with an older one from which
   on it has had the partition (KIP-1251); one of the classic protocol, too.

Theory of operation: one frozen `GroupMembers` a group, set by the code that manages membership; a
group without one has no members. Sources:
`ClassicGroup.validateOffsetCommit`, `ConsumerGroup.validateOffsetCommit`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from impl.coordinator.consumer_group import ConsumerGroup, ConsumerGroupMember
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicIdPartition

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
MEMBER_EPOCH_FROM: Final = 9
"""The first OffsetCommit version that members of consumer groups may use."""


class GroupState(Enum):
    """`ClassicGroupState`."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """A group's membership. `static_members`: group instance id to member id (KIP-345)."""

    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    member_ids: frozenset[str] = frozenset()
    static_members: Mapping[str, str] = field(default_factory=dict)


SIMPLE_GROUP: Final = GroupMembers()
"""A group that only commits offsets."""


class Committer(NamedTuple):
    """The member that a commit claims to be from."""

    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        """Whether it claims to be a member, in any way."""
        claims_id = self.member_id != NO_MEMBER or self.group_instance_id is not None
        return self.generation_id >= 0 or claims_id


def check_committer(
    group: GroupMembers, committer: Committer, *, is_transactional: bool
) -> ErrorCode:
    """Check a commit to an existing group.

    A transactional one is accepted during a rebalance, and without a member (before KIP-447).
    """
    is_empty = group.state is GroupState.EMPTY
    if is_empty and committer.generation_id < 0:
        return ErrorCode.NONE
    if committer.is_member:
        error = _check_member(group, committer)
        if error:
            return error
    elif not is_transactional and not is_empty:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_member(group: GroupMembers, committer: Committer) -> ErrorCode:
    """`ClassicGroup.validateMember`, then the generation."""
    if committer.group_instance_id is not None:
        holder = group.static_members.get(committer.group_instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != committer.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if committer.member_id not in group.member_ids:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if committer.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def check_epoch_committer(
    group: ConsumerGroup,
    committer: Committer,
    places: Iterable[TopicIdPartition],
    api_version: int,
    *,
    is_transactional: bool,
) -> ErrorCode:
    """Check a commit of these partitions to a consumer group; its generation is an epoch."""
    epoch = committer.generation_id
    if epoch < 0 and (not group.members or (is_transactional and not committer.is_member)):
        return ErrorCode.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    if not is_transactional and not is_classic and api_version < MEMBER_EPOCH_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    had_since = {**member.revoking, **member.assigned}
    is_old = epoch < member.epoch and all(epoch >= had_since.get(p, epoch + 1) for p in places)
    if epoch == member.epoch or is_old:
        return ErrorCode.NONE
    # `OffsetMetadataManager.commitTransactionalOffset`: producers know no epochs of members.
    return ErrorCode.ILLEGAL_GENERATION if is_transactional else _wrong_epoch(member)


def _wrong_epoch(member: ConsumerGroupMember) -> ErrorCode:
    """To a member of the classic protocol its epoch is a generation."""
    return ErrorCode.ILLEGAL_GENERATION if member.classic else ErrorCode.STALE_MEMBER_EPOCH


def check_fetcher(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Check who fetches offsets of a consumer group; without a member it is an administrator."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    if member_id is None:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # QUIRK: Kafka looks a member up that is null
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else _wrong_epoch(member)
