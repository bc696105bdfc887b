"""The leader of a partition: open transactions, verification, markers, and the last stable offset.

Models `ProducerStateManager`, `ProducerAppendInfo` and `UnifiedLog`, and for verification
`AddPartitionsToTxnManager` and `ReplicaManager`. A batch is one record. Replication, restarts from
snapshots and deletion are left out; `model.idempotent.leader` has them, without transactions.

Theory of operation. A transaction is open at a partition from its first batch there to the next
marker of its producer id. If no transaction of a batch is open here, the leader appends the batch
only after the coordinator has said that the partition is in the transaction. A marker closes the
open transaction. A marker of a newer epoch also ends the producer's sequences, which begin at 0
again. Readers of committed records stop at the last stable offset: the first offset of the earliest
open transaction.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from model.language import AtMost, Map, Range, Step, fold, receives, record
from model.releases import MAX_BATCHES_TO_REMEMBER
from model.transactions.configuration import (
    Configuration,
    FirstSequence,
    MarkerEpoch,
    OlderEpoch,
    Ongoing,
    Verification,
)
from model.transactions.messages import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    Batch,
    CoordinatorEpochOrNone,
    Epoch,
    EpochOrNone,
    Error,
    Instance,
    Marker,
    OffsetOrNone,
    ProduceAnswer,
    ProducerId,
    Sequence,
    SequenceOrNone,
    Transaction,
    WriteNumber,
    speaks_v2,
)


class Kind(IntEnum):
    """The kind of entry at an offset."""

    DATA = 0
    COMMIT = 1
    ABORT = 2
    OTHER = 3
    """A record or a marker of another transactional id."""


@record
class Stored:
    """One offset of the log. The fields of a marker that only a record has are 0."""

    kind: Kind
    producer_id: ProducerId
    producer_epoch: Epoch
    sequence: Sequence
    instance: Instance
    transaction: Transaction
    number: WriteNumber


@record
class ProducerStateEntry:
    """The leader's state of one producer id. It remembers the batches with the last `remembered`
    sequences, and recognises their duplicates."""

    producer_epoch: EpochOrNone
    coordinator_epoch: CoordinatorEpochOrNone
    last_sequence: SequenceOrNone
    remembered: Annotated[int, Range(0, MAX_BATCHES_TO_REMEMBER)]
    current_txn_first_offset: OffsetOrNone


@record
class VerificationEntry:
    """The verification of one producer id's transaction, until its first batch or its marker is
    written; epoch -1 if there is none. It is in memory only. VerificationStateEntry.

    `guard` tells one entry from the next: it is the log's end at which the entry was made.
    """

    producer_epoch: EpochOrNone
    lowest_sequence: Sequence
    guard: OffsetOrNone


@record
class Leader:
    """One partition. `other_first_offset` is the first offset of another transactional id's open
    transaction."""

    log: Annotated[tuple[Stored, ...], AtMost("log")]
    producers: Map[ProducerId, ProducerStateEntry]
    verifications: Map[ProducerId, VerificationEntry]
    other_first_offset: OffsetOrNone


UNKNOWN_PRODUCER = ProducerStateEntry(
    producer_epoch=NO_PRODUCER_EPOCH,
    coordinator_epoch=NO_COORDINATOR_EPOCH,
    last_sequence=NO_SEQUENCE,
    remembered=0,
    current_txn_first_offset=NO_OFFSET,
)


NOT_VERIFIED = VerificationEntry(
    producer_epoch=NO_PRODUCER_EPOCH, lowest_sequence=0, guard=NO_OFFSET
)


# Verification


def must_ask(k: Configuration, leader: Leader, batch: Batch) -> bool:
    """Whether the leader must ask the coordinator first: not if the transaction is open already,
    nor if the leader will refuse the batch.
    ReplicaManager.maybeSendPartitionsToTransactionCoordinator."""
    asks = k.variant.verification == Verification.ASKS or speaks_v2(k)
    entry = leader.producers[batch.producer_id]
    return asks and not is_open_for(k, entry, batch) and not is_refused_unasked(k, entry, batch)


def is_refused_unasked(k: Configuration, entry: ProducerStateEntry, batch: Batch) -> bool:
    """Whether the leader refuses the batch for its older epoch.
    UnifiedLog.maybeStartTransactionVerification."""
    refuses = k.variant.older_epoch == OlderEpoch.REFUSED
    return refuses and batch.producer_epoch < entry.producer_epoch


def is_open_for(k: Configuration, entry: ProducerStateEntry, batch: Batch) -> bool:
    """Whether the batch's transaction is open here. UnifiedLog.hasOngoingTransaction."""
    any_epoch = k.variant.ongoing == Ongoing.OF_PRODUCER_ID
    is_open = entry.current_txn_first_offset != NO_OFFSET
    return is_open and (any_epoch or entry.producer_epoch == batch.producer_epoch)


