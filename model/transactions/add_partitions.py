"""AddPartitionsToTxn: adding partitions to a transaction, and verifying that one is in it.

Models `TransactionCoordinator.handleAddPartitionsToTransaction` and
`handleVerifyPartitionsInTransaction`; the leader's side, `AddPartitionsToTxnManager`, is in
`leader.py`.

Theory of operation. With V1 a client adds each partition before it writes there, and a leader asks
the coordinator whether this was done. With V2 the leader's own request adds the partition
(`on_add_partitions` serves both). A transaction begins with its first partition.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Map, Step, receives
from model.transactions.configuration import Configuration, Pending
from model.transactions.coordinator import (
    Coordinator,
    Known,
    Metadata,
    TransactionState,
    absence,
    answered,
    changed,
    is_pending,
    is_prepared,
    previous_producer_id,
)
from model.transactions.messages import (
    NO_PRODUCER_ID,
    Answer,
    Error,
    Partition,
    Request,
    failed,
)


def check_producer(k: Configuration, c: Coordinator, request: Request) -> Error:
    """The error for a producer that does not own the transactional id, or whose id is busy.
    TransactionCoordinator.handleAddPartitionsToTransaction."""
    metadata = c.known.metadata
    first = k.variant.pending == Pending.BEFORE_PRODUCER
    if metadata.state == TransactionState.ABSENT:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if is_pending(c) and first:
        return Error.CONCURRENT_TRANSACTIONS
    if request.producer_id != metadata.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != metadata.producer_epoch:
        return Error.PRODUCER_FENCED
    busy = is_pending(c) or is_prepared(metadata)
    return Error.CONCURRENT_TRANSACTIONS if busy else Error.NONE


def has_all(metadata: Metadata, partitions: Map[Partition, bool]) -> bool:
    """Whether all of `partitions` are in the transaction."""
    return all(metadata.partitions[p] or not wanted for p, wanted in partitions.items())


def union(a: Map[Partition, bool], b: Map[Partition, bool]) -> Map[Partition, bool]:
    """The partitions of either set."""
    return Map(tuple(a[p] or there for p, there in b.items()))


def with_partitions(k: Configuration, c: Coordinator, partitions: Map[Partition, bool]) -> Known:
    """The state of an open transaction, with these partitions added."""
    return replace(
        c.known,
        metadata=replace(
            c.known.metadata,
            state=TransactionState.ONGOING,
            partitions=union(c.known.metadata.partitions, partitions),
        ),
        previous_producer_id=previous_producer_id(k, c),
        next_producer_id=NO_PRODUCER_ID,
    )


@receives
def on_add_partitions(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """Add the partitions to the transaction, and begin it if need be."""
    if absence(c) != Error.NONE:
        return answered(c, failed(absence(c)))
    error = check_producer(k, c, request)
    if error != Error.NONE:
        return answered(c, failed(error))
    metadata = c.known.metadata
    if metadata.state == TransactionState.ONGOING and has_all(metadata, request.partitions):
        return answered(c, failed(Error.NONE))
    image = with_partitions(k, c, request.partitions)
    return changed(k, c, image, requester, failed(Error.NONE))


@receives
def on_verify(k: Configuration, c: Coordinator, request: Request, partition: Partition) -> Error:
    """Say whether a partition is in the transaction; a pending append does not matter.
    TransactionCoordinator.handleVerifyPartitionsInTransaction."""
    if absence(c) != Error.NONE:
        return absence(c)
    metadata = c.known.metadata
    if metadata.state == TransactionState.ABSENT or request.producer_id != metadata.producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != metadata.producer_epoch:
        return Error.PRODUCER_FENCED
    if is_prepared(metadata):
        return Error.CONCURRENT_TRANSACTIONS
    return Error.NONE if metadata.partitions[partition] else Error.TRANSACTION_ABORTABLE
