"""Transactions in the abstract: the output partition, and the progress of each member's
transaction.

This module takes the place of `model.transactions`, in the manner of its abstract specification,
`model.transactions.spec`. That the protocol keeps to that specification is no subject of this
composition.

Theory of operation. One step decides a whole transaction. Its transactional id is busy until all
partitions have their markers, the group's offsets among them. Outside of transactions, a record is
committed as soon as it is written.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from model.language import AtMost, Map, acts, record, require
from model.processing.configuration import Configuration
from model.processing.messages import Fate, InputOffset, Member


class Progress(IntEnum):
    """The progress of one member's transaction."""

    NONE = 0
    OPEN = 1
    COMMITS = 2
    """Decided to commit; the group has not received the marker."""
    ABORTS = 3


@record
class Slot:
    """One record of the output: the output of one member for one record of the input."""

    input_offset: InputOffset
    member: Member
    fate: Fate


@record
class Store:
    """The output, and each member's transaction."""

    output: Annotated[tuple[Slot, ...], AtMost("output")]
    progress: Map[Member, Progress]


def is_prepared(progress: Progress) -> bool:
    """Whether the transaction is decided, and its markers are not delivered everywhere."""
    return progress == Progress.COMMITS or progress == Progress.ABORTS


def decided_fate(progress: Progress) -> Fate:
    """The decision that a prepared transaction's marker carries."""
    return Fate.COMMITTED if progress == Progress.COMMITS else Fate.ABORTED


@acts
def write(k: Configuration, store: Store, member: Member, offset: InputOffset) -> Store:
    """Write a record that is committed at once."""
    slot = Slot(input_offset=offset, member=member, fate=Fate.COMMITTED)
    return replace(store, output=(*store.output, slot))


@acts
def write_in_transaction(
    k: Configuration, store: Store, member: Member, offset: InputOffset
) -> Store:
    """Write a record, which begins the member's transaction once the one before is complete."""
    require(store.progress[member] == Progress.NONE)
    slot = Slot(input_offset=offset, member=member, fate=Fate.PENDING)
    ongoing = store.progress.put(member, Progress.OPEN)
    return replace(store, output=(*store.output, slot), progress=ongoing)


@acts
def decide(k: Configuration, store: Store, member: Member, fate: Fate) -> Store:
    """Decide the member's transaction, with all its records, in one step."""
    require(store.progress[member] == Progress.OPEN)
    commits = fate == Fate.COMMITTED
    prepared = Progress.COMMITS if commits else Progress.ABORTS
    return replace(
        store,
        output=tuple(
            replace(s, fate=fate) if s.member == member and s.fate == Fate.PENDING else s
            for s in store.output
        ),
        progress=store.progress.put(member, prepared),
    )


@acts
def complete(k: Configuration, store: Store, member: Member) -> Store:
    """Complete the transaction: all partitions have their markers, and the id is free."""
    require(is_prepared(store.progress[member]))
    return replace(store, progress=store.progress.put(member, Progress.NONE))