@receives
def verify(k: Configuration, leader: Leader, batch: Batch) -> Leader:
    """Record that the coordinator is asked. Batches of one epoch may come in any order.
    ProducerStateManager.maybeCreateVerificationStateEntry."""
    entry = leader.verifications[batch.producer_id]
    newer = batch.producer_epoch > entry.producer_epoch
    same = batch.producer_epoch == entry.producer_epoch
    lower = same and batch.base_sequence < entry.lowest_sequence
    is_new = entry.producer_epoch == NO_PRODUCER_EPOCH
    asked = VerificationEntry(
        producer_epoch=batch.producer_epoch,
        lowest_sequence=batch.base_sequence,
        guard=len(leader.log) if is_new and k.bounds.guards else entry.guard,
    )
    moved = leader.verifications.put(batch.producer_id, asked)
    return replace(leader, verifications=moved) if newer or lower else leader


def told(k: Configuration, error: Error, of_group: bool) -> Error:
    """The error that a client gets for the coordinator's refusal. Only TxnOffsetCommit has always
    been told that a transaction is busy. AddPartitionsToTxnManager,
    ReplicaManager.handleProduceAppend."""
    if error == Error.PRODUCER_FENCED:
        return Error.INVALID_PRODUCER_EPOCH
    if of_group:
        return error
    busy = error == Error.CONCURRENT_TRANSACTIONS and not speaks_v2(k)
    return Error.NOT_ENOUGH_REPLICAS if busy or is_elsewhere(error) else error


def is_elsewhere(error: Error) -> bool:
    """Whether the broker that was asked is not the coordinator, or not yet."""
    return error == Error.COORDINATOR_LOAD_IN_PROGRESS or error == Error.NOT_COORDINATOR


# Batches


def is_duplicate(entry: ProducerStateEntry, batch: Batch) -> bool:
    """Whether the batch is one of those remembered. ProducerStateEntry.findDuplicateBatch."""
    behind = entry.last_sequence - batch.base_sequence
    return (
        batch.producer_epoch == entry.producer_epoch and behind >= 0 and behind < entry.remembered
    )


def check_first_sequence(k: Configuration, entry: ProducerStateEntry, batch: Batch) -> Error:
    """Refuse the first batch of an epoch unless it begins at 0; for an unknown producer id, see
    FirstSequence."""
    if batch.base_sequence == 0:
        return Error.NONE
    strict = k.variant.first_sequence == FirstSequence.ZERO_IN_V2 and speaks_v2(k)
    if entry.producer_epoch == NO_PRODUCER_EPOCH and not strict:
        return Error.NONE
    return Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def is_ahead(verification: VerificationEntry, batch: Batch) -> bool:
    """Whether a batch before this one was verified and is not written.
    ProducerAppendInfo.checkSequence."""
    is_verified = verification.producer_epoch != NO_PRODUCER_EPOCH
    return is_verified and batch.base_sequence > verification.lowest_sequence


def check_append(
    k: Configuration, entry: ProducerStateEntry, verification: VerificationEntry, batch: Batch
) -> Error:
    """Check the epoch, then the sequence. ProducerAppendInfo.maybeValidateDataBatch."""
    if batch.producer_epoch < entry.producer_epoch:
        return Error.INVALID_PRODUCER_EPOCH
    if is_ahead(verification, batch):
        return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    if batch.producer_epoch != entry.producer_epoch:
        return check_first_sequence(k, entry, batch)
    if batch.base_sequence == entry.last_sequence + 1:
        return Error.NONE
    return Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def base_offset_of(leader: Leader, batch: Batch) -> int:
    """The offset of a remembered batch."""
    return sum(
        offset
        for offset, stored in enumerate(leader.log)
        if stored.kind == Kind.DATA
        and stored.producer_id == batch.producer_id
        and stored.producer_epoch == batch.producer_epoch
        and stored.sequence == batch.base_sequence
    )


