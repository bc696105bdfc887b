"""The sender of one instance: the batches of each partition, and their outcomes.

Models `Sender` and the sequences of `TransactionManager` within transactions. Connections are
reduced to `must_resend`; `model.idempotent` has them, and batches of several records.

Theory of operation. A batch that goes out takes the next sequence of its partition, and keeps it
until it is acknowledged, refused, or given up. Several batches may be in flight; only the first of
them is sent again. A batch that is refused returns its sequence, and the batches behind it move
down. A batch whose delivery time is up may be stored or not. Its outcome stays open until a batch
behind it is acknowledged, or the epoch ends.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Step, acts, receives, require
from model.transactions.client import (
    bumps,
    in_batch_error,
    is_completing,
    is_working,
    must_add_first,
    numbered,
    request_of,
    unresolved,
    with_partition,
)
from model.transactions.client_state import (
    Client,
    ClientPartition,
    ClientState,
    Membership,
    Write,
    in_flight,
    is_sent,
    pipelines,
)
from model.transactions.configuration import Configuration
from model.transactions.effects import Effect, produce_effect_of
from model.transactions.messages import (
    Api,
    Error,
    Instance,
    Partition,
    ProduceAnswer,
    Request,
    is_of_group,
    speaks_v2,
)

# Batches that go out


@acts
def produce(
    k: Configuration, client: Client, instance: Instance, partition: Partition
) -> Step[Client, Request]:
    """Send the partition's newest batch, for the first time, or again if it is the first in flight.
    RecordAccumulator.drain, shouldStopDrainBatchesForPartition."""
    there = client.partitions[partition]
    require(not is_of_group(k, partition))
    require(is_working(client))
    require(not must_add_first(client))
    require(there.membership == Membership.IN)
    require(there.write != Write.NONE)
    require(there.write == Write.SENT or client.state != ClientState.ABORTABLE_ERROR)
    is_first = there.write == Write.QUEUED
    require(is_first or len(there.earlier) == 0)
    batch = numbered(
        client,
        instance,
        there.next_sequence if is_first else there.next_sequence - 1,
        there.written - 1,
    )
    sent = replace(
        there,
        write=Write.SENT,
        next_sequence=there.next_sequence + 1 if is_first else there.next_sequence,
    )
    request = replace(request_of(k, client, Api.PRODUCE), partition=partition, batch=batch)
    return Step(replace(client, partitions=client.partitions.put(partition, sent)), (request,))


@acts
def produce_again(
    k: Configuration, client: Client, instance: Instance, partition: Partition
) -> Step[Client, Request]:
    """Send the first batch in flight again, with newer ones behind it."""
    there = client.partitions[partition]
    require(is_working(client))
    require(not must_add_first(client))
    require(len(there.earlier) > 0)
    oldest = in_flight(there)[0]
    batch = numbered(client, instance, oldest.base_sequence, oldest.number)
    request = replace(request_of(k, client, Api.PRODUCE), partition=partition, batch=batch)
    return Step(client, (request,))


def is_behind_break(k: Configuration, client: Client, partition: Partition) -> bool:
    """Whether a new batch goes out on a connection that has broken; the earlier batches must be
    sent again before it."""
    there = client.partitions[partition]
    return pipelines(k) and there.must_resend and there.write == Write.QUEUED


# Answers


@receives
def on_produced(
    k: Configuration, client: Client, partition: Partition, answer: ProduceAnswer
) -> Client:
    """Handle the answer to the newest batch. Behind a gap the batch may still come to be in order,
    and is retried. Sender.completeBatch, TransactionManager.canRetry."""
    there = client.partitions[partition]
    if answer.error == Error.NONE:
        stored = with_partition(client, partition, acknowledged(there))
        return resolved(k, client, stored, partition)
    effect = produce_effect_of(answer.error)
    is_next = not there.has_gap and len(there.earlier) == 0
    if effect == Effect.RETRY or is_retried(k, there, answer.error, is_next):
        arrived = with_partition(client, partition, replace(there, must_resend=False))
        return arrived if pipelines(k) else client
    refused = with_partition(client, partition, refused_newest(there))
    return resolved(k, client, in_batch_error(k, refused, effect), partition)


def is_retried(k: Configuration, there: ClientPartition, error: Error, is_next: bool) -> bool:
    """Whether a batch out of order is retried: it is not the next one in its log, and no outcome
    before it is unknown. TransactionManager.canRetry."""
    unordered = error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    return unordered and not is_next and not (pipelines(k) and there.is_unresolved)


def acknowledged(there: ClientPartition) -> ClientPartition:
    """The partition after its newest batch was acknowledged: an earlier batch is in the log by now,
    or never will be."""
    return replace(
        there,
        write=Write.NONE,
        earlier=tuple(replace(b, is_overtaken=True) for b in there.earlier),
        must_resend=False,
        has_gap=False,
    )


def refused_newest(there: ClientPartition) -> ClientPartition:
    """The partition after the leader has refused the newest batch, whose sequence is used again.
    TransactionManager.adjustSequencesDueToFailedBatch."""
    next_sequence = there.next_sequence - 1
    return replace(there, write=Write.NONE, must_resend=False, next_sequence=next_sequence)


@receives
def on_produced_again(
    k: Configuration, client: Client, partition: Partition, answer: ProduceAnswer
) -> Client:
    """Handle the answer to the first batch in flight, which has newer ones behind it."""
    there = sent_again(client.partitions[partition])
    if answer.error == Error.NONE:
        after = replace(without_oldest(there), has_gap=False)
        return resolved(k, client, with_partition(client, partition, after), partition)
    effect = produce_effect_of(answer.error)
    is_next = not there.has_gap and not is_overtaken(there)
    if effect == Effect.RETRY or is_retried(k, there, answer.error, is_next):
        return with_partition(client, partition, there)
    refused = with_partition(client, partition, refused_oldest(there))
    return resolved(k, client, in_batch_error(k, refused, effect), partition)


def sent_again(there: ClientPartition) -> ClientPartition:
    """The partition after its first batch in flight has arrived; new ones may follow if no other
    has to be sent again."""
    is_last = len(there.earlier) == 1 and there.write != Write.SENT
    return replace(there, must_resend=there.must_resend and not is_last)


def without_oldest(there: ClientPartition) -> ClientPartition:
    """The partition without the first batch in flight."""
    return replace(there, earlier=there.earlier[1:])


def refused_oldest(there: ClientPartition) -> ClientPartition:
    """The partition after the leader has refused the first batch in flight: those behind it move
    down. TransactionManager.adjustSequencesDueToFailedBatch."""
    return replace(
        there,
        earlier=tuple(replace(b, base_sequence=b.base_sequence - 1) for b in there.earlier[1:]),
        next_sequence=there.next_sequence - 1,
        has_gap=there.has_gap or is_overtaken(there),
    )


def resolved(k: Configuration, before: Client, client: Client, partition: Partition) -> Client:
    """The client, which settles a sequence of unknown outcome once nothing is in flight behind it:
    either a later batch was acknowledged, or the client needs the next epoch.
    TransactionManager.maybeResolveSequences."""
    there = client.partitions[partition]
    if not pipelines(k) or not there.is_unresolved or is_sent(there):
        return client
    settled = with_partition(client, partition, replace(there, is_unresolved=False))
    return unresolved(k, before, settled) if there.has_gap and bumps(k) else settled


# Broken connections and expired batches


@receives
def lose_leader(k: Configuration, client: Client, partition: Partition) -> Client:
    """Mark the batches in flight to be sent again: the connection to the partition's leader, or to
    the group's coordinator, breaks."""
    if not pipelines(k):
        return client
    there = client.partitions[partition]
    lost = is_sent(there) and not is_of_group(k, partition)
    return with_partition(client, partition, replace(there, must_resend=lost))


