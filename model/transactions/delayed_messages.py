"""Events of late messages: requests and markers that their senders gave up.

Each late message arrives once, at any time, or never, and its answer is lost. In the scopes with
`loads`, requests to the coordinator are not delayed: see `coordinator_moves.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.faults import spend
from model.language import Incident, Range, Step, Thread, Wire, event, require, within_scope
from model.transactions import add_partitions as partition_rules
from model.transactions import client as client_rules
from model.transactions import coordinator as coordinator_rules
from model.transactions import end_txn as end_rules
from model.transactions import leader as leader_rules
from model.transactions import sender as sender_rules
from model.transactions.client_state import Client, pipelines
from model.transactions.configuration import Configuration
from model.transactions.faults import Faults
from model.transactions.messages import NO_OFFSET, Api, Error, Instance, Partition, Request
from model.transactions.world import (
    World,
    free,
    produced,
    room_in_log,
    verified,
    with_client,
    with_coordinator,
    with_coordinator_at,
    with_leader,
)

LateIndex = Annotated[int, Range(0, "last_late")]
LateMarkerIndex = Annotated[int, Range(0, "last_late_marker")]


# Threads of several events

DELAYS = Thread("delays", ("instance",))
LATE_REQUESTS = Thread("late requests to the coordinator", ())
LATE_BATCHES = Thread("late batches", ("partition",))


# Requests


def delayed(
    k: Configuration, w: World, instance: Instance, request: Request, client: Client
) -> World:
    """The world after the client has given up its connection; the request may still arrive."""
    within_scope(len(w.late) < k.bounds.late)
    counted = spend(k, w, Faults(delays=1))
    return with_client(replace(counted, late=(*w.late, request)), instance, client)


def delayed_to_coordinator(
    k: Configuration, w: World, instance: Instance, asked: Step[Client, Request]
) -> World:
    """The world after the client has given up its connection to the coordinator."""
    lost = client_rules.lose_coordinator(k, asked.actor)
    return delayed(k, w, instance, asked.sends[0], lost)


def delayed_to_leader(
    k: Configuration,
    w: World,
    instance: Instance,
    asked: Step[Client, Request],
    partition: Partition,
) -> World:
    """The world after the client has given up its connection to a leader."""
    lost = sender_rules.lose_leader(k, asked.actor, partition)
    return delayed(k, w, instance, asked.sends[0], lost)


@event(DELAYS, wire=Wire.CONNECTIONS)
def init_is_delayed(k: Configuration, w: World, instance: Instance) -> World:
    """A client gives up InitProducerId, which is on its way."""
    within_scope(not k.bounds.loads)
    asked = client_rules.ask_producer_id(k, free(w, instance))
    return delayed_to_coordinator(k, w, instance, asked)


@event(DELAYS, wire=Wire.CONNECTIONS)
def addition_is_delayed(k: Configuration, w: World, instance: Instance) -> World:
    """A client gives up AddPartitionsToTxn, which is on its way."""
    within_scope(not k.bounds.loads)
    asked = client_rules.add_partitions(k, free(w, instance))
    return delayed_to_coordinator(k, w, instance, asked)


@event(DELAYS, wire=Wire.CONNECTIONS)
def end_is_delayed(k: Configuration, w: World, instance: Instance) -> World:
    """A client gives up EndTxn, which is on its way."""
    within_scope(not k.bounds.loads)
    asked = client_rules.end_transaction(k, free(w, instance))
    return delayed_to_coordinator(k, w, instance, asked)


@event(DELAYS, wire=Wire.CONNECTIONS)
def batch_is_delayed(k: Configuration, w: World, instance: Instance, partition: Partition) -> World:
    """A client gives up Produce, which is on its way."""
    asked = sender_rules.produce(k, w.clients[instance], instance, partition)
    return delayed_to_leader(k, w, instance, asked, partition)


@event(DELAYS, wire=Wire.CONNECTIONS, excluded_by="one_batch_in_flight")
def batch_is_delayed_again(
    k: Configuration, w: World, instance: Instance, partition: Partition
) -> World:
    """A client gives up Produce of the first of several batches in flight, which is on its way."""
    within_scope(pipelines(k))
    asked = sender_rules.produce_again(k, w.clients[instance], instance, partition)
    return delayed_to_leader(k, w, instance, asked, partition)


@event(DELAYS, wire=Wire.CONNECTIONS)
def offsets_are_delayed(
    k: Configuration, w: World, instance: Instance, partition: Partition
) -> World:
    """A client gives up TxnOffsetCommit, which is on its way."""
    asked = client_rules.commit_offsets(k, free(w, instance), instance, partition)
    return delayed_to_leader(k, w, instance, asked, partition)


def arriving(w: World, late: LateIndex, api: Api) -> Request:
    """The late request that arrives now."""
    require(late < len(w.late))
    require(w.late[late].api == api)
    return w.late[late]


def arrived(w: World, late: LateIndex) -> World:
    """The world without the late request, which has arrived."""
    return replace(w, late=tuple(r for i, r in enumerate(w.late) if i != late))


@event(LATE_REQUESTS, Incident("delayed_init"), wire=Wire.REQUESTS)
def late_init_arrives(k: Configuration, w: World, late: LateIndex) -> World:
    """InitProducerId arrives late, and no client waits for its answer."""
    request = arriving(w, late, Api.INIT_PRODUCER_ID)
    step = coordinator_rules.on_init_producer_id(
        k, w.coordinator, request, coordinator_rules.NOBODY
    )
    return with_coordinator(k, arrived(w, late), step.actor)


@event(LATE_REQUESTS, Incident("delayed_addition"), wire=Wire.REQUESTS)
def late_addition_arrives(k: Configuration, w: World, late: LateIndex) -> World:
    """AddPartitionsToTxn arrives late, and no client waits for its answer."""
    request = arriving(w, late, Api.ADD_PARTITIONS_TO_TXN)
    step = partition_rules.on_add_partitions(k, w.coordinator, request, coordinator_rules.NOBODY)
    return with_coordinator(k, arrived(w, late), step.actor)


@event(LATE_REQUESTS, Incident("delayed_end"), wire=Wire.REQUESTS)
def late_end_arrives(k: Configuration, w: World, late: LateIndex) -> World:
    """EndTxn arrives late, and no client waits for its answer: KAFKA-17754."""
    request = arriving(w, late, Api.END_TXN)
    step = end_rules.on_end_txn(k, w.coordinator, request, coordinator_rules.NOBODY)
    return with_coordinator(k, arrived(w, late), step.actor)


@event(LATE_BATCHES, Incident("delayed_batch"), wire=Wire.REQUESTS)
def late_batch_arrives(k: Configuration, w: World, late: LateIndex, partition: Partition) -> World:
    """Produce arrives late, and no client waits for its answer."""
    request = arriving(w, late, Api.PRODUCE)
    leader = w.leaders[partition]
    require(request.partition == partition)
    require(not k.bounds.guards or not leader_rules.must_ask(k, leader, request.batch))
    within_scope(room_in_log(k, w, partition))
    return arrived(produced(k, w, request.batch, partition, 1).actor, late)


@event(LATE_BATCHES, Incident("delayed_batch"), wire=Wire.REQUESTS)
def late_offsets_arrive(k: Configuration, w: World, late: LateIndex, partition: Partition) -> World:
    """TxnOffsetCommit arrives late, and no client waits for its answer: KAFKA-15449."""
    request = arriving(w, late, Api.TXN_OFFSET_COMMIT)
    require(request.partition == partition)
    within_scope(room_in_log(k, w, partition))
    return arrived(produced(k, w, request.batch, partition, 1).actor, late)


@event(LATE_BATCHES, excluded_by="guards")
def late_batch_is_verified(
    k: Configuration, w: World, late: LateIndex, partition: Partition
) -> World:
    """Produce arrives late, and the coordinator verifies it; the batch is appended later."""
    within_scope(k.bounds.guards)
    request = arriving(w, late, Api.PRODUCE)
    leader = w.leaders[partition]
    require(request.partition == partition)
    require(request.guard == NO_OFFSET)
    require(leader_rules.must_ask(k, leader, request.batch))
    step = verified(k, w, request.batch, partition)
    verifying = leader_rules.verify(k, leader, request.batch)
    moved = with_coordinator_at(k, w, w.placement.of_leaders[partition], step.actor)
    if step.sends[0] != Error.NONE:
        refused = leader_rules.refuse(k, verifying, request.batch, step.sends[0], False)
        return arrived(with_leader(moved, partition, refused.actor), late)
    guard = verifying.verifications[request.batch.producer_id].guard
    known = tuple(replace(r, guard=guard) if i == late else r for i, r in enumerate(w.late))
    held = leader_rules.hold(k, verifying, request.batch)
    return replace(with_leader(moved, partition, held), late=known)


@event(Thread("verified batches", ("partition",)), Incident("delayed_batch"), excluded_by="guards")
def verified_batch_arrives(
    k: Configuration, w: World, late: LateIndex, partition: Partition
) -> World:
    """A batch that was verified some time ago reaches the log."""
    within_scope(k.bounds.guards)
    request = arriving(w, late, Api.PRODUCE)
    require(request.partition == partition)
    require(request.guard != NO_OFFSET)
    within_scope(room_in_log(k, w, partition))
    step = leader_rules.on_verified(k, w.leaders[partition], request.batch, request.guard)
    return arrived(with_leader(w, partition, step.actor), late)


# Markers


@event(Thread("delays of markers", ("partition",)), wire=Wire.MARKERS)
def marker_is_delayed(k: Configuration, w: World, partition: Partition) -> World:
    """The coordinator's connection breaks with a marker on it, which may still arrive."""
    within_scope(len(w.late_markers) < k.bounds.late_markers)
    counted = spend(k, w, Faults(marker_delays=1))
    asked = coordinator_rules.marker_for(k, w.coordinator, partition)
    lost = coordinator_rules.lose_marker(k, asked.actor, partition)
    return replace(counted, coordinator=lost, late_markers=(*w.late_markers, asked.sends[0]))


@event(
    Thread("late markers", ("partition",)),
    Incident("delayed_marker"),
    wire=Wire.MARKERS,
)
def late_marker_arrives(
    k: Configuration, w: World, late: LateMarkerIndex, partition: Partition
) -> World:
    """A marker arrives late, after the coordinator has sent another in its place."""
    require(late < len(w.late_markers))
    marker = w.late_markers[late]
    require(marker.partition == partition)
    within_scope(room_in_log(k, w, partition))
    step = leader_rules.on_marker(k, w.leaders[partition], marker)
    left = tuple(m for i, m in enumerate(w.late_markers) if i != late)
    return replace(with_leader(w, partition, step.actor), late_markers=left)