def remember(entry: ProducerStateEntry, batch: Batch, offset: int) -> ProducerStateEntry:
    """The entry with one more batch, which opens the transaction if none is open.
    ProducerStateEntry.addBatch."""
    same = batch.producer_epoch == entry.producer_epoch
    is_open = entry.current_txn_first_offset != NO_OFFSET
    return ProducerStateEntry(
        producer_epoch=batch.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch,
        last_sequence=batch.base_sequence,
        remembered=min(entry.remembered + 1, MAX_BATCHES_TO_REMEMBER) if same else 1,
        current_txn_first_offset=entry.current_txn_first_offset if is_open else offset,
    )


def appended(leader: Leader, batch: Batch) -> Leader:
    """The leader with the batch at the end of its log; the verification is used up.
    UnifiedLog.append."""
    stored = Stored(
        kind=Kind.DATA,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        sequence=batch.base_sequence,
        instance=batch.instance,
        transaction=batch.transaction,
        number=batch.number,
    )
    entry = remember(leader.producers[batch.producer_id], batch, len(leader.log))
    return replace(
        leader,
        log=(*leader.log, stored),
        producers=leader.producers.put(batch.producer_id, entry),
        verifications=leader.verifications.put(batch.producer_id, NOT_VERIFIED),
    )


def refused(leader: Leader, error: Error) -> Step[Leader, ProduceAnswer]:
    """The answer with an error; nothing is written."""
    return Step(leader, (ProduceAnswer(error=error, base_offset=NO_OFFSET),))


@receives
def refuse(
    k: Configuration, leader: Leader, batch: Batch, error: Error, of_group: bool
) -> Step[Leader, ProduceAnswer]:
    """Refuse a batch because the coordinator has refused its transaction."""
    return refused(leader, told(k, error, of_group))


@receives
def turn_away(k: Configuration, leader: Leader, batch: Batch) -> Step[Leader, ProduceAnswer]:
    """Refuse a batch because the broker does not lead the partition now.
    ReplicaManager.getPartitionOrError."""
    return refused(leader, Error.NOT_LEADER_OR_FOLLOWER)


@receives
def on_produce(k: Configuration, leader: Leader, batch: Batch) -> Step[Leader, ProduceAnswer]:
    """Handle a batch whose transaction is verified, or need not be.
    ReplicaManager.appendRecords."""
    entry = leader.producers[batch.producer_id]
    if is_duplicate(entry, batch):
        known = ProduceAnswer(error=Error.NONE, base_offset=base_offset_of(leader, batch))
        return Step(leader, (known,))
    error = check_append(k, entry, leader.verifications[batch.producer_id], batch)
    if error != Error.NONE:
        return refused(leader, error)
    answer = ProduceAnswer(error=Error.NONE, base_offset=len(leader.log))
    return Step(appended(leader, batch), (answer,))


@receives
def on_invalid_produce(
    k: Configuration, leader: Leader, batch: Batch
) -> Step[Leader, ProduceAnswer]:
    """Refuse a record that the topic does not accept, for example for its timestamp. Nothing is
    written, and the leader does not look for a duplicate. LogValidator."""
    return refused(leader, Error.INVALID_TIMESTAMP)


@receives
def hold(k: Configuration, leader: Leader, batch: Batch) -> Leader:
    """Change nothing: a batch is verified, and another thread will append it later.
    KafkaRequestHandler.wrapAsyncCallback."""
    return leader


@receives
def on_verified(
    k: Configuration, leader: Leader, batch: Batch, guard: OffsetOrNone
) -> Step[Leader, ProduceAnswer]:
    """Handle a batch that was verified some time ago: that verification must still be the present
    one. A batch of an older epoch is refused for its epoch first.
    UnifiedLog.analyzeAndValidateProducerState, KAFKA-14884, KAFKA-19690."""
    entry = leader.producers[batch.producer_id]
    holds = guard == leader.verifications[batch.producer_id].guard
    older = batch.producer_epoch < entry.producer_epoch
    if is_duplicate(entry, batch) or is_open_for(k, entry, batch) or holds or older:
        return on_produce(k, leader, batch)
    return refused(leader, Error.INVALID_TXN_STATE)


@receives
def on_offset_commit(k: Configuration, leader: Leader, batch: Batch) -> Step[Leader, ProduceAnswer]:
    """Append the offsets of a transaction for the group coordinator: without sequences, so that no
    duplicate is recognised. AppendOrigin.COORDINATOR."""
    entry = leader.producers[batch.producer_id]
    if batch.producer_epoch < entry.producer_epoch:
        return refused(leader, Error.INVALID_PRODUCER_EPOCH)
    return Step(appended(leader, batch), (ProduceAnswer(error=Error.NONE, base_offset=NO_OFFSET),))


