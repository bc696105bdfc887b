"""The transaction coordinator: what it knows of the transactional id, and how that changes.

Theory of operation. Nothing counts before it is in the transaction log: a change is prepared, its
image is appended, and only then is it what the coordinator knows and answers (`transition`). The
end of a transaction is two such changes: once PREPARE is in the log the outcome is decided and
the client has its answer; then each partition gets its marker, and with the last of them the
transaction is complete. A coordinator that takes over reads the log, and sends the markers of
what it finds prepared again, with its own, newer coordinator epoch. One that was replaced and does
not know it answers what it remembers; whatever needs the log fails. `TransactionCoordinator`,
`TransactionMetadata`, `TransactionStateManager`, `TransactionMarkerChannelManager`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from model.language import Map, Range, Step, acts, receives, record, require
from model.transactions.configuration import Configuration, Fence, IdMemory, PreviousId, Rotation
from model.transactions.messages import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Answer,
    CoordinatorEpoch,
    EpochOrNone,
    Error,
    InstanceOrNone,
    Marker,
    Partition,
    ProducerIdOrNone,
    Request,
    failed,
)


class TransactionState(IntEnum):
    """The states of a transactional id. TransactionState."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    ABSENT = 6
    """The id is not known; nor is it while it is being forgotten (Dead)."""


class CoordinatorLeadership(IntEnum):
    """Whether a broker is the coordinator: the leader of the id's partition."""

    LEADS = 0
    LOADS = 1
    """It becomes the coordinator once it has read the log."""
    REPLACED = 2
    """Another broker leads, and this one does not know it: its appends fail."""
    RESIGNED = 3
    """It knows that another broker leads."""


@record
class Metadata:
    """What the transaction log says of the id. TransactionLogValue."""

    state: TransactionState
    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone
    partitions: Map[Partition, bool]


@record
class Known:
    """What a coordinator knows of the id: the log's words, and what it remembers beside them."""

    metadata: Metadata
    last_producer_epoch: EpochOrNone
    previous_producer_id: ProducerIdOrNone
    next_producer_id: ProducerIdOrNone


@record
class Coordinator:
    """The coordinator of the id and its log.

    While `is_appending`, `image` is on its way into the log, and `answer` is for `requester` once
    it is there. `is_stopped` when a partition has said that a newer coordinator is there. With an
    `unlogged_fence` the epoch is that of an abort which has not come into the log; if that fails
    the next abort takes no other.
    """

    known: Known
    log: Known
    is_appending: bool
    image: Known
    requester: InstanceOrNone
    answer: Answer
    is_stopped: bool
    unlogged_fence: bool
    leadership: CoordinatorLeadership
    coordinator_epoch: CoordinatorEpoch
    given_producer_ids: Annotated[int, Range(0, "producer_ids")]


NOBODY = -1
NO_ANSWER = failed(Error.NONE)


def is_prepared(metadata: Metadata) -> bool:
    """The outcome is decided, the markers are on their way."""
    return (
        metadata.state == TransactionState.PREPARE_COMMIT
        or metadata.state == TransactionState.PREPARE_ABORT
    )


def decided(c: Coordinator) -> Metadata:
    """What is in force of the transactional id: where a coordinator loads, what it will find."""
    return c.log.metadata if c.leadership == CoordinatorLeadership.LOADS else c.known.metadata


def is_finished(metadata: Metadata) -> bool:
    """No transaction is open, and the next one can begin."""
    return (
        metadata.state == TransactionState.EMPTY
        or metadata.state == TransactionState.COMPLETE_COMMIT
        or metadata.state == TransactionState.COMPLETE_ABORT
    )


def is_pending(c: Coordinator) -> bool:
    """A transition has begun and is not complete; CompleteX is, from PREPARE on, unless who was
    replaced has failed with it."""
    has_failed = c.leadership == CoordinatorLeadership.REPLACED and no_more_markers(
        c.known.metadata
    )
    return c.is_appending or (is_prepared(c.known.metadata) and not has_failed)


