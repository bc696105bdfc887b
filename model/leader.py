"""The leader of a partition: the state it keeps of each producer, and its order of checks.

Theory of operation. Everything that makes a producer idempotent is in the log itself: a leader
remembers, for each producer id, the epoch it last saw and the last five batches of that epoch,
and it can rebuild this from any prefix of the log. A batch is looked for among those five first
(then it is a duplicate: success, nothing happens), then its epoch is compared, then its sequence
must follow the last one. `ProducerStateManager`, `ProducerAppendInfo`, `UnifiedLog`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.language import AtMost, Map, Range, Step, acts, fold, map_values, receives, record
from model.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    Batch,
    EpochOrNone,
    Error,
    Offset,
    Producer,
    ProduceRequest,
    ProduceResponse,
    Sequence,
    decrement_sequence,
    last_sequence,
)
from model.setting import FirstSequence, RestartWindow, Setting


@record
class BatchMetadata:
    """One remembered batch. ProducerStateEntry / BatchMetadata."""

    last_sequence: Sequence
    last_offset: Offset
    offset_delta: Annotated[int, Range(0, "max_delta")]


@record
class ProducerStateEntry:
    """What a leader knows of one producer id; epoch -1 if nothing. The newest batch is last."""

    producer_epoch: EpochOrNone
    batches: Annotated[tuple[BatchMetadata, ...], AtMost("window")]


@record
class StoredBatch:
    """A batch in the log."""

    batch: Batch
    base_offset: Offset


@record
class Leader:
    """One partition at its leader. Offsets below `high_watermark` are on every replica."""

    log: Annotated[tuple[StoredBatch, ...], AtMost("log")]
    high_watermark: Offset
    producers: Map[Producer, ProducerStateEntry]


UNKNOWN_PRODUCER = ProducerStateEntry(producer_epoch=NO_PRODUCER_EPOCH, batches=())


def log_end_offset(log: tuple[StoredBatch, ...]) -> int:
    """The offset that the next record will have."""
    return log[-1].base_offset + log[-1].batch.record_count if len(log) > 0 else 0


# The checks, in their order


def first_sequence(k: Setting, remembered: BatchMetadata) -> int:
    """Derived, as only the last sequence is kept. BatchMetadata.firstSeq."""
    return decrement_sequence(k, remembered.last_sequence, remembered.offset_delta)


def is_duplicate(
    k: Setting, entry: ProducerStateEntry, remembered: BatchMetadata, batch: Batch
) -> bool:
    """Exactly this batch, of this epoch. ProducerStateEntry.findDuplicateBatch."""
    return (
        batch.producer_epoch == entry.producer_epoch
        and batch.base_sequence == first_sequence(k, remembered)
        and last_sequence(k, batch) == remembered.last_sequence
    )


def check_producer_epoch(entry: ProducerStateEntry, batch: Batch) -> Error:
    """An older epoch is a zombie. ProducerAppendInfo.checkProducerEpoch, KIP-98."""
    if batch.producer_epoch < entry.producer_epoch:
        return Error.INVALID_PRODUCER_EPOCH
    return Error.NONE


def in_sequence(k: Setting, last: int, following: int) -> bool:
    """Whether a batch may begin with `following` after `last`. ProducerAppendInfo.inSequence."""
    return following == last + 1 or (following == 0 and last == k.layout.max_sequence)


def check_first_sequence(k: Setting, entry: ProducerStateEntry, batch: Batch) -> Error:
    """The first batch of an epoch begins at 0; of an unknown producer id, see FirstSequence."""
    if batch.base_sequence == 0:
        return Error.NONE
    if entry.producer_epoch == NO_PRODUCER_EPOCH and k.variant.first_sequence == FirstSequence.ANY:
        return Error.NONE
    return Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def check_sequence(k: Setting, entry: ProducerStateEntry, batch: Batch) -> Error:
    """No gap, no overlap. ProducerAppendInfo.checkSequence."""
    if batch.producer_epoch != entry.producer_epoch:
        return check_first_sequence(k, entry, batch)
    last = entry.batches[-1].last_sequence if len(entry.batches) > 0 else NO_SEQUENCE
    if in_sequence(k, last, batch.base_sequence):
        return Error.NONE
    return Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def check_append(k: Setting, entry: ProducerStateEntry, batch: Batch) -> Error:
    """Epoch before sequence. ProducerAppendInfo.maybeValidateDataBatch."""
    epoch_error = check_producer_epoch(entry, batch)
    if epoch_error != Error.NONE:
        return epoch_error
    return check_sequence(k, entry, batch)


# The append


def remember(k: Setting, entry: ProducerStateEntry, stored: StoredBatch) -> ProducerStateEntry:
    """One more batch; a new epoch forgets the old one's. ProducerStateEntry.addBatch."""
    metadata = BatchMetadata(
        last_sequence=last_sequence(k, stored.batch),
        last_offset=stored.base_offset + stored.batch.record_count - 1,
        offset_delta=stored.batch.record_count - 1,
    )
    if stored.batch.producer_epoch != entry.producer_epoch:
        return ProducerStateEntry(producer_epoch=stored.batch.producer_epoch, batches=(metadata,))
    return replace(entry, batches=(*entry.batches, metadata)[-k.layout.window :])


