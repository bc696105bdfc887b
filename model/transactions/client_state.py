"""The state of one instance's transaction manager and sender: transactions, and each partition.

Models the fields of `TransactionManager`, `TxnPartitionEntry` and `ProducerBatch` that the rules in
`client.py` and `sender.py` read.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from model.language import AtMost, Map, record
from model.transactions.configuration import Configuration
from model.transactions.messages import (
    EpochOrNone,
    Partition,
    ProducerIdOrNone,
    Sequence,
    Transaction,
    TransactionCount,
    WriteCount,
    WriteNumber,
    is_of_group,
)


class ClientState(IntEnum):
    """The states of a transaction manager. TransactionManager.State."""

    UNINITIALIZED = 0
    INITIALIZING = 1
    READY = 2
    IN_TRANSACTION = 3
    COMMITTING = 4
    ABORTING = 5
    ABORTABLE_ERROR = 6
    FATAL_ERROR = 7


class Membership(IntEnum):
    """Whether a partition is in the client's transaction."""

    OUT = 0
    NEW = 1
    """The client must add the partition before it writes there."""
    ASKED = 2
    """A request to add the partition was sent; it is repeated until it is answered."""
    IN = 3


class Write(IntEnum):
    """The state of the newest batch that the client has for a partition."""

    NONE = 0
    QUEUED = 1
    SENT = 2
    """The batch has its sequence, and no final answer."""


class Outcome(IntEnum):
    """The end that the application has asked of a transaction, and whether it was told that the end
    is done."""

    OPEN = 0
    COMMIT_ASKED = 1
    COMMITTED = 2
    ABORT_ASKED = 3
    ABORTED = 4


@record
class InFlightBatch:
    """A batch that was sent and is not finished, with newer ones behind it. It `is_overtaken` if a
    newer one was acknowledged."""

    base_sequence: Sequence
    number: WriteNumber
    is_overtaken: bool


@record
class ClientPartition:
    """One partition as the client sees it.

    `write` is the state of the newest batch; the `earlier` batches in flight were sent before it,
    the oldest first. After a broken connection the client `must_resend` the batches in flight
    before it sends a new one. The partition `has_gap` if a batch before the next one was given up,
    and either the epoch stays or other batches are in flight. It `is_unresolved` while batches are
    in flight behind one that was given up while it waited to be sent again. `sent` counts, for each
    transaction, the records that the application has sent, which its commit must contain.
    """

    membership: Membership
    write: Write
    earlier: Annotated[tuple[InFlightBatch, ...], AtMost("earlier")]
    must_resend: bool
    is_unresolved: bool
    next_sequence: Sequence
    has_gap: bool
    written: WriteCount
    sent: Map[Transaction, WriteCount]


@record
class Client:
    """One instance. `begun` transactions have begun; the last of them is the present one. The
    transaction `is_started` if the coordinator may know of it; only EndTxn can then end it. The
    client `must_bump` if it needs the next epoch. If it learned this `too_late`, during an abort,
    it stays in INITIALIZING, and never asks for the epoch."""

    state: ClientState
    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone
    begun: TransactionCount
    is_started: bool
    must_bump: bool
    too_late: bool
    partitions: Map[Partition, ClientPartition]
    outcomes: Map[Transaction, Outcome]


# Batches in flight


def pipelines(k: Configuration) -> bool:
    """Whether several batches of a partition may be in flight."""
    return k.bounds.in_flight > 1


def in_flight(there: ClientPartition) -> tuple[InFlightBatch, ...]:
    """The batches that were sent and are not finished, the oldest first."""
    if there.write != Write.SENT:
        return there.earlier
    newest = InFlightBatch(
        base_sequence=there.next_sequence - 1, number=there.written - 1, is_overtaken=False
    )
    return (*there.earlier, newest)


def is_sent(there: ClientPartition) -> bool:
    """Whether a batch was sent and is not finished."""
    return there.write == Write.SENT or len(there.earlier) > 0


def is_unfinished(there: ClientPartition) -> bool:
    """Whether a batch is queued or in flight."""
    return there.write != Write.NONE or len(there.earlier) > 0


def has_room(k: Configuration, partition: Partition, there: ClientPartition) -> bool:
    """Whether one more batch may follow. A commit of offsets must be the only one."""
    if not pipelines(k) or is_of_group(k, partition) or there.write != Write.SENT:
        return there.write == Write.NONE
    return len(in_flight(there)) < k.bounds.in_flight
