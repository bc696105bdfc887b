"""Resource managers, the transaction manager, and every message ever sent.

A message is never taken out of the set: whoever may receive it may do so again.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from benchmarks.two_phase_commit.configuration import Configuration
from model.language import Index, Map, Set, Thread, event, record, require

ResourceManager = Annotated[int, Index("managers")]
Message = Annotated[int, Index("messages")]


class Status(IntEnum):
    """Where a resource manager is."""

    WORKING = 0
    PREPARED = 1
    COMMITTED = 2
    ABORTED = 3


class Decision(IntEnum):
    """What the transaction manager has decided."""

    NONE = 0
    COMMIT = 1
    ABORT = 2


@record
class World:
    """All of it. `prepared` has the resource managers that the transaction manager heard from;
    message r says that resource manager r is prepared."""

    status: Map[ResourceManager, Status]
    decision: Decision
    prepared: Set[ResourceManager]
    messages: Set[Message]


def commit_message(k: Configuration) -> int:
    """Comes after what the resource managers say."""
    return k.bounds.managers


def abort_message(k: Configuration) -> int:
    """The last."""
    return k.bounds.managers + 1


COORDINATOR = Thread("transaction manager", ())
MANAGER = Thread("resource manager", ())


# The transaction manager


@event(MANAGER)
def manager_hears_prepared(k: Configuration, w: World, resource: ResourceManager) -> World:
    """The transaction manager receives "prepared" from a resource manager."""
    require(w.decision == Decision.NONE)
    require(resource in w.messages)
    return replace(w, prepared=w.prepared.plus(resource))


@event(COORDINATOR)
def manager_commits(k: Configuration, w: World) -> World:
    """All are prepared: the transaction manager says "commit"."""
    require(w.decision == Decision.NONE)
    require(all(resource in w.prepared for resource in range(k.bounds.managers)))
    return replace(w, decision=Decision.COMMIT, messages=w.messages.plus(commit_message(k)))


@event(COORDINATOR)
def manager_aborts(k: Configuration, w: World) -> World:
    """The transaction manager gives up of itself and says "abort"."""
    require(w.decision == Decision.NONE)
    return replace(w, decision=Decision.ABORT, messages=w.messages.plus(abort_message(k)))


# Resource managers


@event(MANAGER)
def resource_prepares(k: Configuration, w: World, resource: ResourceManager) -> World:
    """A resource manager is ready and says so."""
    require(w.status[resource] == Status.WORKING)
    status = w.status.put(resource, Status.PREPARED)
    return replace(w, status=status, messages=w.messages.plus(resource))


@event(MANAGER)
def resource_aborts(k: Configuration, w: World, resource: ResourceManager) -> World:
    """A resource manager gives up of itself and tells nobody."""
    require(w.status[resource] == Status.WORKING)
    return replace(w, status=w.status.put(resource, Status.ABORTED))


@event(MANAGER)
def resource_hears_commit(k: Configuration, w: World, resource: ResourceManager) -> World:
    """A resource manager receives "commit"."""
    require(commit_message(k) in w.messages)
    return replace(w, status=w.status.put(resource, Status.COMMITTED))


@event(MANAGER)
def resource_hears_abort(k: Configuration, w: World, resource: ResourceManager) -> World:
    """A resource manager receives "abort"."""
    require(abort_message(k) in w.messages)
    return replace(w, status=w.status.put(resource, Status.ABORTED))
