"""What a client may have done between two things that were seen of it.

Three rules:

1. Every step of the client is a rule of `model`; here is only when the run makes one possible.
2. What a client has heard is never known, only what had left for it: answers of one connection are
   heard in their order, and once it has ended no more.
3. A clock only says what was not possible yet, never what must have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, ParamSpec, TypeVar

from conformance.client.plan import Settings
from conformance.client.sight import Sight
from conformance.client.trace import InitAnswer, ProduceAnswer, SentBatch
from model import answers, recovery
from model import client as sending
from model.client import Client, InFlightBatch
from model.language import Disabled, span
from model.messages import NO_PRODUCER_ID, NO_SEQUENCE, Batch, Error, ProduceResponse
from model.setting import Expiry, Setting
from impl.protocol.errors import ErrorCode

Given = ParamSpec("Given")
T = TypeVar("T")

ENDED: Final = -1
MILLISECOND_US: Final = 1_000
CLOCK_SLACK_US: Final = 3_000
"""Clocks of two processes, and milliseconds that are cut off."""

MODEL_ERRORS: Final = {
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER): Error.NOT_ENOUGH_REPLICAS,
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): Error.NOT_ENOUGH_REPLICAS,
} | {int(error): error for error in Error}
"""A client treats all errors alike that are retriable and mean nothing else to it."""


class Unmodelled(Exception):
    """A run in which something happened that the model does not have."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A state of the client that explains all that was seen.

    `heard` is how many answers of each connection it has heard, ENDED once it is closed; `asked`
    is the connection on which it waits for a producer id, or -1; `lost` is one that ended with a
    request on it that never arrived, or -1.
    """

    client: Client
    heard: tuple[int, ...]
    asked: int = -1
    lost: int = -1


Moved = tuple[str, Explanation]


def with_client(state: Explanation, client: Client) -> Explanation:
    """The client has moved by itself."""
    return replace(state, client=client)


# Hearing


def hears(k: Setting, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """The next answer of a connection reaches the client."""
    for connection, heard in enumerate(state.heard):
        answers_left = sight.answers[connection]
        if heard == ENDED or heard >= len(answers_left):
            continue
        counted = replace(state, heard=put(state.heard, connection, heard + 1))
        answer = answers_left[heard]
        if isinstance(answer, InitAnswer):
            yield "receive_producer_id", hears_producer_id(k, counted, answer)
        else:
            yield "on_answer", hears_produced(k, sight, counted, answer)


def put(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    """The same but for one."""
    return (*values[:index], value, *values[index + 1 :])


def hears_producer_id(k: Setting, state: Explanation, answer: InitAnswer) -> Explanation:
    """The producer id that was asked for, or an error after which it is asked for again."""
    if answer.error or state.asked != answer.connection:
        return replace(state, asked=-1)
    client = attempted(recovery.receive_producer_id, k, state.client, answer.producer_id)
    return replace(state, client=client or state.client, asked=-1)


def hears_produced(
    k: Setting, sight: Sight, state: Explanation, answer: ProduceAnswer
) -> Explanation:
    """What became of each batch of a request."""
    client = state.client
    sent = sight.requests[answer.connection, answer.correlation_id]
    for row in answer.partitions:
        for batch in sent.batches:
            if batch.partition == row.partition:
                told = ProduceResponse(
                    first_record=batch.records[0],
                    error=model_error(row.error),
                    base_offset=row.base_offset,
                    required_offset=0,
                    log_start_offset=row.log_start_offset,
                )
                before = client.partitions[row.partition].in_flight
                client = answers.on_answer(k, client, row.partition, told)
                if told.error == Error.MESSAGE_TOO_LARGE:
                    client = as_it_was_split(k, sight, client, batch, before)
    return with_client(state, client)


def model_error(code: int) -> Error:
    """What an error code is to the model. Raises Unmodelled."""
    if code not in MODEL_ERRORS:
        raise Unmodelled(f"the model has no error {code}")
    return MODEL_ERRORS[code]


def as_it_was_split(
    k: Setting,
    sight: Sight,
    client: Client,
    sent: SentBatch,
    before: tuple[InFlightBatch, ...],
) -> Client:
    """The parts of a batch as they were sent later: how large they are is the client's choice."""
    entry = client.partitions[sent.partition]
    first, count = sent.records[0], len(sent.records)
    large = [b for b in before if b.batch.first_record == first]
    inside = [b for b in entry.in_flight if first <= b.batch.first_record < first + count]
    if not large or len(inside) < 2:
        return client
    parts, skipped = [], 0
    for size in sight.parts(sent.partition, first, count):
        parts.append(answers.part(k, large[0], skipped, size))
        skipped += size
    where = entry.in_flight.index(inside[0])
    in_flight = (
        *entry.in_flight[:where],
        *parts,
        *entry.in_flight[where + len(inside) :],
    )
    return sending.with_entry(client, sent.partition, replace(entry, in_flight=in_flight))


# Connections


