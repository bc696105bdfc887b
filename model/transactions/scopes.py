"""Named scopes of transactions, and their initial world."""

from __future__ import annotations

from dataclasses import replace

from model.language import Map
from model.scope import read_scopes
from model.transactions.client_state import (
    Client,
    ClientPartition,
    ClientState,
    Membership,
    Outcome,
    Write,
)
from model.transactions.configuration import Bounds, Budgets, Configuration, Scope
from model.transactions.coordinator import CoordinatorLeadership
from model.transactions.coordinator_leadership import Place, Placement, nobody
from model.transactions.faults import Faults
from model.transactions.leader import NOT_VERIFIED, UNKNOWN_PRODUCER, Leader
from model.transactions.messages import NO_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from model.transactions.world import Initialization, World

USUALLY_NEVER = {
    "late_addition_arrives": "AddPartitionsToTxn is of V1",
    "late_offsets_arrive": "no group has offsets in the transaction",
    "other_is_open": "no other transactional id writes",
    "dead_slot_is_added": "a batch that comes after the abort was not verified, and is refused",
}
"""Incidents that do not happen in a scope, unless it says otherwise."""

SCOPES = read_scopes(
    Scope("", "", Bounds(), Budgets(), USUALLY_NEVER),
    """
transactions-tiny: one instance, one transaction, two partitions
    | instances=1 transactions=1 log=3 max_epoch=3 begun=1 unheard=1
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
    | never both_committed: there is one transaction
transactions-default: one instance, two transactions, a request that is late
    | instances=1 log=4 max_epoch=3 delays=1 | room
transactions-small: the same, with an answer that is lost, a failover and a time-out
    | instances=1 log=5 max_epoch=5 delays=1 unheard=1 moves=1 timeouts=1
transactions-medium: two instances, two transactions, one late request, one lost answer, one
    failover, one time-out
    | from=transactions-small instances=2 log=7 max_epoch=6
transactions-large: the same, and another transactional id that writes in the first partition
    | from=transactions-medium others=1 | sometimes other_is_open
transactions-exhausted: the last epochs: the next producer id takes over, also after a failover
    | partitions=1 log=5 producer_ids=3 max_epoch=3 epochs_end delays=1 unheard=1 moves=1 timeouts=1
    | room expirations=1
transactions-forgotten: the transactional id expires while an instance sleeps
    | partitions=1 log=5 producer_ids=3 max_epoch=4 delays=1 unheard=1 moves=1 forgotten=1
transactions-log: appends to the transaction log that take their time, fail, or only seem to fail
    | partitions=1 log=5 producer_ids=3 appends unheard=1 moves=1 timeouts=1 failures=1
transactions-markers: markers whose answers are lost, and markers that are late
    | instances=1 log=7 max_epoch=4 marker_losses=1 marker_delays=1 moves=1
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
transactions-late-marker: two instances, each with a transaction, and a marker that is late
    | partitions=1 transactions=1 log=5 late=0 max_epoch=4 marker_delays=1 | room
transactions-late-batch: a batch whose time is up arrives after its transaction
    | partitions=1 delays=2 unheard=1 expirations=1
transactions-late-writes: two transactions of two records each, one of which is late
    | instances=1 partitions=1 writes=2 log=6 max_epoch=3 delays=1
    | room | sometimes dead_slot_is_added
transactions-in-flight: two records of a transaction, both in flight at once
    | instances=1 partitions=1 transactions=1 writes=2 in_flight=2 log=4 max_epoch=2 begun=1
    delays=1 unheard=1
    | room expirations=1 | sometimes dead_slot_is_added
    | never both_committed: there is one transaction
transactions-in-flight-again: two transactions of two records each, and batches that are given up
    | instances=1 partitions=1 writes=2 in_flight=2 log=6 max_epoch=4 unheard=1 expirations=2 late=0
    | never zombie_died: there is no other instance
transactions-in-flight-moves: two records at once, and a coordinator that moves and takes its time
    | instances=1 partitions=1 transactions=1 writes=2 in_flight=2 log=3 late=0 late_markers=0
    max_epoch=2 loads begun=1 moves=1
    | never both_committed: there is one transaction
transactions-in-flight-leaves: two records at once, and a leader that goes, and leads again
    | instances=1 partitions=1 transactions=1 writes=2 in_flight=2 log=4 late=0 late_markers=0
    max_epoch=2 begun=1 leaves=1
    | never both_committed: there is one transaction
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
transactions-in-flight-three: three records at once, and a leader that goes, and leads again
    | from=transactions-in-flight-leaves writes=3 in_flight=3 log=5 expirations=1
    | room leaves=1 expirations=2 | sometimes commit_failure_is_reported
transactions-rejection: two transactions, and a batch that is refused for good, perhaps on a retry
    | instances=1 partitions=1 log=6 late=0 late_markers=0 max_epoch=4 unheard=1 rejections=1 | room
    | never zombie_died: there is no other instance
transactions-in-flight-rejection: two records of each transaction at once, one refused for good
    | instances=1 partitions=1 writes=2 in_flight=2 log=6 late=0 late_markers=0 max_epoch=4
    unheard=2 rejections=1 | room
    | never zombie_died: there is no other instance
transactions-in-flight-partitions: two records at once to each of two partitions, one of them late
    | instances=1 transactions=1 writes=2 in_flight=2 log=2 late_markers=0 max_epoch=1 begun=1
    delays=1 unheard=1
    | room | sometimes dead_slot_is_added | never both_committed: there is one transaction
transactions-in-flight-offsets: two records at once, and offsets of a group beside them
    | instances=1 transactions=1 writes=2 in_flight=2 log=3 late=0 late_markers=0 max_epoch=1
    offsets begun=1 unheard=1
    | room | never both_committed: there is one transaction
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
transactions-guards: a late batch is verified, and appended some time after that
    | partitions=1 guards delays=1 unheard=1 expirations=1 | sometimes dead_slot_is_added
transactions-offsets: offsets of a group in the transaction, and what of them is late
    | instances=1 max_epoch=5 offsets delays=1 unheard=1 timeouts=1
    | sometimes late_offsets_arrive
transactions-readers: a reader, and another transaction that holds it back
    | instances=1 partitions=1 log=7 max_epoch=4 readers delays=1 unheard=1 others=1 | room leaves=1
    | sometimes other_is_open
transactions-writes: two records in a row, two requests and two markers that are late at once
    | instances=1 partitions=1 transactions=1 writes=2 log=4 late=2 late_markers=2 max_epoch=2
    guards begun=1 delays=2 expirations=1 marker_delays=2 | room
    | sometimes dead_slot_is_added | never both_committed: there is one transaction
transactions-window: six records in a row, one of them late: leaders remember five
    | instances=1 partitions=1 transactions=1 writes=6 log=7 max_epoch=1 begun=1 delays=1 | room
    | sometimes dead_slot_is_added | never both_committed: there is one transaction
transactions-adopted: two batches that are late at once: of a transaction that was aborted, and of
    the next
    | instances=1 partitions=1 log=4 late=2 max_epoch=2 guards delays=2 expirations=1 | room
    | sometimes dead_slot_is_added
transactions-guards-partitions: a late batch is verified, and there is another partition
    | instances=1 transactions=1 log=2 max_epoch=2 guards begun=1 delays=1 expirations=1 | room
    | sometimes dead_slot_is_added | never both_committed: there is one transaction
transactions-offsets-log: offsets of a group, where appends to the transaction log take their time
    | instances=1 transactions=1 log=2 max_epoch=1 appends offsets begun=1 delays=1 unheard=1
    expirations=1
    | sometimes late_offsets_arrive | never both_committed: there is one transaction
transactions-offsets-again: offsets of a group twice in one transaction, and what of them is late
    | instances=1 transactions=1 writes=2 log=4 max_epoch=1 offsets begun=1 delays=1 unheard=1
    | sometimes late_offsets_arrive, dead_slot_is_added
    | never both_committed: there is one transaction
transactions-log-again: two transactions, where appends to the transaction log take their time
    | instances=1 partitions=1 log=4 max_epoch=3 appends | room
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
transactions-two-errors: one batch expires, and to the other the transactional id is forgotten
    | instances=1 transactions=1 log=1 late=2 producer_ids=2 max_epoch=1 begun=1 delays=2
    expirations=1 forgotten=1 | room
    | never marker_is_written, something_committed, something_aborted, both_committed,
    slots_are_readable: a log has no room behind the record
transactions-leaderless: two transactions over two partitions, one of which has no leader for a time
    | instances=1 log=4 late=0 late_markers=0 max_epoch=4 leaves=1 | room leaves=2
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
transactions-others: two transactions over two partitions, one of which another id holds back
    | instances=1 log=3 late=0 late_markers=0 max_epoch=2 others=1 | room
    | sometimes other_is_open
    | never zombie_died, commit_failure_is_reported: there is no other instance, and no request is
    late
transactions-between: two records of a transaction, and what comes between: another id, the next
    instance
    | partitions=1 transactions=1 writes=2 log=4 late=0 late_markers=0 max_epoch=2 begun=1 others=1
    | room leaves=1 | sometimes dead_slot_is_added, other_is_open
    | never both_committed: there is one transaction
transactions-moves: a coordinator that moves, takes time to load, and whose move nobody knows of at
    once
    | instances=1 partitions=1 log=5 max_epoch=4 loads delays=1 unheard=1 expirations=1 moves=1 |
    room moves=2
transactions-two-expirations: two batches of one transaction, each given up at any time
    | instances=1 transactions=1 log=2 max_epoch=2 begun=1 delays=1 unheard=1 expirations=2
    | never both_committed: there is one transaction
transactions-trouble: one instance after another, the last epoch near; room for every trouble by
    budgets
    | partitions=1 transactions=1 log=4 producer_ids=3 max_epoch=2 epochs_end begun=1 | room
    delays=2 unheard=2 expirations=1 rejections=1 marker_losses=1 marker_delays=1 moves=2 timeouts=1
    forgotten=1 others=1 leaves=1 begun=2 | never both_committed: there is one transaction
transactions-trouble-log: the same, where appends to the transaction log take their time
    | from=transactions-trouble appends | room delays=2 unheard=2 expirations=1 rejections=1
    marker_losses=1 marker_delays=1 moves=2 timeouts=1 forgotten=1 failures=2 others=1 leaves=1
    begun=2
""",
)


