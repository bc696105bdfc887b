"""The leader of a partition: its log, its state of each producer, and the order of its checks.

Models `ReplicaManager.appendRecords`, `UnifiedLog`, `ProducerStateManager` and
`ProducerAppendInfo`. Followers are one number, the high watermark. The files of the log are left
out, except for the snapshots that a restart reads.

Theory of operation. All that a leader knows of producers is in the log itself. For each producer id
it remembers the latest epoch and the last five batches of that epoch, and it can rebuild this state
from any prefix of the log. It first looks for a batch among those five: a batch that is among them
is a duplicate, which succeeds without an append. It then compares the epoch. Last, the batch's
sequence must follow the last one. Records below `log_start_offset` are deleted. They stay in the
model's log for the guarantees; no leader reads them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.idempotent.configuration import (
    Acks,
    Configuration,
    FirstSequence,
    HeadTruncation,
    RestartWindow,
    Validation,
)
from model.idempotent.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
    EpochOrNone,
    Error,
    Flag,
    Offset,
    ProduceRequest,
    ProduceResponse,
    ProducerId,
    Sequence,
    StoredCount,
    decrement_sequence,
    last_sequence,
)
from model.language import (
    AtMost,
    Map,
    Range,
    Step,
    acts,
    fold,
    map_values,
    receives,
    record,
    require,
)


@record
class BatchMetadata:
    """One remembered batch. ProducerStateEntry / BatchMetadata."""

    last_sequence: Sequence
    last_offset: Offset
    offset_delta: Annotated[int, Range(0, "max_delta")]


@record
class ProducerStateEntry:
    """The leader's state of one producer id, with the newest batch last; epoch -1 if it has
    none."""

    producer_epoch: EpochOrNone
    batches: Annotated[tuple[BatchMetadata, ...], AtMost("window")]


@record
class StoredBatch:
    """A batch in the log."""

    batch: Batch
    base_offset: Offset


@record
class Leader:
    """One partition at its leader. All replicas have the records below `high_watermark`."""

    log: Annotated[tuple[StoredBatch, ...], AtMost("log")]
    log_start_offset: Offset
    high_watermark: Offset
    producers: Map[ProducerId, ProducerStateEntry]


UNKNOWN_PRODUCER = ProducerStateEntry(producer_epoch=NO_PRODUCER_EPOCH, batches=())


def log_end_offset(log: tuple[StoredBatch, ...]) -> int:
    """The offset of the next record."""
    return log[-1].base_offset + log[-1].batch.record_count if len(log) > 0 else 0


# The checks, in their order


def first_sequence(k: Configuration, remembered: BatchMetadata) -> int:
    """The first sequence, derived: only the last one is kept. BatchMetadata.firstSeq."""
    return decrement_sequence(k, remembered.last_sequence, remembered.offset_delta)


def is_duplicate(
    k: Configuration, entry: ProducerStateEntry, remembered: BatchMetadata, batch: Batch
) -> bool:
    """Whether the remembered batch is this one, of this epoch.
    ProducerStateEntry.findDuplicateBatch."""
    return (
        batch.producer_epoch == entry.producer_epoch
        and batch.base_sequence == first_sequence(k, remembered)
        and last_sequence(k, batch) == remembered.last_sequence
    )


def check_producer_epoch(entry: ProducerStateEntry, batch: Batch) -> Error:
    """Refuse a batch of an older epoch, which is a zombie's. ProducerAppendInfo.checkProducerEpoch,
    KIP-98."""
    if batch.producer_epoch < entry.producer_epoch:
        return Error.INVALID_PRODUCER_EPOCH
    return Error.NONE


def in_sequence(k: Configuration, last: int, following: int) -> bool:
    """Whether a batch may begin with `following` after `last`. ProducerAppendInfo.inSequence."""
    return following == last + 1 or (following == 0 and last == k.bounds.max_sequence)


def check_first_sequence(k: Configuration, entry: ProducerStateEntry, batch: Batch) -> Error:
    """Refuse the first batch of an epoch unless it begins at 0; for an unknown producer id, see
    FirstSequence."""
    if batch.base_sequence == 0:
        return Error.NONE
    if entry.producer_epoch != NO_PRODUCER_EPOCH:
        return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    if k.variant.first_sequence == FirstSequence.ANY:
        return Error.NONE
    if k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID:
        return Error.UNKNOWN_PRODUCER_ID
    return Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def check_sequence(k: Configuration, entry: ProducerStateEntry, batch: Batch) -> Error:
    """Refuse a gap and an overlap. ProducerAppendInfo.checkSequence."""
    if batch.producer_epoch != entry.producer_epoch:
        return check_first_sequence(k, entry, batch)
    last = entry.batches[-1].last_sequence if len(entry.batches) > 0 else NO_SEQUENCE
    if in_sequence(k, last, batch.base_sequence):
        return Error.NONE
    return Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def check_append(k: Configuration, entry: ProducerStateEntry, batch: Batch) -> Error:
    """Check the epoch, then the sequence. ProducerAppendInfo.maybeValidateDataBatch."""
    if k.variant.validation == Validation.NONE:
        return Error.NONE
    epoch_error = check_producer_epoch(entry, batch)
    if epoch_error != Error.NONE or k.variant.validation == Validation.EPOCH_ONLY:
        return epoch_error
    return check_sequence(k, entry, batch)


# The append


def remember(
    k: Configuration, entry: ProducerStateEntry, stored: StoredBatch
) -> ProducerStateEntry:
    """The entry with one more batch; a new epoch drops the batches of the old one.
    ProducerStateEntry.addBatch."""
    metadata = BatchMetadata(
        last_sequence=last_sequence(k, stored.batch),
        last_offset=stored.base_offset + stored.batch.record_count - 1,
        offset_delta=stored.batch.record_count - 1,
    )
    if stored.batch.producer_epoch != entry.producer_epoch:
        return ProducerStateEntry(producer_epoch=stored.batch.producer_epoch, batches=(metadata,))
    return replace(entry, batches=(*entry.batches, metadata)[-k.bounds.window :])


def replayed(
    k: Configuration, producers: Map[ProducerId, ProducerStateEntry], stored: StoredBatch
) -> Map[ProducerId, ProducerStateEntry]:
    """The producers' states after a stored batch. ProducerStateManager.update."""
    producer_id = stored.batch.producer_id
    if producer_id == NO_PRODUCER_ID:
        return producers
    return producers.put(producer_id, remember(k, producers[producer_id], stored))


