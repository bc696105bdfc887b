"""The model's rules of a client, as the judge asks them: what is not enabled gives nothing.

A batch whose delivery time-out has passed is not sent again after an error, and what is sent again
stands behind what was sent meanwhile when batches expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from conformance.client import quirks
from model.idempotent import recovery
from model.idempotent.client import Client, InFlightBatch
from model.idempotent.configuration import Configuration
from model.idempotent.messages import ProduceResponse
from model.language import Disabled

Given = ParamSpec("Given")
T = TypeVar("T")


def attempted(rule: Callable[Given, T], *arguments: Given.args, **named: Given.kwargs) -> T | None:
    """What a rule gives, or None where it is not enabled."""
    try:
        return rule(*arguments, **named)
    except Disabled:
        return None


def on_answer(
    k: Configuration,
    client: Client,
    partition: int,
    answer: ProduceResponse,
    may_be_late: bool,
    untracked: frozenset[int],
) -> Iterator[Client]:
    """The client after an answer; its batch's time may be up."""
    for overdue in range(1 + may_be_late):
        yield from quirks.on_answer(k, client, partition, answer, overdue, untracked)


def on_disconnect(
    k: Configuration, client: Client, partition: int, late: int, untracked: frozenset[int]
) -> Iterator[tuple[Client, frozenset[int]]]:
    """The client without its connection, and which batches it does not track any more; the time
    of its first `late` batches may be up."""
    for overdue in range(late + 1):
        yield quirks.on_disconnect(k, client, partition, overdue, untracked)


def expire_batch(
    k: Configuration, client: Client, partition: int
) -> Iterator[tuple[InFlightBatch, Client]]:
    """Each batch that may expire next, and the client without it."""
    for old in recovery.overdue(k, client.partitions[partition]):
        first_record = old.batch.first_record
        expired = attempted(recovery.expire_batch, k, client, partition, first_record)
        if expired is not None:
            yield old, expired
