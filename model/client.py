"""The idempotent producer: sequences, several requests in flight, retries in order, epoch bumps.

Theory of operation. A batch gets (producer id, epoch, sequence) when it is first sent and keeps
them for every retry. It stays in the partition's in-flight list, in sequence order, until it is
acknowledged or given up, also while it waits to be sent again; while one waits, only the first of
the list may be sent. If the leader finds the first of the list out of sequence, its memory of
this producer is not what it was: the client takes the next epoch by itself and numbers what is in
flight again from 0 (KIP-360). `Sender`, `TransactionManager`, `RecordAccumulator`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from model.language import (
    EMPTY_SET,
    AtMost,
    Map,
    Range,
    Set,
    Step,
    acts,
    receives,
    record,
    require,
    span,
    within_scope,
)
from model.messages import (
    NO_SEQUENCE,
    Batch,
    Epoch,
    Error,
    Partition,
    Producer,
    ProduceRequest,
    ProduceResponse,
    RecordNumber,
    Sequence,
    SequenceOrNone,
    increment_sequence,
    last_sequence,
)
from model.setting import AckedSequence, Setting


@record
class InFlightBatch:
    """A batch that has a sequence and is not finished. ProducerBatch.

    `outstanding`: its request awaits an answer; else it waits to be sent again.
    `sequence_has_been_reset`: numbered again since it was last sent.
    """

    batch: Batch
    outstanding: bool
    sequence_has_been_reset: bool


@record
class PartitionEntry:
    """What the producer knows of one partition. TxnPartitionEntry, and the application's view:
    how many records it has sent, and which of them were acknowledged."""

    producer_epoch: Epoch
    next_sequence: Sequence
    last_acked_sequence: SequenceOrNone
    in_flight: Annotated[tuple[InFlightBatch, ...], AtMost("in_flight")]
    records_sent: Annotated[int, Range(0, "records")]
    acknowledged: Set[RecordNumber]


@record
class Client:
    """One producer. `bump_for` holds the partitions whose batches the next bump renumbers."""

    producer_id: Producer
    producer_epoch: Epoch
    bump_for: Set[Partition]
    partitions: Map[Partition, PartitionEntry]


class Failure(IntEnum):
    """What becomes of a batch that was answered with an error."""

    RETRY = 0
    RETRY_AND_BUMP = 1
    FAIL_AND_BUMP = 2


def records_in(k: Setting, first_record: int) -> int:
    """How many records the application's next batch has: 1, 2, 1, 2, ..."""
    return 2 if first_record % 3 == 1 else 1


# Sending


@acts
def send_new(k: Setting, client: Client, partition: Partition) -> Step[Client, ProduceRequest]:
    """A batch gets its sequence and goes out. RecordAccumulator.drainBatchesForOneNode."""
    entry = client.partitions[partition]
    require(client.bump_for.is_empty())
    require(all(b.outstanding for b in entry.in_flight))
    require(len(entry.in_flight) < k.layout.in_flight)
    require(len(entry.in_flight) == 0 or entry.producer_epoch == client.producer_epoch)
    record_count = records_in(k, entry.records_sent)
    within_scope(entry.records_sent + record_count <= k.budgets.records)
    in_epoch = entry.producer_epoch == client.producer_epoch
    batch = Batch(
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        base_sequence=entry.next_sequence if in_epoch else 0,
        record_count=record_count,
        first_record=entry.records_sent,
    )
    sent = InFlightBatch(batch=batch, outstanding=True, sequence_has_been_reset=False)
    updated = replace(
        entry,
        producer_epoch=client.producer_epoch,
        next_sequence=increment_sequence(k, batch.base_sequence, record_count),
        last_acked_sequence=entry.last_acked_sequence if in_epoch else NO_SEQUENCE,
        in_flight=(*entry.in_flight, sent),
        records_sent=entry.records_sent + record_count,
    )
    return Step(with_entry(client, partition, updated), (ProduceRequest(batch=batch),))


@acts
def send_again(k: Setting, client: Client, partition: Partition) -> Step[Client, ProduceRequest]:
    """The first batch in flight is retried; none may overtake it. shouldStopDrainBatches."""
    entry = client.partitions[partition]
    require(client.bump_for.is_empty())
    require(len(entry.in_flight) > 0)
    head = entry.in_flight[0]
    require(not head.outstanding)
    sent = replace(head, outstanding=True, sequence_has_been_reset=False)
    updated = replace(entry, in_flight=(sent, *entry.in_flight[1:]))
    return Step(with_entry(client, partition, updated), (ProduceRequest(batch=head.batch),))


def with_entry(client: Client, partition: Partition, entry: PartitionEntry) -> Client:
    """The client with one partition's entry replaced."""
    return replace(client, partitions=client.partitions.put(partition, entry))


# Answers


def later(k: Setting, acked: int, last: int) -> int:
    """The later of two sequences. TransactionManager.maybeUpdateLastAckedSequence."""
    if k.variant.acked_sequence == AckedSequence.RAW or acked == NO_SEQUENCE:
        return max(acked, last)
    ahead = last - acked if last >= acked else last - acked + k.layout.max_sequence + 1
    return last if 2 * ahead <= k.layout.max_sequence else acked


