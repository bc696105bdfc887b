"""Behaviour of Java clients up to 2.4 beyond the rules of the protocol, by release.

Theory of operation. Up to 2.4 a client keeps the batches in flight twice: in the queue from which
it sends (RecordAccumulator), and in a collection by sequence (TransactionManager), which it clears
with each new producer id. The model has one list. If the two differ, the model's rule sees the
batches in the collection, and the others are set aside. An `IllegalStateException` while a response
is handled ends the handling: neither this batch nor the remaining batches of the response are
completed.

`BEHAVIOURS` is the table of releases; the tests need a recorded run for each of its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from itertools import permutations
from typing import Final

from conformance.adapters.clients.batches import (
    BatchKey,
    find_batch,
    first_records,
    of_partition,
    record_numbers,
    restore,
    set_aside,
    with_in_flight,
)
from model.idempotent import client as sending
from model.idempotent import recovery, responses
from model.idempotent.client import Client, InFlight, InFlightBatch, PartitionEntry, with_entry
from model.idempotent.configuration import Configuration, Expiry, Recovery
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


class LegacyBehaviour(Enum):
    """Behaviour of released clients that no rule of the protocol describes."""

    CLEARS_TRACKED_BATCHES = auto()
    """A new producer id clears the collection; the queue keeps its batches.
    TransactionManager.resetProducerId."""
    TRACKS_BY_SEQUENCE = auto()
    """The collection compares sequences alone: removing a batch that it does not contain removes
    another batch with the same sequence. TopicPartitionEntry.inflightBatchesBySequence."""
    QUEUES_BY_OLD_SEQUENCE = auto()
    """A queued batch that gets another sequence keeps its place.
    RecordAccumulator.insertInSequenceOrder."""
    RENUMBERS_IN_HEAP_ORDER = auto()
    """Batches are renumbered in the order in which java.util.PriorityQueue stores them.
    TransactionManager.startSequencesAtBeginning."""
    RENUMBERS_OLD_PARTS = auto()
    """A tracked part of an old producer id moves up with the others when a gap closes.
    TopicPartitionEntry.resetSequenceNumbers."""
    KEEPS_LAST_ACKED_OFFSET = auto()
    """The last acknowledged offset of an old producer id outlives it.
    TransactionManager.lastAckedOffset."""
    GROWS_SPLIT_PARTS = auto()
    """The last part of a split batch takes new records, which are not counted. KAFKA-9703."""
    NUMBERS_ON_LOOKUP = auto()
    """Reading a partition's next sequence initializes it. TransactionManager.sequenceNumber."""
    ABORTS_IN_NEXT_LOOP = auto()
    """A fatal error fails the other batches only in the sender's next loop: responses that come
    while it waits for a producer id are still handled. Sender.maybeAbortBatches."""
    THROWS_BELOW_ZERO = auto()
    """Closing a gap throws where a batch would begin below 0, after the next sequence is lowered.
    TransactionManager.adjustSequencesDueToFailedBatch."""
    THROWS_PAST_OTHER_BATCHES = auto()
    """The exception keeps the remaining batches of the response from being completed.
    Sender.handleProduceResponse."""
    EXPIRES_THROWN_BATCHES = auto()
    """A batch that an exception left incomplete still reaches its delivery timeout.
    Sender.getExpiredInflightBatches."""
    FAILS_EXPIRED_BATCHES_AGAIN = auto()
    """A lost connection fails expired batches once more, by their sequence."""


B = LegacyBehaviour
UNTIL_2_4: Final = frozenset(
    {
        B.CLEARS_TRACKED_BATCHES,
        B.GROWS_SPLIT_PARTS,
        B.NUMBERS_ON_LOOKUP,
        B.ABORTS_IN_NEXT_LOOP,
        B.THROWS_BELOW_ZERO,
        B.THROWS_PAST_OTHER_BATCHES,
        B.EXPIRES_THROWN_BATCHES,
    }
)
FROM_2_3: Final = frozenset(
    {B.TRACKS_BY_SEQUENCE, B.RENUMBERS_OLD_PARTS, B.FAILS_EXPIRED_BATCHES_AGAIN}
)
UNTIL_2_2: Final = frozenset(
    {B.QUEUES_BY_OLD_SEQUENCE, B.RENUMBERS_IN_HEAP_ORDER, B.KEEPS_LAST_ACKED_OFFSET}
)
BEHAVIOURS: Final[dict[Recovery, frozenset[LegacyBehaviour]]] = {
    Recovery.RESET_2_0: UNTIL_2_4 | UNTIL_2_2,
    Recovery.RESET_2_3: UNTIL_2_4 | FROM_2_3,
    Recovery.LOCAL_BUMP: frozenset(),  # 2.5, KIP-360
}
"""The behaviours of each release, keyed by the rule of its variant that changed with them."""


