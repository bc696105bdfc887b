"""Events of the coordinator that no request causes: time passes, it moves, its log answers.

Here every actor learns of a move at once; in `coordinator_moves.py` each learns of it at its own
time. A request that must be logged waits: its answer is sent once the append has succeeded or
failed.
"""

from __future__ import annotations

from dataclasses import replace

from model.faults import spend
from model.language import Incident, Step, Thread, Wire, event, require, within_scope
from model.transactions import client as client_rules
from model.transactions import coordinator as coordinator_rules
from model.transactions import coordinator_leadership as leadership_rules
from model.transactions.client_state import Client, ClientState
from model.transactions.configuration import Configuration
from model.transactions.coordinator import Coordinator, TransactionState
from model.transactions.faults import Faults
from model.transactions.incidents import is_in_log, is_not_in_log
from model.transactions.messages import Answer, Error, Flag, is_of_group
from model.transactions.world import (
    EXHAUSTED_EPOCHS,
    World,
    fate_known,
    initialized_by,
    with_client,
    with_coordinator,
)

MOVES = Thread("moves", ())


# Time, and moves


@event(
    Thread("the transaction's time", ()),
    Incident("transaction_timeout"),
    EXHAUSTED_EPOCHS,
    wire=Wire.REQUESTS,
    excluded_by="undisturbed",
)
def transaction_times_out(k: Configuration, w: World) -> World:
    """The coordinator aborts the open transaction, which has lasted too long."""
    counted = spend(k, w, Faults(timeouts=1))
    return with_coordinator(k, counted, coordinator_rules.time_out(k, w.coordinator))


@event(MOVES, Incident("coordinator_move"), wire=Wire.CLUSTER, excluded_by="undisturbed")
def coordinator_moves(k: Configuration, w: World) -> World:
    """Another broker becomes the coordinator, and every actor knows it at once."""
    within_scope(not k.bounds.loads)
    counted = without_requester(k, spend(k, w, Faults(moves=1)))
    return replace(counted, coordinator=leadership_rules.take_over(k, w.coordinator))


@event(MOVES, Incident("move_with_append"), excluded_by="undisturbed")
def coordinator_moves_with_append(k: Configuration, w: World) -> World:
    """Another broker becomes the coordinator during an append, and finds the image in the log."""
    require(k.bounds.appends)
    counted = without_requester(k, spend(k, w, Faults(moves=1)))
    return replace(counted, coordinator=leadership_rules.take_over_with_append(k, w.coordinator))


def without_requester(k: Configuration, w: World) -> World:
    """The world after the connection of the client that waits for an append has broken."""
    requester = w.coordinator.requester
    if requester == coordinator_rules.NOBODY:
        return w
    return with_client(w, requester, client_rules.lose_coordinator(k, w.clients[requester]))


@event(
    Thread("expiry of the id", ()),
    Incident("forgotten_id"),
    wire=Wire.STATIC_CONFIGS,
    excluded_by="undisturbed",
)
def transactional_id_is_forgotten(k: Configuration, w: World) -> World:
    """The coordinator forgets the transactional id, which was not used for long."""
    counted = spend(k, w, Faults(forgotten=1))
    return replace(counted, coordinator=coordinator_rules.forget(k, w.coordinator))


# Appends to the transaction log


def append_settled(k: Configuration, w: World, step: Step[Coordinator, Answer]) -> World:
    """The world after the append is settled; the client that waits for it gets its answer. A client
    has only one such request."""
    requester = w.coordinator.requester
    moved = with_coordinator(k, w, step.actor)
    if requester == coordinator_rules.NOBODY:
        return moved
    client = w.clients[requester]
    answer = step.sends[0]
    told = heard_after_append(k, w.coordinator, client, answer)
    initializes = client.state == ClientState.INITIALIZING and answer.error == Error.NONE
    after = with_client(moved, requester, told)
    return replace(
        after, initialization=initialized_by(w, answer) if initializes else w.initialization
    )


def heard_after_append(k: Configuration, c: Coordinator, client: Client, answer: Answer) -> Client:
    """The client after it has the answer to its request; the image shows which request it was."""
    if client.state == ClientState.INITIALIZING:
        return client_rules.on_producer_id(k, client, answer)
    if c.image.metadata.state == TransactionState.ONGOING:
        wanted = client_rules.asked_partitions(k, client, adds_group(k, c))
        return client_rules.on_partitions_added(k, client, wanted, answer)
    return client_rules.on_ended(k, client, answer)


def adds_group(k: Configuration, c: Coordinator) -> bool:
    """Whether the append adds the group's partition; no request adds this partition together with
    others."""
    known = c.known.metadata.partitions
    return any(
        is_of_group(k, partition) and there and not known[partition]
        for partition, there in c.image.metadata.partitions.items()
    )


@event(Thread("the coordinator's log", ()), wire=Wire.BROKERS)
def append_is_done(k: Configuration, w: World) -> World:
    """The transaction log appends the image."""
    require(k.bounds.appends)
    return append_settled(k, w, coordinator_rules.append_succeeds(k, w.coordinator))


@event(
    Thread("failures of the log", ()),
    Incident("append_refused", is_not_in_log),
    Incident("append_refused_in_log", is_in_log),
    wire=Wire.BROKER_CONNECTIONS,
    excluded_by="undisturbed",
)
def append_is_refused(k: Configuration, w: World, in_log: Flag) -> World:
    """The append to the transaction log is reported as failed; it may be in the log all the
    same."""
    require(k.bounds.appends)
    counted = spend(k, w, Faults(failures=1))
    step = coordinator_rules.append_fails(k, w.coordinator, in_log == 1)
    return append_settled(k, counted, step)


@event(
    Thread("connections to the coordinator", ()),
    Incident("requester_left"),
    wire=Wire.CONNECTIONS,
)
def requester_leaves(k: Configuration, w: World) -> World:
    """The connection of the client that waits for an append breaks."""
    require(k.bounds.appends)
    require(w.coordinator.requester != coordinator_rules.NOBODY)
    left = without_requester(k, fate_known(k, w, 0))
    return replace(left, coordinator=coordinator_rules.lose_requester(k, w.coordinator))
