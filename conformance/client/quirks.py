"""What clients up to 2.4 do that is no rule of the protocol: Java's collections and exceptions.

Theory of operation. Up to 2.4 the client keeps what is in flight twice: the queue from which it
sends, and the transaction manager's collection by sequence, which forgets all with each producer
id. The model has one list; where the two differ, the rule is asked of the batches that the
collection holds, and the others are put back. An `IllegalStateException` on the way of
an answer ends the handling of that answer: the batch is told nothing, nor is any batch that the
same answer had left.

Every function here is a fact of released clients, each with a recorded run in the tests. Later
clients have none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, takewhile

from model.idempotent import client as sending
from model.idempotent import recovery, responses
from model.idempotent.client import Client, InFlightBatch, PartitionEntry
from model.idempotent.configuration import Configuration, Recovery
from model.idempotent.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_ID,
    Batch,
    Error,
    ProduceRequest,
    ProduceResponse,
)
from model.idempotent.responses import Failure
from model.language import Step, map_values

InFlight = tuple[InFlightBatch, ...]
Key = tuple[int, int]
"""A batch: its partition, and its first record."""

NO_ANSWER = Error.REQUEST_TIMED_OUT
"""What a broken connection is to a batch: an error after which it may be sent again."""


def has_quirks(k: Configuration) -> bool:
    """Whether the release is one of those: since 2.5 an epoch is bumped instead."""
    return k.variant.recovery != Recovery.LOCAL_BUMP


# Batches aside


def numbers(batches: Collection[InFlightBatch]) -> frozenset[int]:
    """Their first records."""
    return frozenset(b.batch.first_record for b in batches)


def with_in_flight(client: Client, partition: int, in_flight: InFlight) -> Client:
    """The client with other batches in flight."""
    entry = client.partitions[partition]
    return sending.with_entry(client, partition, replace(entry, in_flight=in_flight))


def without(client: Client, partition: int, aside: Collection[int]) -> Client:
    """The client, some batches of a partition left out."""
    in_flight = client.partitions[partition].in_flight
    rest = tuple(b for b in in_flight if b.batch.first_record not in aside)
    return with_in_flight(client, partition, rest)


def put_back(client: Client, partition: int, before: InFlight, aside: Collection[int]) -> Client:
    """The client with what was left out in its old place."""
    if not aside:
        return client
    left = tuple(b for b in before if b.batch.first_record in aside)
    both = (*client.partitions[partition].in_flight, *left)
    order = sorted(both, key=lambda b: place(before, b.batch.first_record))
    return with_in_flight(client, partition, tuple(order))


def place(before: InFlight, record: int) -> int:
    """Where the batch stood that had a record; what is new stands behind all."""
    for i, b in enumerate(before):
        if b.batch.first_record <= record < b.batch.first_record + b.batch.record_count:
            return i
    return len(before)


def of(keys: Collection[Key], partition: int) -> frozenset[int]:
    """The first records of those of one partition."""
    return frozenset(first for at, first in keys if at == partition)


# Sending


def send_new(
    k: Configuration, client: Client, partition: int, record_count: int
) -> Step[Client, ProduceRequest]:
    """The model's rule. 2.0 keeps the last offset that an old producer id was told, also once it
    begins with a new one: only giving the id back forgets it. TransactionManager.lastAckedOffset.

    Raises Disabled."""
    step = sending.send_new(k, client, partition, record_count)
    if k.variant.recovery != Recovery.RESET_2_0:
        return step
    offset = client.partitions[partition].last_acked_offset
    entry = replace(step.actor.partitions[partition], last_acked_offset=offset)
    return replace(step, actor=sending.with_entry(step.actor, partition, entry))


def grown(client: Client, partition: int, records: Sequence[int]) -> Client:
    """A part of a split batch has taken the next records while it was the last that waited: under
    the sequence that it has, which are not counted. KAFKA-9703; RecordAccumulator.tryAppend."""
    entry = client.partitions[partition]
    unsent = [b for b in entry.in_flight if not b.outstanding and not b.attempts]
    if not unsent or unsent[-1].batch.first_record != records[0]:
        return client
    part = unsent[-1]
    more = records[part.batch.record_count :]
    if not more or not all(is_unsent(entry, number) for number in more):
        return client
    larger = replace(part, batch=replace(part.batch, record_count=len(records)))
    changed = tuple(larger if b == part else b for b in entry.in_flight)
    sent = max(entry.records_sent, more[-1] + 1)
    taken = replace(entry, in_flight=changed, records_sent=sent)
    return sending.with_entry(client, partition, taken)


def is_unsent(entry: PartitionEntry, number: int) -> bool:
    """Whether a record is in no batch yet."""
    ended = number in entry.acknowledged or number in entry.failed
    in_flight = any(
        b.batch.first_record <= number < b.batch.first_record + b.batch.record_count
        for b in entry.in_flight
    )
    return not ended and not in_flight


# Unknown outcomes


def resolve_sequences(k: Configuration, client: Client, untracked: Collection[Key]) -> Client:
    """The model's rule, of what the collection holds; to look at a partition's next sequence gives
    it one. TransactionManager.shouldResetProducerStateAfterResolvingSequences, sequenceNumber.

    Raises Disabled."""
    if not has_quirks(k):
        return recovery.resolve_sequences(k, client)
    aside = {partition: of(untracked, partition) for partition, _ in client.partitions.items()}
    alone = client
    for partition, left in aside.items():
        alone = without(alone, partition, left)
    asked = [p for p, entry in alone.partitions.items() if recovery.is_resolvable(entry)]
    resolved = recovery.resolve_sequences(k, alone)
    for partition, left in aside.items():
        before = client.partitions[partition].in_flight
        resolved = put_back(resolved, partition, before, left)
    return begun(k, resolved, asked) if resolved.producer_id != NO_PRODUCER_ID else resolved


def begun(k: Configuration, client: Client, partitions: Collection[int]) -> Client:
    """The client with a next sequence for these partitions."""
    for partition in partitions:
        entry = sending.numbered(k, client, client.partitions[partition])
        client = sending.with_entry(client, partition, entry)
    return client


# Answers


def on_answer(
    k: Configuration,
    client: Client,
    partition: int,
    answer: ProduceResponse,
    overdue: int,
    untracked: Collection[int],
) -> Iterator[Client]:
    """The model's rule, as clients up to 2.4 do it: what is not tracked gets no other sequence, and
    is not queued again where nothing is tracked. RecordAccumulator.insertInSequenceOrder."""
    entry = client.partitions[partition]
    aside = frozenset(untracked) | lost_with_late(k, client, partition, answer, untracked)
    others = aside - {answer.first_record}
    answered = [b for b in entry.in_flight if b.batch.first_record == answer.first_record]
    for after in heard(k, without(client, partition, others), partition, answer, overdue):
        whole = put_back(after, partition, entry.in_flight, others)
        in_flight = whole.partitions[partition].in_flight
        waiting = numbers([b for b in in_flight if not b.outstanding]) & numbers(answered)
        tracks = numbers(in_flight) - aside or answer.error == Error.MESSAGE_TOO_LARGE
        yield whole if tracks else without(whole, partition, waiting)


def heard(
    k: Configuration, client: Client, partition: int, answer: ProduceResponse, overdue: int
) -> Iterator[Client]:
    """The client after an answer, where all is tracked but what was answered, perhaps."""
    entry = client.partitions[partition]
    answered = [b for b in entry.in_flight if b.batch.first_record == answer.first_record]
    how = None
    if has_quirks(k) and answered and answer.error != Error.NONE:
        how = responses.failure(k, client, entry, answered[0], answer, overdue)
    if how == Failure.RETRY_RENUMBERED:
        for order in orders(k, entry.in_flight):
            ordered = with_in_flight(client, partition, order)
            yield responses.on_answer(k, ordered, partition, answer, overdue)
    elif how == Failure.FAIL_FATALLY:
        yield replace(told(k, client, partition, answered[0]), fatal=True)
    elif how == Failure.FAIL_AND_CLOSE_GAP and falls(client, entry, answered[0].batch):
        yield with_gap_half_closed(client, partition, answered[0])
    else:
        after = responses.on_answer(k, client, partition, answer, overdue)
        closes = how == Failure.FAIL_AND_CLOSE_GAP and closes_gap(client, entry, answered[0].batch)
        yield with_old_moved(k, after, partition, answered[0].batch) if closes else after


def told(k: Configuration, client: Client, partition: int, b: InFlightBatch) -> Client:
    """The client, the application of which has heard that one batch has failed."""
    return sending.with_entry(client, partition, sending.failed(k, client.partitions[partition], b))


def aborted(
    k: Configuration, client: Client, forsaken: Iterable[tuple[int, InFlightBatch]]
) -> Client:
    """After a fatal error all batches fail, but only in the next turn of the loop: while a client
    waits for a producer id, it hears answers to old batches. Sender.maybeAbortBatches."""
    for partition, b in forsaken:
        client = told(k, client, partition, b)
    all_failed = map_values(k, responses.all_failed, client.partitions)
    return replace(client, partitions=all_failed)


def orders(k: Configuration, in_flight: InFlight) -> Iterator[InFlight]:
    """The orders in which the collection may be gone through when all is numbered from 0: in 2.0
    that of a heap, not of sequences. TransactionManager.startSequencesAtBeginning."""
    return heaps(in_flight) if k.variant.recovery == Recovery.RESET_2_0 else iter([in_flight])


def heaps(in_flight: InFlight) -> Iterator[InFlight]:
    """The orders of batches in which none stands before its parent in a binary heap, that of
    sequences first. java.util.PriorityQueue, which is iterated as it is stored."""
    for order in permutations(in_flight):
        sequences = [b.batch.base_sequence for b in order]
        if all(sequences[(i - 1) // 2] <= at for i, at in enumerate(sequences) if i):
            yield order


def closes_gap(client: Client, entry: PartitionEntry, gap: Batch) -> bool:
    """Whether what stands behind a batch takes its sequences."""
    return sending.is_current(client, entry) and entry.next_sequence >= gap.record_count


def falls(client: Client, entry: PartitionEntry, gap: Batch) -> bool:
    """Whether a batch behind a gap would begin below 0: the next sequence is lowered, then an
    exception comes. TransactionManager.adjustSequencesDueToFailedBatch."""
    return closes_gap(client, entry, gap) and any(
        gap.base_sequence <= b.batch.base_sequence < gap.record_count
        for b in entry.in_flight
        if b.batch.first_record != gap.first_record
    )


def with_old_moved(k: Configuration, client: Client, partition: int, gap: Batch) -> Client:
    """A part of an old producer id that is tracked moves up with the others: 2.4 as 2.0, where the
    model has it. TopicPartitionEntry.resetSequenceNumbers."""
    in_flight = client.partitions[partition].in_flight
    if k.variant.recovery == Recovery.RESET_2_0:
        return client
    moved = tuple(b if responses.is_mine(client, b.batch) else moved_up(b, gap) for b in in_flight)
    return with_in_flight(client, partition, moved)


def moved_up(b: InFlightBatch, gap: Batch) -> InFlightBatch:
    """The batch with an earlier sequence, if it stands behind a gap."""
    base_sequence = b.batch.base_sequence
    if base_sequence < gap.base_sequence:
        return b
    batch = replace(b.batch, base_sequence=base_sequence - gap.record_count)
    return replace(b, batch=batch, sequence_has_been_reset=True)


def with_gap_half_closed(client: Client, partition: int, failed: InFlightBatch) -> Client:
    """The next sequence is lowered, nobody is told, nothing else moves up."""
    entry = responses.silenced(client.partitions[partition], failed)
    lowered = replace(entry, next_sequence=entry.next_sequence - failed.batch.record_count)
    return sending.with_entry(client, partition, lowered)


# What is tracked


def of_sequence(client: Client, partition: int, batch: Batch) -> frozenset[int]:
    """The batches in flight that the collection takes for this one: it compares sequences alone.
    2.4, TopicPartitionEntry.inflightBatchesBySequence."""
    if not responses.is_mine(client, batch):
        return frozenset()
    in_flight = client.partitions[partition].in_flight
    return numbers([b for b in in_flight if b.batch.base_sequence == batch.base_sequence])


def lost_with_late(
    k: Configuration,
    client: Client,
    partition: int,
    answer: ProduceResponse,
    untracked: Collection[int],
) -> frozenset[int]:
    """The batches that the answer to one that was given up makes the collection forget."""
    late = [
        b
        for b in client.partitions[partition].given_up
        if b.batch.first_record == answer.first_record
    ]
    rest = without(client, partition, untracked)
    if not late or k.variant.recovery != Recovery.RESET_2_3:
        return frozenset()
    return of_sequence(rest, partition, late[0].batch)


def untracked_after(
    k: Configuration, before: Client, after: Client, partition: int, untracked: Collection[int]
) -> frozenset[int]:
    """The batches in flight that the collection does not hold after a step. It forgets all with
    its producer id, and has the parts of an old batch that is split later; in 2.4 it forgets with
    one that it does not hold another of the same sequence. TransactionManager.resetProducerId,
    removeInFlightBatch, RecordAccumulator.splitAndReenqueue."""
    was, now = before.partitions[partition], after.partitions[partition]
    left = numbers(now.in_flight)
    if not has_quirks(k) or NO_PRODUCER_ID == after.producer_id != before.producer_id:
        return left if has_quirks(k) else frozenset()
    gone = [
        *(b for b in was.in_flight if b.batch.first_record in frozenset(untracked) - left),
        *(b for b in was.given_up if b not in now.given_up),
    ]
    rest = without(before, partition, untracked)
    by_sequence = gone if k.variant.recovery == Recovery.RESET_2_3 else []
    taken = [of_sequence(rest, partition, b.batch) for b in by_sequence]
    return (frozenset[int](untracked).union(*taken) & left) - parts(was, now)


def parts(was: PartitionEntry, now: PartitionEntry) -> frozenset[int]:
    """The parts of a batch that was split: they wait and were never sent."""
    before = numbers([b for b in was.in_flight if not b.outstanding])
    return numbers([b for b in now.in_flight if not b.outstanding and not b.attempts]) - before


def queue_after(
    k: Configuration, client: Client, partition: int, queue: Sequence[int]
) -> tuple[int, ...]:
    """What waits, in the order of 2.0's queue: a batch is put in by its sequence, and stays where
    it is when it gets another one. RecordAccumulator.insertInSequenceOrder."""
    if k.variant.recovery != Recovery.RESET_2_0:
        return ()
    in_flight = client.partitions[partition].in_flight
    waiting = {b.batch.first_record: b.batch.base_sequence for b in in_flight if not b.outstanding}
    order = [first for first in queue if first in waiting]
    for first, sequence in waiting.items():
        if first not in order:
            ahead = [waiting[other] < sequence for other in order]
            order.insert(sum(takewhile(bool, ahead)), first)
    return tuple(order)


# A connection that breaks


def on_disconnect(
    k: Configuration, client: Client, partition: int, overdue: int, untracked: frozenset[int]
) -> tuple[Client, frozenset[int]]:
    """The model's rule, and what is not tracked then. From 2.1 to 2.4 what was given up fails once
    more, by its sequence, whichever batch has that by now: it goes batch by batch."""
    again = k.variant.recovery == Recovery.RESET_2_3 and client.partitions[partition].given_up
    if not untracked and not again:
        return responses.on_disconnect(k, client, partition, overdue), frozenset()
    in_flight = client.partitions[partition].in_flight
    awaited = [(i, b.batch.first_record) for i, b in enumerate(in_flight) if b.outstanding]
    late = [b.batch.first_record for b in client.partitions[partition].given_up]
    for i, first_record in [*((len(in_flight), first) for first in late), *awaited]:
        before = client
        answer = ProduceResponse(first_record, NO_ANSWER, INVALID_OFFSET, 0, INVALID_OFFSET)
        late_by_now = int(i < overdue)
        client = next(on_answer(k, before, partition, answer, late_by_now, untracked))
        untracked = untracked_after(k, before, client, partition, untracked)
    return client, untracked


# Exceptions


def silenced(before: PartitionEntry, after: PartitionEntry) -> InFlight:
    """The batches that are in flight no more, and of which the application was told nothing."""
    left = numbers(after.in_flight)
    return tuple(
        b
        for b in before.in_flight
        if b.batch.first_record not in left
        and b.batch.first_record not in after.acknowledged
        and b.batch.first_record not in after.failed
    )


def expired(k: Configuration, client: Client, partition: int, b: InFlightBatch) -> Client:
    """From 2.1 to 2.4 the time of a batch that was silenced still passes: it stays among those
    that may expire in flight. Sender.getExpiredInflightBatches."""
    after = told(k, client, partition, b)
    if not b.attempts:
        return after
    entry = after.partitions[partition]
    end = max(entry.unresolved_sequence, b.batch.base_sequence + b.batch.record_count)
    return sending.with_entry(after, partition, replace(entry, unresolved_sequence=end))
