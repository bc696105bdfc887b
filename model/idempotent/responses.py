"""The producer's reaction to an answer, and to a connection that breaks before the answer comes.

Models `Sender.completeBatch`, `Sender.canRetry`, and `TransactionManager.canRetry`,
`handleCompletedBatch` and `handleFailedBatch`. Retry backoff is left out.

Theory of operation. A success ends its batch. An error leads to one of eight outcomes (`Failure`).
The producer first decides whether the batch may be sent again; only a batch that may not has
failed. An out-of-order answer condemns its batch only if all batches before it were acknowledged.
Otherwise the batch waits for its turn.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.idempotent.client import (
    Client,
    InFlight,
    InFlightBatch,
    PartitionEntry,
    acknowledged,
    failed,
    is_current,
    is_of,
    waiting,
    with_entry,
    without,
)
from model.idempotent.configuration import (
    Configuration,
    FirstSequence,
    Idempotence,
    Recovery,
    Retries,
    SequenceOrder,
)
from model.idempotent.messages import (
    NO_SEQUENCE,
    Batch,
    Error,
    Flag,
    InFlightCount,
    Partition,
    ProduceResponse,
    RecordCount,
    RecordNumber,
    increment_sequence,
    last_sequence,
)
from model.idempotent.recovery import is_next, recovered, renumbered_from_zero, with_closed_gap
from model.language import fold, map_values, receives, record


class Failure(IntEnum):
    """The outcome of an error for its batch."""

    RETRY = 0
    RETRY_AND_RECOVER = 1
    RETRY_RENUMBERED = 2
    SPLIT = 3
    FAIL = 4
    FAIL_AND_RECOVER = 5
    FAIL_AND_CLOSE_GAP = 6
    FAIL_FATALLY = 7


def later(k: Configuration, acked: int, last: int) -> int:
    """The later of two sequences. TransactionManager.maybeUpdateLastAckedSequence."""
    if k.variant.sequence_order == SequenceOrder.RAW or acked == NO_SEQUENCE:
        return max(acked, last)
    ahead = last - acked if last >= acked else last - acked + k.bounds.max_sequence + 1
    return last if 2 * ahead <= k.bounds.max_sequence else acked


def is_mine(client: Client, batch: Batch) -> bool:
    """Whether the batch has the client's present id and epoch."""
    return is_of(batch, client.producer_id, client.producer_epoch)


def with_acked_sequence(
    k: Configuration, client: Client, entry: PartitionEntry, batch: Batch
) -> PartitionEntry:
    """The partition, with its last acknowledged sequence moved on to the batch's. A batch of an old
    producer id does not move it."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if k.variant.idempotence == Idempotence.DISABLED:
        return entry
    if resets and not is_mine(client, batch):
        return entry
    moved = later(k, entry.last_acked_sequence, last_sequence(k, batch))
    return replace(entry, last_acked_sequence=moved)


def on_success(
    k: Configuration, client: Client, entry: PartitionEntry, batch: Batch, base_offset: int
) -> PartitionEntry:
    """The partition, after the application was told that the batch is stored.
    TransactionManager.handleCompletedBatch."""
    last_offset = base_offset + batch.record_count - 1
    old = k.variant.recovery == Recovery.RESET_2_3 and not is_mine(client, batch)
    matters = k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID and not old
    finished = replace(
        with_acked_sequence(k, client, entry, batch),
        last_acked_offset=max(entry.last_acked_offset, last_offset)
        if matters
        else entry.last_acked_offset,
        in_flight=without(entry, batch.first_record),
    )
    return acknowledged(finished, batch)


def is_retriable(error: Error) -> bool:
    """Whether the error is a RetriableException."""
    return (
        error == Error.REQUEST_TIMED_OUT
        or error == Error.NOT_ENOUGH_REPLICAS
        or error == Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    )


def has_attempts_left(k: Configuration, answered: InFlightBatch) -> bool:
    """Whether the batch may be retried once more."""
    return k.variant.retries == Retries.ENDLESS or answered.attempts < k.variant.retries


def is_sequence_error(error: Error) -> bool:
    """Whether the error is an OutOfOrderSequenceException, or its subtype
    UnknownProducerIdException."""
    return error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER or error == Error.UNKNOWN_PRODUCER_ID


def retry_out_of_order(k: Configuration, entry: PartitionEntry, answered: InFlightBatch) -> Failure:
    """The outcome for a batch out of order: one that waits for others is retried; one that is next
    was judged rightly, and has failed or must recover. TransactionManager.canRetry."""
    resolved = entry.unresolved_sequence == NO_SEQUENCE
    base_sequence = answered.batch.base_sequence
    may_be_right = answered.sequence_has_been_reset or not is_next(k, entry, base_sequence)
    if resolved and may_be_right:
        return Failure.RETRY
    if k.variant.recovery != Recovery.LOCAL_BUMP:
        return Failure.FAIL
    if resolved or base_sequence == entry.unresolved_sequence:
        return Failure.RETRY_AND_RECOVER
    return Failure.RETRY


def retry_unknown_producer_id(
    k: Configuration, entry: PartitionEntry, answered: InFlightBatch, log_start_offset: int
) -> Failure:
    """The outcome if the leader has forgotten the producer: with reason, if all its batches are
    deleted. TransactionManager.canRetry."""
    if log_start_offset < 0 or answered.sequence_has_been_reset:
        return Failure.RETRY
    if k.variant.recovery == Recovery.LOCAL_BUMP:
        return Failure.RETRY_AND_RECOVER
    if entry.last_acked_offset < log_start_offset:
        return Failure.RETRY_RENUMBERED
    return Failure.FAIL


def retry(
    k: Configuration,
    client: Client,
    entry: PartitionEntry,
    answered: InFlightBatch,
    answer: ProduceResponse,
    overdue: Flag,
) -> Failure:
    """The way in which the batch is sent again, or FAIL. Sender.canRetry,
    TransactionManager.canRetry."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if overdue == 1 or not has_attempts_left(k, answered):
        return Failure.FAIL
    if k.variant.idempotence == Idempotence.DISABLED:
        return Failure.RETRY if is_retriable(answer.error) else Failure.FAIL
    if resets and not is_mine(client, answered.batch):
        return Failure.FAIL
    if is_retriable(answer.error):
        return Failure.RETRY
    if answer.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return retry_out_of_order(k, entry, answered)
    if answer.error == Error.UNKNOWN_PRODUCER_ID:
        return retry_unknown_producer_id(k, entry, answered, answer.log_start_offset)
    return Failure.FAIL


