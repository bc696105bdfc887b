"""A candidate: a state of the client that agrees with everything observed so far.

Beside the model's client it has data that no rule of the model needs: the number of responses that
the client has received, and the effects of legacy behaviour (`legacy`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from conformance.adapters.clients import legacy
from conformance.adapters.clients.batches import BatchKey, first_records, of_partition
from model.idempotent.client import Client, InFlightBatch
from model.idempotent.configuration import Configuration

ENDED: Final = -1
"""Stands for the number of responses of a connection that the client has closed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible state of the client.

    `received` counts the responses received on each connection; it is ENDED once the connection is
    closed. `initializing_on` is the connection of the pending InitProducerId, `lost_on` the
    connection of a request that never arrived; -1 if there is none.

    After an exception, `unhandled` are batches in flight whose response was skipped, and `thrown`
    those that the exception left without an outcome. `untracked` are batches in flight that the
    transaction manager has forgotten. `queue` is the queue, if it is not in the order of sequences.
    """

    client: Client
    received: tuple[int, ...]
    initializing_on: int = -1
    lost_on: int = -1
    unhandled: frozenset[BatchKey] = frozenset()
    thrown: tuple[tuple[int, InFlightBatch], ...] = ()
    untracked: frozenset[BatchKey] = frozenset()
    queue: tuple[BatchKey, ...] = ()


def with_received(candidate: Candidate, connection: int, count: int) -> Candidate:
    """The candidate with another number of responses received on a connection."""
    received = candidate.received
    return replace(candidate, received=(*received[:connection], count, *received[connection + 1 :]))


def update_client(k: Configuration, candidate: Candidate, client: Client) -> Candidate:
    """The candidate after a rule of the model gave another state of its client."""
    before, partitions = candidate.client, [p for p, _ in client.partitions.items()]
    return replace(
        candidate,
        client=client,
        thrown=(
            *candidate.thrown,
            *(
                (p, b)
                for p in partitions
                for b in legacy.thrown_batches(before.partitions[p], client.partitions[p])
            ),
        ),
        untracked=frozenset(
            (p, first)
            for p in partitions
            for first in legacy.update_untracked(
                k, before, client, p, of_partition(candidate.untracked, p)
            )
        ),
        queue=tuple(
            (p, first)
            for p in partitions
            for first in legacy.update_queue(k, client, p, queue_of(candidate, p))
        ),
    )


def has_thrown(before: Candidate, after: Candidate) -> bool:
    """Whether an exception ended the step between two candidates."""
    return len(after.thrown) > len(before.thrown)


def queue_of(candidate: Candidate, partition: int) -> tuple[int, ...]:
    """The queued batches of a partition, by their first records."""
    return tuple(first for at, first in candidate.queue if at == partition)


def behind_queue_head(candidate: Candidate, partition: int) -> frozenset[int]:
    """The batches that wait behind the head of a queue that is not in the order of sequences."""
    return frozenset(queue_of(candidate, partition)[1:])


def skip_batches(k: Configuration, candidate: Candidate, keys: Iterable[BatchKey]) -> Candidate:
    """The candidate that does not handle the response to some batches, because of an earlier
    exception."""
    if not legacy.has(k, legacy.LegacyBehaviour.THROWS_PAST_OTHER_BATCHES):
        return candidate
    skipped = frozenset(
        (partition, first)
        for partition, first in keys
        if first in first_records(candidate.client.partitions[partition].in_flight)
    )
    return replace(candidate, unhandled=candidate.unhandled | skipped)