def placement(k: Configuration) -> Placement:
    """The placement in which no broker has coordinated before. If coordinators do not load, clients
    know the coordinator from the start."""
    known = Place.NOWHERE if k.bounds.loads else Place.HERE
    return Placement(
        former=nobody(k),
        of_clients=Map.filled(k.bounds.instances, known),
        of_leaders=Map.filled(k.bounds.partitions, Place.HERE),
    )


def initial(k: Configuration) -> World:
    """The world in which no instance has begun, and the transactional id is unknown."""
    bounds = k.bounds
    there = ClientPartition(
        membership=Membership.OUT,
        write=Write.NONE,
        earlier=(),
        must_resend=False,
        is_unresolved=False,
        next_sequence=0,
        has_gap=False,
        written=0,
        sent=Map.filled(bounds.transactions, 0),
    )
    client = Client(
        state=ClientState.UNINITIALIZED,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        begun=0,
        is_started=False,
        must_bump=False,
        too_late=False,
        partitions=Map.filled(bounds.partitions, there),
        outcomes=Map.filled(bounds.transactions, Outcome.OPEN),
    )
    return World(
        clients=Map.filled(bounds.instances, client),
        coordinator=replace(nobody(k), leadership=CoordinatorLeadership.LEADS),
        placement=placement(k),
        leaders=Map.filled(
            bounds.partitions,
            Leader(
                log=(),
                producers=Map.filled(bounds.producer_ids, UNKNOWN_PRODUCER),
                verifications=Map.filled(bounds.producer_ids, NOT_VERIFIED),
                other_first_offset=NO_OFFSET,
            ),
        ),
        leaderless=Map.filled(bounds.partitions, False),
        late=(),
        late_markers=(),
        read_to=Map.filled(bounds.partitions, 0),
        initialization=Initialization(
            NO_PRODUCER_ID, NO_PRODUCER_EPOCH, Map.filled(bounds.partitions, 0)
        ),
        begun=0,
        faults=Faults(),
    )
