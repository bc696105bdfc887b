"""The transaction coordinator: its state of the transactional id, and the transitions of this
state.

Models `TransactionCoordinator`, `TransactionMetadata`, `TransactionStateManager` and
`TransactionMarkerChannelManager` for one transactional id. `end_txn.py` and `add_partitions.py`
handle their own requests; this file handles InitProducerId and markers. The transaction log holds
only its last entry; replication of the log is left out.

Theory of operation. A change takes effect only once it is in the transaction log. The coordinator
prepares the change, appends its image, and only then adopts the image and answers (`transition`). A
transaction ends by two such changes. Once PREPARE is in the log, the outcome is decided and the
client has its answer. Each partition then gets its marker, and with the last one the transaction is
complete. A coordinator that takes over reads the log. It sends the markers of a prepared
transaction again, with its own, newer coordinator epoch. A coordinator that was replaced and does
not know it answers from its memory; any change that needs the log fails.
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
    """The id is not known; this includes the time while it is being forgotten (Dead)."""


class CoordinatorLeadership(IntEnum):
    """Whether a broker is the coordinator, which leads the id's partition of the transaction
    log."""

    LEADS = 0
    LOADS = 1
    """The broker becomes the coordinator once it has read the log."""
    REPLACED = 2
    """Another broker leads, and this one does not know it: its appends fail."""
    RESIGNED = 3
    """The broker knows that another one leads."""


@record
class Metadata:
    """The entry of the id in the transaction log. TransactionLogValue."""

    state: TransactionState
    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone
    partitions: Map[Partition, bool]


@record
class Known:
    """A coordinator's state of the id: the log's entry, and the fields that it remembers beside
    it."""

    metadata: Metadata
    last_producer_epoch: EpochOrNone
    previous_producer_id: ProducerIdOrNone
    next_producer_id: ProducerIdOrNone


@record
class Coordinator:
    """The coordinator of the id, and its log.

    While `is_appending`, `image` is on its way into the log; once it is there, `requester` gets
    `answer`. `is_stopped` says that a partition has reported a newer coordinator. With an
    `unlogged_fence`, the epoch was taken for an abort that is not in the log; if that append fails,
    the next abort takes no further epoch.
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
    """Whether the outcome is decided, and markers are on their way."""
    return (
        metadata.state == TransactionState.PREPARE_COMMIT
        or metadata.state == TransactionState.PREPARE_ABORT
    )


def decided(c: Coordinator) -> Metadata:
    """The metadata in force; while a coordinator loads, those that it will find in the log."""
    return c.log.metadata if c.leadership == CoordinatorLeadership.LOADS else c.known.metadata


def is_finished(metadata: Metadata) -> bool:
    """Whether no transaction is open, and the next one can begin."""
    return (
        metadata.state == TransactionState.EMPTY
        or metadata.state == TransactionState.COMPLETE_COMMIT
        or metadata.state == TransactionState.COMPLETE_ABORT
    )


def is_pending(c: Coordinator) -> bool:
    """Whether a transition has begun and is not complete. A completion is pending from PREPARE on,
    unless the coordinator was replaced and has failed to append it."""
    has_failed = c.leadership == CoordinatorLeadership.REPLACED and no_more_markers(
        c.known.metadata
    )
    return c.is_appending or (is_prepared(c.known.metadata) and not has_failed)


def no_partitions(k: Configuration) -> Map[Partition, bool]:
    """The empty set of partitions."""
    return Map.filled(k.bounds.partitions, False)


def no_more_markers(metadata: Metadata) -> bool:
    """Whether all partitions have their marker."""
    return not any(waits for waits in metadata.partitions.values())


# The two steps of a transition


def stored(k: Configuration, image: Known) -> Known:
    """The part of an image that the log keeps, which never includes the last epoch.
    TransactionLog.valueToBytes."""
    has_ids = k.variant.id_memory == IdMemory.LOGGED and k.variant.level > 0
    return Known(
        metadata=image.metadata,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        previous_producer_id=image.previous_producer_id if has_ids else NO_PRODUCER_ID,
        next_producer_id=image.next_producer_id if has_ids else NO_PRODUCER_ID,
    )


def logged(k: Configuration, c: Coordinator, image: Known) -> Coordinator:
    """The coordinator, with the image in the log and in memory.
    TransactionMetadata.completeTransitionTo."""
    return replace(c, known=image, log=stored(k, image), unlogged_fence=False)


def appending(c: Coordinator, image: Known) -> Coordinator:
    """The coordinator, with the image on its way to the log.
    TransactionStateManager.appendTransactionToLog."""
    return replace(c, image=image, is_appending=True)