def give_up(k: Configuration, client: Client, answered: InFlightBatch, error: Error) -> Failure:
    """The way in which the batch fails. TransactionManager.handleFailedBatch."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if k.variant.idempotence == Idempotence.DISABLED:
        return Failure.FAIL
    if resets and error == Error.INVALID_PRODUCER_EPOCH:
        return Failure.FAIL_FATALLY
    if resets and not is_mine(client, answered.batch):
        return give_up_old(k, answered, error)
    if is_sequence_error(error):
        return Failure.FAIL_AND_RECOVER
    if not has_attempts_left(k, answered):
        return Failure.FAIL
    return Failure.FAIL_AND_CLOSE_GAP if resets else Failure.FAIL_AND_RECOVER


def give_up_old(k: Configuration, answered: InFlightBatch, error: Error) -> Failure:
    """The way in which a batch of an old producer id fails: in 2.0, as if it had sequences of the
    new id."""
    refused = not is_retriable(error) and has_attempts_left(k, answered)
    closes = k.variant.recovery == Recovery.RESET_2_0 and refused
    return Failure.FAIL_AND_CLOSE_GAP if closes else Failure.FAIL


def failure(
    k: Configuration,
    client: Client,
    entry: PartitionEntry,
    answered: InFlightBatch,
    answer: ProduceResponse,
    overdue: Flag,
) -> Failure:
    """The outcome: the batch is split, sent again, or failed. Sender.completeBatch."""
    if answer.error == Error.MESSAGE_TOO_LARGE and answered.batch.record_count > 1:
        return Failure.SPLIT
    again = retry(k, client, entry, answered, answer, overdue)
    if again != Failure.FAIL:
        return again
    return give_up(k, client, answered, answer.error)


def to_the_head(k: Configuration, queue: InFlight, b: InFlightBatch) -> InFlight:
    """The queue with the batch at its head. RecordAccumulator.reenqueue, without sequences."""
    first_record = b.batch.first_record
    return (waiting(k, b), *tuple(q for q in queue if q.batch.first_record != first_record))


def reenqueued(k: Configuration, in_flight: InFlight, back: InFlight) -> InFlight:
    """The batches in flight, with those of `back` waiting to be sent again.
    RecordAccumulator.insertInSequenceOrder."""
    if k.variant.idempotence == Idempotence.DISABLED:
        return fold(k, to_the_head, back, in_flight)
    return tuple(
        waiting(k, b)
        if any(b.batch.first_record == other.batch.first_record for other in back)
        else b
        for b in in_flight
    )


def part(
    k: Configuration, b: InFlightBatch, skipped: int, record_count: RecordCount
) -> InFlightBatch:
    """A batch of some of the records, which was never sent."""
    batch = replace(
        b.batch,
        base_sequence=increment_sequence(k, b.batch.base_sequence, skipped)
        if k.variant.idempotence == Idempotence.ENABLED
        else NO_SEQUENCE,
        record_count=record_count,
        first_record=b.batch.first_record + skipped,
    )
    return InFlightBatch(batch=batch, outstanding=False, sequence_has_been_reset=False, attempts=0)


def split(k: Configuration, entry: PartitionEntry, large: InFlightBatch) -> PartitionEntry:
    """The partition with a batch that is too large replaced by two: its first record, and the rest,
    with the same sequences. RecordAccumulator.splitAndReenqueue."""
    first_record = large.batch.first_record
    before = tuple(b for b in entry.in_flight if b.batch.first_record < first_record)
    behind = tuple(b for b in entry.in_flight if b.batch.first_record > first_record)
    parts = (part(k, large, 0, 1), part(k, large, 1, large.batch.record_count - 1))
    return replace(entry, in_flight=(*before, *parts, *behind))


# The effect of each failure


def all_failed(k: Configuration, entry: PartitionEntry) -> PartitionEntry:
    """The partition, with all its batches failed. Sender.maybeAbortBatches."""
    return fold(k, failed, entry.in_flight, entry)


def kept(
    k: Configuration, entry: PartitionEntry, answered: InFlightBatch, how: Failure
) -> PartitionEntry:
    """The partition, where the batch stays: queued again, renumbered, or split."""
    queued = replace(entry, in_flight=reenqueued(k, entry.in_flight, (answered,)))
    if how == Failure.SPLIT:
        return split(k, entry, answered)
    if how == Failure.RETRY_RENUMBERED:
        return renumbered_from_zero(k, queued)
    return queued


def on_failure(
    k: Configuration,
    client: Client,
    partition: Partition,
    answered: InFlightBatch,
    answer: ProduceResponse,
    overdue: Flag,
) -> Client:
    """The client after an error; see Failure."""
    entry = client.partitions[partition]
    how = failure(k, client, entry, answered, answer, overdue)
    if how == Failure.SPLIT and is_lost_in_split(k, client, entry, answered):
        return with_entry(client, partition, silenced(entry, answered))
    stays = with_entry(client, partition, kept(k, entry, answered, how))
    if how == Failure.RETRY or how == Failure.RETRY_RENUMBERED or how == Failure.SPLIT:
        return stays
    if how == Failure.RETRY_AND_RECOVER:
        return recovered(k, stays, partition)
    return given_up(k, client, partition, answered, how)


def silenced(entry: PartitionEntry, b: InFlightBatch) -> PartitionEntry:
    """The partition without the batch, of which the application is never told: an exception
    prevented it."""
    return replace(entry, in_flight=without(entry, b.batch.first_record))


def is_lost_in_split(
    k: Configuration, client: Client, entry: PartitionEntry, large: InFlightBatch
) -> bool:
    """Whether an exception loses the batch as it is split: its producer id is old, and the
    partition has not begun with the new one."""
    old = not is_mine(client, large.batch) and not is_current(client, entry)
    return k.variant.recovery == Recovery.RESET_2_3 and old


def given_up(
    k: Configuration, client: Client, partition: Partition, b: InFlightBatch, how: Failure
) -> Client:
    """The client, after the batch has failed as `how` says."""
    entry = client.partitions[partition]
    told = with_entry(client, partition, failed(k, entry, b))
    if how == Failure.FAIL_AND_RECOVER:
        return recovered(k, told, partition)
    if how == Failure.FAIL_AND_CLOSE_GAP and leads_below_zero(k, client, entry, b.batch):
        return with_entry(client, partition, silenced(entry, b))
    if how == Failure.FAIL_AND_CLOSE_GAP:
        return gap_closed(k, told, partition, b.batch)
    if how == Failure.FAIL_FATALLY:
        return replace(told, fatal=True, partitions=map_values(k, all_failed, told.partitions))
    return told


def leads_below_zero(k: Configuration, client: Client, entry: PartitionEntry, gap: Batch) -> bool:
    """Whether closing the gap would make the next sequence negative: IllegalStateException."""
    return is_current(client, entry) and entry.next_sequence < gap.record_count


def gap_closed(k: Configuration, client: Client, partition: Partition, gap: Batch) -> Client:
    """The client, with the batches behind the gap moved up, if the partition has begun with this
    id."""
    entry = client.partitions[partition]
    if not is_current(client, entry) or leads_below_zero(k, client, entry, gap):
        return client
    return with_entry(client, partition, with_closed_gap(k, entry, gap))


def failed_again(
    k: Configuration, client: Client, partition: Partition, late: InFlightBatch, error: Error
) -> Client:
    """The client after an error for a batch that was given up. Up to 2.4 it counts as if the batch
    failed only now."""
    how = give_up(k, client, late, error)
    if k.variant.recovery == Recovery.LOCAL_BUMP:
        return client
    if how == Failure.FAIL_AND_RECOVER:
        return recovered(k, client, partition)
    if how == Failure.FAIL_AND_CLOSE_GAP:
        return gap_closed(k, client, partition, late.batch)
    if how == Failure.FAIL_FATALLY:
        return replace(client, fatal=True, partitions=map_values(k, all_failed, client.partitions))
    return client


def on_late_answer(
    k: Configuration, client: Client, partition: Partition, answer: ProduceResponse
) -> Client:
    """The client after the answer to a batch that was given up. A success still moves the last
    acknowledged sequence. TransactionManager.handleCompletedBatch, handleFailedBatch."""
    entry = client.partitions[partition]
    late = tuple(b for b in entry.given_up if b.batch.first_record == answer.first_record)
    rest = tuple(b for b in entry.given_up if b.batch.first_record != answer.first_record)
    if len(late) == 0:
        return client
    heard = replace(entry, given_up=rest)
    if answer.error != Error.NONE:
        told = with_entry(client, partition, heard)
        return failed_again(k, told, partition, late[0], answer.error)
    return with_entry(client, partition, with_acked_sequence(k, client, heard, late[0].batch))


@receives
def on_answer(
    k: Configuration, client: Client, partition: Partition, answer: ProduceResponse, overdue: Flag
) -> Client:
    """Handle an answer; `overdue` says that the delivery time of its batch is up.
    Sender.completeBatch."""
    entry = client.partitions[partition]
    answered = tuple(b for b in entry.in_flight if b.batch.first_record == answer.first_record)
    if len(answered) == 0:
        return on_late_answer(k, client, partition, answer)
    if answer.error == Error.NONE:
        batch = answered[0].batch
        told = on_success(k, client, entry, batch, answer.base_offset)
        return with_entry(client, partition, told)
    return on_failure(k, client, partition, answered[0], answer, overdue)


# Broken connections


@record
class Unanswered:
    """A batch of a partition whose answer is lost."""

    partition: Partition
    first_record: RecordNumber


def may_outlive_connection(k: Configuration, client: Client, b: InFlightBatch) -> bool:
    """Whether a batch whose answer is lost is sent again. Sender.canRetry."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if k.variant.idempotence == Idempotence.DISABLED or not resets:
        return has_attempts_left(k, b)
    return has_attempts_left(k, b) and is_mine(client, b.batch)


