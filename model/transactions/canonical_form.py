"""The normal form of a world of transactions: it makes runs that never end visit finitely many
worlds.

Theory of operation. If faults never stop, logs, epochs and coordinator epochs grow for ever. The
normal form forgets or renumbers what no rule can tell apart:

1. A log is empty, and an open transaction in it began at offset 0: rules ask only whether one is
   open. No marker is late, so that no coordinator epoch is ever older than another.
2. Epochs are compared with the coordinator's, and with the one before that. Once the coordinator's
   epoch exceeds 3, all epochs are lowered together. Epochs that would become negative stay at 0,
   which is older than every epoch in use.
3. Producer ids are only told apart. Ids that no actor has any more, because an append failed, are
   left out, and the others count from 0 again.

A world and its normal form allow the same events, which lead to worlds of one normal form again, as
long as nothing is late and no producer id runs out: see `has_normal_form`.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Map
from model.transactions.client_state import Client
from model.transactions.configuration import Configuration
from model.transactions.coordinator import Coordinator, Known
from model.transactions.leader import (
    NOT_VERIFIED,
    UNKNOWN_PRODUCER,
    Leader,
    ProducerStateEntry,
    VerificationEntry,
)
from model.transactions.messages import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerId,
    ProducerIdOrNone,
)
from model.transactions.world import Initialization, World

KEPT_EPOCHS = 3
"""The coordinator's largest epoch in a normal form: two older epochs are told apart, and one before
those."""


def has_normal_form(k: Configuration) -> bool:
    """Whether no request and no marker is ever late, and no producer id runs out."""
    b = k.budgets
    on_time = b.delays == 0 and b.marker_delays == 0 and not k.bounds.guards
    return on_time and not k.bounds.epochs_end and b.forgotten == 0 and not k.bounds.readers


def down(epoch: int, by: int) -> int:
    """The epoch, lowered by `by`; a negative one stays as it is."""
    return epoch if epoch < 0 else max(epoch - by, 0)


def known_down(known: Known, by: int) -> Known:
    """The coordinator's state, with lower epochs."""
    metadata = known.metadata
    return replace(
        known,
        metadata=replace(metadata, producer_epoch=down(metadata.producer_epoch, by)),
        last_producer_epoch=down(known.last_producer_epoch, by),
    )


def coordinator_down(c: Coordinator, by: int) -> Coordinator:
    """The coordinator, with lower epochs; its own epoch no longer matters."""
    answer = replace(c.answer, producer_epoch=down(c.answer.producer_epoch, by))
    return replace(
        c,
        known=known_down(c.known, by),
        log=known_down(c.log, by),
        image=known_down(c.image, by),
        answer=answer,
        coordinator_epoch=0,
    )


def entry_down(entry: ProducerStateEntry, by: int) -> ProducerStateEntry:
    """A leader's state of a producer, with a lower epoch."""
    is_open = entry.current_txn_first_offset != NO_OFFSET
    return replace(
        entry,
        producer_epoch=down(entry.producer_epoch, by),
        coordinator_epoch=NO_COORDINATOR_EPOCH,
        current_txn_first_offset=0 if is_open else NO_OFFSET,
    )


def verification_down(entry: VerificationEntry, by: int) -> VerificationEntry:
    """A leader's verification, with a lower epoch."""
    return replace(entry, producer_epoch=down(entry.producer_epoch, by))


def leader_down(leader: Leader, by: int) -> Leader:
    """The leader without its log, and with lower epochs."""
    return replace(
        leader,
        log=(),
        producers=Map(tuple(entry_down(e, by) for e in leader.producers.values())),
        verifications=Map(tuple(verification_down(v, by) for v in leader.verifications.values())),
    )


def client_down(client: Client, by: int) -> Client:
    """The client, with a lower epoch."""
    return replace(client, producer_epoch=down(client.producer_epoch, by))


# Producer ids


def knows(known: Known, producer_id: ProducerId) -> bool:
    """Whether the id is the present, the previous or the next one here."""
    return (
        known.metadata.producer_id == producer_id
        or known.previous_producer_id == producer_id
        or known.next_producer_id == producer_id
    )


