"""The group coordinator: the current generation, and the group's offset.

Models `ClassicGroup` and `OffsetMetadataManager` for a group that reads one partition. How members
are assigned is left out: a member that joins gets the partition. Sessions and heartbeats are left
out as well.

Theory of operation. A member that joins begins a new generation. A member that was replaced learns
of it only from the answer to its next request. An offset that is committed in a transaction is
pending until the transaction's marker arrives; until then the group keeps its former offset.
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
    """One group. `pending` holds the offsets of transactions whose marker has not arrived, by the
    member that began them."""

    generation: Generation
    committed: InputOffset
    pending: Map[Member, InputOffsetOrNone]


@acts
def begin_generation(k: Configuration, group: Group) -> Group:
    """Begin a generation, because a member joins. ClassicGroup.initNextGeneration."""
    return replace(group, generation=group.generation + 1)


@receives
def on_offset_commit(
    k: Configuration, group: Group, generation: Generation, offset: InputOffset
) -> Step[Group, Error]:
    """Handle OffsetCommit, outside of transactions: the generation is always checked.
    OffsetMetadataManager."""
    if generation != group.generation:
        return Step(group, (Error.ILLEGAL_GENERATION,))
    return Step(replace(group, committed=offset), (Error.NONE,))


@receives
def on_txn_offset_commit(
    k: Configuration, group: Group, member: Member, generation: Generation, offset: InputOffset
) -> Step[Group, Error]:
    """Handle TxnOffsetCommit. OffsetMetadataManager.validateTransactionalOffsetCommit."""
    if k.variant.generation_check == GenerationCheck.CHECKED and generation != group.generation:
        return Step(group, (Error.ILLEGAL_GENERATION,))
    return Step(replace(group, pending=group.pending.put(member, offset)), (Error.NONE,))


def fetched_offset(k: Configuration, group: Group) -> InputOffsetOrNone:
    """The answer to OffsetFetch. While an offset is pending, a member that requires stable offsets
    gets UNSTABLE_OFFSET_COMMIT, here NO_OFFSET. OffsetMetadataManager.fetchOffsets."""
    awaited = any(offset != NO_OFFSET for offset in group.pending.values())
    is_unstable = awaited and k.variant.offset_reads == OffsetReads.STABLE
    return NO_OFFSET if is_unstable else group.committed


@receives
def on_marker(k: Configuration, group: Group, member: Member, fate: Fate) -> Group:
    """Apply a transaction's marker. OffsetMetadataManager.replayEndTransactionMarker."""
    offset = group.pending[member]
    moves = fate == Fate.COMMITTED and offset != NO_OFFSET
    return replace(
        group,
        committed=offset if moves else group.committed,
        pending=group.pending.put(member, NO_OFFSET),
    )
