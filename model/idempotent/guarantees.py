"""The guarantees of the protocol, each with the configurations in which it holds.

All reports, theorems and mutants use this one list of names. A guarantee is a predicate of one
world, and is *guaranteed* in the configurations where its condition holds
(`model.idempotent.conditions`). Elsewhere a violation is reported with its trace, and is no fault.
Each guarantee has a witness: a world in which its "if" happens. Guarantees of a producer's own
state stand in `client_guarantees`, properties that no Kafka gives in `assumed_properties`.
"""

from __future__ import annotations

from model.idempotent.client import Client, PartitionEntry, is_current
from model.idempotent.client_guarantees import (
    awaits_answers,
    errors_wait_for_nothing,
    keeps_its_id,
    last_acked_is_the_latest,
    late_errors_are_stored,
    numbers_and_bumps,
    requests_are_awaited,
    sequences_have_ids,
    settles_what_it_gave_up,
    unknown_is_unresolved,
)
from model.idempotent.conditions import (
    closes_gaps,
    expires_nobody,
    first_sequence_is_strict,
    has_sequences,
    keeps_order,
    keeps_what_it_acknowledges,
    memory_is_kept,
    memory_is_kept_in_order,
    never_gives_up,
    recognises_duplicates,
    stores_once,
    takes_every_record,
    waits_for_replicas,
)
from model.idempotent.configuration import (
    Configuration,
    Idempotence,
)
from model.idempotent.faults import Faults
from model.idempotent.leader import Leader, StoredBatch, log_end_offset
from model.idempotent.messages import (
    NO_PRODUCER_ID,
    Batch,
    Error,
    Producer,
    ProduceResponse,
    increment_sequence,
)
from model.idempotent.responses import is_mine, is_sequence_error
from model.idempotent.world import World
from model.properties import Guarantee, Witness, WorldPart, always

Log = tuple[StoredBatch, ...]


# One epoch of one producer


def same_epoch(a: Batch, b: Batch) -> bool:
    """Whether both are of one producer, under one producer id and epoch."""
    return (
        a.producer == b.producer
        and a.producer_id == b.producer_id
        and a.producer_epoch == b.producer_epoch
    )


def numbered_together(a: Batch, b: Batch) -> bool:
    """Whether both are of one epoch, and sequences order them."""
    return same_epoch(a, b) and a.producer_id != NO_PRODUCER_ID


def overlap(a: Batch, b: Batch) -> bool:
    """Whether the batches have a record in common."""
    return (
        a.first_record < b.first_record + b.record_count
        and b.first_record < a.first_record + a.record_count
    )


def at_most_once(k: Configuration, w: World) -> bool:
    """No record is in the log twice under one (producer id, epoch). P1 of KIP-98."""
    return all(stored_once(leader.log) for leader in w.leaders.values())


def stored_once(log: Log) -> bool:
    """No two batches of one epoch share a record."""
    return all(
        not any(same_epoch(a.batch, b.batch) and overlap(a.batch, b.batch) for a in log[:i])
        for i, b in enumerate(log)
    )


def no_gap(k: Configuration, w: World) -> bool:
    """Under one (producer id, epoch) each batch begins where the one before ended, first at 0."""
    return all(follows(k, leader.log) for leader in w.leaders.values())


def follows(k: Configuration, log: Log) -> bool:
    """Each batch has the sequence that follows its predecessors in its epoch."""
    return all(
        b.batch.base_sequence == next_sequence_after(k, log[:i], b.batch) for i, b in enumerate(log)
    )


def next_sequence_after(k: Configuration, before: Log, batch: Batch) -> int:
    """The sequence after the last batch of the same epoch in `before`; the first sequence if there
    is no such batch."""
    earlier = tuple(a for a in before if same_epoch(a.batch, batch))
    if len(earlier) == 0:
        return k.bounds.first_sequence if batch.producer_epoch == 0 else 0
    last = earlier[-1].batch
    return increment_sequence(k, last.base_sequence, last.record_count)


