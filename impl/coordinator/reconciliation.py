"""A member on its way to its target: it revokes first, and only then gets what is new.

Three rules:

1. A member that has to give up partitions stays in its epoch until it no longer reports them.
2. Then it takes the target's epoch, with those new partitions that no other member has.
3. A topic that the member does not read any more counts as outside its target.

Source: `CurrentAssignmentBuilder`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from impl.coordinator.consumer_group import ConsumerGroupMember, ReconciliationState
from impl.protocol.fields import TopicIdPartition

_State = ReconciliationState


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a member's next step depends on.

    `target`, made for `epoch`; `topic_ids` that the member reads; `owners` of partitions by member
    id; `owned`, the partitions that it reports, None if it reports none.
    """

    epoch: int
    target: Collection[TopicIdPartition]
    topic_ids: Collection[bytes]
    owners: Mapping[TopicIdPartition, str]
    owned: Collection[TopicIdPartition] | None

    def step(self, member: ConsumerGroupMember, *, is_resubscribed: bool) -> ConsumerGroupMember:
        """The member as it is next; itself if it has to wait."""
        if member.state is _State.STABLE and member.epoch == self.epoch:
            return self._drop_unread(member) if is_resubscribed else member
        has_to_revoke = member.state is _State.UNREVOKED_PARTITIONS
        if has_to_revoke and self._still_has(member.revoking):
            return self._drop_unread(member) if is_resubscribed else member
        return self._advance(member)

    def _still_has(self, places: Collection[TopicIdPartition]) -> bool:
        return self.owned is None or any(place in places for place in self.owned)

    def _drop_unread(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Take topics away that it does not read any more. `updateCurrentAssignment`."""
        kept = {p: e for p, e in member.assigned.items() if p[0] in self.topic_ids}
        if len(kept) == len(member.assigned):
            return member
        dropped = {p: e for p, e in member.assigned.items() if p not in kept}
        revoking = {**member.revoking, **dropped}
        member = _enter(member, member.epoch, assigned=kept)
        if not self._still_has(revoking):
            return member
        return member._replace(state=_State.UNREVOKED_PARTITIONS, revoking=revoking)

    def _advance(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """`computeNextAssignment`."""
        target = {place for place in self.target if place[0] in self.topic_ids}
        kept = {place: epoch for place, epoch in member.assigned.items() if place in target}
        revoking = {place: e for place, e in member.assigned.items() if place not in target}
        if revoking and self._still_has(revoking):
            state = _State.UNREVOKED_PARTITIONS
            return _enter(member, member.epoch, state=state, assigned=kept, revoking=revoking)
        mine = (None, member.member_id)
        free = {place for place in target - kept.keys() if self.owners.get(place) in mine}
        is_whole = len(kept) + len(free) == len(target)
        state = _State.STABLE if is_whole else _State.UNRELEASED_PARTITIONS
        assigned = kept | dict.fromkeys(sorted(free), self.epoch)
        return _enter(member, self.epoch, state=state, assigned=assigned, revoking={})


def _enter(member: ConsumerGroupMember, epoch: int, **changes: Any) -> ConsumerGroupMember:
    """The member in an epoch, its own or the next. `updateMemberEpoch`."""
    return member._replace(epoch=epoch, previous_epoch=member.epoch, **changes)
