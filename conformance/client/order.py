"""Records in the order of their sequences: what the model counts them in.

A part of a split batch that takes more records (KAFKA-9703) may pass over some that are on their
way. The model's batches have consecutive records, so such a run is judged with other numbers for
its records; a run without such a batch is judged as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from conformance.client.plan import PARTITIONS
from conformance.client.trace import ClientTrace, Event, Produce, SentBatch

Places = Mapping[int, int]
"""The new number of each record of a partition."""


def in_order(trace: ClientTrace) -> ClientTrace:
    """The run, its records numbered so that those of each batch follow each other."""
    places = [places_of(trace, partition) for partition in range(PARTITIONS)]
    if all(old == new for rows in places for old, new in rows.items()):
        return trace
    return replace(
        trace,
        events=tuple(moved(event, places) for event in trace.events),
        outcomes={
            (p, places[p].get(number, number)): row for (p, number), row in trace.outcomes.items()
        },
        stored=tuple(renumbered(batch, places) for batch in trace.stored),
    )


def places_of(trace: ClientTrace, partition: int) -> Places:
    """Where each record stands once what a batch has taken stands behind what it had."""
    order = sorted(send.number for send in trace.plan.sends if send.partition == partition)
    for event in trace.events:
        if isinstance(event, Produce):
            for batch in event.batches:
                if batch.partition == partition:
                    order = with_taken(order, batch.records)
    return {number: place for place, number in enumerate(order)}


def with_taken(order: list[int], records: tuple[int, ...]) -> list[int]:
    """The order with each of some records directly behind the one before. Records that the
    application never had, or had the other way round, are no reason to count otherwise."""
    if not set(records) <= set(order) or list(records) != sorted(records):
        return order
    for before, taken in pairwise(records):
        if order.index(taken) != order.index(before) + 1:
            order = [number for number in order if number != taken]
            order.insert(order.index(before) + 1, taken)
    return order


def moved(event: Event, places: list[Places]) -> Event:
    """The event with other numbers for its records."""
    if not isinstance(event, Produce):
        return event
    return replace(event, batches=tuple(renumbered(batch, places) for batch in event.batches))


def renumbered(batch: SentBatch, places: list[Places]) -> SentBatch:
    """The batch with other numbers for its records."""
    rows = places[batch.partition]
    return replace(batch, records=tuple(rows.get(number, number) for number in batch.records))
