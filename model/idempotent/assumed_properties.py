"""Properties that users of an idempotent producer may take for guaranteed, and no Kafka gives.

Each is an invariant with the condition that would make it true. They are checked by name only.
"""

from __future__ import annotations

from model.idempotent.client import PartitionEntry
from model.idempotent.configuration import Configuration, Recovery, Retries
from model.idempotent.guarantees import Log, holds, overlap, same_epoch
from model.idempotent.leader import Leader, StoredBatch
from model.idempotent.messages import Error, Producer, ProduceResponse
from model.idempotent.world import World
from model.properties import Guarantee

# Failed records


def failed_is_not_stored(k: Configuration, w: World) -> bool:
    """A record that has failed, as the application was told, is not in the log: it may be sent
    again."""
    return all(
        all(
            nothing_failed_is_stored(k, producer, entry, w.leaders[partition])
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def nothing_failed_is_stored(
    k: Configuration, producer: Producer, entry: PartitionEntry, leader: Leader
) -> bool:
    """No record that has failed is in the log."""
    return all(
        number not in entry.failed or not is_stored(leader.log, producer, number)
        for number in range(k.bounds.records)
    )


def is_stored(log: Log, producer: Producer, number: int) -> bool:
    """Whether the producer's record is in the log."""
    return any(holds(stored, producer, number) for stored in log)


def refused_is_not_stored(k: Configuration, w: World) -> bool:
    """A batch that was answered with an error is not in the log."""
    return all(
        all(
            all(
                is_truly_refused(producer, answer, w.leaders[partition])
                for answer in w.links[producer][partition].answers
            )
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def is_truly_refused(producer: Producer, answer: ProduceResponse, leader: Leader) -> bool:
    """The answer is a success, or its first record is not in the log."""
    return answer.error == Error.NONE or not is_stored(leader.log, producer, answer.first_record)


def failure_ends_the_stream(k: Configuration, w: World) -> bool:
    """After a failed record that is not in the log, no record of its producer is stored."""
    return all(
        all(
            all(
                number not in entry.failed
                or is_stored(w.leaders[partition].log, producer, number)
                or not goes_on(w.leaders[partition].log, producer, number)
                for number in range(k.bounds.records)
            )
            for partition, entry in client.partitions.items()
        )
        for producer, client in w.clients.items()
    )


def goes_on(log: Log, producer: Producer, number: int) -> bool:
    """Whether a later record of the producer is in the log."""
    return any(s.batch.producer == producer and s.batch.first_record > number for s in log)


# Repeated records


def next_epoch_repeats_nothing(k: Configuration, w: World) -> bool:
    """A record that a producer stores under its next epoch is not in the log under the one before:
    a producer that begins a new epoch knows what became of the old one's batches."""
    return all(
        all(not any(is_repeated(a, b) for a in leader.log[:i]) for i, b in enumerate(leader.log))
        for leader in w.leaders.values()
    )


def is_repeated(earlier: StoredBatch, later: StoredBatch) -> bool:
    """Whether both hold the same record of one producer, under two epochs."""
    one = earlier.batch.producer == later.batch.producer
    again = overlap(earlier.batch, later.batch)
    return one and again and not same_epoch(earlier.batch, later.batch)


def restart_is_recognised(k: Configuration, w: World) -> bool:
    """An application that restarts without a transactional id and sends the same records again does
    not store them twice. Each producer here is an instance of one application."""
    return all(
        all(
            not any(overlap(a.batch, b.batch) and is_of_another(a, b) for a in leader.log[:i])
            for i, b in enumerate(leader.log)
        )
        for leader in w.leaders.values()
    )


def is_of_another(a: StoredBatch, b: StoredBatch) -> bool:
    """Whether two producers have sent the batches."""
    return a.batch.producer != b.batch.producer


# Conditions that would make them true


def gives_up_nothing(k: Configuration) -> bool:
    """No producer gives up a batch that it has sent, neither when its time is up nor, up to 2.4,
    for a new producer id, and no other producer has its id. Each batch that fails was then refused
    for good."""
    retries_for_ever = k.variant.retries == Retries.ENDLESS and k.budgets.timeouts == 0
    keeps_id = k.variant.recovery == Recovery.LOCAL_BUMP and not k.bounds.shared_producer_id
    return retries_for_ever and keeps_id


def no_answer_is_lost(k: Configuration) -> bool:
    """No connection breaks, no leader stops, no replica is lost behind a batch, and no other
    producer has the id. No stored batch is then sent again."""
    b = k.budgets
    leaders = b.restarts + b.crashes + b.failovers + b.losses
    return b.breaks + leaders + b.late_errors == 0 and not k.bounds.shared_producer_id


def never_as_producers_go_on(k: Configuration) -> bool:
    """In no configuration: a producer goes on with the next record. Only a transaction, which must
    then be aborted, takes the later records with it."""
    return False


def sends_nothing_behind(k: Configuration) -> bool:
    """One request is in flight, so that no batch stands behind one in doubt when its epoch ends. Up
    to 2.4 a producer takes another producer id, and batches in flight keep their numbers."""
    return k.bounds.in_flight == 1 or k.variant.recovery != Recovery.LOCAL_BUMP


def comes_back_as_it_was(k: Configuration) -> bool:
    """The next instance has the producer id, the epoch and the sequences of the one before. No
    client does so: only a transactional id outlives an instance."""
    return k.bounds.shared_producer_id


ASSUMED_PROPERTIES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee("failed_is_not_stored", failed_is_not_stored, gives_up_nothing),
    Guarantee("refused_is_not_stored", refused_is_not_stored, no_answer_is_lost),
    Guarantee("failure_ends_the_stream", failure_ends_the_stream, never_as_producers_go_on),
    Guarantee("next_epoch_repeats_nothing", next_epoch_repeats_nothing, sends_nothing_behind),
    Guarantee("restart_is_recognised", restart_is_recognised, comes_back_as_it_was),
)