def has(k: Configuration, behaviour: LegacyBehaviour) -> bool:
    """Whether the clients of the variant have this behaviour."""
    return behaviour in BEHAVIOURS[k.variant.recovery]


# Sending


def send_new(
    k: Configuration, client: Client, partition: int, record_count: int
) -> Step[Client, ProduceRequest]:
    """The model's rule, with KEEPS_LAST_ACKED_OFFSET. Raises Disabled."""
    step = sending.send_new(k, client, partition, record_count)
    if not has(k, B.KEEPS_LAST_ACKED_OFFSET):
        return step
    offset = client.partitions[partition].last_acked_offset
    entry = replace(step.actor.partitions[partition], last_acked_offset=offset)
    return replace(step, actor=with_entry(step.actor, partition, entry))


def grow_part(k: Configuration, client: Client, partition: int, records: Sequence[int]) -> Client:
    """The client after the last queued part of a split batch took the records that were sent with
    it: GROWS_SPLIT_PARTS. RecordAccumulator.tryAppend."""
    entry = client.partitions[partition]
    unsent = [b for b in entry.in_flight if is_unsent(b)]
    if not has(k, B.GROWS_SPLIT_PARTS) or first_records(unsent[-1:]) != {records[0]}:
        return client
    part = unsent[-1]
    more = records[part.batch.record_count :]
    if not more or any(is_in_batch(entry, number) for number in more):
        return client
    larger = replace(part, batch=replace(part.batch, record_count=len(records)))
    grown = replace(
        entry,
        in_flight=tuple(larger if b == part else b for b in entry.in_flight),
        records_sent=max(entry.records_sent, more[-1] + 1),
    )
    return with_entry(client, partition, grown)


def is_unsent(b: InFlightBatch) -> bool:
    """Whether a batch in flight is a part of a split batch that was never sent."""
    return not b.outstanding and not b.attempts


def is_in_batch(entry: PartitionEntry, number: int) -> bool:
    """Whether a record is in a batch, finished or not."""
    in_flight = any(number in record_numbers(b.batch) for b in entry.in_flight)
    return number in entry.acknowledged or number in entry.failed or in_flight


def update_queue(
    k: Configuration, client: Client, partition: int, queue: Sequence[int]
) -> tuple[int, ...]:
    """The queued batches in their order, if QUEUES_BY_OLD_SEQUENCE; else nothing."""
    if not has(k, B.QUEUES_BY_OLD_SEQUENCE):
        return ()
    in_flight = client.partitions[partition].in_flight
    queued = {b.batch.first_record: b.batch.base_sequence for b in in_flight if not b.outstanding}
    order = [first for first in queue if first in queued]
    for first, sequence in queued.items():
        if first not in order:
            behind = (i for i, other in enumerate(order) if queued[other] >= sequence)
            order.insert(next(behind, len(order)), first)
    return tuple(order)


# Resolving sequences


def resolve_sequences(k: Configuration, client: Client, untracked: Collection[BatchKey]) -> Client:
    """The model's rule on the tracked batches, with NUMBERS_ON_LOOKUP.
    TransactionManager.shouldResetProducerStateAfterResolvingSequences.

    Raises Disabled."""
    tracked = client
    for partition, _ in client.partitions.items():
        tracked = set_aside(tracked, partition, of_partition(untracked, partition))
    looked_up = [p for p, entry in tracked.partitions.items() if recovery.is_resolvable(entry)]
    resolved = recovery.resolve_sequences(k, tracked)
    for partition, _ in client.partitions.items():
        resolved = restore(resolved, client, partition, of_partition(untracked, partition))
    if not has(k, B.NUMBERS_ON_LOOKUP) or resolved.producer_id == NO_PRODUCER_ID:
        return resolved
    for partition in looked_up:
        entry = sending.numbered(k, resolved, resolved.partitions[partition])
        resolved = with_entry(resolved, partition, entry)
    return resolved


# Responses