def append(k: Configuration, leader: Leader, batch: Batch) -> Leader:
    """The leader with the batch at the end of its log. A single replica is in sync at once.
    UnifiedLog.append."""
    stored = StoredBatch(batch=batch, base_offset=log_end_offset(leader.log))
    end_offset = stored.base_offset + batch.record_count
    return replace(
        leader,
        log=(*leader.log, stored),
        high_watermark=end_offset if k.bounds.replicas == 1 else leader.high_watermark,
        producers=replayed(k, leader.producers, stored),
    )


def awaited(k: Configuration, offset: int) -> int:
    """The offset that the high watermark must reach before the answer is sent; only acks=all
    waits."""
    return offset if k.variant.acks == Acks.ALL else 0


def refusal(leader: Leader, batch: Batch, error: Error) -> Step[Leader, ProduceResponse]:
    """The answer with an error; nothing is written.
    LogAppendInfo.unknownLogAppendInfoWithLogStartOffset."""
    answer = ProduceResponse(
        first_record=batch.first_record,
        error=error,
        base_offset=INVALID_OFFSET,
        required_offset=0,
        log_start_offset=0 if error == Error.MESSAGE_TOO_LARGE else leader.log_start_offset,
    )
    return Step(leader, (answer,))


def success(
    k: Configuration, leader: Leader, batch: Batch, base_offset: int
) -> Step[Leader, ProduceResponse]:
    """The answer for a batch that is stored at `base_offset`, by this request or an earlier one."""
    answer = ProduceResponse(
        first_record=batch.first_record,
        error=Error.NONE,
        base_offset=base_offset,
        required_offset=awaited(k, base_offset + batch.record_count),
        log_start_offset=leader.log_start_offset,
    )
    return Step(leader, (answer,))


