"""The guarantees in a run: the node's logs and the acknowledgements are checked as a world.

A run counts only if a correct network and broker may have its faults, and if the model explains it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from conformance.adapters.clients.run_plan import PARTITIONS
from conformance.adapters.clients.trace import ClientTrace, WireBatch, sent_batches
from conformance.judging.guaranteed import NOT_EXERCISED, ObservedProperties, status
from model.faults import fit
from model.idempotent.client import Client, with_entry
from model.idempotent.configuration import Bounds, Budgets, Configuration, Variant
from model.idempotent.guarantees import GUARANTEES, WITNESSES
from model.idempotent.leader import StoredBatch
from model.idempotent.messages import Batch
from model.idempotent.scopes import begun_client, initial
from model.idempotent.variants import DEFAULT_VARIANT, parse
from model.language import Map
from model.properties import WorldPart

DUPLICATE: Final = "duplicate_on_its_way"
TOLD: Final = frozenset({WorldPart.LOGS, WorldPart.ACKNOWLEDGEMENTS})
"""The parts of a world that a run of a client shows."""
SHOWN: Final = tuple(p for p in GUARANTEES if TOLD.issuperset(p.about))
"""The guarantees that such a run can violate."""


def configuration_of_guarantees(variant: Variant, partitions: int, records: int) -> Configuration:
    """The client of a variant with the node's leaders, which follow the newest release."""
    newest = parse(DEFAULT_VARIANT)
    mixed = replace(newest, recovery=variant.recovery, expiry=variant.expiry)
    budgets = Budgets(
        records=records, breaks=1, refusals=1, rejections=1, timeouts=1, late_errors=1
    )
    bounds = fit(Bounds(partitions=partitions, records=records), budgets)
    return Configuration(mixed, bounds, budgets)


def client_by_outcomes(variant: Variant, trace: ClientTrace) -> Client:
    """The client as the application knows it: the records reported as stored, or as failed."""
    client = begun_client(configuration_of_run(variant, trace), 0)
    for send in trace.plan.sends:
        entry = client.partitions[send.partition]
        outcome = trace.outcomes.get((send.partition, send.number))
        if outcome is not None and outcome.error:
            entry = replace(entry, failed=entry.failed.plus(send.number))
        elif outcome is not None:
            entry = replace(entry, acknowledged=entry.acknowledged.plus(send.number))
        entry = replace(entry, records_sent=entry.records_sent + 1)
        client = with_entry(client, send.partition, entry)
    return client


def configuration_of_run(variant: Variant, trace: ClientTrace) -> Configuration:
    """A configuration large enough for the records of a run."""
    most = max(send.number for send in trace.plan.sends) + 1
    return configuration_of_guarantees(variant, PARTITIONS, most)


def observe_run(variant: Variant, trace: ClientTrace, client: Client) -> ObservedProperties:
    """The guarantees that one run violates, and the witnesses that it meets."""
    if not trace.plan.is_honest:
        return ObservedProperties()
    k = configuration_of_run(variant, trace)
    world = initial(k)
    world = replace(
        world,
        clients=Map((client,)),
        leaders=Map(
            tuple(
                replace(leader, log=log_of(trace, partition))
                for partition, leader in world.leaders.items()
            )
        ),
    )
    met = {witness.name for witness in WITNESSES if witness.check(k, world)}
    if sent_what_was_stored(trace):
        met.add(DUPLICATE)
    return ObservedProperties(
        frozenset(p.name for p in SHOWN if not p.check(k, world)), frozenset(met)
    )


def states(seen: ObservedProperties, k: Configuration) -> dict[str, str]:
    """Each guarantee: violated, holds, or not exercised."""
    return {p.name: status(p, seen, k) if p in SHOWN else NOT_EXERCISED for p in GUARANTEES}


def log_of(trace: ClientTrace, partition: int) -> tuple[StoredBatch, ...]:
    """A partition's log, as the model's."""
    log: list[StoredBatch] = []
    offset = 0
    for b in trace.stored:
        if b.partition == partition:
            count = len(b.records)
            numbers = (b.producer_id, b.producer_epoch, b.base_sequence)
            log.append(StoredBatch(Batch(*numbers, count, 0, b.records[0]), offset))
            offset += count
    return tuple(log)


def sent_what_was_stored(trace: ClientTrace) -> bool:
    """Whether a batch that is stored was sent more than once."""
    sent: Counter[WireBatch] = Counter(batch for _, batch in sent_batches(trace))
    return any(sent[batch] > 1 for batch in trace.stored)