def replayed(
    k: Setting, producers: Map[Producer, ProducerStateEntry], stored: StoredBatch
) -> Map[Producer, ProducerStateEntry]:
    """A stored batch taken into the producers' state. ProducerStateManager.update."""
    producer_id = stored.batch.producer_id
    return producers.put(producer_id, remember(k, producers[producer_id], stored))


def append(k: Setting, leader: Leader, batch: Batch) -> Leader:
    """The batch at the end of the log. A single replica has it at once. UnifiedLog.append."""
    stored = StoredBatch(batch=batch, base_offset=log_end_offset(leader.log))
    end_offset = stored.base_offset + batch.record_count
    return Leader(
        log=(*leader.log, stored),
        high_watermark=end_offset if k.layout.replicas == 1 else leader.high_watermark,
        producers=replayed(k, leader.producers, stored),
    )


def answer(batch: Batch, error: Error, base_offset: int, required_offset: int) -> ProduceResponse:
    """The answer to a batch."""
    return ProduceResponse(
        first_record=batch.first_record,
        error=error,
        base_offset=base_offset,
        required_offset=required_offset,
    )


@receives
def on_produce(
    k: Setting, leader: Leader, request: ProduceRequest
) -> Step[Leader, ProduceResponse]:
    """A batch arrives: a duplicate, an error, or an append. ReplicaManager.appendRecords."""
    batch = request.batch
    entry = leader.producers[batch.producer_id]
    duplicates = tuple(m for m in entry.batches if is_duplicate(k, entry, m, batch))
    if len(duplicates) > 0:
        known = duplicates[0]
        first_offset = known.last_offset - known.offset_delta
        required_offset = known.last_offset + 1
        return Step(leader, (answer(batch, Error.NONE, first_offset, required_offset),))
    error = check_append(k, entry, batch)
    if error != Error.NONE:
        return Step(leader, (answer(batch, error, INVALID_OFFSET, 0),))
    base_offset = log_end_offset(leader.log)
    required_offset = base_offset + batch.record_count
    appended = append(k, leader, batch)
    return Step(appended, (answer(batch, Error.NONE, base_offset, required_offset),))


@receives
def on_produce_without_replicas(
    k: Setting, leader: Leader, request: ProduceRequest
) -> Step[Leader, ProduceResponse]:
    """Too few replicas are in sync: nothing is written. Partition.appendRecordsToLeader."""
    refusal = answer(request.batch, Error.NOT_ENOUGH_REPLICAS, INVALID_OFFSET, 0)
    return Step(leader, (refusal,))


# Replication, restart, failover


@acts
def advance_high_watermark(k: Setting, leader: Leader) -> Leader:
    """The followers have fetched all. Partition.maybeIncrementLeaderHW."""
    return replace(leader, high_watermark=log_end_offset(leader.log))


def snapshot(k: Setting, entry: ProducerStateEntry) -> ProducerStateEntry:
    """What a producer snapshot keeps: the last batch. ProducerStateManager.writeSnapshot."""
    if k.variant.restart_window == RestartWindow.FULL:
        return entry
    return replace(entry, batches=entry.batches[-1:])


@acts
def restart(k: Setting, leader: Leader) -> Leader:
    """The broker comes back with its log and a snapshot taken at the log's end."""
    return replace(leader, producers=map_values(k, snapshot, leader.producers))


@acts
def fail_over(k: Setting, leader: Leader, kept: int) -> Leader:
    """A replica with the first `kept` batches leads; it replayed them as it fetched them."""
    log = leader.log[:kept]
    nothing = Map.filled(k.layout.producers, UNKNOWN_PRODUCER)
    return replace(leader, log=log, producers=fold(k, replayed, log, nothing))
