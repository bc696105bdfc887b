"""The group coordinator: who consumes, and how far the group has come.

Theory of operation. Whoever joins begins a generation; a member that was replaced learns of it only
when it asks something. An offset that is committed in a transaction is pending until the
transaction's marker comes; until then the offset before it is the group's.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Map, Step, acts, receives, record
from model.processing.configuration import Configuration, GenerationCheck, OffsetReads
from model.processing.messages import (
    NO_OFFSET,
    Error,
    Fate,
    Generation,
    InputOffset,
    InputOffsetOrNone,
    Member,
)


@record
class Group:
    """`pending` are the offsets of open and of undelivered transactions, by who began them."""

    generation: Generation
    committed: InputOffset
    pending: Map[Member, InputOffsetOrNone]


@acts
def begin_generation(k: Configuration, group: Group) -> Group:
    """Somebody joins. ClassicGroup.initNextGeneration."""
    return replace(group, generation=group.generation + 1)


@receives
def on_offset_commit(
    k: Configuration, group: Group, generation: Generation, offset: InputOffset
) -> Step[Group, Error]:
    """OffsetCommit, outside of transactions: always checked. OffsetMetadataManager."""
    if generation != group.generation:
        return Step(group, (Error.ILLEGAL_GENERATION,))
    return Step(replace(group, committed=offset), (Error.NONE,))


@receives
def on_txn_offset_commit(
    k: Configuration, group: Group, member: Member, generation: Generation, offset: InputOffset
) -> Step[Group, Error]:
    """TxnOffsetCommit. OffsetMetadataManager.validateTransactionalOffsetCommit."""
    if k.variant.generation_check == GenerationCheck.CHECKED and generation != group.generation:
        return Step(group, (Error.ILLEGAL_GENERATION,))
    return Step(replace(group, pending=group.pending.put(member, offset)), (Error.NONE,))


def fetched_offset(k: Configuration, group: Group) -> InputOffsetOrNone:
    """OffsetFetch: UNSTABLE_OFFSET_COMMIT, which is none here, while an offset is pending, where
    `require_stable` is known. OffsetMetadataManager.fetchOffsets."""
    awaited = any(offset != NO_OFFSET for offset in group.pending.values())
    is_unstable = awaited and k.variant.offset_reads == OffsetReads.STABLE
    return NO_OFFSET if is_unstable else group.committed


@receives
def on_marker(k: Configuration, group: Group, member: Member, fate: Fate) -> Group:
    """A transaction's marker. OffsetMetadataManager.replayEndTransactionMarker."""
    offset = group.pending[member]
    moves = fate == Fate.COMMITTED and offset != NO_OFFSET
    return replace(
        group,
        committed=offset if moves else group.committed,
        pending=group.pending.put(member, NO_OFFSET),
    )
