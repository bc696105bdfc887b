"""Builds a world of the model from what a system shows of its producers and leaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from conformance.judging.idempotent.judge import Judge
from conformance.judging.idempotent.system import WireNumbers
from conformance.judging.system import View
from model.idempotent.leader import StoredBatch
from model.idempotent.messages import Batch
from model.idempotent.network import SILENT_LINK
from model.idempotent.scopes import initial
from model.idempotent.world import World
from model.language import EMPTY_SET, Map, Set

NO_SEQUENCE: Final = -1


def observed_world(judge: Judge) -> World:
    """The system's logs and acknowledgements as a world without messages under way.

    Actors that the system does not have are taken from the model, in the state that the judge left.
    """
    k = judge.tables.k
    wire = WireNumbers(k)
    models = {wire[s]: s for s in range(k.bounds.max_sequence + 1)}
    clients = [node.view for node in judge.clients]
    for i, client in enumerate(judge.system.clients):
        clients[i] = client.view()
    leaders = [leader.view() for leader in judge.system.leaders]
    world = initial(k)
    return replace(
        world,
        clients=Map(tuple(map(observed_client, world.clients.values(), clients))),
        leaders=Map(
            tuple(
                replace(leader, log=tuple(stored(models, batch) for batch in view[0]))
                for leader, view in zip(world.leaders.values(), leaders, strict=True)
            )
        ),
        links=Map.filled(k.bounds.producers, Map.filled(k.bounds.partitions, SILENT_LINK)),
    )


def observed_client(client: Any, view: View) -> Any:
    """A client with the acknowledgements, and the pending bump, that a view (CLIENT) shows."""
    _, _, bump_is_due, partitions = view
    entries = tuple(
        replace(entry, acknowledged=Set(shown[-2]), failed=Set(shown[-1]))
        for entry, shown in zip(client.partitions.values(), partitions, strict=True)
    )
    bump_for = EMPTY_SET.plus(0) if bump_is_due else EMPTY_SET
    return replace(client, bump_for=bump_for, partitions=Map(entries))


def stored(models: Mapping[int, int], view: View) -> StoredBatch:
    """A batch of the log, from a view (STORED_BATCH). A sequence that the model does not have
    becomes -1."""
    producer_id, producer_epoch, base_sequence, record_count, first_record, base_offset = view
    sequence = models.get(base_sequence, NO_SEQUENCE)
    producer = max(producer_id, 0)  # A scope under judgement gives each producer an id of its own.
    batch = Batch(producer_id, producer_epoch, sequence, record_count, producer, first_record)
    return StoredBatch(batch, base_offset)