@acts
def give_up(k: Configuration, client: Client, partition: Partition, waits: bool) -> Client:
    """Give up a batch whose delivery time is up: its outcome is unknown. Sender.failBatch.

    Whether the batch `waits` to be sent again matters only with V1, if the application has asked
    for the end. If it waits, the client needs the next epoch for the batch's sequence; if not, it
    does not, and there may be a gap.
    """
    require(is_working(client))
    require(not is_of_group(k, partition))
    require(is_sent(client.partitions[partition]))
    before = client.partitions[partition]
    there = without_first(before, waits)
    require(waits or (bumps(k) and is_completing(client)) or is_sent(there))
    failed = in_batch_error(k, with_partition(client, partition, there), Effect.ABORT)
    is_known = is_overtaken(before)
    if is_sent(there):
        return with_partition(failed, partition, replace(there, has_gap=not is_known))
    is_wanted = (waits or (pipelines(k) and before.is_unresolved)) and not is_known
    after = unresolved(k, client, failed) if is_wanted and bumps(k) else failed
    has_gap = not speaks_v2(k) and not after.must_bump and not is_known
    return with_partition(after, partition, replace(there, has_gap=has_gap, is_unresolved=False))


def without_first(there: ClientPartition, waits: bool) -> ClientPartition:
    """The partition without the first batch in flight, which is given up; if it waits to be sent
    again, its outcome is unknown. TransactionManager.markSequenceUnresolved."""
    if len(there.earlier) == 0:
        return replace(there, write=Write.NONE, must_resend=False)
    rest = without_oldest(there)
    return replace(
        rest,
        must_resend=rest.must_resend and is_sent(rest),
        is_unresolved=waits or rest.is_unresolved,
    )


def is_overtaken(there: ClientPartition) -> bool:
    """Whether a batch behind the first in flight was acknowledged."""
    return any(b.is_overtaken for b in there.earlier[:1])
