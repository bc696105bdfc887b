"""Runs of transactions that never end, in finitely many worlds: the normal form of a world.

Theory of operation. Where trouble never stops, logs, epochs and coordinator epochs grow for ever.
What no rule can tell apart is forgotten or numbered again:

1. A log is empty, and what is open in it began at its first offset: rules ask only whether
   something is open. No marker is late, so that coordinator epochs are never older than another's.
2. Epochs are compared with the coordinator's, and with the one before that. Once the coordinator's
   has reached the third, all of them go down together; what is left behind stays at 0, older than
   all that anyone still uses.

A world and its normal form allow the same events and lead to worlds of one normal form again, as
long as nothing is late and no producer id runs out: see `has_normal_form`.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Map
from model.transactions.client import Client
from model.transactions.coordinator import Coordinator, Known
from model.transactions.leader import Leader, ProducerStateEntry, VerificationEntry
from model.transactions.messages import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
)
from model.transactions.setting import Setting
from model.transactions.world import Reign, World

KEPT_EPOCHS = 3
"""Where the coordinator's epoch stays: two older ones are told apart, and one before those."""


def has_normal_form(k: Setting) -> bool:
    """Nothing is late, no marker either, and no producer id runs out."""
    b = k.budgets
    on_time = b.delays == 0 and b.marker_delays == 0 and not k.layout.guards
    return on_time and not k.layout.epochs_end and b.forgotten == 0 and not k.layout.readers


def down(epoch: int, by: int) -> int:
    """An epoch, so many lower; none stays none."""
    return epoch if epoch < 0 else max(epoch - by, 0)


def known_down(known: Known, by: int) -> Known:
    """What is known, with lower epochs."""
    metadata = known.metadata
    return replace(
        known,
        metadata=replace(metadata, producer_epoch=down(metadata.producer_epoch, by)),
        last_producer_epoch=down(known.last_producer_epoch, by),
    )


def coordinator_down(c: Coordinator, by: int) -> Coordinator:
    """The coordinator, with lower epochs; that of itself matters no more."""
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
    """What a leader knows of a producer, with a lower epoch."""
    is_open = entry.current_txn_first_offset != NO_OFFSET
    return replace(
        entry,
        producer_epoch=down(entry.producer_epoch, by),
        coordinator_epoch=NO_COORDINATOR_EPOCH,
        current_txn_first_offset=0 if is_open else NO_OFFSET,
    )


def verification_down(entry: VerificationEntry, by: int) -> VerificationEntry:
    """What a leader has asked, with a lower epoch."""
    return replace(entry, producer_epoch=down(entry.producer_epoch, by))


def leader_down(leader: Leader, by: int) -> Leader:
    """A leader without its log."""
    return replace(
        leader,
        log=(),
        producers=Map(tuple(entry_down(e, by) for e in leader.producers.values())),
        verifications=Map(tuple(verification_down(v, by) for v in leader.verifications.values())),
    )


def client_down(client: Client, by: int) -> Client:
    """A client with a lower epoch."""
    return replace(client, producer_epoch=down(client.producer_epoch, by))


def normal(k: Setting, w: World) -> World:
    """The world that stands for all that no rule can tell from `w`."""
    epoch = max(
        w.coordinator.known.metadata.producer_epoch, w.coordinator.image.metadata.producer_epoch
    )
    by = max(epoch - KEPT_EPOCHS, 0)
    return replace(
        w,
        clients=Map(tuple(client_down(c, by) for c in w.clients.values())),
        coordinator=coordinator_down(w.coordinator, by),
        leaders=Map(tuple(leader_down(leader, by) for leader in w.leaders.values())),
        read_to=Map.filled(k.layout.partitions, 0),
        reign=Reign(
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            log_end=Map.filled(k.layout.partitions, 0),
        ),
    )