def hangs_up(k: Setting, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """The client sees that a connection has ended, or gives it up itself."""
    for connection, heard in enumerate(state.heard):
        if heard != ENDED and sight.may_have_ended(connection):
            yield "on_disconnect", hung_up(k, sight, state, connection)


def hung_up(k: Setting, sight: Sight, state: Explanation, connection: int) -> Explanation:
    """What waited for answers of a connection waits no longer."""
    client = state.client
    if sight.carries_batches(connection) or state.lost == connection:
        for partition in range(k.layout.partitions):
            client = answers.on_disconnect(k, client, partition)
    return Explanation(
        client,
        put(state.heard, connection, ENDED),
        -1 if state.asked == connection else state.asked,
        -1 if state.lost == connection else state.lost,
    )


def loses(k: Setting, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """A request is written to a connection that has ended, and never arrives: one at most, since
    a client writes the next only once the one before is written. Selector, InFlightRequests."""
    for connection, heard in enumerate(state.heard):
        waits = heard != ENDED and state.lost == -1 and sight.may_have_ended(connection)
        if waits and sight.is_to_node(connection):
            for client in written(k, sight, state.client, range(k.layout.partitions)):
                if client != state.client:
                    yield "loses", replace(state, client=client, lost=connection)


def written(
    k: Setting, sight: Sight, client: Client, partitions: Sequence[int]
) -> Iterator[Client]:
    """The client after a request with at most one batch for each of some partitions."""
    if not partitions:
        yield client
        return
    partition, *others = partitions
    first = client.partitions[partition].records_sent
    again = attempted(sending.send_again, k, client, partition)
    new = [
        attempted(sending.send_new, k, client, partition, count)
        for count in sight.counts(partition, first)
    ]
    for step in (again, *new):
        if step is not None:
            yield from written(k, sight, step.actor, others)
    yield from written(k, sight, client, others)


# Of itself


def acts(k: Setting, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """The client gives batches up, resolves what is unknown, and takes another epoch."""
    bumped = attempted(recovery.bump_epoch, k, state.client)
    if bumped is not None:
        yield "bump_epoch", with_client(state, bumped)
    for partition in range(k.layout.partitions):
        resolved = attempted(recovery.resolve_sequence, k, state.client, partition)
        if resolved is not None:
            yield "resolve_sequence", with_client(state, resolved)
        expired = attempted(recovery.expire_batch, k, state.client, partition)
        if expired is not None and time_is_up(k, sight, state.client, partition):
            yield "expire_batch", with_client(state, expired)


def attempted(rule: Callable[Given, T], *arguments: Given.args, **named: Given.kwargs) -> T | None:
    """What a rule gives, or None where it is not enabled."""
    try:
        return rule(*arguments, **named)
    except Disabled:
        return None


def time_is_up(k: Setting, sight: Sight, client: Client, partition: int) -> bool:
    """Whether the clock and what the application was told allow that the next batch expired."""
    old = recovery.overdue(k, client.partitions[partition])[0]
    batch = old.batch
    records = range(batch.first_record, batch.first_record + batch.record_count)
    if not all(sight.has_failed(partition, number) for number in records):
        return False
    return sight.now_us + CLOCK_SLACK_US >= deadline_us(k, sight, partition, old)


def deadline_us(k: Setting, sight: Sight, partition: int, old: InFlightBatch) -> int:
    """When a batch may expire at the earliest. ProducerBatch.hasReachedDeliveryTimeout; up to 2.0
    ProducerBatch.maybeExpire."""
    settings: Settings = sight.plan.settings
    first = old.batch.first_record
    if k.variant.expiry == Expiry.DELIVERY_TIMEOUT:
        return sight.handed_us(partition, first) + settings.delivery_timeout_ms * MILLISECOND_US
    timeout_us = settings.request_timeout_ms * MILLISECOND_US
    if old.attempts == 0:
        return sight.handed_us(partition, first) + timeout_us
    backoff_us = settings.retry_backoff_ms * MILLISECOND_US
    return sight.last_sent_us(partition, first) + timeout_us + backoff_us


# What is seen


def sends(k: Setting, sight: Sight, state: Explanation, batch: SentBatch) -> Iterator[Moved]:
    """The client has sent this batch: again, or for the first time."""
    again = attempted(sending.send_again, k, state.client, batch.partition)
    if again is not None and same(again.sends[0].batch, batch):
        yield "send_again", with_client(state, again.actor)
    client = without_unsent(sight, state.client, batch)
    if client is not None:
        new = attempted(sending.send_new, k, client, batch.partition, len(batch.records))
        if new is not None and same(new.sends[0].batch, batch):
            yield "send_new", with_client(state, new.actor)


def same(batch: Batch, sent: SentBatch) -> bool:
    """Whether a batch is what was sent."""
    records = tuple(range(batch.first_record, batch.first_record + batch.record_count))
    return (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        records,
    ) == (sent.producer_id, sent.producer_epoch, sent.base_sequence, sent.records)


def without_unsent(sight: Sight, client: Client, batch: SentBatch) -> Client | None:
    """The client, records behind it that failed before they were sent: they use no sequence."""
    entry = client.partitions[batch.partition]
    unsent = range(entry.records_sent, batch.records[0])
    if batch.records[0] < entry.records_sent:
        return None
    if not all(sight.has_failed(batch.partition, number) for number in unsent):
        return None
    skipped = replace(
        entry,
        records_sent=batch.records[0],
        failed=entry.failed.union(span(entry.records_sent, len(unsent))),
    )
    return sending.with_entry(client, batch.partition, skipped)


def asks(state: Explanation, connection: int) -> Iterator[Moved]:
    """The client has asked for a producer id: it has none, and waits for none.
    Sender.maybeSendAndPollTransactionalRequest, up to 3.5 Sender.maybeWaitForProducerId."""
    if state.client.producer_id == NO_PRODUCER_ID and not state.client.fatal and state.asked == -1:
        yield "asks_producer_id", replace(state, asked=connection)
