"""What the transaction manager of one instance knows: of transactions, and of each partition."""

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
    """TransactionManager.ClientState."""

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
    """To be added before anything is written there."""
    ASKED = 2
    """A request to add it was sent, and will be again until it is answered."""
    IN = 3


class Write(IntEnum):
    """The newest batch that the client has for a partition."""

    NONE = 0
    QUEUED = 1
    SENT = 2
    """It has its sequence, and no answer that settles it."""


class Outcome(IntEnum):
    """What the application asked for a transaction, and whether it was told that it is done."""

    OPEN = 0
    COMMIT_ASKED = 1
    COMMITTED = 2
    ABORT_ASKED = 3
    ABORTED = 4


@record
class InFlightBatch:
    """A batch that was sent and is not finished, with newer ones behind it. One that `is_overtaken`
    waits although a newer one was acknowledged."""

    base_sequence: Sequence
    number: WriteNumber
    is_overtaken: bool


@record
class ClientPartition:
    """One partition as the client sees it. It `has_gap` when the batch before the next one was
    given up and the epoch stays, or others are in flight. `sent` counts, for each transaction, the
    records that the application has sent: what its commit must hold.

    `write` is what the newest batch is at; the `earlier` ones in flight were sent before it, the
    oldest first. The client `must_resend` what is in flight when the connection broke, before
    anything new goes out. The partition `is_unresolved` while batches are in flight behind one that
    was given up while it waited to be sent again."""

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
    """One instance. `begun` transactions have begun; the last of them is the present one. It
    `is_started` when the coordinator may know of it; then only EndTxn ends it. What it found in an
    abort's way it `must_bump` for `too_late`: the state says INITIALIZING after that, and nobody
    asks for an epoch."""

    state: ClientState
    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone
    begun: TransactionCount
    is_started: bool
    must_bump: bool
    too_late: bool
    partitions: Map[Partition, ClientPartition]
    outcomes: Map[Transaction, Outcome]


# What is in flight


def pipelines(k: Configuration) -> bool:
    """Several batches of a partition may be in flight."""
    return k.bounds.in_flight > 1


def in_flight(there: ClientPartition) -> tuple[InFlightBatch, ...]:
    """What was sent and is not finished, the oldest first."""
    if there.write != Write.SENT:
        return there.earlier
    newest = InFlightBatch(
        base_sequence=there.next_sequence - 1, number=there.written - 1, is_overtaken=False
    )
    return (*there.earlier, newest)


def is_sent(there: ClientPartition) -> bool:
    """A batch was sent, and is not finished."""
    return there.write == Write.SENT or len(there.earlier) > 0


def is_unfinished(there: ClientPartition) -> bool:
    """A batch is queued, or in flight."""
    return there.write != Write.NONE or len(there.earlier) > 0


def has_room(k: Configuration, partition: Partition, there: ClientPartition) -> bool:
    """One more batch may follow: as many as may be in flight; of offsets there is one."""
    if not pipelines(k) or is_of_group(k, partition) or there.write != Write.SENT:
        return there.write == Write.NONE
    return len(in_flight(there)) < k.bounds.in_flight
