"""Batches in flight, named by their first records; and rules applied while some are set aside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from model.idempotent.client import Client, InFlight, InFlightBatch, with_entry
from model.idempotent.messages import Batch, ProduceRequest
from model.language import Disabled, Step

BatchKey = tuple[int, int]
"""A batch: its partition and its first record."""

Given = ParamSpec("Given")
T = TypeVar("T")


def try_rule(rule: Callable[Given, T], *arguments: Given.args, **named: Given.kwargs) -> T | None:
    """The result of a rule of the model, or None if the rule is not enabled."""
    try:
        return rule(*arguments, **named)
    except Disabled:
        return None


def record_numbers(batch: Batch) -> range:
    """The numbers of a batch's records."""
    return range(batch.first_record, batch.first_record + batch.record_count)


def first_records(batches: Iterable[InFlightBatch]) -> frozenset[int]:
    """The first record of each batch."""
    return frozenset(b.batch.first_record for b in batches)


def find_batch(batches: Iterable[InFlightBatch], first_record: int) -> InFlightBatch | None:
    """The batch that begins with a record, if any."""
    return next((b for b in batches if b.batch.first_record == first_record), None)


def of_partition(keys: Collection[BatchKey], partition: int) -> frozenset[int]:
    """The first records of the batches of one partition."""
    return frozenset(first for at, first in keys if at == partition)


def with_in_flight(client: Client, partition: int, in_flight: InFlight) -> Client:
    """The client with other batches in flight."""
    entry = replace(client.partitions[partition], in_flight=in_flight)
    return with_entry(client, partition, entry)


def set_aside(client: Client, partition: int, aside: Collection[int]) -> Client:
    """The client without some batches of a partition."""
    in_flight = client.partitions[partition].in_flight
    rest = tuple(b for b in in_flight if b.batch.first_record not in aside)
    return with_in_flight(client, partition, rest)


def restore(after: Client, before: Client, partition: int, aside: Collection[int]) -> Client:
    """The client `after` a rule, with the batches that were set aside `before` back in their
    places."""
    if not aside:
        return after
    old = before.partitions[partition].in_flight
    left = tuple(b for b in old if b.batch.first_record in aside)
    both = (*after.partitions[partition].in_flight, *left)
    order = sorted(both, key=lambda b: position_of(old, b.batch.first_record))
    return with_in_flight(after, partition, tuple(order))


def position_of(in_flight: InFlight, record: int) -> int:
    """The position of the batch that has a record; behind all others if no batch has it."""
    found = (i for i, b in enumerate(in_flight) if record in record_numbers(b.batch))
    return next(found, len(in_flight))


def step_without(
    rule: Callable[[Client], Step[Client, ProduceRequest]],
    client: Client,
    partition: int,
    aside: Collection[int],
) -> Step[Client, ProduceRequest]:
    """The step of a rule that ignores some batches. Raises Disabled."""
    step = rule(set_aside(client, partition, aside))
    return replace(step, actor=restore(step.actor, client, partition, aside))