def took_next_epoch(prepared: Known) -> bool:
    """Whether the end took an epoch: a client's of V2 does, and at level 2 the coordinator's
    own."""
    before = prepared.last_producer_epoch
    return before != NO_PRODUCER_EPOCH and before + 1 == prepared.metadata.producer_epoch


def completed(k: Configuration, prepared: Known) -> Known:
    """The state after the transaction is complete. If its epoch was the last, the next producer id
    takes over with epoch 0. TransactionMetadata.prepareComplete."""
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
    """The coordinator, which completes a prepared transaction that lacks no marker, unless it was
    replaced. TransactionMarkerChannelManager.maybeWriteTxnCompletion."""
    if not is_prepared(c.known.metadata) or not no_more_markers(c.known.metadata):
        return c
    if c.leadership == CoordinatorLeadership.REPLACED:
        return c
    image = completed(k, c.known)
    return appending(c, image) if k.bounds.appends else logged(k, c, image)


def transition(k: Configuration, c: Coordinator, image: Known) -> Coordinator:
    """The coordinator, with the image on its way to the log."""
    if k.bounds.appends:
        return appending(c, image)
    return completing(k, logged(k, c, image))


def answered(c: Coordinator, answer: Answer) -> Step[Coordinator, Answer]:
    """No change, and the answer is sent at once."""
    return Step(c, (answer,))


def changed(
    k: Configuration, c: Coordinator, image: Known, requester: int, answer: Answer
) -> Step[Coordinator, Answer]:
    """A change, and its answer once the image is in the log. The log refuses the append of a
    replaced coordinator. TransactionStateManager.appendTransactionToLog."""
    if c.leadership == CoordinatorLeadership.REPLACED:
        return answered(c, failed(Error.NOT_COORDINATOR))
    moved = transition(k, c, image)
    if k.bounds.appends:
        return Step(replace(moved, requester=requester, answer=answer), ())
    return Step(moved, (answer,))


def absence(c: Coordinator) -> Error:
    """The error of a broker that is not the coordinator, or not yet.
    TransactionStateManager.getAndMaybeAddTransactionState."""
    if c.leadership == CoordinatorLeadership.LOADS:
        return Error.COORDINATOR_LOAD_IN_PROGRESS
    return Error.NOT_COORDINATOR if c.leadership == CoordinatorLeadership.RESIGNED else Error.NONE


# The outcome of an append


def nothing_appended(c: Coordinator) -> Coordinator:
    """The coordinator, with no append on its way."""
    return replace(c, is_appending=False, image=c.known, requester=NOBODY, answer=NO_ANSWER)


@acts
def append_succeeds(k: Configuration, c: Coordinator) -> Step[Coordinator, Answer]:
    """Adopt the image, which is in the log. A prepared transaction without partitions is then
    completed."""
    require(c.is_appending)
    written = logged(k, c, c.image)
    return Step(completing(k, nothing_appended(written)), (c.answer,))


@acts
def append_fails(k: Configuration, c: Coordinator, in_log: bool) -> Step[Coordinator, Answer]:
    """Keep the former state, because the append is reported as failed: COORDINATOR_NOT_AVAILABLE.
    The image may be `in_log` all the same. A completion is appended again."""
    require(c.is_appending)
    written = replace(c, log=stored(k, c.image) if in_log else c.log)
    after = completing(k, nothing_appended(written))
    return Step(after, (failed(Error.COORDINATOR_NOT_AVAILABLE),))


@receives
def lose_requester(k: Configuration, c: Coordinator) -> Coordinator:
    """Forget the client that waits for an append, because its connection breaks: no client gets the
    answer."""
    return replace(c, requester=NOBODY)


# InitProducerId


def is_exhausted(k: Configuration, epoch: int) -> bool:
    """Whether no client may use a later epoch. TransactionMetadata.isProducerEpochExhausted."""
    return k.bounds.epochs_end and epoch >= k.bounds.exhausted_epoch


def next_epoch(epoch: int) -> int:
    """The next epoch."""
    return epoch + 1


def overflows(k: Configuration, c: Coordinator) -> bool:
    """Whether the present epoch is the protocol's last, so that a request for the next one fails.
    Before 4.3 a client can have this epoch. TransactionMetadata.prepareFenceProducerEpoch,
    KAFKA-20090."""
    return k.bounds.epochs_end and c.known.metadata.producer_epoch >= k.bounds.max_epoch


def fence_overflows(k: Configuration, c: Coordinator) -> bool:
    """Whether the coordinator's own abort finds no next epoch. Since 4.3 an abort that is repeated
    uses the epoch that the first one took."""
    repeats = c.unlogged_fence and k.variant.rotation == Rotation.ANYONE
    return overflows(k, c) and not repeats


