"""A state of a client that explains all that was seen of it, and what each move makes of it.

Beside the model's client it has what no rule of the model says: which answers it has heard, and
what an exception or a split has left behind in it (`quirks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from conformance.client import quirks
from conformance.client.quirks import Key
from model.idempotent.client import Client, InFlightBatch
from model.idempotent.configuration import Configuration

ENDED: Final = -1
"""What stands for the answers heard of a connection that is closed."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A state of the client that explains all that was seen.

    `heard` is how many answers of each connection it has heard, ENDED once it is closed; `asked`
    is the connection on which it waits for a producer id, or -1; `lost` is one that ended with a
    request on it that never arrived, or -1.

    `unheard` are batches in flight whose answer an exception kept from being handled, and
    `forsaken` those that the exception itself was about; `untracked` are batches in flight that
    its transaction manager has forgotten; `queue` is what waits, where its order matters.
    """

    client: Client
    heard: tuple[int, ...]
    asked: int = -1
    lost: int = -1
    unheard: frozenset[Key] = frozenset()
    forsaken: tuple[tuple[int, InFlightBatch], ...] = ()
    untracked: frozenset[Key] = frozenset()
    queue: tuple[Key, ...] = ()


def with_client(state: Explanation, client: Client) -> Explanation:
    """The client has moved by itself."""
    return replace(state, client=client)


def put(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    """The same but for one."""
    return (*values[:index], value, *values[index + 1 :])


def moved(k: Configuration, state: Explanation, client: Client) -> tuple[Explanation, bool]:
    """The state with what became of its client, and whether an exception was in the way."""
    lost = [
        (partition, b)
        for partition, entry in client.partitions.items()
        for b in quirks.silenced(state.client.partitions[partition], entry)
    ]
    untracked = frozenset(
        (partition, first)
        for partition, _ in client.partitions.items()
        for first in quirks.untracked_after(
            k, state.client, client, partition, quirks.of(state.untracked, partition)
        )
    )
    after = replace(
        state,
        client=client,
        forsaken=(*state.forsaken, *lost),
        untracked=untracked,
        queue=queued(k, client, state.queue),
    )
    return after, bool(lost)


def queued(k: Configuration, client: Client, queue: tuple[Key, ...]) -> tuple[Key, ...]:
    """What waits, partition by partition."""
    return tuple(
        (partition, first)
        for partition, _ in client.partitions.items()
        for first in quirks.queue_after(k, client, partition, in_turn_of(queue, partition))
    )


def in_turn_of(queue: tuple[Key, ...], partition: int) -> tuple[int, ...]:
    """What waits for one partition."""
    return tuple(first for at, first in queue if at == partition)


def unheard(state: Explanation, keys: Sequence[Key]) -> Explanation:
    """The state where nobody handles the answers to these batches."""
    in_flight = frozenset(
        (partition, first)
        for partition, first in keys
        if first in quirks.numbers(state.client.partitions[partition].in_flight)
    )
    return replace(state, unheard=state.unheard | in_flight)


def behind_the_head(state: Explanation, partition: int) -> frozenset[int]:
    """What waits for its turn in a queue that is not in the order of sequences."""
    return frozenset(in_turn_of(state.queue, partition)[1:])