def no_gap_behind_first(k: Configuration, w: World) -> bool:
    """Under one (producer id, epoch) each batch but the first begins where the one before ended. A
    leader that does not know the producer may begin with any sequence."""
    return all(
        all(
            not any(same_epoch(a.batch, b.batch) for a in leader.log[:i])
            or b.batch.base_sequence == next_sequence_after(k, leader.log[:i], b.batch)
            for i, b in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


# All epochs of one producer


def order_kept(k: Configuration, w: World) -> bool:
    """Records are in the log in the order in which they were sent: within each epoch, and, for the
    first copy of each record, over all epochs. P3."""
    return all(in_order(leader.log) for leader in w.leaders.values())


def in_order(log: Log) -> bool:
    """No batch stands behind one with later records, unless an earlier copy of it stands before
    that."""
    return all(
        not any(
            a.batch.producer == b.batch.producer
            and a.batch.first_record > b.batch.first_record
            and (numbered_together(a.batch, b.batch) or not has_record(log[:i], b.batch))
            for a in log[:i]
        )
        for i, b in enumerate(log)
    )


def has_record(log: Log, batch: Batch) -> bool:
    """Whether the batch's first record is in the log."""
    return any(holds(a, batch.producer, batch.first_record) for a in log)


def holds(stored: StoredBatch, producer: Producer, number: int) -> bool:
    """Whether the stored batch contains this record of the producer."""
    return (
        stored.batch.producer == producer
        and stored.batch.first_record <= number
        and number < stored.batch.first_record + stored.batch.record_count
    )


# Sequences in flight


def sequences_follow(k: Configuration, w: World) -> bool:
    """Among the batches that a producer has in flight, each begins where the one before ends, and
    the next new batch begins where the last ends. No sequence is left out or used twice. KIP-98."""
    return all(
        all(
            not is_current(client, entry)
            or partition in client.bump_for
            or all(is_followed(k, client, entry, b.batch) for b in entry.in_flight)
            for partition, entry in client.partitions.items()
        )
        for client in w.clients.values()
    )


def is_followed(k: Configuration, client: Client, entry: PartitionEntry, batch: Batch) -> bool:
    """The next batch of the same epoch begins with the sequence after this batch's last, and no
    other batch has this batch's records."""
    end = increment_sequence(k, batch.base_sequence, batch.record_count)
    following = batch.first_record + batch.record_count
    return not is_mine(client, batch) or (
        (following < entry.records_sent or entry.next_sequence == end)
        and sum(1 if overlap(b.batch, batch) else 0 for b in entry.in_flight) == 1
        and all(
            b.batch.base_sequence == end
            for b in entry.in_flight
            if b.batch.first_record == following and is_mine(client, b.batch)
        )
    )


# Acknowledgements


def acked_is_stored(k: Configuration, w: World) -> bool:
    """An acknowledged record is in the log, at the offset that the answer says. P2."""
    return all(
        all(
            acknowledged_are_stored(k, producer, entry, w.leaders[partition])
            and all(
                is_true(producer, answer, w.leaders[partition])
                for answer in w.links[producer][partition].answers
            )
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def acknowledged_are_stored(
    k: Configuration, producer: Producer, entry: PartitionEntry, leader: Leader
) -> bool:
    """Each acknowledged record is in the log."""
    return all(
        number not in entry.acknowledged
        or any(holds(stored, producer, number) for stored in leader.log)
        for number in range(k.bounds.records)
    )


def is_true(producer: Producer, answer: ProduceResponse, leader: Leader) -> bool:
    """The answer is an error, or it names the offset at which its records are stored."""
    return answer.error != Error.NONE or any(
        stored.base_offset == answer.base_offset
        and stored.batch.producer == producer
        and stored.batch.first_record == answer.first_record
        for stored in leader.log
    )


def acked_is_replicated(k: Configuration, w: World) -> bool:
    """An acknowledged record is below the high watermark: on every replica that may lead. P2."""
    return all(
        all(
            acknowledged_are_replicated(k, producer, entry, w.leaders[partition])
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def acknowledged_are_replicated(
    k: Configuration, producer: Producer, entry: PartitionEntry, leader: Leader
) -> bool:
    """Each acknowledged record is in a batch that ends at or below the high watermark."""
    return all(
        number not in entry.acknowledged
        or any(
            holds(stored, producer, number) and end_offset(stored) <= leader.high_watermark
            for stored in leader.log
        )
        for number in range(k.bounds.records)
    )


def end_offset(stored: StoredBatch) -> int:
    """The offset after the batch."""
    return stored.base_offset + stored.batch.record_count


def nothing_fails(k: Configuration, w: World) -> bool:
    """No application is told that a record has failed."""
    return all(
        all(entry.failed.is_empty() for entry in client.partitions.values())
        for client in w.clients.values()
    )


def ids_come_first(k: Configuration, w: World) -> bool:
    """No idempotent producer sends a record before it has its first producer id."""
    return (
        k.variant.idempotence == Idempotence.DISABLED
        or w.given_producer_ids > 0
        or all(
            all(entry.records_sent == 0 for entry in client.partitions.values())
            for client in w.clients.values()
        )
    )


def acked_once(k: Configuration, w: World) -> bool:
    """An acknowledged record is in the log once, over all epochs, while leaders keep their memory
    of the producer. P1, P2."""
    return all(
        all(
            acknowledged_are_stored_once(k, producer, entry, w.leaders[partition])
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def acknowledged_are_stored_once(
    k: Configuration, producer: Producer, entry: PartitionEntry, leader: Leader
) -> bool:
    """Each acknowledged record is in one batch of the log."""
    return all(
        number not in entry.acknowledged
        or sum(1 if holds(stored, producer, number) else 0 for stored in leader.log) == 1
        for number in range(k.bounds.records)
    )


def no_false_error(k: Configuration, w: World) -> bool:
    """No leader refuses as out of sequence the batch that comes next, and no producer has to begin
    a new epoch."""
    return all(
        client.bump_for.is_empty()
        and all(
            not any(
                refuses_the_next(entry, answer) for answer in w.links[producer][partition].answers
            )
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def refuses_the_next(entry: PartitionEntry, answer: ProduceResponse) -> bool:
    """The answer refuses as out of sequence the first batch in flight, although all before it are
    acknowledged."""
    return (
        is_sequence_error(answer.error)
        and len(entry.in_flight) > 0
        and entry.in_flight[0].batch.first_record == answer.first_record
    )


def bumps_have_causes(k: Configuration, w: World) -> bool:
    """No producer begins more epochs than faults have happened."""
    causes = trouble(w.faults)
    return all(
        client.producer_epoch + (0 if client.bump_for.is_empty() else 1) <= causes
        for client in w.clients.values()
    )


def trouble(faults: Faults) -> int:
    """The number of faults that have happened."""
    network = faults.breaks + faults.refusals + faults.rejections + faults.late_errors
    leaders = faults.restarts + faults.crashes + faults.failovers + faults.losses
    return network + faults.timeouts + leaders + faults.expiries + faults.deletions


# Leaders


def high_watermark_sound(k: Configuration, w: World) -> bool:
    """The log's start is at or below the high watermark, which is at or below the log's end. With a
    single replica, the high watermark is the log's end."""
    return all(
        leader.log_start_offset <= leader.high_watermark
        and leader.high_watermark <= log_end_offset(leader.log)
        and (k.bounds.replicas > 1 or leader.high_watermark == log_end_offset(leader.log))
        for leader in w.leaders.values()
    )


def remembers_the_newest(k: Configuration, w: World) -> bool:
    """Of each producer id that still has records in its log, a leader remembers the newest batch,
    as KIP-98 demands of its snapshots."""
    return all(
        all(
            remembers(leader, stored)
            for i, stored in enumerate(leader.log)
            if stored.base_offset >= leader.log_start_offset
            and not any(
                later.batch.producer_id == stored.batch.producer_id for later in leader.log[i + 1 :]
            )
        )
        for leader in w.leaders.values()
    )


def remembers(leader: Leader, stored: StoredBatch) -> bool:
    """The batch has no producer id, or is the last that the leader remembers of its producer id."""
    return stored.batch.producer_id == NO_PRODUCER_ID or any(
        m.last_offset + 1 == end_offset(stored)
        for m in leader.producers[stored.batch.producer_id].batches[-1:]
    )


# Witnesses: the antecedents happen


def something_acknowledged(k: Configuration, w: World) -> bool:
    """Sometimes: a producer's second record is acknowledged."""
    return any(any(1 in entry.acknowledged for entry in entries(c)) for c in w.clients.values())


def entries(client: Client) -> tuple[PartitionEntry, ...]:
    """The producer's entries of all its partitions."""
    return client.partitions.values()


def duplicate_on_its_way(k: Configuration, w: World) -> bool:
    """Sometimes: a request travels, and its batch is already in the log."""
    return any(
        any(
            any(
                has_batch(w.leaders[partition].log, request.batch)
                for request in w.links[producer][partition].requests
            )
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def has_batch(log: Log, batch: Batch) -> bool:
    """Whether exactly this batch is in the log."""
    return any(stored.batch == batch for stored in log)


def batch_behind_another(k: Configuration, w: World) -> bool:
    """Sometimes: two batches of one epoch stand in one log."""
    return any(
        any(
            any(same_epoch(a.batch, b.batch) for a in leader.log[:i])
            for i, b in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def something_failed(k: Configuration, w: World) -> bool:
    """Sometimes: an application is told that a record has failed."""
    return not nothing_fails(k, w)


def epochs_are_used_up(k: Configuration, w: World) -> bool:
    """Sometimes: a producer that has sent records needs another producer id."""
    return k.bounds.epochs_end and any(
        client.producer_id == NO_PRODUCER_ID
        and any(entry.records_sent > 0 for entry in client.partitions.values())
        for client in w.clients.values()
    )


# The list


GUARANTEES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee(
        "at_most_once",
        at_most_once,
        stores_once,
        witness=duplicate_on_its_way,
        about=(WorldPart.LOGS,),
    ),
    Guarantee(
        "acked_is_stored",
        acked_is_stored,
        keeps_what_it_acknowledges,
        witness=something_acknowledged,
        about=(WorldPart.LOGS, WorldPart.ACKNOWLEDGEMENTS),
    ),
    Guarantee(
        "no_gap",
        no_gap,
        first_sequence_is_strict,
        witness=batch_behind_another,
        about=(WorldPart.LOGS,),
        needs=has_sequences,
    ),
    Guarantee(
        "no_gap_behind_first",
        no_gap_behind_first,
        recognises_duplicates,
        witness=batch_behind_another,
        about=(WorldPart.LOGS,),
        needs=has_sequences,
    ),
    Guarantee(
        "order_kept", order_kept, keeps_order, witness=batch_behind_another, about=(WorldPart.LOGS,)
    ),
    Guarantee(
        "acked_once",
        acked_once,
        memory_is_kept,
        witness=something_acknowledged,
        about=(WorldPart.LOGS, WorldPart.ACKNOWLEDGEMENTS),
    ),
    Guarantee(
        "no_false_error",
        no_false_error,
        memory_is_kept_in_order,
        witness=batch_behind_another,
        about=(WorldPart.BUMPS,),
        needs=has_sequences,
    ),
    Guarantee(
        "bumps_have_causes",
        bumps_have_causes,
        takes_every_record,
        witness=batch_behind_another,
        about=(WorldPart.BUMPS,),
        needs=has_sequences,
    ),
    Guarantee(
        "acked_is_replicated",
        acked_is_replicated,
        waits_for_replicas,
        witness=something_acknowledged,
    ),
    Guarantee(
        "nothing_fails",
        nothing_fails,
        never_gives_up,
        witness=something_acknowledged,
        about=(WorldPart.FAILURES,),
    ),
    Guarantee("high_watermark_sound", high_watermark_sound, always, witness=something_acknowledged),
    Guarantee(
        "remembers_the_newest",
        remembers_the_newest,
        expires_nobody,
        witness=batch_behind_another,
        needs=has_sequences,
    ),
    Guarantee(
        "ids_come_first",
        ids_come_first,
        always,
        witness=something_acknowledged,
        needs=has_sequences,
    ),
    Guarantee(
        "sequences_follow",
        sequences_follow,
        closes_gaps,
        witness=batch_behind_another,
        needs=has_sequences,
    ),
    Guarantee(
        "requests_are_awaited", requests_are_awaited, awaits_answers, witness=something_acknowledged
    ),
    Guarantee(
        "errors_wait_for_nothing", errors_wait_for_nothing, always, witness=something_acknowledged
    ),
    Guarantee(
        "late_errors_are_stored", late_errors_are_stored, always, witness=something_acknowledged
    ),
    Guarantee(
        "sequences_have_ids", sequences_have_ids, keeps_its_id, witness=something_acknowledged
    ),
    Guarantee(
        "last_acked_is_the_latest",
        last_acked_is_the_latest,
        numbers_and_bumps,
        witness=something_acknowledged,
        needs=has_sequences,
    ),
    Guarantee(
        "unknown_is_unresolved",
        unknown_is_unresolved,
        settles_what_it_gave_up,
        witness=something_failed,
        needs=has_sequences,
    ),
)

WITNESSES: tuple[Witness[Configuration, World], ...] = (
    Witness("something_acknowledged", something_acknowledged),
    Witness("duplicate_on_its_way", duplicate_on_its_way),
    Witness("batch_behind_another", batch_behind_another),
    Witness("something_failed", something_failed),
    Witness("epochs_are_used_up", epochs_are_used_up),
)
