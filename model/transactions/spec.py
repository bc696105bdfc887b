"""What a user believes in: the whole of transactions on one page.

Each partition is a row of slots. Writing makes a pending slot at its end. One step decides all
slots of a transaction together, everywhere: committed if its application asked for that, or
aborted. A decision is for ever, and nothing joins a transaction that is decided. A reader of
committed records sees a growing part of the row, up to the first pending slot; how fast it grows
is each partition's own affair.

`view` says which of these rows a world of the protocol stands for, `is_step` what may happen to
them; that every step of the protocol is one of these, or changes nothing, is what
`python -m proofs refine` checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from model.language import AtMost, Map, record
from model.transactions.client import Outcome
from model.transactions.coordinator import TransactionState
from model.transactions.leader import Kind, Leader, last_stable_offset
from model.transactions.messages import Instance, Offset, Partition, Transaction, WriteNumber
from model.transactions.promises import asked_to_commit, is_aborted, is_committed
from model.transactions.setting import Setting
from model.transactions.world import World


class Fate(IntEnum):
    """What has been decided of a slot."""

    PENDING = 0
    COMMITTED = 1
    ABORTED = 2


@record
class Slot:
    """One record, and its transaction's fate."""

    instance: Instance
    transaction: Transaction
    number: WriteNumber
    fate: Fate


@record
class Row:
    """One partition; `readable` slots are open to readers of committed records."""

    slots: Annotated[tuple[Slot, ...], AtMost("log")]
    readable: Offset


@record
class View:
    """All that a user knows of: the rows, and what applications asked for."""

    rows: Map[Partition, Row]
    outcomes: Map[Instance, Map[Transaction, Outcome]]


# What a world stands for


def decided_fate(w: World, partition: Partition, leader: Leader, offset: int) -> Fate:
    """By the marker behind it; before that by the coordinator, which has prepared the end."""
    metadata = w.coordinator.known.metadata
    stored = leader.log[offset]
    awaited = metadata.partitions[partition] and metadata.producer_id == stored.producer_id
    if is_committed(leader.log, offset):
        return Fate.COMMITTED
    if is_aborted(leader.log, offset):
        return Fate.ABORTED
    if awaited and metadata.state == TransactionState.PREPARE_COMMIT:
        return Fate.COMMITTED
    if awaited and metadata.state == TransactionState.PREPARE_ABORT:
        return Fate.ABORTED
    return Fate.PENDING


def row(k: Setting, w: World, partition: Partition, leader: Leader) -> Row:
    """One partition's records, without its markers and without other ids' records."""
    stable = last_stable_offset(k, leader)
    return Row(
        slots=tuple(
            Slot(
                instance=s.instance,
                transaction=s.transaction,
                number=s.number,
                fate=decided_fate(w, partition, leader, i),
            )
            for i, s in enumerate(leader.log)
            if s.kind == Kind.DATA
        ),
        readable=sum(1 for i, s in enumerate(leader.log) if s.kind == Kind.DATA and i < stable),
    )


def view(k: Setting, w: World) -> View:
    """The rows that a world stands for."""
    return View(
        rows=Map(tuple(row(k, w, p, leader) for p, leader in w.leaders.items())),
        outcomes=Map(tuple(client.outcomes for client in w.clients.values())),
    )


# What may happen


def is_of(slot: Slot, other: Slot) -> bool:
    """Both are of one transaction."""
    return slot.instance == other.instance and slot.transaction == other.transaction


def is_decided_slot(slot: Slot) -> bool:
    """Its fate will not change."""
    return slot.fate != Fate.PENDING


def only_grows(before: Row, after: Row) -> bool:
    """Slots stay where they are and what they are; the newest may be one more, and pending."""
    size = len(before.slots)
    return (
        len(after.slots) >= size
        and len(after.slots) <= size + 1
        and all(
            (
                s.number == before.slots[i].number
                and is_of(s, before.slots[i])
                and (s.fate == before.slots[i].fate or not is_decided_slot(before.slots[i]))
            )
            if i < size
            else not is_decided_slot(s)
            for i, s in enumerate(after.slots)
        )
    )


def is_readable(before: Row, after: Row) -> bool:
    """Readers see ever more, and nothing that is pending."""
    return after.readable >= before.readable and all(
        i >= after.readable or is_decided_slot(s) for i, s in enumerate(after.slots)
    )


def is_decided_whole(after: View, slot: Slot) -> bool:
    """All slots of a decided transaction have one fate."""
    return all(
        all(not is_of(s, slot) or s.fate == slot.fate for s in row.slots)
        for row in after.rows.values()
    )


def has_cause(after: View, slot: Slot) -> bool:
    """What is committed was to be committed."""
    asked = after.outcomes[slot.instance][slot.transaction]
    return slot.fate != Fate.COMMITTED or asked_to_commit(asked)


def is_kept(after: View, slot: Slot) -> bool:
    """What the application was told is so."""
    told = after.outcomes[slot.instance][slot.transaction]
    committed = told != Outcome.COMMITTED or slot.fate == Fate.COMMITTED
    return committed and (told != Outcome.ABORTED or slot.fate == Fate.ABORTED)


def is_step(before: View, after: View) -> bool:
    """A user may see `after` follow `before`."""
    return all(
        only_grows(before.rows[p], row)
        and is_readable(before.rows[p], row)
        and all(
            not is_decided_slot(s) or (is_decided_whole(after, s) and has_cause(after, s))
            for s in row.slots
        )
        and all(is_kept(after, s) for s in row.slots)
        for p, row in after.rows.items()
    )


# What it takes


@dataclass(frozen=True, slots=True)
class Assumption:
    """What the page needs of the protocol, and a setting that lacks it."""

    name: str
    says: str
    scope: str
    variant: str


ASSUMPTIONS: dict[str, Assumption] = {
    assumption.name: assumption
    for assumption in (
        Assumption(
            "epoch_for_each_transaction",
            "a late EndTxn is known by its epoch: V2, or no EndTxn is late (KAFKA-17754)",
            "transactions-default",
            "4.3.1/level=2/requests=v1",
        ),
        Assumption(
            "writes_are_verified",
            "a leader asks before the first write of a transaction (KIP-890)",
            "transactions-offsets",
            "3.3.2",
        ),
        Assumption(
            "marker_epochs_are_newer",
            "a marker has a newer epoch than what it ends, or ends nothing (KIP-1228)",
            "transactions-markers",
            "4.1.2/level=2/requests=v2",
        ),
        Assumption(
            "fences_take_an_epoch",
            "a coordinator that ends a transaction of itself takes the next epoch (KAFKA-6119)",
            "transactions-small/delays=0/moves=0",
            "4.3.1/level=2/requests=v1/fence=same_epoch",
        ),
        Assumption(
            "last_epoch_rotates",
            "nobody writes under the protocol's last epoch (KAFKA-20090)",
            "transactions-exhausted",
            "4.0.2/level=2/requests=v2",
        ),
    )
}
