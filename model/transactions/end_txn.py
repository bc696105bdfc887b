"""EndTxn: the answer in each state, and the end that it prepares.

Models `TransactionCoordinator.endTransaction`; the coordinator's other requests are in
`coordinator.py` and `add_partitions.py`.

Theory of operation. With V1 a transaction is known by its epoch alone, and the next transaction has
the same epoch. The coordinator therefore judges a request by the state that it meets. With V2 each
end takes the next epoch. A request with the epoch before is then known to be a retry (`is_retry`).
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.language import Map, Step, receives
from model.transactions.configuration import Configuration
from model.transactions.coordinator import (
    Coordinator,
    Known,
    Metadata,
    TransactionState,
    absence,
    answered,
    changed,
    completed,
    is_exhausted,
    is_pending,
    next_epoch,
    overflows,
    previous_producer_id,
    with_next_id_taken,
)
from model.transactions.messages import (
    NO_PRODUCER_ID,
    Answer,
    Error,
    Request,
    failed,
    speaks_v2,
)


class End(IntEnum):
    """The effect of EndTxn, and its answer."""

    PREPARE = 0
    """The end begins; the answer is NONE, once PREPARE is in the log."""
    DONE = 1
    """The end was done before: NONE."""
    CONCURRENT = 2
    """The end is in progress: CONCURRENT_TRANSACTIONS."""
    INVALID = 3
    """The state does not allow this end: INVALID_TXN_STATE."""
    FENCED = 4
    """The epoch does not allow this end: PRODUCER_FENCED."""
    UNKNOWN = 5
    """The id is not known: INVALID_PRODUCER_ID_MAPPING."""


P, D, C, I, F, U = tuple(End)  # noqa: E741

#       EMPTY ONGOING PREPARE_COMMIT PREPARE_ABORT COMPLETE_COMMIT COMPLETE_ABORT ABSENT


def ends_v1(committed: bool) -> Map[TransactionState, End]:
    """The effect of EndTxn of V1 in each state."""
    if committed:
        return Map((I, P, C, I, D, I, U))
    return Map((I, P, I, C, I, D, U))


def ends_v2(committed: bool) -> Map[TransactionState, End]:
    """The effect of EndTxn of V2 with the present epoch, in each state. A client cannot know
    whether the coordinator has heard of its transaction, so that an empty one is aborted as
    well."""
    if committed:
        return Map((I, P, F, F, I, I, U))
    return Map((P, P, F, F, P, P, U))


def ends_v2_again(committed: bool) -> Map[TransactionState, End]:
    """The effect of EndTxn of V2 with the previous epoch, in each state."""
    if committed:
        return Map((F, F, C, I, D, I, U))
    return Map((F, F, I, C, I, D, U))


def error_of(end: End) -> Error:
    """The error for an end that is not granted."""
    if end == End.CONCURRENT:
        return Error.CONCURRENT_TRANSACTIONS
    if end == End.INVALID:
        return Error.INVALID_TXN_STATE
    if end == End.FENCED:
        return Error.PRODUCER_FENCED
    return Error.INVALID_PRODUCER_ID_MAPPING


def is_retry(k: Configuration, c: Coordinator, request: Request) -> bool:
    """Whether the request has the epoch before: its end has already been prepared. KIP-890."""
    known = c.known
    bumped = (
        request.producer_id == known.metadata.producer_id
        and request.producer_epoch + 1 == known.metadata.producer_epoch
    )
    return bumped or is_retry_of_last(k, known, request)


def is_retry_of_last(k: Configuration, known: Known, request: Request) -> bool:
    """Whether the request has the last epoch of the previous producer id, and the next producer id
    has taken over."""
    return (
        known.previous_producer_id != NO_PRODUCER_ID
        and request.producer_id == known.previous_producer_id
        and k.bounds.epochs_end
        and request.producer_epoch == k.bounds.exhausted_epoch
        and known.metadata.producer_epoch == 0
    )


def end_v1(c: Coordinator, request: Request) -> End:
    """The effect of EndTxn of V1: the epoch is checked strictly, since 2.6, and then the state."""
    metadata = c.known.metadata
    if metadata.state == TransactionState.ABSENT or request.producer_id != metadata.producer_id:
        return End.UNKNOWN
    if request.producer_epoch != metadata.producer_epoch:
        return End.FENCED
    if is_pending(c):
        return End.CONCURRENT
    return ends_v1(request.committed)[metadata.state]


def end_v2(k: Configuration, c: Coordinator, request: Request) -> End:
    """The effect of EndTxn of V2. A pending transition is checked first, because the client may use
    a producer id that is not in force yet. KAFKA-18464."""
    metadata = c.known.metadata
    state = metadata.state
    retried = is_retry(k, c, request)
    if state == TransactionState.ABSENT:
        return End.UNKNOWN
    if is_pending(c):
        return End.CONCURRENT
    if request.producer_id != metadata.producer_id and not retried:
        return End.UNKNOWN
    if retried:
        return ends_v2_again(request.committed)[state]
    if request.producer_epoch != metadata.producer_epoch:
        return End.FENCED
    return ends_v2(request.committed)[state]


def prepared(k: Configuration, c: Coordinator, committed: bool) -> Known:
    """The state with PREPARE; V1 keeps the epoch. TransactionMetadata.prepareAbortOrCommit."""
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    metadata = replace(c.known.metadata, state=state)
    if not speaks_v2(k):
        return replace(
            c.known,
            metadata=metadata,
            previous_producer_id=previous_producer_id(k, c),
            next_producer_id=NO_PRODUCER_ID,
        )
    return prepared_with_next_epoch(k, c, metadata)


def prepared_with_next_epoch(k: Configuration, c: Coordinator, metadata: Metadata) -> Known:
    """The state with PREPARE of V2: the markers carry the next epoch; after the last epoch, the
    next producer id is taken."""
    epoch = metadata.producer_epoch
    rotates = is_exhausted(k, epoch)
    return Known(
        metadata=replace(metadata, producer_epoch=next_epoch(epoch)),
        last_producer_epoch=epoch,
        previous_producer_id=previous_producer_id(k, c),
        next_producer_id=c.given_producer_ids if rotates else NO_PRODUCER_ID,
    )


def ended_with(k: Configuration, image: Known) -> Answer:
    """The answer to an end that begins: NONE; with V2 also the id and epoch to use next, which are
    those of the complete transaction."""
    if not speaks_v2(k):
        return failed(Error.NONE)
    metadata = completed(k, image).metadata
    return Answer(
        error=Error.NONE,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
    )


def done_before(k: Configuration, c: Coordinator) -> Answer:
    """The answer to an end that was done before: NONE; with V2 also the coordinator's present id
    and epoch."""
    metadata = c.known.metadata
    if not speaks_v2(k):
        return failed(Error.NONE)
    return Answer(
        error=Error.NONE,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
    )


def preparing(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """Begin the end. If V2 finds no next epoch, the request fails, and the producer id that was
    taken for it is lost."""
    if speaks_v2(k) and overflows(k, c):
        lost = replace(c, given_producer_ids=c.given_producer_ids + 1)
        return answered(lost, failed(Error.UNKNOWN_SERVER_ERROR))
    image = prepared(k, c, request.committed)
    return changed(k, with_next_id_taken(c, image), image, requester, ended_with(k, image))


@receives
def on_end_txn(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """Handle EndTxn."""
    if absence(c) != Error.NONE:
        return answered(c, failed(absence(c)))
    end = end_v2(k, c, request) if speaks_v2(k) else end_v1(c, request)
    if end == End.PREPARE:
        return preparing(k, c, request, requester)
    if end == End.DONE:
        return answered(c, done_before(k, c))
    return answered(c, failed(error_of(end)))
