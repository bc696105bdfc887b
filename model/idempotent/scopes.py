"""Named scopes of the idempotent producer, and their initial world."""

from __future__ import annotations

from dataclasses import replace

from model.idempotent.client import Client, PartitionEntry
from model.idempotent.configuration import (
    Bounds,
    Budgets,
    Configuration,
    Idempotence,
    Scope,
)
from model.idempotent.faults import Faults
from model.idempotent.leader import BatchMetadata, Leader, ProducerStateEntry, StoredBatch, nobody
from model.idempotent.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
)
from model.idempotent.network import SILENT_LINK
from model.idempotent.world import World
from model.language import EMPTY_SET, Map, span
from model.scope import read_scopes

NOTHING_FAILS = {
    "something_failed": "batches fail where their time is up, or where no leader takes them",
    "epochs_are_used_up": "there is always a next epoch",
}
"""Witnesses that a scope never meets, unless it says otherwise."""

SCOPES = read_scopes(
    Scope("", "", Bounds(), Budgets(), NOTHING_FAILS),
    """
idempotent-tiny: two in flight, two connections lost, a refusal, a restart
    | records=3 max_epoch=1 breaks=2 refusals=1 restarts=1
idempotent-default: three in flight, late requests of two connections, a refusal, a restart
    | records=4 in_flight=3 log=6 broken_connections=2 max_epoch=1 breaks=2 refusals=1 restarts=1
idempotent-small: a second bump, and two restarts and refusals before it
    | from=idempotent-default log=8 broken_connections=3 max_epoch=2 breaks=3 refusals=2 restarts=2
idempotent-medium: five in flight, as many as a leader remembers
    | from=idempotent-small records=7 in_flight=5 log=9 breaks=4 refusals=3
idempotent-large: one batch more than a leader remembers, and more trouble on its way
    | from=idempotent-medium records=9 log=11 breaks=5 refusals=4 restarts=3
    | room breaks=9 refusals=8 restarts=7 failovers=1
idempotent-restart: what leaders forget when they restart: nothing else can make them forget
    | records=3 log=5 max_epoch=1 breaks=1 restarts=1
idempotent-wrap: the sequence after the last is 0, and there a batch begins
    | records=6 log=6 broken_connections=2 max_sequence=15 first_sequence=13 max_epoch=1 breaks=2
    | never client_bumps_epoch: leaders refuse nothing and forget nothing
idempotent-wrap-across: the sequence after the last is 0, in the middle of a batch
    | from=idempotent-wrap first_sequence=14
idempotent-failover: two replicas: answers await the high watermark, a failover loses what is above
    it
    | records=4 log=6 max_epoch=1 replicas=2 breaks=1 refusals=1 restarts=1 failovers=1
idempotent-partitions: two partitions share one epoch, which the trouble of one bumps for both
    | partitions=2 records=3 log=3 max_epoch=1 breaks=1 refusals=1 restarts=1
idempotent-partitions-replicas: two partitions of two replicas: an answer awaits the high watermark
    of its own partition
    | partitions=2 records=3 log=3 max_epoch=1 replicas=2 restarts=1 | room breaks=1 failovers=1
idempotent-expiry: a leader forgets a producer that is still there
    | records=3 log=5 max_epoch=1 breaks=1 expiries=1
idempotent-deletion: the head of a log goes, and with it what a restart would have replayed
    | records=3 log=5 max_epoch=1 breaks=1 restarts=1 crashes=1 deletions=2
idempotent-crash: a broker is killed: what it still knows depends on its last snapshot
    | records=4 in_flight=3 log=6 max_epoch=1 breaks=1 crashes=2
idempotent-loss: a replica that was not in sync leads: acknowledged records are lost
    | records=3 log=5 max_epoch=1 replicas=2 breaks=1 failovers=1 losses=1
    | never client_bumps_epoch: a leader takes any first sequence of a producer that it forgot
idempotent-late-error: an error is answered although the batch is stored
    | records=3 max_epoch=1 breaks=1 late_errors=2
    | never client_bumps_epoch: what is answered with an error is stored, and then a duplicate
idempotent-rejection: a batch is refused for good, beside others that are stored or wait
    | records=4 in_flight=3 log=5 max_epoch=1 breaks=1 rejections=1 late_errors=1
    | sometimes something_failed
idempotent-timeout: batches are given up while nobody knows whether they are stored
    | records=4 log=6 max_epoch=1 breaks=2 refusals=1 timeouts=2 | sometimes something_failed
idempotent-split: a batch is too large for its leader, and goes again as two
    | records=4 max_message=1 log=6 max_epoch=1 breaks=2 refusals=1 restarts=1
idempotent-exhaustion: no producer id at first, and another one after the last epoch
    | more_producer_ids=1 records=4 log=6 max_epoch=1 epochs_end begun=0 breaks=2 restarts=2
    | sometimes epochs_are_used_up
idempotent-too-large: no leader takes these records, alone or together: batches fail, others behind
    them
    | records=4 in_flight=3 max_message=0 log=1 refusals=1 | room | sometimes something_failed
    | never something_acknowledged, duplicate_on_its_way, batch_behind_another: nothing is stored
idempotent-unresolved: three in flight: what follows a batch of unknown outcome, and is not next to
    it
    | records=4 in_flight=3 log=3 breaks=1 refusals=1 timeouts=1 | room | sometimes something_failed
idempotent-forgotten: a leader forgets a producer whose batches on their way fail after it has begun
    again
    | records=6 log=5 max_epoch=1 breaks=1 expiries=1 | room
idempotent-forgotten-split: the same, where a batch that comes back late is too large, and a
    connection is lost
    | from=idempotent-forgotten records=7 max_message=1
idempotent-five-in-flight: as many batches in flight as a leader remembers
    | records=9 in_flight=5 log=8 max_epoch=1 breaks=1
    | never client_bumps_epoch: a leader knows as many batches as are in flight
idempotent-five-forgotten: five in flight, of which a leader that restarts knows the last; others
    behind them
    | records=10 in_flight=5 log=7 max_epoch=1 restarts=1 | room
idempotent-six-in-flight: one batch more in flight than a leader remembers, which no Kafka lets
    happen
    | from=idempotent-five-in-flight in_flight=6 | sometimes client_bumps_epoch
idempotent-producers: two producers write to one partition
    | producers=2 records=2 in_flight=1 log=5 max_epoch=1 breaks=1
    | never something_acknowledged, batch_behind_another, client_bumps_epoch: each producer has one
    batch, of one record
idempotent-shared-id: two producers have one producer id, which no Kafka lets happen
    | from=idempotent-producers shared_producer_id
idempotent-trouble: a little of everything that can go wrong at a leader of one replica
    | records=2 max_epoch=1 breaks=1 refusals=1 restarts=1 crashes=1 expiries=1 deletions=1
    late_errors=1 timeouts=1
    | room rejections=1
    | sometimes something_failed | never something_acknowledged: a producer has one record
idempotent-replicas: a little of everything that can go wrong with two replicas
    | from=idempotent-trouble replicas=2 failovers=1 losses=1
idempotent-exhausted: trouble around the last epoch: brokers that stop, and answers that are lost
    | more_producer_ids=1 records=3 in_flight=1 max_message=1 log=3 replicas=2 epochs_end breaks=1
    refusals=1 restarts=1 failovers=1 losses=1 crashes=1
    | room rejections=1 | sometimes epochs_are_used_up
idempotent-unlucky: trouble around the last epoch: what is forgotten, deleted and given up
    | from=idempotent-exhausted refusals=0 restarts=0 failovers=0 crashes=0 expiries=1 deletions=1
    late_errors=1 timeouts=1
    | sometimes something_failed
delivery: what producers with and without idempotence make of the same trouble
    | records=3 log=5 max_epoch=1 breaks=2 refusals=1
delivery-one-in-flight: the same trouble, with one request in flight
    | from=delivery in_flight=1
    | never client_bumps_epoch: no batch overtakes one that is refused
""",
)


