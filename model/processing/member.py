"""One member: a loop that consumes, transforms and produces.

Models an application that uses a `KafkaConsumer` and a `KafkaProducer`, one record at a time.
Batches of records and the consumer's own fetching are left out.

Theory of operation. A member joins the group, fetches the group's offset, and then processes one
record after another. Only the answers to its requests tell it that the group has replaced it. In
the middle of a record it neither joins nor polls, and it may pause there for any length of time.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.language import acts, receives, record, require
from model.processing.configuration import Configuration, Processing
from model.processing.messages import NO_OFFSET, Error, Generation, InputOffset, InputOffsetOrNone


class Phase(IntEnum):
    """How far the member's loop is."""

    DOWN = 0
    UP = 1
    """The member belongs to no generation that it knows of."""
    ASSIGNED = 2
    """The partition is assigned to the member, which does not know yet where to begin."""
    READY = 3
    """The record at the member's position is next."""
    PRODUCED = 4
    """The member has written its output for the record; the offset is not committed."""
    OFFSET_SENT = 5
    """The offset is committed, or pending in the transaction; the record is not finished."""


@record
class MemberState:
    """One member. `position` is the next record. `is_fenced` says that another member has taken the
    transactional id, or that the member's transaction has timed out; the member learns of it from
    its next request."""

    phase: Phase
    generation: Generation
    position: InputOffsetOrNone
    is_fenced: bool


DOWN = MemberState(phase=Phase.DOWN, generation=0, position=NO_OFFSET, is_fenced=False)


def is_transactional(k: Configuration) -> bool:
    """Whether members work in transactions."""
    return k.variant.processing == Processing.TRANSACTION


def is_waiting_for_work(member: MemberState) -> bool:
    """Whether the member is between two records, and polls."""
    return member.phase == Phase.UP or member.phase == Phase.ASSIGNED or member.phase == Phase.READY


@acts
def start(k: Configuration, member: MemberState) -> MemberState:
    """Start the process."""
    require(member.phase == Phase.DOWN)
    return replace(DOWN, phase=Phase.UP)


@acts
def join(k: Configuration, member: MemberState, generation: Generation) -> MemberState:
    """Take the partition, in a new generation of the group."""
    require(is_waiting_for_work(member))
    return replace(member, phase=Phase.ASSIGNED, generation=generation, position=NO_OFFSET)


@receives
def on_offset_fetched(
    k: Configuration, member: MemberState, offset: InputOffsetOrNone
) -> MemberState:
    """Begin at the group's offset; while the offset is not stable, the member asks again."""
    require(member.phase == Phase.ASSIGNED)
    require(offset != NO_OFFSET)
    return replace(member, phase=Phase.READY, position=offset)


@acts
def produce(k: Configuration, member: MemberState) -> MemberState:
    """Write the output for the record."""
    if k.variant.processing == Processing.COMMIT_FIRST:
        require(member.phase == Phase.OFFSET_SENT)
        return done(member)
    require(member.phase == Phase.READY)
    require(member.position < k.bounds.inputs)
    return replace(member, phase=Phase.PRODUCED)


def next_offset(k: Configuration, member: MemberState) -> InputOffset:
    """The offset that the member commits next: the one after the record that it works on."""
    require(
        member.phase == Phase.READY
        if k.variant.processing == Processing.COMMIT_FIRST
        else member.phase == Phase.PRODUCED
    )
    require(member.position < k.bounds.inputs)
    return member.position + 1


@receives
def on_offset_committed(k: Configuration, member: MemberState, error: Error) -> MemberState:
    """Go on after the answer to an offset commit; after an error, leave the record unfinished and
    join again."""
    if error != Error.NONE:
        return left(member)
    if k.variant.processing == Processing.PRODUCE_FIRST:
        return done(member)
    return replace(member, phase=Phase.OFFSET_SENT)


@acts
def commit(k: Configuration, member: MemberState) -> MemberState:
    """Commit the transaction."""
    require(is_transactional(k))
    require(member.phase == Phase.OFFSET_SENT)
    return done(member)


def done(member: MemberState) -> MemberState:
    """The member, which has finished the record as far as it knows."""
    return replace(member, phase=Phase.READY, position=member.position + 1)


def left(member: MemberState) -> MemberState:
    """The member, which no longer belongs to the group."""
    return replace(member, phase=Phase.UP, position=NO_OFFSET)