def is_used(k: Configuration, w: World, producer_id: ProducerId) -> bool:
    """Whether an actor has the id, or a transaction under it is open at a partition."""
    c = w.coordinator
    return (
        any(client.producer_id == producer_id for client in w.clients.values())
        or knows(c.known, producer_id)
        or knows(c.log, producer_id)
        or knows(c.image, producer_id)
        or c.answer.producer_id == producer_id
        or any(
            leader.producers[producer_id].current_txn_first_offset != NO_OFFSET
            for leader in w.leaders.values()
        )
    )


def rank(k: Configuration, w: World, producer_id: ProducerIdOrNone) -> int:
    """The number of ids in use before this one; NO_PRODUCER_ID stays as it is."""
    before = sum(1 for q in range(k.bounds.producer_ids) if q < producer_id and is_used(k, w, q))
    return NO_PRODUCER_ID if producer_id == NO_PRODUCER_ID else before


def used_at(k: Configuration, w: World, place: ProducerId) -> ProducerIdOrNone:
    """The id in use with this rank; NO_PRODUCER_ID if there are not so many."""
    found = sum(
        q + 1 for q in range(k.bounds.producer_ids) if is_used(k, w, q) and rank(k, w, q) == place
    )
    return found - 1


def known_renamed(k: Configuration, w: World, known: Known) -> Known:
    """The coordinator's state, with ids replaced by their ranks."""
    metadata = known.metadata
    return replace(
        known,
        metadata=replace(metadata, producer_id=rank(k, w, metadata.producer_id)),
        previous_producer_id=rank(k, w, known.previous_producer_id),
        next_producer_id=rank(k, w, known.next_producer_id),
    )


def coordinator_renamed(k: Configuration, w: World, c: Coordinator) -> Coordinator:
    """The coordinator, with ids replaced by their ranks."""
    return replace(
        c,
        known=known_renamed(k, w, c.known),
        log=known_renamed(k, w, c.log),
        image=known_renamed(k, w, c.image),
        answer=replace(c.answer, producer_id=rank(k, w, c.answer.producer_id)),
        given_producer_ids=sum(1 for q in range(k.bounds.producer_ids) if is_used(k, w, q)),
    )


def entry_at(k: Configuration, w: World, leader: Leader, place: ProducerId) -> ProducerStateEntry:
    """A leader's state of the id with this rank."""
    producer_id = used_at(k, w, place)
    return UNKNOWN_PRODUCER if producer_id == NO_PRODUCER_ID else leader.producers[producer_id]


def verification_at(
    k: Configuration, w: World, leader: Leader, place: ProducerId
) -> VerificationEntry:
    """A leader's verification of the id with this rank."""
    producer_id = used_at(k, w, place)
    return NOT_VERIFIED if producer_id == NO_PRODUCER_ID else leader.verifications[producer_id]


def leader_renamed(k: Configuration, w: World, leader: Leader) -> Leader:
    """The leader, with ids replaced by their ranks, and without those not in use."""
    return replace(
        leader,
        producers=Map(tuple(entry_at(k, w, leader, p) for p in range(k.bounds.producer_ids))),
        verifications=Map(
            tuple(verification_at(k, w, leader, p) for p in range(k.bounds.producer_ids))
        ),
    )


def with_ids_in_use(k: Configuration, w: World) -> World:
    """The world, with ids replaced by their ranks."""
    clients = w.clients.values()
    return replace(
        w,
        clients=Map(tuple(replace(c, producer_id=rank(k, w, c.producer_id)) for c in clients)),
        coordinator=coordinator_renamed(k, w, w.coordinator),
        leaders=Map(tuple(leader_renamed(k, w, leader) for leader in w.leaders.values())),
    )


def normal(k: Configuration, w: World) -> World:
    """The normal form of the world."""
    return with_ids_in_use(k, with_lower_epochs(k, w))


def with_lower_epochs(k: Configuration, w: World) -> World:
    """The world with lower epochs and empty logs."""
    epoch = max(
        w.coordinator.known.metadata.producer_epoch, w.coordinator.image.metadata.producer_epoch
    )
    by = max(epoch - KEPT_EPOCHS, 0)
    return replace(
        w,
        clients=Map(tuple(client_down(c, by) for c in w.clients.values())),
        coordinator=coordinator_down(w.coordinator, by),
        leaders=Map(tuple(leader_down(leader, by) for leader in w.leaders.values())),
        read_to=Map.filled(k.bounds.partitions, 0),
        initialization=Initialization(
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            log_end=Map.filled(k.bounds.partitions, 0),
        ),
    )
