"""The idempotent producer: its state, and the batches that it sends for the first time or again.

Models `Sender`, `TransactionManager` and `RecordAccumulator`. `model.idempotent.responses` handles
answers; `model.idempotent.recovery` handles bumps, new producer ids and expired batches. A batch
holds one or two records; linger, batching by size and buffer memory are left out.

Theory of operation. A batch gets its (producer id, epoch, sequence) when it is first sent, and
keeps them for every retry. It stays in the partition's in-flight list, in sequence order, until it
is acknowledged or given up, even while it waits to be sent again. While a batch waits, the producer
may send only the first of the list. If the leader finds the first of the list out of sequence, the
leader has lost part of its memory of the producer, and the producer has to recover.

Without idempotence a batch has neither producer id nor sequence. A batch that is sent again goes to
the head of the queue, whatever is in flight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.idempotent.configuration import (
    Acks,
    Configuration,
    Idempotence,
    Recovery,
    Retries,
    SequenceOrder,
)
from model.idempotent.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
    BatchEpoch,
    OffsetOrNone,
    Partition,
    Producer,
    ProduceRequest,
    ProducerIdOrNone,
    RecordCount,
    RecordNumber,
    Sequence,
    SequenceOrNone,
    increment_sequence,
)
from model.language import AtMost, Map, Range, Set, Step, acts, record, require, span


@record
class InFlightBatch:
    """A batch that was sent and is not finished. ProducerBatch.

    `outstanding`: whether its request awaits an answer; if not, the batch waits to be sent again.
    `sequence_has_been_reset`: whether it was numbered again since it was last sent. `attempts`: 1
    if it was sent before, counted only where a rule depends on it.
    """

    batch: Batch
    outstanding: bool
    sequence_has_been_reset: bool
    attempts: Annotated[int, Range(0, 1)]


InFlight = tuple[InFlightBatch, ...]


@record
class PartitionEntry:
    """The producer's state for one partition (TxnPartitionEntry), and the application's view of it:
    the number of records sent, those acknowledged, and those that have failed.

    `unresolved_sequence` is the sequence after a batch of unknown outcome. `given_up` holds the
    batches whose answer may still come although the application was told that they have failed.
    """

    producer_id: ProducerIdOrNone
    producer_epoch: BatchEpoch
    next_sequence: Sequence
    last_acked_sequence: SequenceOrNone
    last_acked_offset: OffsetOrNone
    unresolved_sequence: SequenceOrNone
    in_flight: Annotated[tuple[InFlightBatch, ...], AtMost("unfinished")]
    given_up: Annotated[tuple[InFlightBatch, ...], AtMost("given_up")]
    records_sent: Annotated[int, Range(0, "records")]
    acknowledged: Set[RecordNumber]
    failed: Set[RecordNumber]


@record
class Client:
    """One producer. `bump_for` holds the partitions whose batches the next bump renumbers."""

    producer: Producer
    producer_id: ProducerIdOrNone
    producer_epoch: BatchEpoch
    bump_for: Set[Partition]
    fatal: bool
    partitions: Map[Partition, PartitionEntry]


def with_entry(client: Client, partition: Partition, entry: PartitionEntry) -> Client:
    """The client with one partition's entry replaced."""
    return replace(client, partitions=client.partitions.put(partition, entry))


def is_of(batch: Batch, producer_id: int, producer_epoch: int) -> bool:
    """Whether the batch was numbered under this id and epoch."""
    return batch.producer_id == producer_id and batch.producer_epoch == producer_epoch


# Sending


def may_send(k: Configuration, client: Client) -> bool:
    """Whether the producer has the producer id that it needs, and nothing to do first.
    Sender.runOnce."""
    has_id = k.variant.idempotence == Idempotence.DISABLED or client.producer_id != NO_PRODUCER_ID
    return has_id and client.bump_for.is_empty() and not client.fatal


def is_current(client: Client, entry: PartitionEntry) -> bool:
    """Whether the partition counts sequences under the client's present id and epoch."""
    return entry.producer_id == client.producer_id and entry.producer_epoch == client.producer_epoch


def has_old_batches(k: Configuration, client: Client, entry: PartitionEntry) -> bool:
    """Whether batches of an earlier id or epoch are unfinished.
    shouldStopDrainBatchesForPartition."""
    unordered = k.variant.idempotence == Idempotence.DISABLED
    if unordered or k.variant.recovery != Recovery.LOCAL_BUMP:
        return False
    return len(entry.in_flight) > 0 and not is_current(client, entry)


def numbered(k: Configuration, client: Client, entry: PartitionEntry) -> PartitionEntry:
    """The partition under the client's id and epoch; it begins at sequence 0 if they are new to
    it."""
    if k.variant.idempotence == Idempotence.DISABLED or is_current(client, entry):
        return entry
    return replace(
        entry,
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        next_sequence=0,
        last_acked_sequence=NO_SEQUENCE,
        last_acked_offset=INVALID_OFFSET,
    )


def new_batch(
    k: Configuration, client: Client, entry: PartitionEntry, record_count: RecordCount
) -> Batch:
    """The application's next records, with the partition's next sequence."""
    numbers = k.variant.idempotence == Idempotence.ENABLED
    return Batch(
        producer_id=client.producer_id if numbers else NO_PRODUCER_ID,
        producer_epoch=client.producer_epoch if numbers else NO_PRODUCER_EPOCH,
        base_sequence=entry.next_sequence if numbers else NO_SEQUENCE,
        record_count=record_count,
        producer=client.producer,
        first_record=entry.records_sent,
    )


