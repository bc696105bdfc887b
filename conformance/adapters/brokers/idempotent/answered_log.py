"""The guarantees that a broker breaks by its own answers, where it differs from the model.

This module does not read the broker's log. It takes the answers as claims: a success says that the
batch is stored at the named offset. The guarantees are then checked on the world that the answers
describe. So if a batch is answered with two offsets, it is stored twice by the broker's own word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from conformance.adapters.brokers.exchange import Difference
from conformance.adapters.brokers.idempotent.leader_session import AnsweredBatch
from conformance.judging.compositions import IDEMPOTENT
from conformance.judging.guaranteed import ObservedProperties, observe_world, without_unshown
from model.idempotent.configuration import Configuration
from model.idempotent.leader import StoredBatch
from model.idempotent.messages import Error
from model.idempotent.scopes import initial
from model.idempotent.world import World
from model.language import EMPTY_SET, Map


def observed_properties(
    k: Configuration, told: Iterable[AnsweredBatch], difference: Difference
) -> ObservedProperties:
    """The guarantees that the answers break. `k` has the wire's numbers."""
    seen = observe_world(k, world_told(k, list(told), is_false_error(difference)))
    return ObservedProperties(broken=without_unshown(seen, IDEMPOTENT).broken)


def is_false_error(difference: Difference) -> bool:
    """Whether the broker rejects a batch as out of sequence that should have succeeded."""
    wrong = int(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return any(
        path.endswith(".error") and value == wrong and difference.expected[path] == Error.NONE
        for path, value in difference.observed.items()
    )


def world_told(k: Configuration, told: list[AnsweredBatch], bump_is_due: bool) -> World:
    """The world with the logs that the answers describe."""
    world = initial(k)
    leaders = tuple(
        replace(leader, log=log_told(told, partition))
        for partition, leader in world.leaders.items()
    )
    bump_for = EMPTY_SET.plus(0) if bump_is_due else EMPTY_SET
    clients = tuple(
        replace(
            client,
            bump_for=bump_for,
            partitions=Map(
                tuple(replace(p, acknowledged=EMPTY_SET) for p in client.partitions.values())
            ),
        )
        for client in world.clients.values()
    )
    return replace(world, leaders=Map(leaders), clients=Map(clients))


def log_told(told: Iterable[AnsweredBatch], partition: int) -> tuple[StoredBatch, ...]:
    """The batches of the successful answers, each offset once, in the order of offsets."""
    stored = {
        StoredBatch(one.batch, one.answer.base_offset)
        for one in told
        if one.partition == partition and one.answer.error == Error.NONE
    }
    return tuple(sorted(stored, key=lambda entry: (entry.base_offset, entry.batch.first_record)))