def on_lost_answer(k: Configuration, client: Client, lost: Unanswered) -> Client:
    """The client after a batch in flight has failed because its answer is lost. It fails as after
    any retriable error."""
    entry = client.partitions[lost.partition]
    found = tuple(b for b in entry.in_flight if b.batch.first_record == lost.first_record)
    how = give_up(k, client, found[0], Error.REQUEST_TIMED_OUT)
    return given_up(k, client, lost.partition, found[0], how)


def on_lost_late_answer(k: Configuration, client: Client, lost: Unanswered) -> Client:
    """The client after the answer to a batch that was given up is lost."""
    entry = client.partitions[lost.partition]
    found = tuple(b for b in entry.given_up if b.batch.first_record == lost.first_record)
    return failed_again(k, client, lost.partition, found[0], Error.REQUEST_TIMED_OUT)


@receives
def on_disconnect(
    k: Configuration, client: Client, partition: Partition, overdue: InFlightCount
) -> Client:
    """Send again, or fail, each batch that awaited an answer on the connection; the delivery time
    of the first `overdue` batches in flight is up. Sender.handleProduceResponse."""
    entry = client.partitions[partition]
    again = tuple(
        b
        for i, b in enumerate(entry.in_flight)
        if b.outstanding and i >= overdue and may_outlive_connection(k, client, b)
    )
    lost = tuple(
        Unanswered(partition=partition, first_record=b.batch.first_record)
        for i, b in enumerate(entry.in_flight)
        if b.outstanding and not (i >= overdue and may_outlive_connection(k, client, b))
    )
    late = tuple(
        Unanswered(partition=partition, first_record=b.batch.first_record) for b in entry.given_up
    )
    heard = fold(k, on_lost_late_answer, late, client)
    queued = replace(
        heard.partitions[partition],
        in_flight=reenqueued(k, heard.partitions[partition].in_flight, again),
    )
    told = fold(k, on_lost_answer, lost, with_entry(heard, partition, queued))
    return with_entry(told, partition, replace(told.partitions[partition], given_up=()))
