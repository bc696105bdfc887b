"""What a producer makes of an answer, and of an answer that will not come.

Theory of operation. A success ends its batch. An error does one of eight things to it (`Failure`):
whether it may be sent again is decided first, and only what may not has failed. An out-of-order
answer says something of this batch only if all before it were acknowledged; else the batch waits
for its turn. `Sender.completeBatch`, `Sender.canRetry`, `TransactionManager.canRetry`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.client import (
    Client,
    InFlight,
    InFlightBatch,
    PartitionEntry,
    acknowledged,
    failed,
    is_of,
    waiting,
    with_entry,
    without,
)
from model.language import fold, map_values, receives
from model.messages import (
    NO_SEQUENCE,
    Batch,
    Error,
    Partition,
    ProduceResponse,
    RecordCount,
    increment_sequence,
    last_sequence,
)
from model.recovery import is_next, recovered, renumbered_from_zero, with_closed_gap
from model.setting import (
    AckedSequence,
    FirstSequence,
    Idempotence,
    Recovery,
    Retries,
    Setting,
)


class Failure(IntEnum):
    """What becomes of a batch that was answered with an error."""

    RETRY = 0
    RETRY_AND_RECOVER = 1
    RETRY_RENUMBERED = 2
    SPLIT = 3
    FAIL = 4
    FAIL_AND_RECOVER = 5
    FAIL_AND_CLOSE_GAP = 6
    FAIL_FATALLY = 7


def later(k: Setting, acked: int, last: int) -> int:
    """The later of two sequences. TransactionManager.maybeUpdateLastAckedSequence."""
    if k.variant.acked_sequence == AckedSequence.RAW or acked == NO_SEQUENCE:
        return max(acked, last)
    ahead = last - acked if last >= acked else last - acked + k.layout.max_sequence + 1
    return last if 2 * ahead <= k.layout.max_sequence else acked


def with_acked_sequence(
    k: Setting, client: Client, entry: PartitionEntry, batch: Batch
) -> PartitionEntry:
    """The last acknowledged sequence, moved on; by batches of an old id it is not."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if k.variant.idempotence == Idempotence.DISABLED:
        return entry
    if resets and not is_of(batch, client.producer_id, client.producer_epoch):
        return entry
    moved = later(k, entry.last_acked_sequence, last_sequence(k, batch))
    return replace(entry, last_acked_sequence=moved)


def on_success(
    k: Setting, client: Client, entry: PartitionEntry, batch: Batch, base_offset: int
) -> PartitionEntry:
    """Stored: the application hears of it. TransactionManager.handleCompletedBatch."""
    last_offset = base_offset + batch.record_count - 1
    matters = k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID
    finished = replace(
        with_acked_sequence(k, client, entry, batch),
        last_acked_offset=max(entry.last_acked_offset, last_offset)
        if matters
        else entry.last_acked_offset,
        in_flight=without(entry, batch.first_record),
    )
    return acknowledged(finished, batch)


def is_retriable(error: Error) -> bool:
    """RetriableException and its kind."""
    return (
        error == Error.REQUEST_TIMED_OUT
        or error == Error.NOT_ENOUGH_REPLICAS
        or error == Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    )


def has_attempts_left(k: Setting, answered: InFlightBatch) -> bool:
    """Its retries are not exhausted."""
    return k.variant.retries == Retries.ENDLESS or answered.attempts < k.variant.retries


def is_sequence_error(error: Error) -> bool:
    """OutOfOrderSequenceException and its subtype."""
    return error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER or error == Error.UNKNOWN_PRODUCER_ID


def retry_out_of_order(k: Setting, entry: PartitionEntry, answered: InFlightBatch) -> Failure:
    """What waits for others may be right later; what is next is not. TransactionManager.canRetry"""
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
    k: Setting, entry: PartitionEntry, answered: InFlightBatch, log_start_offset: int
) -> Failure:
    """The leader has forgotten the producer, rightly if all it had is deleted. canRetry."""
    if answered.sequence_has_been_reset:
        return Failure.RETRY
    if k.variant.recovery == Recovery.LOCAL_BUMP:
        return Failure.RETRY_AND_RECOVER
    if entry.last_acked_offset < log_start_offset:
        return Failure.RETRY_RENUMBERED
    return Failure.FAIL