def no_partitions(k: Configuration) -> Map[Partition, bool]:
    """The empty set."""
    return Map.filled(k.bounds.partitions, False)


def no_more_markers(metadata: Metadata) -> bool:
    """All partitions have their marker."""
    return not any(waits for waits in metadata.partitions.values())


# The two steps of a transition


def stored(k: Configuration, image: Known) -> Known:
    """What of an image is in the log: never the epoch before. TransactionLog.valueToBytes."""
    has_ids = k.variant.id_memory == IdMemory.LOGGED and k.variant.level > 0
    return Known(
        metadata=image.metadata,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        previous_producer_id=image.previous_producer_id if has_ids else NO_PRODUCER_ID,
        next_producer_id=image.next_producer_id if has_ids else NO_PRODUCER_ID,
    )


def logged(k: Configuration, c: Coordinator, image: Known) -> Coordinator:
    """The image is in the log, and known. TransactionMetadata.completeTransitionTo."""
    return replace(c, known=image, log=stored(k, image), unlogged_fence=False)


def appending(c: Coordinator, image: Known) -> Coordinator:
    """The image is on its way. TransactionStateManager.appendTransactionToLog."""
    return replace(c, image=image, is_appending=True)


def took_next_epoch(prepared: Known) -> bool:
    """The end took an epoch: a client's of V2, or at level 2 the coordinator's own."""
    before = prepared.last_producer_epoch
    return before != NO_PRODUCER_EPOCH and before + 1 == prepared.metadata.producer_epoch