def find_duplicates(
    k: Configuration, entry: ProducerStateEntry, batch: Batch
) -> tuple[BatchMetadata, ...]:
    """The remembered batches that this one duplicates. ProducerStateManager.hasDuplicates."""
    return tuple(
        m
        for m in entry.batches
        if k.variant.validation == Validation.FULL and is_duplicate(k, entry, m, batch)
    )


@receives
def on_produce(
    k: Configuration, leader: Leader, request: ProduceRequest
) -> Step[Leader, ProduceResponse]:
    """Handle a batch: answer a duplicate, refuse, or append. ReplicaManager.appendRecords."""
    batch = request.batch
    if k.bounds.splits and batch.record_count > k.bounds.max_message:
        return refusal(leader, batch, Error.MESSAGE_TOO_LARGE)
    if batch.producer_id == NO_PRODUCER_ID:
        return success(k, append(k, leader, batch), batch, log_end_offset(leader.log))
    entry = leader.producers[batch.producer_id]
    duplicates = find_duplicates(k, entry, batch)
    if len(duplicates) > 0:
        known = duplicates[0]
        return success(k, leader, batch, known.last_offset - known.offset_delta)
    error = check_append(k, entry, batch)
    if error != Error.NONE:
        return refusal(leader, batch, error)
    return success(k, append(k, leader, batch), batch, log_end_offset(leader.log))


@receives
def on_produce_without_replicas(
    k: Configuration, leader: Leader, request: ProduceRequest
) -> Step[Leader, ProduceResponse]:
    """Refuse a batch because too few replicas are in sync; nothing is written.
    Partition.appendRecordsToLeader."""
    return refusal(leader, request.batch, Error.NOT_ENOUGH_REPLICAS)


@receives
def on_invalid_produce(
    k: Configuration, leader: Leader, request: ProduceRequest
) -> Step[Leader, ProduceResponse]:
    """Refuse records that the topic does not accept, for example for their timestamps. Nothing is
    written, and the leader does not look for a duplicate. LogValidator."""
    return refusal(leader, request.batch, Error.INVALID_TIMESTAMP)


def late_error(timed_out: Flag) -> Error:
    """The error for a batch that is stored. DelayedProduce.onExpiration, tryComplete."""
    return Error.REQUEST_TIMED_OUT if timed_out == 1 else Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@receives
def on_produce_then_unreplicated(
    k: Configuration, leader: Leader, request: ProduceRequest, timed_out: Flag
) -> Step[Leader, ProduceResponse]:
    """Store a batch, and answer an error: too few replicas have it in time, or too few are in sync
    once they have it. DelayedProduce, Partition.checkEnoughReplicasReachOffset."""
    step = on_produce(k, leader, request)
    answer = step.sends[0]
    in_time = timed_out == 1 and answer.required_offset <= leader.high_watermark
    if answer.error != Error.NONE or in_time:
        return step
    unreplicated = replace(answer, error=late_error(timed_out), required_offset=0)
    stored = step.actor if timed_out == 1 else advance_high_watermark(k, step.actor)
    return Step(stored, (unreplicated,))


# Replication, restart, failover


@acts
def advance_high_watermark(k: Configuration, leader: Leader) -> Leader:
    """Advance to the log's end, which all followers have fetched.
    Partition.maybeIncrementLeaderHW."""
    return replace(leader, high_watermark=log_end_offset(leader.log))