def receive_answer(
    k: Configuration,
    client: Client,
    partition: int,
    answer: ProduceResponse,
    overdue: int,
    untracked: frozenset[int],
) -> Iterator[Client]:
    """The possible clients after the answer to a batch: an untracked batch is not renumbered, and
    it is not queued again if no batch is tracked. RecordAccumulator.insertInSequenceOrder."""
    lost = untracked | untracked_with_late(k, client, partition, answer.first_record, untracked)
    aside = lost - {answer.first_record}
    seen = set_aside(client, partition, aside)
    for after in apply_answer(k, seen, partition, answer, overdue):
        whole = restore(after, client, partition, aside)
        in_flight = whole.partitions[partition].in_flight
        queued = first_records(b for b in in_flight if not b.outstanding)
        tracks = first_records(in_flight) - lost or answer.error == Error.MESSAGE_TOO_LARGE
        forgotten = frozenset() if tracks else queued & {answer.first_record}
        yield set_aside(whole, partition, forgotten)


def apply_answer(
    k: Configuration, client: Client, partition: int, answer: ProduceResponse, overdue: int
) -> Iterator[Client]:
    """The clients after an answer, if all batches except perhaps the answered one are tracked."""
    entry = client.partitions[partition]
    answered = find_batch(entry.in_flight, answer.first_record)
    if not BEHAVIOURS[k.variant.recovery] or answered is None or answer.error == Error.NONE:
        yield responses.on_answer(k, client, partition, answer, overdue)
        return
    how = responses.failure(k, client, entry, answered, answer, overdue)
    gap = answered.batch
    if how == Failure.RETRY_RENUMBERED and has(k, B.RENUMBERS_IN_HEAP_ORDER):
        for order in heap_orders(entry.in_flight):
            ordered = with_in_flight(client, partition, order)
            yield responses.on_answer(k, ordered, partition, answer, overdue)
    elif how == Failure.FAIL_FATALLY and has(k, B.ABORTS_IN_NEXT_LOOP):
        yield replace(fail_batch(k, client, partition, answered), fatal=True)
    elif how == Failure.FAIL_AND_CLOSE_GAP and throws_below_zero(k, client, entry, gap):
        silent = responses.silenced(entry, answered)
        lowered = replace(silent, next_sequence=entry.next_sequence - gap.record_count)
        yield with_entry(client, partition, lowered)
    else:
        after = responses.on_answer(k, client, partition, answer, overdue)
        closes = how == Failure.FAIL_AND_CLOSE_GAP and closes_gap(client, entry, gap)
        yield move_old_parts(k, after, partition, gap) if closes else after


def fail_batch(k: Configuration, client: Client, partition: int, b: InFlightBatch) -> Client:
    """The client after it has reported to the application that one batch failed."""
    return with_entry(client, partition, sending.failed(k, client.partitions[partition], b))


def abort_batches(
    k: Configuration, client: Client, thrown: Iterable[tuple[int, InFlightBatch]]
) -> Client:
    """The sender's loop after a fatal error: all batches fail. Sender.maybeAbortBatches."""
    for partition, b in thrown:
        client = fail_batch(k, client, partition, b)
    return replace(client, partitions=map_values(k, responses.all_failed, client.partitions))


