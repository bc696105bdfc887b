"""How a producer recovers when its sequences are in doubt, and how it gives batches up.

Models the parts of `TransactionManager` and `Sender` that bump epochs, reset producer ids, expire
batches and resolve sequences.

Theory of operation. Kafka has had three recoveries. Since 2.5 the producer takes the next epoch by
itself, and numbers the batches in flight again from 0 (KIP-360). Before, it forgot its producer id,
asked for another one, and used it at once, while old batches were still in flight. Since 2.3, what
happens to those batches no longer changes the new id's sequences. A batch in flight during a
recovery may be stored twice: no release guarantees otherwise.

A batch whose delivery time is up fails, although it may be stored. If it was sent more than once,
nobody knows whether its sequences are used. The producer then sends nothing new until all batches
in flight have ended, and it knows whether there is a gap.
"""

from __future__ import annotations

from dataclasses import replace

from model.idempotent.client import (
    Client,
    InFlight,
    InFlightBatch,
    PartitionEntry,
    failed,
    is_of,
    with_entry,
)
from model.idempotent.configuration import (
    Configuration,
    Expiry,
    Idempotence,
    Recovery,
    SequenceOrder,
)
from model.idempotent.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
    Partition,
    ProducerId,
    RecordNumber,
    increment_sequence,
    last_sequence,
)
from model.language import EMPTY_SET, Map, acts, fold, map_values, require, within_scope

# The producer id


@acts
def receive_producer_id(k: Configuration, client: Client, producer_id: ProducerId) -> Client:
    """Take the producer id from the answer to InitProducerId.
    TransactionManager.InitProducerIdHandler."""
    require(client.producer_id == NO_PRODUCER_ID)
    require(not client.fatal)
    return replace(client, producer_id=producer_id, producer_epoch=0)


# The next epoch


def renumbered(
    k: Configuration, in_flight: InFlight, producer_id: int, epoch: int
) -> tuple[InFlightBatch, ...]:
    """The batches in the same order, numbered from 0 without a gap.
    TxnPartitionEntry.startSequencesAtBeginning."""
    return tuple(
        replace(
            b,
            batch=replace(
                b.batch,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sum(earlier.batch.record_count for earlier in in_flight[:i]),
            ),
            sequence_has_been_reset=True,
        )
        for i, b in enumerate(in_flight)
    )


def rewritten(
    k: Configuration, entry: PartitionEntry, producer_id: int, epoch: int
) -> PartitionEntry:
    """The partition at the beginning of an epoch, with its batches in flight renumbered."""
    return replace(
        entry,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_sequence=sum(b.batch.record_count for b in entry.in_flight),
        last_acked_sequence=NO_SEQUENCE,
        last_acked_offset=INVALID_OFFSET,
        unresolved_sequence=NO_SEQUENCE,
        in_flight=renumbered(k, entry.in_flight, producer_id, epoch),
    )


def is_own(entry: PartitionEntry, b: InFlightBatch) -> bool:
    """Whether the batch is numbered under the partition's present id.
    TransactionManager.inflightBatchesBySequence forgets batches together with their older producer
    id."""
    return is_of(b.batch, entry.producer_id, entry.producer_epoch)


def renumbered_from_zero(k: Configuration, entry: PartitionEntry) -> PartitionEntry:
    """The partition, which begins its epoch anew because all its batches at the leader are deleted.
    The last acknowledged offset is kept. TransactionManager.startSequencesAtBeginning."""
    old = tuple(b for b in entry.in_flight if not is_own(entry, b))
    own = replace(entry, in_flight=tuple(b for b in entry.in_flight if is_own(entry, b)))
    begun = rewritten(k, own, entry.producer_id, entry.producer_epoch)
    in_flight = (*old, *begun.in_flight)
    return replace(begun, in_flight=in_flight, last_acked_offset=entry.last_acked_offset)


# A new producer id


def forgotten(k: Configuration, entry: PartitionEntry) -> PartitionEntry:
    """The partition as if nothing had been sent; the batches in flight keep their old numbers."""
    return replace(
        entry,
        next_sequence=0,
        last_acked_sequence=NO_SEQUENCE,
        last_acked_offset=INVALID_OFFSET,
        unresolved_sequence=NO_SEQUENCE,
    )