def on_success(k: Setting, entry: PartitionEntry, answered: InFlightBatch) -> PartitionEntry:
    """Stored: the application hears of it. TransactionManager.handleCompletedBatch."""
    batch = answered.batch
    return replace(
        entry,
        last_acked_sequence=later(k, entry.last_acked_sequence, last_sequence(k, batch)),
        in_flight=without(entry, batch.first_record),
        acknowledged=entry.acknowledged.union(span(batch.first_record, batch.record_count)),
    )


def without(entry: PartitionEntry, first_record: int) -> tuple[InFlightBatch, ...]:
    """The batches in flight but the one that begins with `first_record`."""
    return tuple(b for b in entry.in_flight if b.batch.first_record != first_record)


def waiting(b: InFlightBatch, first_record: int) -> InFlightBatch:
    """The batch, back in the queue if it begins with `first_record`. Sender.reenqueueBatch."""
    return replace(b, outstanding=False) if b.batch.first_record == first_record else b


def is_next(k: Setting, entry: PartitionEntry, batch: Batch) -> bool:
    """Whether all before it was acknowledged. TransactionManager.isNextSequence."""
    if k.variant.acked_sequence == AckedSequence.WRAPS:
        return batch.base_sequence == increment_sequence(k, entry.last_acked_sequence, 1)
    return batch.base_sequence == entry.last_acked_sequence + 1


def failure(k: Setting, entry: PartitionEntry, answered: InFlightBatch, error: Error) -> Failure:
    """Sender.canRetry and TransactionManager.canRetry."""
    if error == Error.NOT_ENOUGH_REPLICAS:
        return Failure.RETRY
    if error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
        if answered.sequence_has_been_reset or not is_next(k, entry, answered.batch):
            return Failure.RETRY
        return Failure.RETRY_AND_BUMP
    return Failure.FAIL_AND_BUMP


def on_failure(
    k: Setting, client: Client, partition: Partition, answered: InFlightBatch, error: Error
) -> Client:
    """An error: the batch is queued again or given up, and a bump may be due."""
    entry = client.partitions[partition]
    first_record = answered.batch.first_record
    decided = failure(k, entry, answered, error)
    queued = tuple(waiting(b, first_record) for b in entry.in_flight)
    kept = without(entry, first_record) if decided == Failure.FAIL_AND_BUMP else queued
    updated = with_entry(client, partition, replace(entry, in_flight=kept))
    if decided == Failure.RETRY:
        return updated
    return replace(updated, bump_for=updated.bump_for.plus(partition))


@receives
def on_answer(k: Setting, client: Client, partition: Partition, answer: ProduceResponse) -> Client:
    """The answer to a request in flight. Sender.completeBatch."""
    entry = client.partitions[partition]
    answered = tuple(b for b in entry.in_flight if b.batch.first_record == answer.first_record)
    if len(answered) == 0:
        return client
    if answer.error == Error.NONE:
        return with_entry(client, partition, on_success(k, entry, answered[0]))
    return on_failure(k, client, partition, answered[0], answer.error)


@receives
def on_disconnect(k: Setting, client: Client, partition: Partition) -> Client:
    """All that awaited an answer will be sent again. Sender.handleProduceResponse."""
    entry = client.partitions[partition]
    queued = tuple(replace(b, outstanding=False) for b in entry.in_flight)
    return with_entry(client, partition, replace(entry, in_flight=queued))


# The next epoch


def renumbered(
    k: Setting, in_flight: tuple[InFlightBatch, ...], epoch: Epoch
) -> tuple[InFlightBatch, ...]:
    """In the same order, from 0, without a gap. TxnPartitionEntry.startSequencesAtBeginning."""
    return tuple(
        replace(
            b,
            batch=replace(
                b.batch,
                producer_epoch=epoch,
                base_sequence=sum(earlier.batch.record_count for earlier in in_flight[:i]),
            ),
            sequence_has_been_reset=True,
        )
        for i, b in enumerate(in_flight)
    )


def rewritten(k: Setting, entry: PartitionEntry, epoch: Epoch) -> PartitionEntry:
    """A partition at the beginning of an epoch."""
    return replace(
        entry,
        producer_epoch=epoch,
        next_sequence=sum(b.batch.record_count for b in entry.in_flight),
        last_acked_sequence=NO_SEQUENCE,
        in_flight=renumbered(k, entry.in_flight, epoch),
    )


@acts
def bump_epoch(k: Setting, client: Client) -> Client:
    """KIP-360. TransactionManager.bumpIdempotentProducerEpoch."""
    require(not client.bump_for.is_empty())
    within_scope(client.producer_epoch < k.layout.max_epoch)
    epoch = client.producer_epoch + 1
    return Client(
        producer_id=client.producer_id,
        producer_epoch=epoch,
        bump_for=EMPTY_SET,
        partitions=Map(
            tuple(
                rewritten(k, entry, epoch) if partition in client.bump_for else entry
                for partition, entry in client.partitions.items()
            )
        ),
    )