def heap_orders(in_flight: InFlight) -> Iterator[InFlight]:
    """The orders in which a binary heap may store batches, that of sequences first."""
    for order in permutations(in_flight):
        sequences = [b.batch.base_sequence for b in order]
        if all(sequences[(i - 1) // 2] <= at for i, at in enumerate(sequences) if i):
            yield order


def closes_gap(client: Client, entry: PartitionEntry, gap: Batch) -> bool:
    """Whether the batches behind a failed one take its sequences."""
    return sending.is_current(client, entry) and entry.next_sequence >= gap.record_count


def throws_below_zero(k: Configuration, client: Client, entry: PartitionEntry, gap: Batch) -> bool:
    """Whether a batch behind a gap would begin below 0, if THROWS_BELOW_ZERO."""
    behind = (b.batch for b in entry.in_flight if b.batch.first_record != gap.first_record)
    return (
        has(k, B.THROWS_BELOW_ZERO)
        and closes_gap(client, entry, gap)
        and any(gap.base_sequence <= b.base_sequence < gap.record_count for b in behind)
    )


def move_old_parts(k: Configuration, client: Client, partition: int, gap: Batch) -> Client:
    """The client after batches of an old producer id moved up, if RENUMBERS_OLD_PARTS."""
    if not has(k, B.RENUMBERS_OLD_PARTS):
        return client
    in_flight = client.partitions[partition].in_flight
    moved = (b if responses.is_mine(client, b.batch) else move_up(b, gap) for b in in_flight)
    return with_in_flight(client, partition, tuple(moved))


def move_up(b: InFlightBatch, gap: Batch) -> InFlightBatch:
    """The batch with an earlier sequence, if it stands behind a gap."""
    if b.batch.base_sequence < gap.base_sequence:
        return b
    batch = replace(b.batch, base_sequence=b.batch.base_sequence - gap.record_count)
    return replace(b, batch=batch, sequence_has_been_reset=True)


# Which batches are tracked


def same_sequence(k: Configuration, client: Client, partition: int, batch: Batch) -> frozenset[int]:
    """The batches in flight that the collection confuses with this one: TRACKS_BY_SEQUENCE."""
    if not has(k, B.TRACKS_BY_SEQUENCE) or not responses.is_mine(client, batch):
        return frozenset()
    in_flight = client.partitions[partition].in_flight
    return first_records(b for b in in_flight if b.batch.base_sequence == batch.base_sequence)


def untracked_with_late(
    k: Configuration, client: Client, partition: int, first_record: int, untracked: Collection[int]
) -> frozenset[int]:
    """The batches that the late answer to an expired one removes from the collection."""
    late = find_batch(client.partitions[partition].given_up, first_record)
    if late is None:
        return frozenset()
    return same_sequence(k, set_aside(client, partition, untracked), partition, late.batch)


def update_untracked(
    k: Configuration, before: Client, after: Client, partition: int, untracked: frozenset[int]
) -> frozenset[int]:
    """The batches in flight that are missing from the collection after a step. If an old batch is
    split, its parts are tracked again. TransactionManager.removeInFlightBatch,
    RecordAccumulator.splitAndReenqueue."""
    if not has(k, B.CLEARS_TRACKED_BATCHES):
        return frozenset()
    was, now = before.partitions[partition], after.partitions[partition]
    left = first_records(now.in_flight)
    if NO_PRODUCER_ID == after.producer_id != before.producer_id:
        return left
    tracked = set_aside(before, partition, untracked)
    finished = (b for b in was.in_flight if b.batch.first_record in untracked - left)
    answered_late = (b for b in was.given_up if b not in now.given_up)
    removed = (same_sequence(k, tracked, partition, b.batch) for b in (*finished, *answered_late))
    return (untracked.union(*removed) & left) - new_parts(was, now)


def new_parts(was: PartitionEntry, now: PartitionEntry) -> frozenset[int]:
    """The parts of a batch that was split in a step."""
    queued_before = first_records(b for b in was.in_flight if not b.outstanding)
    return first_records(b for b in now.in_flight if is_unsent(b)) - queued_before


# Lost connections


def disconnect(
    k: Configuration, client: Client, partition: int, overdue: int, untracked: frozenset[int]
) -> tuple[Client, frozenset[int]]:
    """The client after its connection is lost, and the batches that are untracked then. If tracking
    matters, batches are handled one by one, expired ones first: FAILS_EXPIRED_BATCHES_AGAIN."""
    in_flight, late = client.partitions[partition].in_flight, client.partitions[partition].given_up
    if not untracked and not (has(k, B.FAILS_EXPIRED_BATCHES_AGAIN) and late):
        return responses.on_disconnect(k, client, partition, overdue), frozenset()
    awaited = [(i < overdue, b) for i, b in enumerate(in_flight) if b.outstanding]
    for is_late, b in (*((False, b) for b in late), *awaited):
        first_record = b.batch.first_record
        lost = ProduceResponse(
            first_record, Error.REQUEST_TIMED_OUT, INVALID_OFFSET, 0, INVALID_OFFSET
        )
        after = next(receive_answer(k, client, partition, lost, int(is_late), untracked))
        untracked = update_untracked(k, client, after, partition, untracked)
        client = after
    return client, untracked


# Exceptions


def thrown_batches(before: PartitionEntry, after: PartitionEntry) -> InFlight:
    """The batches that an exception removed from the flight without an outcome."""
    left = first_records(after.in_flight)
    return tuple(
        b
        for b in before.in_flight
        if (first := b.batch.first_record) not in left
        and first not in after.acknowledged
        and first not in after.failed
    )


def expire_thrown(k: Configuration, client: Client, partition: int, b: InFlightBatch) -> Client:
    """The client after the delivery timeout of such a batch; the batch's sequences are then
    unresolved if it was sent more than once. Sender.getExpiredInflightBatches."""
    after = fail_batch(k, client, partition, b)
    if not b.attempts:
        return after
    entry = after.partitions[partition]
    end = max(entry.unresolved_sequence, b.batch.base_sequence + b.batch.record_count)
    return with_entry(after, partition, replace(entry, unresolved_sequence=end))


def expires_thrown(k: Configuration) -> bool:
    """Whether EXPIRES_THROWN_BATCHES; up to 2.0 batches in flight do not expire."""
    return has(k, B.EXPIRES_THROWN_BATCHES) and k.variant.expiry == Expiry.DELIVERY_TIMEOUT