def fits(k: Configuration, c: Coordinator) -> bool:
    """Whether the scope has enough epochs and producer ids for this state."""
    return (
        c.given_producer_ids <= k.bounds.producer_ids
        and c.known.metadata.producer_epoch <= k.bounds.max_epoch
        and c.image.metadata.producer_epoch <= k.bounds.max_epoch
    )


def with_new_id(k: Configuration, c: Coordinator, last_epoch: int) -> Known:
    """The empty state under a new producer id."""
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
    """The empty state under the same producer id."""
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
    """The producer id to remember while a transaction is open or prepared.
    TransactionMetadata.completeTransitionTo."""
    kept = k.variant.previous_id == PreviousId.KEPT
    return c.known.previous_producer_id if kept else c.known.metadata.producer_id


def fencing(k: Configuration, c: Coordinator) -> Known:
    """The state in which the coordinator aborts the open transaction; the next epoch fences its
    writers. TransactionMetadata.prepareFenceProducerEpoch."""
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
    """The coordinator, with the part of its own abort that is in memory before the log has it:
    below level 2 the epoch. TransactionCoordinator.endTransaction, KAFKA-9666."""
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
    """The coordinator, with the image's next producer id counted as given."""
    takes = image.next_producer_id != NO_PRODUCER_ID
    return replace(c, given_producer_ids=c.given_producer_ids + (1 if takes else 0))


def expects(k: Configuration, c: Coordinator, request: Request) -> bool:
    """Whether the request has the present producer id, or the previous one at its last epoch, or no
    epoch was given yet. isValidProducerId."""
    now = request.producer_id == c.known.metadata.producer_id
    before = request.producer_id == c.known.previous_producer_id
    unborn = c.known.metadata.producer_epoch == NO_PRODUCER_EPOCH
    return now or unborn or (before and is_exhausted(k, request.producer_epoch))


def met(k: Configuration, c: Coordinator) -> Coordinator:
    """The coordinator, with an unknown transactional id in memory at once, under a producer id and
    without an epoch, even if the log never gets it.
    TransactionStateManager.putTransactionStateIfNotExists."""
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
    """Give the image's id and epoch to an instance. A new producer id counts as given."""
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
    """Handle InitProducerId of a new instance, or of one that asks for the next epoch."""
    if absence(c) != Error.NONE:
        return answered(c, failed(absence(c)))
    return on_known(k, met(k, c), request, requester)


def on_known(
    k: Configuration, c: Coordinator, request: Request, requester: int
) -> Step[Coordinator, Answer]:
    """Handle InitProducerId of a transactional id in memory.
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
    """Handle InitProducerId while no transaction is open. Rows d to h."""
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
    """Send the marker that a partition still waits for. TransactionMarkerChannelManager."""
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
    """Handle the answer of a partition to its marker. TransactionMarkerRequestCompletionHandler."""
    if error != Error.NONE:
        return replace(c, is_stopped=True)
    metadata = c.known.metadata
    left = replace(metadata, partitions=metadata.partitions.put(partition, False))
    return completing(k, replace(c, known=replace(c.known, metadata=left)))


@receives
def lose_marker(k: Configuration, c: Coordinator, partition: Partition) -> Coordinator:
    """Change nothing: the partition's answer is lost, and its marker will be sent again.
    TransactionMarkerRequestCompletionHandler, wasDisconnected."""
    return c


@acts
def skip_marker(k: Configuration, c: Coordinator, partition: Partition) -> Coordinator:
    """Skip the marker of a partition without a leader, as if the partition were deleted.
    TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue."""
    return on_marker_written(k, c, partition, Error.NONE)


# Time-outs and expiration


@acts
def time_out(k: Configuration, c: Coordinator) -> Coordinator:
    """Abort a transaction that has lasted too long. abortTimedOutTransactions."""
    require(c.known.metadata.state == TransactionState.ONGOING)
    require(not c.is_appending)
    require(not fence_overflows(k, c))
    image = fencing(k, c)
    ended = transition(k, with_fence(k, c, image), image)
    return replace(ended, requester=NOBODY, answer=NO_ANSWER)


def nothing_known(k: Configuration) -> Known:
    """The state of an id that is not in the log."""
    return Known(
        metadata=absent(k),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
    )


def absent(k: Configuration) -> Metadata:
    """The metadata of an id that the log does not have: a tombstone."""
    return Metadata(
        state=TransactionState.ABSENT,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        partitions=no_partitions(k),
    )


@acts
def forget(k: Configuration, c: Coordinator) -> Coordinator:
    """Forget an id that was not used for long: append a tombstone.
    removeExpiredTransactionalIds."""
    require(is_finished(c.known.metadata))
    require(not c.is_appending)
    return replace(c, known=nothing_known(k), log=nothing_known(k))
