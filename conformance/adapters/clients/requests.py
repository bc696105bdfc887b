"""The requests that a candidate may send: retried and new batches, InitProducerId."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapters.clients import legacy
from conformance.adapters.clients.batches import (
    of_partition,
    record_numbers,
    step_without,
    try_rule,
)
from conformance.adapters.clients.candidate import Candidate, behind_queue_head, update_client
from conformance.adapters.clients.trace import ProducerIdRequested, WireBatch
from conformance.adapters.clients.trace_index import TraceIndex
from model.idempotent import client as sending
from model.idempotent.client import Client, with_entry
from model.idempotent.configuration import Configuration
from model.idempotent.messages import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Batch,
    ProduceRequest,
)
from model.language import Step


def retry_batch(
    k: Configuration, candidate: Candidate, client: Client, partition: int
) -> Step[Client, ProduceRequest]:
    """The client sends the head of the queue again. Raises Disabled."""
    aside = behind_queue_head(candidate, partition)
    return step_without(lambda c: sending.send_again(k, c, partition), client, partition, aside)


def send_new_batch(
    k: Configuration, candidate: Candidate, client: Client, partition: int, record_count: int
) -> Step[Client, ProduceRequest]:
    """The client sends the next records. A batch whose response was skipped is not awaited.

    Raises Disabled."""
    aside = of_partition(candidate.unhandled, partition)
    return step_without(
        lambda c: legacy.send_new(k, c, partition, record_count), client, partition, aside
    )


def send_batch(
    k: Configuration, index: TraceIndex, candidate: Candidate, batch: WireBatch
) -> Iterator[tuple[str, Candidate]]:
    """The candidate after it sent a batch, for the first time or again, and the rule of that
    step."""
    partition = batch.partition
    grown = legacy.grow_part(k, candidate.client, partition, batch.records)
    again = try_rule(retry_batch, k, candidate, grown, partition)
    if again is not None and is_same(again.sends[0].batch, batch):
        yield "send_again", update_client(k, candidate, again.actor)
    ready = skip_failed_records(index, candidate.client, batch)
    if ready is not None:
        new = try_rule(send_new_batch, k, candidate, ready, partition, len(batch.records))
        if new is not None and is_same(new.sends[0].batch, batch):
            yield "send_new", replace(candidate, client=new.actor)


def is_same(batch: Batch, sent: WireBatch) -> bool:
    """Whether a batch of the model is the batch that was sent."""
    numbers = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return (
        numbers == (sent.producer_id, sent.producer_epoch, sent.base_sequence)
        and tuple(record_numbers(batch)) == sent.records
    )


def skip_failed_records(index: TraceIndex, client: Client, batch: WireBatch) -> Client | None:
    """The client whose next record is the batch's first. Records before it failed without being
    sent, and use no sequence. Records that a part of a split batch takes later are passed over."""
    entry = client.partitions[batch.partition]
    if batch.records[0] < entry.records_sent:
        return None
    skipped = [
        number
        for number in range(entry.records_sent, batch.records[0])
        if not index.is_appended_later(batch.partition, number)
    ]
    if not all(index.has_failed(batch.partition, number) for number in skipped):
        return None
    failed = entry.failed
    for number in skipped:
        failed = failed.plus(number)
    ready = replace(entry, records_sent=batch.records[0], failed=failed)
    return with_entry(client, batch.partition, ready)


def next_batches(
    k: Configuration, candidate: Candidate, partition: int, record_count: int
) -> Iterator[Batch]:
    """The batches that the candidate may send to a partition: a retry, or its next new batch."""
    client = candidate.client
    again = try_rule(retry_batch, k, candidate, client, partition)
    new = try_rule(send_new_batch, k, candidate, client, partition, record_count)
    yield from (step.sends[0].batch for step in (again, new) if step is not None)


def can_initialize(candidate: Candidate, event: ProducerIdRequested) -> bool:
    """Whether the candidate sends this InitProducerId: it has no producer id, awaits none, and the
    request has no epoch, for which no idempotent producer asks.
    Sender.maybeSendAndPollTransactionalRequest, up to 3.5 Sender.maybeWaitForProducerId."""
    is_new = (event.producer_id, event.producer_epoch) == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    has_none = candidate.client.producer_id == NO_PRODUCER_ID and not candidate.client.fatal
    return is_new and has_none and candidate.initializing_on == -1