def retry(
    k: Setting,
    client: Client,
    entry: PartitionEntry,
    answered: InFlightBatch,
    answer: ProduceResponse,
) -> Failure:
    """How the batch is sent again, or FAIL. Sender.canRetry, TransactionManager.canRetry."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if not has_attempts_left(k, answered):
        return Failure.FAIL
    if k.variant.idempotence == Idempotence.DISABLED:
        return Failure.RETRY if is_retriable(answer.error) else Failure.FAIL
    if resets and not is_of(answered.batch, client.producer_id, client.producer_epoch):
        return Failure.FAIL
    if is_retriable(answer.error):
        return Failure.RETRY
    if answer.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return retry_out_of_order(k, entry, answered)
    if answer.error == Error.UNKNOWN_PRODUCER_ID:
        return retry_unknown_producer_id(k, entry, answered, answer.log_start_offset)
    return Failure.FAIL


def give_up(k: Setting, client: Client, answered: InFlightBatch, error: Error) -> Failure:
    """How the batch fails. TransactionManager.handleFailedBatch."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if k.variant.idempotence == Idempotence.DISABLED:
        return Failure.FAIL
    if resets and error == Error.INVALID_PRODUCER_EPOCH:
        return Failure.FAIL_FATALLY
    if resets and not is_of(answered.batch, client.producer_id, client.producer_epoch):
        return Failure.FAIL
    if is_sequence_error(error):
        return Failure.FAIL_AND_RECOVER
    if not has_attempts_left(k, answered):
        return Failure.FAIL
    return Failure.FAIL_AND_CLOSE_GAP if resets else Failure.FAIL_AND_RECOVER


def failure(
    k: Setting,
    client: Client,
    entry: PartitionEntry,
    answered: InFlightBatch,
    answer: ProduceResponse,
) -> Failure:
    """Split, sent again, or failed. Sender.completeBatch."""
    if answer.error == Error.MESSAGE_TOO_LARGE and answered.batch.record_count > 1:
        return Failure.SPLIT
    again = retry(k, client, entry, answered, answer)
    if again != Failure.FAIL:
        return again
    return give_up(k, client, answered, answer.error)


def to_the_head(k: Setting, queue: InFlight, b: InFlightBatch) -> InFlight:
    """The batch at the head of its queue. RecordAccumulator.reenqueue without sequences."""
    first_record = b.batch.first_record
    return (waiting(k, b), *tuple(q for q in queue if q.batch.first_record != first_record))


def reenqueued(k: Setting, in_flight: InFlight, back: InFlight) -> InFlight:
    """In flight, with `back` to be sent again. RecordAccumulator.insertInSequenceOrder."""
    if k.variant.idempotence == Idempotence.DISABLED:
        return fold(k, to_the_head, back, in_flight)
    return tuple(
        waiting(k, b)
        if any(b.batch.first_record == other.batch.first_record for other in back)
        else b
        for b in in_flight
    )


def part(k: Setting, b: InFlightBatch, skipped: int, record_count: RecordCount) -> InFlightBatch:
    """Some of a batch's records as a batch of its own that was never sent."""
    batch = replace(
        b.batch,
        base_sequence=increment_sequence(k, b.batch.base_sequence, skipped)
        if k.variant.idempotence == Idempotence.ENABLED
        else NO_SEQUENCE,
        record_count=record_count,
        first_record=b.batch.first_record + skipped,
    )
    return InFlightBatch(batch=batch, outstanding=False, sequence_has_been_reset=False, attempts=0)


def split(k: Setting, entry: PartitionEntry, large: InFlightBatch) -> PartitionEntry:
    """A batch that is too large, as two: its first record, and the rest, in its place and with
    its sequences. RecordAccumulator.splitAndReenqueue."""
    first_record = large.batch.first_record
    before = tuple(b for b in entry.in_flight if b.batch.first_record < first_record)
    behind = tuple(b for b in entry.in_flight if b.batch.first_record > first_record)
    parts = (part(k, large, 0, 1), part(k, large, 1, large.batch.record_count - 1))
    return replace(entry, in_flight=(*before, *parts, *behind))


