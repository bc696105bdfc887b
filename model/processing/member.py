"""One member: a loop of consuming, transforming and producing.

Theory of operation. A member joins, reads the group's offset, and then processes record after
record without looking back: whether it still is the group's member it learns only from answers. A
member in the middle of a record neither joins nor polls; it may sleep there for any time.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.language import acts, receives, record, require
from model.processing.configuration import Configuration, Processing
from model.processing.messages import NO_OFFSET, Error, Generation, InputOffset, InputOffsetOrNone


class Phase(IntEnum):
    """How far the loop is."""

    DOWN = 0
    UP = 1
    """It belongs to no generation that it knows of."""
    ASSIGNED = 2
    """The partition is its own; it does not know yet where to begin."""
    READY = 3
    """The record at its position is next."""
    PRODUCED = 4
    """What it made of the record is written; the offset is not committed."""
    OFFSET_SENT = 5
    """The offset is committed, or waits for its transaction; the record is not done with."""


@record
class MemberState:
    """`position` is the next record, `is_fenced` whether its transactional id is someone else's
    by now, or its transaction has lasted too long: it learns that from its next request."""

    phase: Phase
    generation: Generation
    position: InputOffsetOrNone
    is_fenced: bool


DOWN = MemberState(phase=Phase.DOWN, generation=0, position=NO_OFFSET, is_fenced=False)


def is_transactional(k: Configuration) -> bool:
    """It works in transactions."""
    return k.variant.processing == Processing.TRANSACTION


def is_waiting_for_work(member: MemberState) -> bool:
    """It is between two records, and polls."""
    return member.phase == Phase.UP or member.phase == Phase.ASSIGNED or member.phase == Phase.READY


@acts
def start(k: Configuration, member: MemberState) -> MemberState:
    """The process comes up."""
    require(member.phase == Phase.DOWN)
    return replace(DOWN, phase=Phase.UP)


@acts
def join(k: Configuration, member: MemberState, generation: Generation) -> MemberState:
    """The group gives it the partition, in a new generation."""
    require(is_waiting_for_work(member))
    return replace(member, phase=Phase.ASSIGNED, generation=generation, position=NO_OFFSET)


@receives
def on_offset_fetched(
    k: Configuration, member: MemberState, offset: InputOffsetOrNone
) -> MemberState:
    """It begins where the group is; while that is not stable it asks again."""
    require(member.phase == Phase.ASSIGNED)
    require(offset != NO_OFFSET)
    return replace(member, phase=Phase.READY, position=offset)


@acts
def produce(k: Configuration, member: MemberState) -> MemberState:
    """What it made of the record is written."""
    if k.variant.processing == Processing.COMMIT_FIRST:
        require(member.phase == Phase.OFFSET_SENT)
        return done(member)
    require(member.phase == Phase.READY)
    require(member.position < k.bounds.inputs)
    return replace(member, phase=Phase.PRODUCED)


def next_offset(k: Configuration, member: MemberState) -> InputOffset:
    """The offset that it commits next: behind the record that it works on."""
    require(
        member.phase == Phase.READY
        if k.variant.processing == Processing.COMMIT_FIRST
        else member.phase == Phase.PRODUCED
    )
    require(member.position < k.bounds.inputs)
    return member.position + 1


@receives
def on_offset_committed(k: Configuration, member: MemberState, error: Error) -> MemberState:
    """An error makes it leave the record as it is, and join again."""
    if error != Error.NONE:
        return left(member)
    if k.variant.processing == Processing.PRODUCE_FIRST:
        return done(member)
    return replace(member, phase=Phase.OFFSET_SENT)


@acts
def commit(k: Configuration, member: MemberState) -> MemberState:
    """Its transaction is to be committed."""
    require(is_transactional(k))
    require(member.phase == Phase.OFFSET_SENT)
    return done(member)


def done(member: MemberState) -> MemberState:
    """The record is done with, as far as the member knows."""
    return replace(member, phase=Phase.READY, position=member.position + 1)


def left(member: MemberState) -> MemberState:
    """It is not the group's member any more."""
    return replace(member, phase=Phase.UP, position=NO_OFFSET)
