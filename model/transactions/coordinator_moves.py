"""Events of a coordinator that moves, while each actor learns of the move at its own time.

Late requests of clients to a coordinator are left to other scopes. A former coordinator can do
nothing for such a request, and a late request to the present one needs no move.
"""

from __future__ import annotations

from dataclasses import replace

from model.faults import spend
from model.language import Incident, Thread, event, require, within_scope
from model.transactions import client as client_rules
from model.transactions import coordinator as coordinator_rules
from model.transactions import coordinator_leadership as leadership_rules
from model.transactions import leader as leader_rules
from model.transactions.configuration import Configuration
from model.transactions.coordinator import CoordinatorLeadership
from model.transactions.coordinator_leadership import Place
from model.transactions.faults import Faults
from model.transactions.messages import Flag, Instance, Partition
from model.transactions.world import World, room_in_log, with_client, with_leader

# Threads of several events

FORMER_COORDINATOR = Thread("the former coordinator", ())


@event(
    Thread("moves that nobody knows of", ()),
    Incident("coordinator_move"),
    excluded_by="moves_are_known",
)
def coordinator_is_replaced(k: Configuration, w: World) -> World:
    """Another broker is elected, and the former coordinator does not know it."""
    within_scope(k.bounds.loads)
    counted = spend(k, w, Faults(moves=1))
    require(w.coordinator.leadership == CoordinatorLeadership.LEADS)
    require(w.placement.former.leadership == CoordinatorLeadership.RESIGNED)
    placement = leadership_rules.one_moved(k, w.placement, w.coordinator)
    loading = leadership_rules.begin_loading(k, w.coordinator)
    return replace(counted, coordinator=loading, placement=placement)


@event(Thread("loading", ()), excluded_by="moves_are_known")
def log_is_loaded(k: Configuration, w: World) -> World:
    """The new coordinator has read the log, and serves."""
    within_scope(k.bounds.loads)
    return replace(w, coordinator=leadership_rules.finish_loading(k, w.coordinator))


@event(FORMER_COORDINATOR, excluded_by="moves_are_known")
def former_resigns(k: Configuration, w: World) -> World:
    """The former coordinator learns that it is no longer the coordinator."""
    within_scope(k.bounds.loads)
    gone = leadership_rules.resign(k, w.placement.former)
    return replace(w, placement=replace(w.placement, former=gone))


@event(Thread("lookups", ("instance",)), excluded_by="moves_are_known")
def coordinator_is_found(k: Configuration, w: World, instance: Instance, stale: Flag) -> World:
    """A client sends FindCoordinator; the broker that answers may not know of the last move."""
    within_scope(k.bounds.loads)
    places = w.placement.of_clients
    require(places[instance] == Place.NOWHERE)
    require(stale == 0 or w.coordinator.coordinator_epoch > 0)
    found = Place.FORMER if stale == 1 else Place.HERE
    client = client_rules.find_coordinator(k, w.clients[instance])
    knows = replace(w.placement, of_clients=places.put(instance, found))
    return with_client(replace(w, placement=knows), instance, client)


@event(Thread("metadata", ("partition",)), excluded_by="moves_are_known")
def metadata_arrives(k: Configuration, w: World, partition: Partition) -> World:
    """A leader learns which broker is the coordinator."""
    within_scope(k.bounds.loads)
    places = w.placement.of_leaders
    require(places[partition] != Place.HERE)
    known = places.put(partition, Place.HERE)
    return replace(w, placement=replace(w.placement, of_leaders=known))


@event(FORMER_COORDINATOR, excluded_by="moves_are_known")
def former_writes_marker(k: Configuration, w: World, partition: Partition) -> World:
    """The former coordinator sends a marker of a transaction that was decided while it led."""
    within_scope(k.bounds.loads)
    within_scope(room_in_log(k, w, partition))
    asked = coordinator_rules.marker_for(k, w.placement.former, partition)
    step = leader_rules.on_marker(k, w.leaders[partition], asked.sends[0])
    told = coordinator_rules.on_marker_written(k, asked.actor, partition, step.sends[0])
    there = with_leader(w, partition, step.actor)
    return replace(there, placement=replace(w.placement, former=told))