# What each failure does


def all_failed(k: Setting, entry: PartitionEntry) -> PartitionEntry:
    """Nothing of the partition is tried any more. Sender.maybeAbortBatches."""
    return fold(k, failed, entry.in_flight, entry)


def kept(
    k: Setting, entry: PartitionEntry, answered: InFlightBatch, how: Failure
) -> PartitionEntry:
    """The partition where the batch stays: queued again, renumbered, or split."""
    queued = replace(entry, in_flight=reenqueued(k, entry.in_flight, (answered,)))
    if how == Failure.SPLIT:
        return split(k, entry, answered)
    if how == Failure.RETRY_RENUMBERED:
        return renumbered_from_zero(k, queued)
    return queued


def on_failure(
    k: Setting,
    client: Client,
    partition: Partition,
    answered: InFlightBatch,
    answer: ProduceResponse,
) -> Client:
    """An error: see Failure."""
    entry = client.partitions[partition]
    how = failure(k, client, entry, answered, answer)
    stays = with_entry(client, partition, kept(k, entry, answered, how))
    if how == Failure.RETRY or how == Failure.RETRY_RENUMBERED or how == Failure.SPLIT:
        return stays
    if how == Failure.RETRY_AND_RECOVER:
        return recovered(k, stays, partition)
    told = failed(k, entry, answered)
    gone = with_entry(client, partition, told)
    if how == Failure.FAIL_AND_RECOVER:
        return recovered(k, gone, partition)
    if how == Failure.FAIL_AND_CLOSE_GAP:
        return with_entry(client, partition, with_closed_gap(k, told, answered.batch))
    if how == Failure.FAIL_FATALLY:
        return replace(gone, fatal=True, partitions=map_values(k, all_failed, gone.partitions))
    return gone


def on_late_answer(
    k: Setting, client: Client, partition: Partition, answer: ProduceResponse
) -> Client:
    """The answer to a batch that was given up: a success still moves the last acknowledged
    sequence, an error says nothing. TransactionManager.handleCompletedBatch."""
    entry = client.partitions[partition]
    late = tuple(b for b in entry.given_up if b.first_record == answer.first_record)
    rest = tuple(b for b in entry.given_up if b.first_record != answer.first_record)
    if len(late) == 0:
        return client
    heard = replace(entry, given_up=rest)
    if answer.error != Error.NONE:
        return with_entry(client, partition, heard)
    return with_entry(client, partition, with_acked_sequence(k, client, heard, late[0]))


@receives
def on_answer(k: Setting, client: Client, partition: Partition, answer: ProduceResponse) -> Client:
    """The answer to a request. Sender.completeBatch."""
    entry = client.partitions[partition]
    answered = tuple(b for b in entry.in_flight if b.batch.first_record == answer.first_record)
    if len(answered) == 0:
        return on_late_answer(k, client, partition, answer)
    if answer.error == Error.NONE:
        batch = answered[0].batch
        told = on_success(k, client, entry, batch, answer.base_offset)
        return with_entry(client, partition, told)
    return on_failure(k, client, partition, answered[0], answer)


def may_outlive_connection(k: Setting, client: Client, b: InFlightBatch) -> bool:
    """Whether a batch whose answer is lost is sent again. Sender.canRetry."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    if k.variant.idempotence == Idempotence.DISABLED or not resets:
        return has_attempts_left(k, b)
    return has_attempts_left(k, b) and is_of(b.batch, client.producer_id, client.producer_epoch)


@receives
def on_disconnect(k: Setting, client: Client, partition: Partition) -> Client:
    """All that awaited an answer is sent again or fails. Sender.handleProduceResponse."""
    entry = client.partitions[partition]
    awaited = tuple(b for b in entry.in_flight if b.outstanding)
    again = tuple(b for b in awaited if may_outlive_connection(k, client, b))
    lost = tuple(b for b in awaited if not may_outlive_connection(k, client, b))
    queued = replace(entry, in_flight=reenqueued(k, entry.in_flight, again), given_up=())
    return with_entry(client, partition, fold(k, failed, lost, queued))