def completed(k: Configuration, prepared: Known) -> Known:
    """The transaction is over; where its epoch was the last, the next producer id takes over with
    epoch 0. TransactionMetadata.prepareComplete."""
    metadata = prepared.metadata
    committed = metadata.state == TransactionState.PREPARE_COMMIT
    rotates = prepared.next_producer_id != NO_PRODUCER_ID
    forgets = rotates or took_next_epoch(prepared)
    done = Metadata(
        state=TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        producer_id=prepared.next_producer_id if rotates else metadata.producer_id,
        producer_epoch=0 if rotates else metadata.producer_epoch,
        partitions=no_partitions(k),
    )
    return Known(
        metadata=done,
        last_producer_epoch=prepared.last_producer_epoch,
        previous_producer_id=metadata.producer_id if forgets else prepared.previous_producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def completing(k: Configuration, c: Coordinator) -> Coordinator:
    """What is prepared and lacks no marker is completed, by who has the log.
    TransactionMarkerChannelManager.maybeWriteTxnCompletion."""
    if not is_prepared(c.known.metadata) or not no_more_markers(c.known.metadata):
        return c
    if c.leadership == CoordinatorLeadership.REPLACED:
        return c
    image = completed(k, c.known)
    return appending(c, image) if k.bounds.appends else logged(k, c, image)


def transition(k: Configuration, c: Coordinator, image: Known) -> Coordinator:
    """The image goes to the log."""
    if k.bounds.appends:
        return appending(c, image)
    return completing(k, logged(k, c, image))


def answered(c: Coordinator, answer: Answer) -> Step[Coordinator, Answer]:
    """Nothing changes, and the answer goes at once."""
    return Step(c, (answer,))


def changed(
    k: Configuration, c: Coordinator, image: Known, requester: int, answer: Answer
) -> Step[Coordinator, Answer]:
    """A change; its answer goes when the image is in the log, which takes nothing of who was
    replaced. TransactionStateManager.appendTransactionToLog."""
    if c.leadership == CoordinatorLeadership.REPLACED:
        return answered(c, failed(Error.NOT_COORDINATOR))
    moved = transition(k, c, image)
    if k.bounds.appends:
        return Step(replace(moved, requester=requester, answer=answer), ())
    return Step(moved, (answer,))


def absence(c: Coordinator) -> Error:
    """What a broker says that is not the coordinator, or not yet.
    TransactionStateManager.getAndMaybeAddTransactionState."""
    if c.leadership == CoordinatorLeadership.LOADS:
        return Error.COORDINATOR_LOAD_IN_PROGRESS
    return Error.NOT_COORDINATOR if c.leadership == CoordinatorLeadership.RESIGNED else Error.NONE


# The outcome of an append


def nothing_appended(c: Coordinator) -> Coordinator:
    """No append is on its way."""
    return replace(c, is_appending=False, image=c.known, requester=NOBODY, answer=NO_ANSWER)


@acts
def append_succeeds(k: Configuration, c: Coordinator) -> Step[Coordinator, Answer]:
    """The image is in the log. What is prepared without a partition is completed next."""
    require(c.is_appending)
    written = logged(k, c, c.image)
    return Step(completing(k, nothing_appended(written)), (c.answer,))


@acts
def append_fails(k: Configuration, c: Coordinator, in_log: bool) -> Step[Coordinator, Answer]:
    """The append is reported as failed, and memory is as before; the image may be `in_log` all the
    same. A completion is tried again. COORDINATOR_NOT_AVAILABLE."""
    require(c.is_appending)
    written = replace(c, log=stored(k, c.image) if in_log else c.log)
    after = completing(k, nothing_appended(written))
    return Step(after, (failed(Error.COORDINATOR_NOT_AVAILABLE),))


@receives
def lose_requester(k: Configuration, c: Coordinator) -> Coordinator:
    """The connection of whoever waits for an append breaks: nobody hears the answer."""
    return replace(c, requester=NOBODY)


# InitProducerId


def is_exhausted(k: Configuration, epoch: int) -> bool:
    """No client may use a later epoch. TransactionMetadata.isProducerEpochExhausted."""
    return k.bounds.epochs_end and epoch >= k.bounds.exhausted_epoch


def next_epoch(epoch: int) -> int:
    """One more."""
    return epoch + 1


def overflows(k: Configuration, c: Coordinator) -> bool:
    """No epoch comes behind the protocol's last, which a client can have before 4.3: whoever would
    take one fails. TransactionMetadata.prepareFenceProducerEpoch, KAFKA-20090."""
    return k.bounds.epochs_end and c.known.metadata.producer_epoch >= k.bounds.max_epoch


def fence_overflows(k: Configuration, c: Coordinator) -> bool:
    """So does the coordinator's own abort; since 4.3 not one that is repeated in the epoch that the
    first took."""
    repeats = c.unlogged_fence and k.variant.rotation == Rotation.ANYONE
    return overflows(k, c) and not repeats


def fits(k: Configuration, c: Coordinator) -> bool:
    """The scope has so many epochs and producer ids."""
    return (
        c.given_producer_ids <= k.bounds.producer_ids
        and c.known.metadata.producer_epoch <= k.bounds.max_epoch
        and c.image.metadata.producer_epoch <= k.bounds.max_epoch
    )


def with_new_id(k: Configuration, c: Coordinator, last_epoch: int) -> Known:
    """Empty, under a producer id that nobody had."""
    fresh = Metadata(
        state=TransactionState.EMPTY,
        producer_id=c.given_producer_ids,
        producer_epoch=0,
        partitions=no_partitions(k),
    )
    return Known(
        metadata=fresh,
        last_producer_epoch=last_epoch,
        previous_producer_id=c.known.metadata.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def with_epoch(k: Configuration, c: Coordinator, epoch: int, last_epoch: int) -> Known:
    """Empty, under the same producer id."""
    metadata = c.known.metadata
    empty = Metadata(
        state=TransactionState.EMPTY,
        producer_id=metadata.producer_id,
        producer_epoch=epoch,
        partitions=no_partitions(k),
    )
    return Known(
        metadata=empty,
        last_producer_epoch=last_epoch,
        previous_producer_id=metadata.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def previous_producer_id(k: Configuration, c: Coordinator) -> int:
    """The one that is remembered while a transaction is open or prepared.
    TransactionMetadata.completeTransitionTo."""
    kept = k.variant.previous_id == PreviousId.KEPT
    return c.known.previous_producer_id if kept else c.known.metadata.producer_id


def fencing(k: Configuration, c: Coordinator) -> Known:
    """The open transaction is aborted by the coordinator, whose next epoch fences its writers.
    TransactionMetadata.prepareFenceProducerEpoch."""
    metadata = c.known.metadata
    same = k.variant.fence == Fence.SAME_EPOCH or c.unlogged_fence
    epoch = metadata.producer_epoch if same else next_epoch(metadata.producer_epoch)
    newer = k.variant.level == 2
    rotates = newer and k.variant.rotation == Rotation.ANYONE
    is_last = rotates and is_exhausted(k, metadata.producer_epoch)
    return Known(
        metadata=replace(metadata, state=TransactionState.PREPARE_ABORT, producer_epoch=epoch),
        last_producer_epoch=metadata.producer_epoch if newer else NO_PRODUCER_EPOCH,
        previous_producer_id=previous_producer_id(k, c),
        next_producer_id=c.given_producer_ids if is_last else NO_PRODUCER_ID,
    )


def with_fence(k: Configuration, c: Coordinator, image: Known) -> Coordinator:
    """What memory has of such an abort before the log has it: below level 2 its epoch.
    TransactionCoordinator.endTransaction, KAFKA-9666."""
    taken = with_next_id_taken(c, image)
    if k.variant.level == 2:
        return taken
    epoch = image.metadata.producer_epoch
    fenced = replace(
        c.known,
        metadata=replace(c.known.metadata, producer_epoch=epoch),
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )
    return replace(taken, known=fenced, unlogged_fence=True)


def with_next_id_taken(c: Coordinator, image: Known) -> Coordinator:
    """The producer id that is to come is nobody else's."""
    takes = image.next_producer_id != NO_PRODUCER_ID
    return replace(c, given_producer_ids=c.given_producer_ids + (1 if takes else 0))


def expects(k: Configuration, c: Coordinator, request: Request) -> bool:
    """The producer id is that of now, or the one whose last epoch was used up before; or nobody
    has had an epoch yet. isValidProducerId."""
    now = request.producer_id == c.known.metadata.producer_id
    before = request.producer_id == c.known.previous_producer_id
    unborn = c.known.metadata.producer_epoch == NO_PRODUCER_EPOCH
    return now or unborn or (before and is_exhausted(k, request.producer_epoch))


def met(k: Configuration, c: Coordinator) -> Coordinator:
    """An id that nobody knew is in memory at once, with a producer id and no epoch: also if the
    log does not take it. TransactionStateManager.putTransactionStateIfNotExists."""
    if c.known.metadata.state != TransactionState.ABSENT:
        return c
    unborn = Metadata(
        state=TransactionState.EMPTY,
        producer_id=c.given_producer_ids,
        producer_epoch=NO_PRODUCER_EPOCH,
        partitions=no_partitions(k),
    )
    known = replace(nothing_known(k), metadata=unborn)
    return replace(c, known=known, given_producer_ids=c.given_producer_ids + 1)


def begun_anew(
    k: Configuration, c: Coordinator, image: Known, requester: int
) -> Step[Coordinator, Answer]:
    """An instance gets the id and epoch of the image; an id that is new was taken for it."""
    metadata = image.metadata
    answer = Answer(
        error=Error.NONE,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
    )
    is_new = metadata.producer_id != c.known.metadata.producer_id
    taken = replace(c, given_producer_ids=c.given_producer_ids + (1 if is_new else 0))
    return changed(k, taken, image, requester, answer)


@receives
def on_init_producer_id(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """A new instance, or one that asks for the next epoch."""
    if absence(c) != Error.NONE:
        return answered(c, failed(absence(c)))
    return on_known(k, met(k, c), request, requester)


def on_known(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """InitProducerId of an id that is in memory.
    TransactionCoordinator.prepareInitProducerIdTransit, row by row."""
    expected = request.producer_id != NO_PRODUCER_ID
    if is_pending(c):
        return answered(c, failed(Error.CONCURRENT_TRANSACTIONS))
    if expected and not expects(k, c, request):
        return answered(c, failed(Error.PRODUCER_FENCED))
    if is_prepared(c.known.metadata):
        return answered(c, failed(Error.CONCURRENT_TRANSACTIONS))
    if c.known.metadata.state == TransactionState.ONGOING:
        if fence_overflows(k, c):
            return answered(c, failed(Error.UNKNOWN_SERVER_ERROR))
        waits = failed(Error.CONCURRENT_TRANSACTIONS)
        image = fencing(k, c)
        return changed(k, with_fence(k, c, image), image, requester, waits)
    return on_finished(k, c, request, requester)


def on_finished(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """InitProducerId where no transaction is open. Rows d to h."""
    epoch = c.known.metadata.producer_epoch
    expected = request.producer_id != NO_PRODUCER_ID
    current = request.producer_epoch == epoch
    if is_exhausted(k, epoch) and (not expected or current):
        last = epoch if expected else NO_PRODUCER_EPOCH
        return begun_anew(k, c, with_new_id(k, c, last), requester)
    if not expected or epoch == NO_PRODUCER_EPOCH:
        image = with_epoch(k, c, next_epoch(epoch), NO_PRODUCER_EPOCH)
        return begun_anew(k, c, image, requester)
    if current:
        image = with_epoch(k, c, next_epoch(epoch), epoch)
        return begun_anew(k, c, image, requester)
    if request.producer_epoch == c.known.last_producer_epoch:
        image = with_epoch(k, c, epoch, c.known.last_producer_epoch)
        return begun_anew(k, c, image, requester)
    return answered(c, failed(Error.PRODUCER_FENCED))


# Markers


@acts
def marker_for(k: Configuration, c: Coordinator, partition: Partition) -> Step[Coordinator, Marker]:
    """The marker that a partition still waits for. TransactionMarkerChannelManager."""
    metadata = c.known.metadata
    require(is_prepared(metadata))
    require(metadata.partitions[partition])
    require(not c.is_stopped)
    marker = Marker(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        committed=metadata.state == TransactionState.PREPARE_COMMIT,
        coordinator_epoch=c.coordinator_epoch,
        partition=partition,
    )
    return Step(c, (marker,))


@receives
def on_marker_written(
    k: Configuration, c: Coordinator, partition: Partition, error: Error
) -> Coordinator:
    """A partition has answered. TransactionMarkerRequestCompletionHandler."""
    if error != Error.NONE:
        return replace(c, is_stopped=True)
    metadata = c.known.metadata
    left = replace(metadata, partitions=metadata.partitions.put(partition, False))
    return completing(k, replace(c, known=replace(c.known, metadata=left)))


@receives
def lose_marker(k: Configuration, c: Coordinator, partition: Partition) -> Coordinator:
    """A partition's answer does not come: its marker is sent again.
    TransactionMarkerRequestCompletionHandler, wasDisconnected."""
    return c


@acts
def skip_marker(k: Configuration, c: Coordinator, partition: Partition) -> Coordinator:
    """A partition without a leader is taken for one that was deleted: nothing waits for its marker.
    TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue."""
    return on_marker_written(k, c, partition, Error.NONE)


# What the coordinator does of itself, and what happens to it


@acts
def time_out(k: Configuration, c: Coordinator) -> Coordinator:
    """The transaction has lasted longer than it may. abortTimedOutTransactions."""
    require(c.known.metadata.state == TransactionState.ONGOING)
    require(not c.is_appending)
    require(not fence_overflows(k, c))
    image = fencing(k, c)
    ended = transition(k, with_fence(k, c, image), image)
    return replace(ended, requester=NOBODY, answer=NO_ANSWER)


def nothing_known(k: Configuration) -> Known:
    """The id is not in the log."""
    return Known(
        metadata=absent(k),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
    )


def absent(k: Configuration) -> Metadata:
    """A tombstone."""
    return Metadata(
        state=TransactionState.ABSENT,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        partitions=no_partitions(k),
    )


@acts
def forget(k: Configuration, c: Coordinator) -> Coordinator:
    """The id was not used for long: a tombstone. removeExpiredTransactionalIds."""
    require(is_finished(c.known.metadata))
    require(not c.is_appending)
    return replace(c, known=nothing_known(k), log=nothing_known(k))
