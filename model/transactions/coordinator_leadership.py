"""Who is the coordinator, and who is taken for it.

Theory of operation. The coordinator of a transactional id leads the id's partition of the
transaction log. When another broker is elected, it loads the log, and serves nobody until then. The
one before goes on with what it remembers until it hears of its successor; as it leads the log no
more, nothing that it decides is ever in force. Clients ask any broker who the coordinator is, and
ask again when a node says that it is none, or when a connection breaks; leaders learn it with the
cluster's metadata. `TransactionCoordinator.onElection`, `onResignation`, FindCoordinator.
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
    """Which node is taken for the coordinator."""

    NOWHERE = 0
    """None: FindCoordinator comes first."""
    HERE = 1
    """The one that is."""
    FORMER = 2
    """The one that was."""
    ELSEWHERE = 3
    """One that was before that."""


@record
class Placement:
    """The `former` coordinator, and which node each client and each leader takes for the
    coordinator."""

    former: Coordinator
    of_clients: Map[Instance, Place]
    of_leaders: Map[Partition, Place]


# Brokers


@acts
def begin_loading(k: Configuration, c: Coordinator) -> Coordinator:
    """Another broker leads the log's partition, and knows nothing yet.
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
    """It knows what is in the log, and no more.
    TransactionStateManager.loadTransactionsForTxnTopicPartition."""
    require(c.leadership == CoordinatorLeadership.LOADS)
    known = replace(c, known=c.log, leadership=CoordinatorLeadership.LEADS)
    return completing(k, nothing_appended(known) if k.bounds.appends else known)


@acts
def take_over(k: Configuration, c: Coordinator) -> Coordinator:
    """Another broker is the coordinator, at once."""
    return finish_loading(k, begin_loading(k, c))


@acts
def take_over_with_append(k: Configuration, c: Coordinator) -> Coordinator:
    """Another broker is the coordinator, at once; what was on its way is in the log that it
    reads."""
    require(c.is_appending)
    return take_over(k, replace(c, log=stored(k, c.image)))


@receives
def depose(k: Configuration, c: Coordinator) -> Coordinator:
    """Another broker is elected, and the one before goes on without knowing. Of the log it sees no
    more, and it does not count the cluster's producer ids."""
    return replace(
        c, log=nothing_known(k), leadership=CoordinatorLeadership.REPLACED, given_producer_ids=0
    )


@receives
def count_producer_ids(k: Configuration, c: Coordinator, given: int) -> Coordinator:
    """How many producer ids the cluster has given: whichever broker is asked gives the next.
    ProducerIdManager."""
    return replace(c, given_producer_ids=given)


@acts
def resign(k: Configuration, c: Coordinator) -> Coordinator:
    """It hears that it is no coordinator any more, and forgets.
    TransactionCoordinator.onResignation."""
    require(c.leadership == CoordinatorLeadership.REPLACED)
    return retire(k, c)


@acts
def retire(k: Configuration, c: Coordinator) -> Coordinator:
    """A broker that was the coordinator before this one was: it has heard so long ago."""
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
    """Another broker is the coordinator, and `c` was it: nobody has heard of that."""
    return Placement(
        former=depose(k, c),
        of_clients=Map(tuple(after_move(place) for place in placement.of_clients.values())),
        of_leaders=Map(tuple(after_move(place) for place in placement.of_leaders.values())),
    )


def after_move(place: Place) -> Place:
    """Which node it is for who took it for the coordinator."""
    if place == Place.NOWHERE:
        return place
    return Place.FORMER if place == Place.HERE else Place.ELSEWHERE


def found_out(
    k: Configuration, placement: Placement, instance: Instance, error: Error, heard: Flag
) -> Placement:
    """What a client's request tells it of the coordinator: who does not answer, or says that it is
    none, is looked up again. TransactionManager.lookupCoordinator."""
    lost = heard == 0 or error == Error.NOT_COORDINATOR
    if not k.bounds.loads or not lost:
        return placement
    return replace(placement, of_clients=placement.of_clients.put(instance, Place.NOWHERE))