# Markers


def check_marker(k: Configuration, entry: ProducerStateEntry, marker: Marker) -> Error:
    """Refuse a marker of an older epoch, or of an older coordinator.
    ProducerAppendInfo.checkProducerEpoch, checkCoordinatorEpoch; KIP-1228."""
    is_open = entry.current_txn_first_offset != NO_OFFSET
    newer = k.variant.marker_epoch == MarkerEpoch.NEWER and is_open
    strict = speaks_v2(k) and (newer or k.variant.marker_epoch == MarkerEpoch.STRICTLY_NEWER)
    if marker.producer_epoch < entry.producer_epoch:
        return Error.INVALID_PRODUCER_EPOCH
    if marker.producer_epoch == entry.producer_epoch and strict:
        return Error.INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch < entry.coordinator_epoch:
        return Error.TRANSACTION_COORDINATOR_FENCED
    return Error.NONE


def ended(entry: ProducerStateEntry, marker: Marker) -> ProducerStateEntry:
    """The entry after a marker, without an open transaction; a newer epoch drops the batches of the
    old one. ProducerStateEntry.update."""
    same = marker.producer_epoch == entry.producer_epoch
    return ProducerStateEntry(
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        last_sequence=entry.last_sequence if same else NO_SEQUENCE,
        remembered=entry.remembered if same else 0,
        current_txn_first_offset=NO_OFFSET,
    )


def still_verified(
    k: Configuration, verification: VerificationEntry, marker: Marker
) -> VerificationEntry:
    """The verification after a marker. The marker ends it, unless V2 has already asked for the next
    transaction. KAFKA-18575."""
    is_next = speaks_v2(k) and verification.producer_epoch == marker.producer_epoch
    return verification if is_next else NOT_VERIFIED


@receives
def on_marker(k: Configuration, leader: Leader, marker: Marker) -> Step[Leader, Error]:
    """Handle WriteTxnMarkers. ProducerAppendInfo.appendEndTxnMarker."""
    entry = leader.producers[marker.producer_id]
    error = check_marker(k, entry, marker)
    if error != Error.NONE:
        return Step(leader, (error,))
    stored = Stored(
        kind=Kind.COMMIT if marker.committed else Kind.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        sequence=0,
        instance=0,
        transaction=0,
        number=0,
    )
    after = replace(
        leader,
        log=(*leader.log, stored),
        producers=leader.producers.put(marker.producer_id, ended(entry, marker)),
        verifications=leader.verifications.put(
            marker.producer_id, still_verified(k, leader.verifications[marker.producer_id], marker)
        ),
    )
    return Step(after, (Error.NONE,))


@receives
def restarted(k: Configuration, leader: Leader) -> Leader:
    """Forget all verifications, which were in memory only."""
    return replace(leader, verifications=Map.filled(k.bounds.producer_ids, NOT_VERIFIED))


# Other transactional ids

OTHERS = Stored(
    kind=Kind.OTHER,
    producer_id=0,
    producer_epoch=0,
    sequence=0,
    instance=0,
    transaction=0,
    number=0,
)


@receives
def on_other(k: Configuration, leader: Leader) -> Leader:
    """Append an entry of another transactional id: a record and a marker in turn."""
    begins = leader.other_first_offset == NO_OFFSET
    return replace(
        leader,
        log=(*leader.log, OTHERS),
        other_first_offset=len(leader.log) if begins else NO_OFFSET,
    )


# The view of readers


def earlier(k: Configuration, first: int, entry: ProducerStateEntry) -> int:
    """The offset, or the first offset of the producer's open transaction, if that is earlier."""
    begins = entry.current_txn_first_offset
    return first if begins == NO_OFFSET else min(first, begins)


def first_open(k: Configuration, leader: Leader) -> int:
    """The first offset of the earliest open transaction of the modelled producer ids; the log's end
    if none is open. ProducerStateManager.firstUnstableOffset."""
    return fold(k, earlier, leader.producers.values(), len(leader.log))


def last_stable_offset(k: Configuration, leader: Leader) -> int:
    """The offset at which readers of committed records stop. UnifiedLog.lastStableOffset."""
    ours = first_open(k, leader)
    return ours if leader.other_first_offset == NO_OFFSET else min(ours, leader.other_first_offset)
