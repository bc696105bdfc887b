"""Guarantees of a producer's own state: the answers that it awaits, and the sequences that it
counts.

They are part of the list in `model.idempotent.guarantees`; their conditions stand here.
"""

from __future__ import annotations

from model.idempotent.client import Client, InFlightBatch, PartitionEntry
from model.idempotent.configuration import Acks, Configuration, Idempotence, Recovery
from model.idempotent.leader import Leader
from model.idempotent.messages import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
    Error,
    Producer,
    ProduceResponse,
    last_sequence,
)
from model.idempotent.network import Link
from model.idempotent.responses import is_mine, later
from model.idempotent.world import World

# Requests


def requests_are_awaited(k: Configuration, w: World) -> bool:
    """A producer awaits the answer to each request on its connection, and no other. It never has
    more requests in flight than it may. InFlightRequests."""
    return all(
        all(
            awaits_what_travels(entry, w.links[producer][partition])
            and len(awaited(entry)) <= k.bounds.in_flight
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def awaited(entry: PartitionEntry) -> tuple[InFlightBatch, ...]:
    """The batches whose answer may still come."""
    return (*tuple(b for b in entry.in_flight if b.outstanding), *entry.given_up)


def awaits_what_travels(entry: PartitionEntry, link: Link) -> bool:
    """There are as many awaited batches as requests and answers, and the batch of each request is
    among them."""
    return len(awaited(entry)) == len(link.requests) + len(link.answers) and all(
        any(b.batch.first_record == request.batch.first_record for b in awaited(entry))
        for request in link.requests
    )


def bumps_by_itself(k: Configuration) -> bool:
    """A producer takes the next epoch by itself, and no exception loses a batch: since KIP-360."""
    return k.variant.recovery == Recovery.LOCAL_BUMP


def numbers_and_bumps(k: Configuration) -> bool:
    """Producers bump epochs by themselves, and batches have sequences."""
    return k.variant.idempotence == Idempotence.ENABLED and bumps_by_itself(k)


def awaits_answers(k: Configuration) -> bool:
    """Producers bump epochs by themselves, and brokers answer."""
    return k.variant.acks != Acks.NONE and bumps_by_itself(k)


def keeps_its_id(k: Configuration) -> bool:
    """No epoch is the last. After the last epoch a producer forgets its id, also in the batches in
    flight."""
    return not k.bounds.epochs_end


def settles_what_it_gave_up(k: Configuration) -> bool:
    """Producers bump epochs by themselves, and there is always a next epoch."""
    return bumps_by_itself(k) and keeps_its_id(k)


# Answers


def errors_wait_for_nothing(k: Configuration, w: World) -> bool:
    """An answer with an error is sent at once; only a success awaits the high watermark.
    DelayedProduce."""
    return all(
        all(all(goes_at_once(answer) for answer in link.answers) for link in links.values())
        for links in w.links.values()
    )


def goes_at_once(answer: ProduceResponse) -> bool:
    """The answer is a success, or awaits no offset."""
    return answer.error == Error.NONE or answer.required_offset == 0


def late_errors_are_stored(k: Configuration, w: World) -> bool:
    """An error that comes after the append is the answer to a batch in the log.
    NotEnoughReplicasAfterAppendException."""
    return all(
        all(
            all(is_not_late(a) or has_record(w.leaders[p], producer, a) for a in link.answers)
            for p, link in links.items()
        )
        for producer, links in w.links.items()
    )


def is_not_late(answer: ProduceResponse) -> bool:
    """The answer is not one of the errors that come after an append."""
    return (
        answer.error != Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        and answer.error != Error.REQUEST_TIMED_OUT
    )


def has_record(leader: Leader, producer: Producer, answer: ProduceResponse) -> bool:
    """Whether the log has the first record of the answered batch."""
    first = answer.first_record
    return any(
        s.batch.producer == producer
        and s.batch.first_record <= first
        and first < s.batch.first_record + s.batch.record_count
        for s in leader.log
    )


# Sequences


def sequences_have_ids(k: Configuration, w: World) -> bool:
    """A producer without a producer id counts no sequences, and sends none. KIP-98."""
    return all(
        all(
            all(is_numbered_with_id(b.batch) for b in awaited(entry))
            and (k.variant.idempotence == Idempotence.ENABLED or counts_nothing(entry))
            for entry in client.partitions.values()
        )
        for client in w.clients.values()
    )


def is_numbered_with_id(batch: Batch) -> bool:
    """The batch has a producer id, an epoch and a sequence, or lacks all three."""
    has_id = batch.producer_id != NO_PRODUCER_ID
    has_sequence = batch.base_sequence != NO_SEQUENCE
    return has_sequence == has_id and (batch.producer_epoch != NO_PRODUCER_EPOCH) == has_id


def counts_nothing(entry: PartitionEntry) -> bool:
    """No sequence was used, acknowledged or left unresolved."""
    return (
        entry.next_sequence == 0
        and entry.last_acked_sequence == NO_SEQUENCE
        and entry.unresolved_sequence == NO_SEQUENCE
    )


def last_acked_is_the_latest(k: Configuration, w: World) -> bool:
    """A producer's last acknowledged sequence is that of the latest batch of its epoch for which it
    has received a success. An answer that comes late does not move it back.
    TransactionManager.maybeUpdateLastAckedSequence."""
    return all(
        all(
            all(
                not has_acknowledged(client, entry, stored.batch)
                or is_not_before(k, entry, stored.batch)
                for stored in w.leaders[partition].log
                if stored.batch.producer == producer
            )
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def has_acknowledged(client: Client, entry: PartitionEntry, batch: Batch) -> bool:
    """Whether the producer knows that the batch, which is of its present epoch, is stored."""
    return is_mine(client, batch) and batch.first_record in entry.acknowledged


def is_not_before(k: Configuration, entry: PartitionEntry, batch: Batch) -> bool:
    """The last acknowledged sequence is the batch's last, or a later one."""
    acked = entry.last_acked_sequence
    return later(k, acked, last_sequence(k, batch)) == acked


def unknown_is_unresolved(k: Configuration, w: World) -> bool:
    """While the outcome of a batch that was sent again and then given up is unknown, its partition
    has an unresolved sequence, or waits for the next epoch. Nothing new is sent there. KIP-360."""
    return all(
        all(
            entry.unresolved_sequence != NO_SEQUENCE
            or partition in client.bump_for
            or not any(is_unknown(client, entry, b) for b in entry.given_up)
            for partition, entry in client.partitions.items()
        )
        for client in w.clients.values()
    )


def is_unknown(client: Client, entry: PartitionEntry, b: InFlightBatch) -> bool:
    """Whether the batch was sent again, and neither it nor a later one was acknowledged."""
    again = b.attempts > 0 and is_mine(client, b.batch)
    return again and entry.last_acked_sequence < b.batch.base_sequence
