"""When committed offsets expire, and when a group goes with its last offset.

Five rules:

1. An offset expires when its retention has passed since its commit; in an empty group that had
   members, since the last of them left, whenever it was committed. One whose commit says when it
   expires (OffsetCommit 2 to 4) goes by that.
2. Offsets of topics to which members subscribe stay. So do all of a classic group that rebalances,
   and of one whose members are no consumers, or whose subscriptions cannot be read.
3. An offset stays while a transaction is open that commits another one for its partition.
4. An empty group goes, also one that never had an offset, when none is left and no transaction is
   open that commits to it.
5. QUIRK: in an empty consumer group (KIP-848) retention begins with the commit, too.

Theory of operation: what is found here changes nothing; `offsets` makes the tombstones, and who
appends them forgets the group.
Sources: KIP-211; `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl`,
`ClassicGroup.offsetExpirationCondition`, `GroupMetadataManager.maybeDeleteGroup`; release 4.3.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.consumer_group import ConsumerGroup
from impl.coordinator.offsets_groups import GroupState
from impl.coordinator.offsets_records import NO_EXPIRY, CommittedOffset, OffsetKey
from impl.coordinator.offsets_state import GroupOffsets
from impl.protocol.consumer_protocol import CONSUMER_PROTOCOL


class ExpiredGroup(NamedTuple):
    """What has expired of a group: these offsets; `is_dead`: the group itself, too."""

    group_id: str
    offsets: tuple[OffsetKey, ...]
    is_dead: bool


def find_expired(
    offsets: GroupOffsets, classic: Mapping[str, ClassicGroup], now_ms: int, retention_ms: int
) -> list[ExpiredGroup]:
    """What has expired of one partition's groups, by id; `classic` are those that were joined."""
    committed = _by_group(offsets.committed)
    pending = set[OffsetKey]().union(*offsets.pending.values())
    open_groups = {key.group_id for key in pending}
    found = []
    for group_id in sorted(offsets.groups):
        group = offsets.consumer_groups.get(group_id) or classic.get(group_id)
        group = group or ClassicGroup(group_id)
        mine = committed.get(group_id, {})
        gone = tuple(sorted(_expired_of(group, mine, now_ms, retention_ms) - pending))
        has_offsets = len(gone) < len(mine) or group_id in open_groups
        is_dead = group.is_empty and not has_offsets
        if gone or is_dead:
            found.append(ExpiredGroup(group_id, gone, is_dead))
    return found


def _by_group(
    committed: Mapping[OffsetKey, CommittedOffset],
) -> Mapping[str, Mapping[OffsetKey, CommittedOffset]]:
    found: dict[str, dict[OffsetKey, CommittedOffset]] = defaultdict(dict)
    for key, each in committed.items():
        found[key.group_id][key] = each
    return found


def _expired_of(
    group: ClassicGroup | ConsumerGroup,
    committed: Mapping[OffsetKey, CommittedOffset],
    now_ms: int,
    retention_ms: int,
) -> set[OffsetKey]:
    subscribed = group.subscribed_topics
    return {
        key
        for key, each in committed.items()
        if subscribed is not None
        and key.topic not in subscribed
        and _has_expired(group, each, now_ms, retention_ms)
    }


def _has_expired(
    group: ClassicGroup | ConsumerGroup, committed: CommittedOffset, now_ms: int, retention_ms: int
) -> bool:
    since_ms = _retained_since(group, committed)
    if since_ms is None:
        return False
    expires_ms = since_ms + retention_ms
    if committed.expire_timestamp_ms != NO_EXPIRY:
        expires_ms = committed.expire_timestamp_ms
    return now_ms >= expires_ms


def _retained_since(group: ClassicGroup | ConsumerGroup, committed: CommittedOffset) -> int | None:
    """When the retention of an offset began; None if it does not, as the group is now."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        emptied_ms = group.state_timestamp_ms
        return committed.commit_timestamp_ms if emptied_ms is None else emptied_ms
    is_settled = group.protocol_type == CONSUMER_PROTOCOL and group.state is GroupState.STABLE
    return committed.commit_timestamp_ms if is_settled else None
