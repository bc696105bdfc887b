"""The move of the coordinator to another broker, and the broker that each actor takes for it.

Models `TransactionCoordinator.onElection`, `onResignation`, and FindCoordinator. Elections
themselves are left out.

Theory of operation. The coordinator of a transactional id leads the id's partition of the
transaction log. A broker that is elected loads the log, and serves no request until then. The
former coordinator goes on with what it remembers until it learns of its successor. It no longer
leads the log, so that nothing it decides ever takes effect. Clients ask any broker for the
coordinator. They ask again when a broker answers that it is not the coordinator, or when a
connection breaks. Leaders learn of the coordinator from the cluster's metadata.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.language import Map, acts, receives, record, require
from model.transactions.configuration import Configuration
from model.transactions.coordinator import (
    NO_ANSWER,
    NOBODY,
    Coordinator,
    CoordinatorLeadership,
    completing,
    nothing_appended,
    nothing_known,
    stored,
)
from model.transactions.messages import Error, Flag, Instance, Partition


class Place(IntEnum):
    """The node that an actor takes for the coordinator."""

    NOWHERE = 0
    """No node: FindCoordinator comes first."""
    HERE = 1
    """The present coordinator."""
    FORMER = 2
    """The former coordinator."""
    ELSEWHERE = 3
    """A coordinator from before the former one."""


@record
class Placement:
    """The `former` coordinator, and the node that each client and each leader takes for the
    coordinator."""

    former: Coordinator
    of_clients: Map[Instance, Place]
    of_leaders: Map[Partition, Place]


# Brokers


@acts
def begin_loading(k: Configuration, c: Coordinator) -> Coordinator:
    """Let another broker lead the log's partition; it knows nothing yet.
    TransactionCoordinator.onElection."""
    fresh = replace(
        c,
        known=nothing_known(k),
        is_stopped=False,
        unlogged_fence=False,
        leadership=CoordinatorLeadership.LOADS,
        coordinator_epoch=c.coordinator_epoch + 1,
    )
    return nothing_appended(fresh) if k.bounds.appends else fresh


@acts
def finish_loading(k: Configuration, c: Coordinator) -> Coordinator:
    """Adopt the state in the log, and no more.
    TransactionStateManager.loadTransactionsForTxnTopicPartition."""
    require(c.leadership == CoordinatorLeadership.LOADS)
    known = replace(c, known=c.log, leadership=CoordinatorLeadership.LEADS)
    return completing(k, nothing_appended(known) if k.bounds.appends else known)


@acts
def take_over(k: Configuration, c: Coordinator) -> Coordinator:
    """Make another broker the coordinator, at once."""
    return finish_loading(k, begin_loading(k, c))


@acts
def take_over_with_append(k: Configuration, c: Coordinator) -> Coordinator:
    """Make another broker the coordinator, at once; it finds the image that was being appended in
    the log."""
    require(c.is_appending)
    return take_over(k, replace(c, log=stored(k, c.image)))


@receives
def depose(k: Configuration, c: Coordinator) -> Coordinator:
    """Replace the coordinator, which goes on without knowing it. It no longer sees the log, and
    does not count the cluster's producer ids."""
    return replace(
        c, log=nothing_known(k), leadership=CoordinatorLeadership.REPLACED, given_producer_ids=0
    )


@receives
def count_producer_ids(k: Configuration, c: Coordinator, given: int) -> Coordinator:
    """Set the number of producer ids that the cluster has given: any broker gives the next one.
    ProducerIdManager."""
    return replace(c, given_producer_ids=given)


@acts
def resign(k: Configuration, c: Coordinator) -> Coordinator:
    """Learn of the successor, and forget the id. TransactionCoordinator.onResignation."""
    require(c.leadership == CoordinatorLeadership.REPLACED)
    return retire(k, c)


@acts
def retire(k: Configuration, c: Coordinator) -> Coordinator:
    """Become a broker that coordinated before the former coordinator did, and learned of its
    successor long ago."""
    return nobody(k)


def nobody(k: Configuration) -> Coordinator:
    """A broker that knows that it is not the coordinator."""
    return Coordinator(
        known=nothing_known(k),
        log=nothing_known(k),
        is_appending=False,
        image=nothing_known(k),
        requester=NOBODY,
        answer=NO_ANSWER,
        is_stopped=False,
        unlogged_fence=False,
        leadership=CoordinatorLeadership.RESIGNED,
        coordinator_epoch=0,
        given_producer_ids=0,
    )


# Clients and leaders


def one_moved(k: Configuration, placement: Placement, c: Coordinator) -> Placement:
    """The placement after another broker has replaced the coordinator `c`, and no actor knows
    it."""
    return Placement(
        former=depose(k, c),
        of_clients=Map(tuple(after_move(place) for place in placement.of_clients.values())),
        of_leaders=Map(tuple(after_move(place) for place in placement.of_leaders.values())),
    )


def after_move(place: Place) -> Place:
    """The node that an actor addresses after a move, given the node that it took for the
    coordinator."""
    if place == Place.NOWHERE:
        return place
    return Place.FORMER if place == Place.HERE else Place.ELSEWHERE


def found_out(
    k: Configuration, placement: Placement, instance: Instance, error: Error, heard: Flag
) -> Placement:
    """The placement after a client's request. If the node does not answer, or answers
    NOT_COORDINATOR, the client looks the coordinator up again.
    TransactionManager.lookupCoordinator."""
    lost = heard == 0 or error == Error.NOT_COORDINATOR
    if not k.bounds.loads or not lost:
        return placement
    return replace(placement, of_clients=placement.of_clients.put(instance, Place.NOWHERE))