def snapshot(k: Configuration, entry: ProducerStateEntry) -> ProducerStateEntry:
    """The part of an entry that a producer snapshot keeps: the last batch.
    ProducerStateManager.writeSnapshot."""
    if k.variant.restart_window == RestartWindow.FULL:
        return entry
    return replace(entry, batches=entry.batches[-1:])


def nobody(k: Configuration) -> Map[ProducerId, ProducerStateEntry]:
    """The producers' states when no producer id is known."""
    return Map.filled(k.bounds.producer_ids, UNKNOWN_PRODUCER)


def is_usable(snapshot_offset: int, log_start_offset: int) -> bool:
    """Whether a snapshot may be loaded: one at or below the log's start is deleted.
    ProducerStateManager.truncateAndReload."""
    return log_start_offset == 0 or snapshot_offset > log_start_offset


@acts
def restart(k: Configuration, leader: Leader) -> Leader:
    """Come back with the log and a snapshot taken at its end."""
    if not is_usable(log_end_offset(leader.log), leader.log_start_offset):
        return replace(leader, producers=nobody(k))
    return replace(leader, producers=map_values(k, snapshot, leader.producers))


@acts
def recover(k: Configuration, leader: Leader, covered: StoredCount) -> Leader:
    """Come back after a crash. The newest snapshot holds the first `covered` batches; the others
    are replayed. The result passes through a snapshot of its own. LogLoader,
    UnifiedLog.rebuildProducerState."""
    before = leader.log[:covered]
    usable = is_usable(log_end_offset(before), leader.log_start_offset)
    state = map_values(k, snapshot, fold(k, replayed, before, nobody(k))) if usable else nobody(k)
    behind = tuple(
        s
        for i, s in enumerate(leader.log)
        if (i >= covered if usable else s.base_offset >= leader.log_start_offset)
    )
    rebuilt = fold(k, replayed, behind, state)
    recovered = replace(leader, producers=map_values(k, snapshot, rebuilt))
    return without_evicted(k, recovered)


@acts
def fail_over(k: Configuration, leader: Leader, kept: StoredCount) -> Leader:
    """Let a replica with the first `kept` batches lead; it has replayed them as it fetched them."""
    log = leader.log[:kept]
    elected = replace(
        leader,
        log=log,
        high_watermark=min(leader.high_watermark, log_end_offset(log)),
        producers=fold(k, replayed, log, nobody(k)),
    )
    return without_evicted(k, elected)


# Expiration and deletion


@acts
def expire_producer(k: Configuration, leader: Leader, producer_id: ProducerId) -> Leader:
    """Forget a producer id that has been silent for too long.
    ProducerStateManager.removeExpiredProducers."""
    require(leader.producers[producer_id].producer_epoch != NO_PRODUCER_EPOCH)
    return replace(leader, producers=leader.producers.put(producer_id, UNKNOWN_PRODUCER))


def without_evicted(k: Configuration, leader: Leader) -> Leader:
    """The leader without the producer ids whose last batch is deleted.
    ProducerStateManager.truncateHead."""
    if k.variant.head_truncation == HeadTruncation.KEEPS:
        return leader
    return replace(
        leader,
        producers=Map(
            tuple(
                UNKNOWN_PRODUCER
                if len(entry.batches) > 0
                and entry.batches[-1].last_offset < leader.log_start_offset
                else entry
                for entry in leader.producers.values()
            )
        ),
    )


@acts
def delete_records(k: Configuration, leader: Leader, deleted: StoredCount) -> Leader:
    """Delete the first `deleted` batches, by retention or by request. UnifiedLog.deleteRecords."""
    log_start_offset = log_end_offset(leader.log[:deleted])
    require(log_start_offset > leader.log_start_offset)
    require(log_start_offset <= leader.high_watermark)
    return without_evicted(k, replace(leader, log_start_offset=log_start_offset))