def with_new(k: Configuration, in_flight: InFlight, sent: InFlightBatch) -> InFlight:
    """The batches in flight and the new one, which is last. At the wrap, an order by plain numbers
    may put it first. TxnPartitionEntry.inflightBatchesBySequence."""
    if k.variant.sequence_order == SequenceOrder.WRAPS or not k.bounds.wraps:
        return (*in_flight, sent)
    first = sent.batch.base_sequence
    smaller = tuple(b for b in in_flight if b.batch.base_sequence < first)
    larger = tuple(b for b in in_flight if b.batch.base_sequence > first)
    return (*smaller, sent, *larger)


@acts
def send_new(
    k: Configuration, client: Client, partition: Partition, record_count: RecordCount
) -> Step[Client, ProduceRequest]:
    """Number a new batch and send it. RecordAccumulator.drainBatchesForOneNode."""
    entry = client.partitions[partition]
    require(may_send(k, client))
    require(all(b.outstanding for b in entry.in_flight))
    require(len(entry.in_flight) < k.bounds.in_flight - len(entry.given_up))
    require(entry.unresolved_sequence == NO_SEQUENCE)
    require(not has_old_batches(k, client, entry))
    begun = numbered(k, client, entry)
    batch = new_batch(k, client, begun, record_count)
    sent = InFlightBatch(batch=batch, outstanding=True, sequence_has_been_reset=False, attempts=0)
    counted = replace(
        begun,
        next_sequence=increment_sequence(k, begun.next_sequence, record_count)
        if k.variant.idempotence == Idempotence.ENABLED
        else 0,
        in_flight=with_new(k, begun.in_flight, sent)
        if k.variant.acks != Acks.NONE
        else begun.in_flight,
        records_sent=begun.records_sent + record_count,
    )
    told = acknowledged(counted, batch) if k.variant.acks == Acks.NONE else counted
    return Step(with_entry(client, partition, told), (ProduceRequest(batch=batch),))


def acknowledged(entry: PartitionEntry, batch: Batch) -> PartitionEntry:
    """The partition, after the application was told that the batch is stored."""
    records = span(batch.first_record, batch.record_count)
    return replace(entry, acknowledged=entry.acknowledged.union(records))


def first_in_sequence(queued: InFlight) -> InFlight:
    """The first of the waiting batches, ordered by sequence alone, whatever their producer ids. Of
    two with the same sequence, the one that came back later.
    RecordAccumulator.insertInSequenceOrder."""
    return tuple(
        b
        for i, b in enumerate(queued)
        if all(b.batch.base_sequence <= other.batch.base_sequence for other in queued)
        and all(b.batch.base_sequence < other.batch.base_sequence for other in queued[i + 1 :])
    )


def next_to_retry(k: Configuration, client: Client, entry: PartitionEntry) -> InFlight:
    """The batch that may be sent again, or none. With sequences it is the first in flight."""
    idle = tuple(b for b in entry.in_flight if not b.outstanding)
    if k.variant.idempotence == Idempotence.DISABLED:
        return idle[:1]
    if k.variant.recovery != Recovery.LOCAL_BUMP:
        ahead = tuple(b for b in entry.in_flight if b.batch.producer_id == client.producer_id)
        return tuple(
            b
            for b in first_in_sequence(idle)
            if b.batch.producer_id != client.producer_id or not ahead[0].outstanding
        )
    return tuple(b for b in entry.in_flight[:1] if not b.outstanding)


def has_room(k: Configuration, entry: PartitionEntry) -> bool:
    """Whether one more request may be in flight; requests of batches given up count as well."""
    on_their_way = sum(1 if b.outstanding else 0 for b in entry.in_flight)
    always = k.bounds.given_up == 0 and not k.bounds.splits
    return always or on_their_way + len(entry.given_up) < k.bounds.in_flight


@acts
def send_again(
    k: Configuration, client: Client, partition: Partition
) -> Step[Client, ProduceRequest]:
    """Retry the first batch in flight; no other batch may overtake it. shouldStopDrainBatches."""
    entry = client.partitions[partition]
    require(may_send(k, client))
    ready = next_to_retry(k, client, entry)
    require(len(ready) > 0)
    require(has_room(k, entry))
    batch = ready[0].batch
    sent = replace(ready[0], outstanding=True, sequence_has_been_reset=False)
    updated = replace(entry, in_flight=put_back(k, entry, sent))
    return Step(with_entry(client, partition, updated), (ProduceRequest(batch=batch),))


def put_back(k: Configuration, entry: PartitionEntry, sent: InFlightBatch) -> InFlight:
    """The batches in flight, with the retried batch in its place; without sequences it becomes the
    last."""
    if k.variant.idempotence == Idempotence.DISABLED:
        return (*without(entry, sent.batch.first_record), sent)
    return tuple(
        sent if b.batch.first_record == sent.batch.first_record else b for b in entry.in_flight
    )


# Batches in flight


def without(entry: PartitionEntry, first_record: int) -> InFlight:
    """The batches in flight except the one that begins with `first_record`."""
    return tuple(b for b in entry.in_flight if b.batch.first_record != first_record)


def counts_attempts(k: Configuration) -> bool:
    """Whether a rule depends on whether a batch was sent before."""
    return k.variant.retries != Retries.ENDLESS or k.bounds.faults.timeouts > 0


def waiting(k: Configuration, b: InFlightBatch) -> InFlightBatch:
    """The batch, waiting to be sent again."""
    return replace(b, outstanding=False, attempts=1 if counts_attempts(k) else 0)


def failed(k: Configuration, entry: PartitionEntry, b: InFlightBatch) -> PartitionEntry:
    """The partition, after the application was told that the batch has failed.
    ProducerBatch.completeExceptionally."""
    records = span(b.batch.first_record, b.batch.record_count)
    return replace(
        entry,
        in_flight=without(entry, b.batch.first_record),
        failed=entry.failed.union(records),
    )