def initial(k: Configuration) -> World:
    """The initial world: nothing is stored; or, if `first_sequence` is not 0, one record is."""
    bounds = k.bounds
    stored = bounds.first_sequence > 0
    leader = begun_leader(k) if stored else Leader((), 0, 0, nobody(k))
    given = bounds.producer_ids - bounds.more_producer_ids if bounds.begun else 0
    return World(
        clients=Map(tuple(begun_client(k, producer) for producer in range(bounds.producers))),
        leaders=Map.filled(bounds.partitions, leader),
        links=Map.filled(bounds.producers, Map.filled(bounds.partitions, SILENT_LINK)),
        given_producer_ids=given,
        faults=Faults(),
    )


def begun_client(k: Configuration, producer: int) -> Client:
    """A producer with a producer id, or one that must still ask for it. No Kafka lets producers
    share an id; the guarantees show why."""
    bounds = k.bounds
    has_id = bounds.begun and k.variant.idempotence == Idempotence.ENABLED
    own = 0 if bounds.shared_producer_id else producer
    producer_id = own if has_id else NO_PRODUCER_ID
    epoch = 0 if has_id else NO_PRODUCER_EPOCH
    stored = bounds.first_sequence > 0
    entry = begun_entry(k) if stored else fresh_entry(max(producer_id, 0), max(epoch, 0))
    entries = Map.filled(bounds.partitions, entry)
    return Client(producer, producer_id, epoch, EMPTY_SET, False, entries)


def fresh_entry(producer_id: int, producer_epoch: int) -> PartitionEntry:
    """The entry of a partition to which nothing was sent."""
    return PartitionEntry(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        next_sequence=0,
        last_acked_sequence=NO_SEQUENCE,
        last_acked_offset=INVALID_OFFSET,
        unresolved_sequence=NO_SEQUENCE,
        in_flight=(),
        given_up=(),
        records_sent=0,
        acknowledged=EMPTY_SET,
        failed=EMPTY_SET,
    )


def begun_entry(k: Configuration) -> PartitionEntry:
    """The entry of a partition to which record 0 was sent, at `first_sequence`, and
    acknowledged."""
    first = k.bounds.first_sequence
    return replace(
        fresh_entry(0, 0),
        next_sequence=first + 1,
        last_acked_sequence=first,
        records_sent=1,
        acknowledged=span(0, 1),
    )


def begun_leader(k: Configuration) -> Leader:
    """The leader that has record 0 at `first_sequence`; such a scope has one producer."""
    first = k.bounds.first_sequence
    entry = ProducerStateEntry(0, (BatchMetadata(first, 0, 0),))
    stored = StoredBatch(Batch(0, 0, first, 1, 0, 0), 0)
    return Leader((stored,), 0, 1, nobody(k).put(0, entry))
