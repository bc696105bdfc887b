"""Numbers records in the order of their sequences, as the model counts them.

A part of a split batch that grows (KAFKA-9703) may pass over records under way. The model's batches
have consecutive records, so the records of such a run get other numbers; a run without such a batch
stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from conformance.adapters.clients.run_plan import PARTITIONS
from conformance.adapters.clients.trace import (
    ClientTrace,
    ProduceRequested,
    WireBatch,
    sent_batches,
)

NewNumbers = Mapping[int, int]
"""The new number of each record of a partition."""


def renumber_records(trace: ClientTrace) -> ClientTrace:
    """The run with consecutive records in each batch."""
    numbers = [number_records(trace, partition) for partition in range(PARTITIONS)]
    if all(old == new for rows in numbers for old, new in rows.items()):
        return trace

    def renumber(batch: WireBatch) -> WireBatch:
        rows = numbers[batch.partition]
        return replace(batch, records=tuple(rows.get(number, number) for number in batch.records))

    return replace(
        trace,
        events=tuple(
            replace(event, batches=tuple(map(renumber, event.batches)))
            if isinstance(event, ProduceRequested)
            else event
            for event in trace.events
        ),
        outcomes={
            (p, numbers[p].get(number, number)): row for (p, number), row in trace.outcomes.items()
        },
        stored=tuple(map(renumber, trace.stored)),
    )


def number_records(trace: ClientTrace, partition: int) -> NewNumbers:
    """The new numbers of a partition's records: those that a batch took later come behind those
    that it had before."""
    order = sorted(send.number for send in trace.plan.sends if send.partition == partition)
    for _, batch in sent_batches(trace):
        if batch.partition == partition:
            order = move_together(order, batch.records)
    return {number: place for place, number in enumerate(order)}


def move_together(order: list[int], records: tuple[int, ...]) -> list[int]:
    """The order with each of some records directly behind the one before. Records that the
    application did not send, or sent in another order, are a divergence and change nothing."""
    if not set(records) <= set(order) or list(records) != sorted(records):
        return order
    for before, taken in pairwise(records):
        if order.index(taken) != order.index(before) + 1:
            order = [number for number in order if number != taken]
            order.insert(order.index(before) + 1, taken)
    return order
