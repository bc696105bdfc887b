"""What a client may have done between two things that were seen of it.

Three rules:

1. Every step of the client is a rule of `model`; here is only when the run makes one possible.
2. What a client has heard is never known, only what had left for it: answers of one connection are
   heard in their order, and once it has ended no more.
3. A clock only says what was not possible yet, never what must have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, takewhile
from typing import Final

from conformance.client import quirks, rules
from conformance.client.explanation import (
    ENDED,
    Explanation,
    behind_the_head,
    moved,
    put,
    unheard,
    with_client,
)
from conformance.client.plan import Settings
from conformance.client.rules import attempted
from conformance.client.sight import Sight
from conformance.client.trace import (
    UNKNOWN,
    InitAnswer,
    InitProducerId,
    PartitionAnswer,
    ProduceAnswer,
    SentBatch,
)
from impl.protocol.errors import ErrorCode
from model.idempotent import client as sending
from model.idempotent import recovery, responses
from model.idempotent.client import Client, InFlightBatch, PartitionEntry
from model.idempotent.configuration import Configuration, Expiry
from model.idempotent.messages import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Batch,
    Error,
    ProduceRequest,
    ProduceResponse,
)
from model.language import Step

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


Moved = tuple[str, Explanation]
Moves = Callable[[Configuration, Sight, Explanation], Iterator[Moved]]


def is_timely(sight: Sight, before: Client, after: Client) -> bool:
    """Whether records end in the order in which the application was told, and none before it was
    seen to send what was sent before that. Sender and callbacks are one thread."""
    ended_us: list[int] = []
    open_us: list[int] = []
    entries = zip(before.partitions.values(), after.partitions.values(), strict=True)
    for partition, (old, new) in enumerate(entries):
        for number in range(new.records_sent):
            if not has_ended(new, number):
                open_us.append(sight.told_us(partition, number))
            elif not has_ended(old, number):
                ended_us.append(sight.told_us(partition, number))
    known = [at_us for at_us in ended_us if at_us != UNKNOWN]
    if not known:
        return True
    return max(known) <= sight.now_us and not any(
        at_us < min(known) for at_us in open_us if at_us != UNKNOWN
    )


def has_ended(entry: PartitionEntry, number: int) -> bool:
    """Whether the application was told what became of a record."""
    return number in entry.acknowledged or number in entry.failed


# Hearing


def hears(k: Configuration, sight: Sight, state: Explanation) -> Iterator[Moved]:
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
            for after in hears_produced(k, sight, counted, answer):
                yield "on_answer", after


def hears_producer_id(k: Configuration, state: Explanation, answer: InitAnswer) -> Explanation:
    """The producer id that was asked for, or an error after which it is asked for again."""
    if answer.error or state.asked != answer.connection:
        return replace(state, asked=-1)
    client = attempted(recovery.receive_producer_id, k, state.client, answer.producer_id)
    return replace(state, client=client or state.client, asked=-1)


def hears_produced(
    k: Configuration, sight: Sight, state: Explanation, answer: ProduceAnswer
) -> Iterator[Explanation]:
    """What became of each batch of a request, partition by partition in an order of the client's
    own; the clock may have run out for one or the other, and an exception ends it."""
    sent = sight.requests[answer.connection, answer.correlation_id]
    for rows in permutations(answer.partitions):
        told = [(row, b) for row in rows for b in sent.batches if b.partition == row.partition]
        yield from in_turn(k, sight, state, told)


def in_turn(
    k: Configuration,
    sight: Sight,
    state: Explanation,
    told: Sequence[tuple[PartitionAnswer, SentBatch]],
) -> Iterator[Explanation]:
    """The client after answers to some batches, one after the other."""
    if not told:
        yield state
        return
    (row, batch), *others = told
    for client in after_answer(k, sight, state, batch, row):
        after, broken = moved(k, state, client)
        if broken:
            yield unheard(after, [(b.partition, b.records[0]) for _, b in others])
        else:
            yield from in_turn(k, sight, after, others)


def after_answer(
    k: Configuration, sight: Sight, state: Explanation, sent: SentBatch, row: PartitionAnswer
) -> Iterator[Client]:
    """The client after the answer to one batch."""
    client, untracked = state.client, quirks.of(state.untracked, row.partition)
    response = ProduceResponse(
        first_record=sent.records[0],
        error=model_error(row.error),
        base_offset=row.base_offset,
        required_offset=0,
        log_start_offset=row.log_start_offset,
    )
    before = client.partitions[row.partition].in_flight
    answered = [b for b in before if b.batch.first_record == sent.records[0]]
    late = bool(row.error and answered) and time_is_up(k, sight, row.partition, answered[0])
    for after in rules.on_answer(k, client, row.partition, response, late, untracked):
        if response.error == Error.MESSAGE_TOO_LARGE:
            yield as_it_was_split(k, sight, after, sent, before)
        else:
            yield after


def model_error(code: int) -> Error:
    """What an error code is to the model. Raises Unmodelled."""
    if code not in MODEL_ERRORS:
        raise Unmodelled(f"the model has no error {code}")
    return MODEL_ERRORS[code]


def as_it_was_split(
    k: Configuration,
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
        parts.append(responses.part(k, large[0], skipped, size))
        skipped += size
    where = entry.in_flight.index(inside[0])
    in_flight = (
        *entry.in_flight[:where],
        *parts,
        *entry.in_flight[where + len(inside) :],
    )
    return sending.with_entry(client, sent.partition, replace(entry, in_flight=in_flight))


# Connections


def is_alone(sight: Sight, state: Explanation, connection: int) -> bool:
    """A client has one connection to a node: an older one has ended before."""
    return not sight.is_to_node(connection) or all(
        heard == ENDED
        for other, heard in enumerate(state.heard[:connection])
        if sight.is_to_node(other)
    )


def without_idle(sight: Sight, state: Explanation, loses: bool) -> Explanation:
    """The state without connections that nothing can come of any more: when the client sees that
    such a one has ended is the same to all else, and would only multiply the states. Where a
    request may be lost, it may be lost on a connection to the node on which nothing was seen."""
    heard = tuple(
        ENDED if is_idle(sight, state, connection, loses) else count
        for connection, count in enumerate(state.heard)
    )
    return replace(state, heard=heard)


def is_idle(sight: Sight, state: Explanation, connection: int, loses: bool) -> bool:
    """Whether a connection that may have ended carried no batches, and nothing on it is awaited."""
    awaits = state.asked == connection or state.heard[connection] < len(sight.answers[connection])
    matters = sight.is_to_node(connection) and (loses or sight.is_asked(connection))
    return (
        not matters
        and not awaits
        and sight.may_have_ended(connection)
        and not sight.carries_batches(connection)
    )


def hangs_up(k: Configuration, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """The client sees that a connection has ended, or gives it up itself."""
    for connection, heard in enumerate(state.heard):
        ends = heard != ENDED and sight.may_have_ended(connection)
        if ends and is_alone(sight, state, connection):
            for after in hung_up(k, sight, state, connection):
                yield "on_disconnect", after


def hung_up(
    k: Configuration, sight: Sight, state: Explanation, connection: int
) -> Iterator[Explanation]:
    """What waited for answers of a connection waits no longer; for the first of it the clock may
    have run out."""
    states = [state]
    if sight.carries_batches(connection) or state.lost == connection:
        for partition in range(k.bounds.partitions):
            states = [
                after
                for before in states
                for after in unanswered(k, sight, before, connection, partition)
            ]
    for after in states:
        yield replace(
            after,
            heard=put(after.heard, connection, ENDED),
            asked=-1 if after.asked == connection else after.asked,
            lost=-1 if after.lost == connection else after.lost,
        )


def unanswered(
    k: Configuration, sight: Sight, state: Explanation, connection: int, partition: int
) -> Iterator[Explanation]:
    """The state after all answers of a connection that will not come to one partition. An
    exception keeps those to the batches beside it from being handled, if they come later."""
    aside = quirks.of(state.unheard, partition)
    rest = quirks.without(state.client, partition, aside)
    before = state.client.partitions[partition]
    late = late_batches(k, sight, rest, partition)
    tracked = quirks.of(state.untracked, partition)
    for client, untracked in rules.on_disconnect(k, rest, partition, late, tracked):
        whole = quirks.put_back(client, partition, before.in_flight, aside)
        after, broken = moved(k, state, whole)
        others = frozenset(key for key in after.untracked if key[0] != partition)
        keys = others | {(partition, first) for first in untracked}
        yield replace(after, untracked=keys)
        if broken:
            firsts = quirks.numbers(quirks.silenced(before, whole.partitions[partition]))
            beside = sight.beside(connection, partition, firsts)
            skipped = [key for key in beside if key[0] > partition]
            yield unheard(replace(after, untracked=keys), skipped)


def late_batches(k: Configuration, sight: Sight, client: Client, partition: int) -> int:
    """For how many of the first batches in flight the time may be up."""
    in_flight = client.partitions[partition].in_flight
    late = takewhile(lambda b: time_is_up(k, sight, partition, b), in_flight)
    return sum(1 for _ in late)


def loses(k: Configuration, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """A request is written to a connection that has ended, and never arrives: one at most, since
    a client writes the next only once the one before is written. Selector, InFlightRequests."""
    for connection, heard in enumerate(state.heard):
        waits = heard != ENDED and state.lost == -1 and sight.may_have_ended(connection)
        if waits and sight.is_to_node(connection) and is_alone(sight, state, connection):
            for client in written(k, sight, state, state.client, range(k.bounds.partitions)):
                if client != state.client:
                    yield "loses", replace(moved(k, state, client)[0], lost=connection)


def written(
    k: Configuration, sight: Sight, state: Explanation, client: Client, partitions: Sequence[int]
) -> Iterator[Client]:
    """The client after a request with at most one batch for each of some partitions."""
    if not partitions:
        yield client
        return
    partition, *others = partitions
    first = client.partitions[partition].records_sent
    again = attempted(send_again, k, state, client, partition)
    new = [
        attempted(send_new, k, state, client, partition, count)
        for count in sight.counts(partition, first)
    ]
    for step in (again, *new):
        if step is not None:
            yield from written(k, sight, state, step.actor, others)
    yield from written(k, sight, state, client, others)


# Of itself


def acts(k: Configuration, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """The client gives batches up, resolves what is unknown, and takes another epoch."""
    bumped = attempted(recovery.bump_epoch, k, state.client)
    if bumped is not None:
        yield "bump_epoch", with_client(state, bumped)
    resolved = attempted(quirks.resolve_sequences, k, state.client, state.untracked)
    if resolved is not None:
        yield "resolve_sequences", moved(k, state, resolved)[0]
    for partition in range(k.bounds.partitions):
        aside = behind_the_head(state, partition)
        before = state.client.partitions[partition].in_flight
        ahead = quirks.without(state.client, partition, aside)
        for old, expired in rules.expire_batch(k, ahead, partition):
            if time_is_up(k, sight, partition, old):
                whole = quirks.put_back(expired, partition, before, aside)
                after, _ = moved(k, state, whole)
                yield "expire_batch", awaiting(after, partition, old)
    if k.variant.expiry == Expiry.DELIVERY_TIMEOUT:
        yield from forsaken_expire(k, sight, state)
    if state.client.fatal:
        aborted = quirks.aborted(k, state.client, state.forsaken)
        yield "on_answer", replace(state, client=aborted, unheard=frozenset(), forsaken=())


def forsaken_expire(k: Configuration, sight: Sight, state: Explanation) -> Iterator[Moved]:
    """The time of a batch is up that an exception has left alone."""
    for partition, old in state.forsaken:
        if not state.client.fatal and time_is_up(k, sight, partition, old):
            rest = tuple(row for row in state.forsaken if row != (partition, old))
            expired = quirks.expired(k, state.client, partition, old)
            yield "expire_batch", replace(state, client=expired, forsaken=rest)


def awaiting(state: Explanation, partition: int, expired: InFlightBatch) -> Explanation:
    """The state after a batch has expired: where its answer was not handled, none is awaited."""
    key = partition, expired.batch.first_record
    if key not in state.unheard:
        return state
    entry = state.client.partitions[partition]
    given_up = tuple(b for b in entry.given_up if b.batch.first_record != key[1])
    client = sending.with_entry(state.client, partition, replace(entry, given_up=given_up))
    return replace(state, client=client, unheard=state.unheard - {key})


def time_is_up(k: Configuration, sight: Sight, partition: int, old: InFlightBatch) -> bool:
    """Whether the clock and what the application was told allow that a batch has expired."""
    batch = old.batch
    records = range(batch.first_record, batch.first_record + batch.record_count)
    if not all(sight.has_failed(partition, number) for number in records):
        return False
    return sight.now_us + CLOCK_SLACK_US >= deadline_us(k, sight, partition, old)


def deadline_us(k: Configuration, sight: Sight, partition: int, old: InFlightBatch) -> int:
    """When a batch may expire at the earliest. ProducerBatch.hasReachedDeliveryTimeout; up to 2.0
    ProducerBatch.maybeExpire."""
    settings: Settings = sight.plan.settings
    first = old.batch.first_record
    if k.variant.expiry == Expiry.DELIVERY_TIMEOUT:
        return sight.created_us(partition, first) + settings.delivery_timeout_ms * MILLISECOND_US
    timeout_us = settings.request_timeout_ms * MILLISECOND_US
    if old.attempts == 0:
        return sight.created_us(partition, first) + timeout_us
    backoff_us = settings.retry_backoff_ms * MILLISECOND_US
    return sight.last_sent_us(partition, first) + timeout_us + backoff_us


# What is seen


def sends(k: Configuration, sight: Sight, state: Explanation, batch: SentBatch) -> Iterator[Moved]:
    """The client has sent this batch: again, or for the first time."""
    client = state.client
    if quirks.has_quirks(k):
        client = quirks.grown(client, batch.partition, batch.records)
    again = attempted(send_again, k, state, client, batch.partition)
    if again is not None and same(again.sends[0].batch, batch):
        yield "send_again", moved(k, state, again.actor)[0]
    ready = without_unsent(sight, state.client, batch)
    if ready is not None:
        new = attempted(send_new, k, state, ready, batch.partition, len(batch.records))
        if new is not None and same(new.sends[0].batch, batch):
            yield "send_new", with_client(state, new.actor)


def send_again(
    k: Configuration, state: Explanation, client: Client, partition: int
) -> Step[Client, ProduceRequest]:
    """The batch that waits first. Raises Disabled."""
    aside = behind_the_head(state, partition)
    before = client.partitions[partition].in_flight
    step = sending.send_again(k, quirks.without(client, partition, aside), partition)
    return replace(step, actor=quirks.put_back(step.actor, partition, before, aside))


def send_new(
    k: Configuration, state: Explanation, client: Client, partition: int, record_count: int
) -> Step[Client, ProduceRequest]:
    """The next new batch; one whose answer was not handled is not awaited. Raises Disabled."""
    aside = quirks.of(state.unheard, partition)
    before = client.partitions[partition].in_flight
    step = quirks.send_new(k, quirks.without(client, partition, aside), partition, record_count)
    return replace(step, actor=quirks.put_back(step.actor, partition, before, aside))


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
    """The client, records behind it that failed before they were sent: they use no sequence. What
    a part of a split batch takes later is passed over."""
    entry = client.partitions[batch.partition]
    unsent = range(entry.records_sent, batch.records[0])
    if batch.records[0] < entry.records_sent:
        return None
    rest = [number for number in unsent if not sight.is_taken(batch.partition, number)]
    if not all(sight.has_failed(batch.partition, number) for number in rest):
        return None
    failed = entry.failed
    for number in rest:
        failed = failed.plus(number)
    skipped = replace(entry, records_sent=batch.records[0], failed=failed)
    return sending.with_entry(client, batch.partition, skipped)


def sendable(
    k: Configuration, state: Explanation, partition: int, record_count: int
) -> Iterator[Batch]:
    """What the client may send to a partition: again, or as its next new batch."""
    again = attempted(send_again, k, state, state.client, partition)
    new = attempted(send_new, k, state, state.client, partition, record_count)
    for step in (again, new):
        if step is not None:
            yield step.sends[0].batch


def asks(state: Explanation, event: InitProducerId) -> Iterator[Explanation]:
    """The client has asked for a producer id: it has none, waits for none, and wants no old one
    raised. Sender.maybeSendAndPollTransactionalRequest, up to 3.5 Sender.maybeWaitForProducerId."""
    wants_new = (event.producer_id, event.producer_epoch) == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    has_none = state.client.producer_id == NO_PRODUCER_ID and not state.client.fatal
    if wants_new and has_none and state.asked == -1:
        yield replace(state, asked=event.connection)


UNSEEN: Final[tuple[Moves, ...]] = (hears, hangs_up, acts)
"""What a client does unseen."""