def reset_producer_id(k: Configuration, client: Client) -> Client:
    """The client without its producer id. TransactionManager.resetProducerId."""
    without_id = replace(client, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    return replace(without_id, partitions=map_values(k, forgotten, client.partitions))


def recovered(k: Configuration, client: Client, partition: Partition) -> Client:
    """The client, which will bump its epoch for the partition, or has given up its producer id."""
    if k.variant.recovery == Recovery.LOCAL_BUMP:
        return replace(client, bump_for=client.bump_for.plus(partition))
    return reset_producer_id(k, client)


def earlier_by(
    k: Configuration, entry: PartitionEntry, b: InFlightBatch, gap: Batch
) -> InFlightBatch:
    """The batch, moved up if its sequence is behind the gap; no batch moves below 0. In 2.0 the
    batch and the gap may have different producer ids: a client of 2.0.0 was seen to do so."""
    base_sequence = b.batch.base_sequence
    counts = is_own(entry, b) or k.variant.recovery == Recovery.RESET_2_0
    behind = counts and base_sequence >= gap.base_sequence
    if not behind or base_sequence < gap.record_count:
        return b
    moved = replace(b.batch, base_sequence=base_sequence - gap.record_count)
    return replace(b, batch=moved, sequence_has_been_reset=True)


def with_closed_gap(k: Configuration, entry: PartitionEntry, gap: Batch) -> PartitionEntry:
    """The partition after a batch was refused for good: the batches behind this gap take its
    sequences. Up to 2.4, TransactionManager.adjustSequencesDueToFailedBatch."""
    return replace(
        entry,
        next_sequence=entry.next_sequence - gap.record_count,
        in_flight=tuple(earlier_by(k, entry, b, gap) for b in entry.in_flight),
    )


# Unknown outcomes


def is_next(k: Configuration, entry: PartitionEntry, sequence: int) -> bool:
    """Whether all batches before this sequence are acknowledged.
    TransactionManager.isNextSequence."""
    if k.variant.sequence_order == SequenceOrder.WRAPS:
        return sequence == increment_sequence(k, entry.last_acked_sequence, 1)
    return sequence == entry.last_acked_sequence + 1


def overdue(k: Configuration, entry: PartitionEntry) -> InFlight:
    """The batches of which one may be given up next: the first that waits, and any that is
    outstanding, because a batch that is sent again stands behind those sent meanwhile; see Expiry.
    RecordAccumulator.expiredBatches, Sender.getExpiredInflightBatches."""
    queued = tuple(b for b in entry.in_flight if not b.outstanding)[:1]
    if k.variant.expiry == Expiry.QUEUED_ONLY:
        return queued
    return (*queued, *tuple(b for b in entry.in_flight if b.outstanding))


def awaits_producer_id(k: Configuration, client: Client) -> bool:
    """Whether the producer asks for a producer id, and handles no batch until it has one. Before
    KIP-360 it may give up a batch between losing its id and asking.
    Sender.maybeSendAndPollTransactionalRequest."""
    asks = k.variant.idempotence == Idempotence.ENABLED
    at_once = k.variant.recovery == Recovery.LOCAL_BUMP
    return asks and at_once and client.producer_id == NO_PRODUCER_ID


@acts
def expire_batch(
    k: Configuration, client: Client, partition: Partition, first_record: RecordNumber
) -> Client:
    """Give up a batch, whether or not it is stored; a bump that is due comes first.
    Sender.sendProducerData."""
    require(client.bump_for.is_empty())
    require(not client.fatal)
    require(not awaits_producer_id(k, client))
    entry = client.partitions[partition]
    old = tuple(b for b in overdue(k, entry) if b.batch.first_record == first_record)
    require(len(old) > 0)
    end = increment_sequence(k, last_sequence(k, old[0].batch), 1)
    is_unknown = old[0].attempts > 0 and k.variant.idempotence == Idempotence.ENABLED
    told = replace(
        failed(k, entry, old[0]),
        given_up=(*entry.given_up, old[0]) if old[0].outstanding else entry.given_up,
        unresolved_sequence=max(entry.unresolved_sequence, end)
        if is_unknown
        else entry.unresolved_sequence,
    )
    return with_entry(client, partition, told)


def is_resolvable(entry: PartitionEntry) -> bool:
    """Whether all batches in flight have ended since a batch of unknown outcome was given up."""
    return entry.unresolved_sequence != NO_SEQUENCE and len(entry.in_flight) == 0


def has_gap(k: Configuration, entry: PartitionEntry) -> bool:
    """Whether a sequence was used that is not acknowledged, although all batches in flight have
    ended."""
    return is_resolvable(entry) and not is_next(k, entry, entry.next_sequence)


def settled(k: Configuration, entry: PartitionEntry) -> PartitionEntry:
    """The partition, without its unresolved sequence if that is resolvable."""
    return replace(entry, unresolved_sequence=NO_SEQUENCE) if is_resolvable(entry) else entry


def resolved(k: Configuration, client: Client) -> Client:
    """The client, which has settled each resolvable partition, and recovers where a sequence is
    missing. TransactionManager.maybeResolveSequences."""
    if k.bounds.faults.timeouts == 0:
        return client
    gaps = tuple(p for p, entry in client.partitions.items() if has_gap(k, entry))
    quiet = replace(client, partitions=map_values(k, settled, client.partitions))
    return fold(k, recovered, gaps, quiet)


@acts
def resolve_sequences(k: Configuration, client: Client) -> Client:
    """Resolve sequences at the start of the sender loop, if no bump follows from it.
    Sender.runOnce."""
    require(any(is_resolvable(entry) for entry in client.partitions.values()))
    require(not client.fatal)
    after = resolved(k, client)
    require(after.bump_for.is_empty())
    return after


@acts
def bump_epoch(k: Configuration, client: Client) -> Client:
    """Take the next epoch. KIP-360. After the last epoch, ask for a new producer id; the batches in
    flight have none until then. TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded."""
    due = resolved(k, client)
    require(not due.bump_for.is_empty())
    ends = k.bounds.epochs_end and client.producer_epoch == k.bounds.max_epoch
    within_scope(ends or client.producer_epoch < k.bounds.max_epoch)
    epoch = NO_PRODUCER_EPOCH if ends else client.producer_epoch + 1
    producer_id = NO_PRODUCER_ID if ends else client.producer_id
    return replace(
        due,
        producer_id=producer_id,
        producer_epoch=epoch,
        bump_for=EMPTY_SET,
        partitions=Map(
            tuple(
                rewritten(k, entry, producer_id, epoch) if partition in due.bump_for else entry
                for partition, entry in due.partitions.items()
            )
        ),
    )
