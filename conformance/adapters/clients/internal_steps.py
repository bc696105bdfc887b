"""The internal steps of a client: what it may do between two requests that the proxy observes.

Three rules:

1. Every step is a rule of `model`, in the form that `legacy` clients take it. This module only
   decides when a run permits the step.
2. Only the responses sent to a client are known, never those that it has received. The responses of
   one connection arrive in order, and none arrives after the connection has ended.
3. A clock shows only that a step was not possible yet, never that it must have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, takewhile
from typing import Final

from conformance.adapters.clients import legacy
from conformance.adapters.clients.batches import (
    find_batch,
    first_records,
    of_partition,
    record_numbers,
    restore,
    set_aside,
    try_rule,
    with_in_flight,
)
from conformance.adapters.clients.candidate import (
    ENDED,
    Candidate,
    behind_queue_head,
    has_thrown,
    skip_batches,
    update_client,
    with_received,
)
from conformance.adapters.clients.requests import retry_batch, send_new_batch
from conformance.adapters.clients.trace import (
    UNKNOWN,
    PartitionResult,
    ProduceAnswered,
    ProducerIdAnswered,
    WireBatch,
)
from conformance.adapters.clients.trace_index import TraceIndex
from impl.protocol.errors import ErrorCode
from model.idempotent import recovery, responses
from model.idempotent.client import Client, InFlightBatch, PartitionEntry, with_entry
from model.idempotent.configuration import Configuration, Expiry
from model.idempotent.messages import Error, ProduceResponse

CLOCK_SLACK_US: Final = 3_000
"""The difference between the clocks of two processes, and truncated milliseconds."""

MODEL_ERRORS: Final = {
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER): Error.NOT_ENOUGH_REPLICAS,
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): Error.NOT_ENOUGH_REPLICAS,
} | {int(error): error for error in Error}
"""A client treats all retriable errors alike that have no other meaning for it."""


class Unmodelled(Exception):
    """The run has something that the model does not have."""


NamedStep = tuple[str, Candidate]
"""The rule of a step, and the candidate after the step."""
StepRule = Callable[[Configuration, TraceIndex, Candidate], Iterator[NamedStep]]


def is_timely(index: TraceIndex, before: Client, after: Client) -> bool:
    """Whether records end in the order of their callbacks, and no record ends before the requests
    that the client had sent by then were observed: the sender thread runs the callbacks, too."""
    ended_us: list[int] = []
    open_us: list[int] = []
    entries = zip(before.partitions.values(), after.partitions.values(), strict=True)
    for partition, (old, new) in enumerate(entries):
        for number in range(new.records_sent):
            if not has_ended(new, number):
                open_us.append(index.outcome_us(partition, number))
            elif not has_ended(old, number):
                ended_us.append(index.outcome_us(partition, number))
    known = [at_us for at_us in ended_us if at_us != UNKNOWN]
    if not known:
        return True
    too_early = any(at_us < min(known) for at_us in open_us if at_us != UNKNOWN)
    return max(known) <= index.now_us and not too_early


def has_ended(entry: PartitionEntry, number: int) -> bool:
    """Whether the application knows the outcome of a record."""
    return number in entry.acknowledged or number in entry.failed


# Responses


def receive_response(
    k: Configuration, index: TraceIndex, candidate: Candidate
) -> Iterator[NamedStep]:
    """The next response of a connection reaches the client."""
    for connection, received in enumerate(candidate.received):
        if received == ENDED or received >= len(index.answers[connection]):
            continue
        after = with_received(candidate, connection, received + 1)
        answer = index.answers[connection][received]
        if isinstance(answer, ProducerIdAnswered):
            yield "receive_producer_id", receive_producer_id(k, after, answer)
        elif isinstance(answer, ProduceAnswered):
            sent = index.requests[connection, answer.correlation_id].batches
            for rows in permutations(answer.partitions):  # clients iterate over a hash map
                results = [(row, b) for row in rows for b in sent if b.partition == row.partition]
                for handled in complete_batches(k, index, after, results):
                    yield "on_answer", handled


def receive_producer_id(
    k: Configuration, candidate: Candidate, answer: ProducerIdAnswered
) -> Candidate:
    """The candidate after an InitProducerId response; after an error the client asks again."""
    client = candidate.client
    if not answer.error and candidate.initializing_on == answer.connection:
        client = try_rule(recovery.receive_producer_id, k, client, answer.producer_id) or client
    return replace(candidate, client=client, initializing_on=-1)


def complete_batches(
    k: Configuration,
    index: TraceIndex,
    candidate: Candidate,
    results: Sequence[tuple[PartitionResult, WireBatch]],
) -> Iterator[Candidate]:
    """The candidates after the results of some batches, in order; an exception skips the rest."""
    if not results:
        yield candidate
        return
    (result, batch), *others = results
    for client in complete_batch(k, index, candidate, batch, result):
        after = update_client(k, candidate, client)
        if has_thrown(candidate, after):
            yield skip_batches(k, after, [(b.partition, b.records[0]) for _, b in others])
        else:
            yield from complete_batches(k, index, after, others)


def complete_batch(
    k: Configuration,
    index: TraceIndex,
    candidate: Candidate,
    sent: WireBatch,
    result: PartitionResult,
) -> Iterator[Client]:
    """The clients after the result of one batch, whose delivery timeout may have passed."""
    partition, first_record = result.partition, sent.records[0]
    if result.error not in MODEL_ERRORS:
        raise Unmodelled(f"the model has no error {result.error}")
    response = ProduceResponse(
        first_record=first_record,
        error=MODEL_ERRORS[result.error],
        base_offset=result.base_offset,
        required_offset=0,
        log_start_offset=result.log_start_offset,
    )
    client, untracked = candidate.client, of_partition(candidate.untracked, partition)
    answered = find_batch(client.partitions[partition].in_flight, first_record)
    late = (
        bool(result.error) and answered is not None and has_expired(k, index, partition, answered)
    )
    for overdue in range(1 + late):
        for after in legacy.receive_answer(k, client, partition, response, overdue, untracked):
            if response.error == Error.MESSAGE_TOO_LARGE and answered is not None:
                yield split_as_sent(k, index, after, sent, answered)
            else:
                yield after


def split_as_sent(
    k: Configuration, index: TraceIndex, client: Client, sent: WireBatch, large: InFlightBatch
) -> Client:
    """The client with the parts of a split batch as they are sent later: their sizes are the
    client's choice."""
    partition, first, count = sent.partition, sent.records[0], len(sent.records)
    in_flight = client.partitions[partition].in_flight
    inside = [i for i, b in enumerate(in_flight) if 0 <= b.batch.first_record - first < count]
    if len(inside) < 2:
        return client
    parts, skipped = [], 0
    for size in index.part_sizes(partition, first, count):
        parts.append(responses.part(k, large, skipped, size))
        skipped += size
    before, behind = in_flight[: inside[0]], in_flight[inside[0] + len(inside) :]
    return with_in_flight(client, partition, (*before, *parts, *behind))


# Connections


def is_only_connection(index: TraceIndex, candidate: Candidate, connection: int) -> bool:
    """Whether all older connections to the node are closed: a client has one connection to it."""
    return not index.is_to_node(connection) or all(
        received == ENDED
        for other, received in enumerate(candidate.received[:connection])
        if index.is_to_node(other)
    )


def close_idle(index: TraceIndex, candidate: Candidate, may_lose: bool) -> Candidate:
    """The candidate without idle connections. It makes no difference when the client notices that
    such a connection has ended, and each possible time would add a candidate."""
    received = tuple(
        ENDED if is_idle(index, candidate, connection, may_lose) else count
        for connection, count in enumerate(candidate.received)
    )
    return replace(candidate, received=received)


def is_idle(index: TraceIndex, candidate: Candidate, connection: int, may_lose: bool) -> bool:
    """Whether a connection that may have ended carried no batches, and the client awaits nothing on
    it. If requests may be lost, one may be lost on any connection to the node."""
    received = candidate.received[connection]
    is_awaited = candidate.initializing_on == connection or received < len(
        index.answers[connection]
    )
    matters = index.is_to_node(connection) and (may_lose or index.has_requests(connection))
    return (
        not matters
        and not is_awaited
        and index.may_have_ended(connection)
        and not index.has_sent_batches(connection)
    )


def disconnect(k: Configuration, index: TraceIndex, candidate: Candidate) -> Iterator[NamedStep]:
    """The client sees that a connection has ended, or closes it itself."""
    for connection, received in enumerate(candidate.received):
        ends = received != ENDED and index.may_have_ended(connection)
        if not ends or not is_only_connection(index, candidate, connection):
            continue
        candidates = [candidate]
        if index.has_sent_batches(connection) or candidate.lost_on == connection:
            for partition in range(k.bounds.partitions):
                candidates = [
                    after
                    for before in candidates
                    for after in lose_answers(k, index, before, connection, partition)
                ]
        for after in candidates:
            yield "on_disconnect", end_connection(after, connection)


def end_connection(candidate: Candidate, connection: int) -> Candidate:
    """The candidate after a connection has ended: it awaits nothing on it any more."""
    initializing_on, lost_on = candidate.initializing_on, candidate.lost_on
    return replace(
        with_received(candidate, connection, ENDED),
        initializing_on=-1 if initializing_on == connection else initializing_on,
        lost_on=-1 if lost_on == connection else lost_on,
    )


def lose_answers(
    k: Configuration, index: TraceIndex, candidate: Candidate, connection: int, partition: int
) -> Iterator[Candidate]:
    """The candidates that await no response to their batches of one partition any more; the
    delivery timeout of the first batches may have passed. After an exception the other partitions'
    batches of the request may be skipped."""
    client = candidate.client
    aside = of_partition(candidate.unhandled, partition)
    untracked = of_partition(candidate.untracked, partition)
    rest = set_aside(client, partition, aside)
    late = takewhile(
        lambda b: has_expired(k, index, partition, b), rest.partitions[partition].in_flight
    )
    for overdue in range(1 + len(list(late))):
        lost, left = legacy.disconnect(k, rest, partition, overdue, untracked)
        whole = update_client(k, candidate, restore(lost, client, partition, aside))
        others = frozenset(key for key in whole.untracked if key[0] != partition)
        after = replace(whole, untracked=others | {(partition, first) for first in left})
        yield after
        if has_thrown(candidate, after):
            thrown = first_records(b for _, b in after.thrown[len(candidate.thrown) :])
            beside = index.requested_with(connection, partition, thrown)
            yield skip_batches(k, after, [key for key in beside if key[0] > partition])


def lose_request(k: Configuration, index: TraceIndex, candidate: Candidate) -> Iterator[NamedStep]:
    """The client writes a request to a connection that has ended, and the request never arrives.
    This happens at most once, because a client writes a request only after the one before is
    written. Selector, InFlightRequests."""
    for connection, received in enumerate(candidate.received):
        is_open = received != ENDED and index.is_to_node(connection)
        may_lose = is_open and candidate.lost_on == -1 and index.may_have_ended(connection)
        if may_lose and is_only_connection(index, candidate, connection):
            partitions = range(k.bounds.partitions)
            for client in write_request(k, index, candidate, candidate.client, partitions):
                if client != candidate.client:
                    yield (
                        "lose_request",
                        replace(update_client(k, candidate, client), lost_on=connection),
                    )


def write_request(
    k: Configuration,
    index: TraceIndex,
    candidate: Candidate,
    client: Client,
    partitions: Sequence[int],
) -> Iterator[Client]:
    """The clients after a request with at most one batch for each of some partitions."""
    if not partitions:
        yield client
        return
    partition, *others = partitions
    first = client.partitions[partition].records_sent
    again = try_rule(retry_batch, k, candidate, client, partition)
    new = [
        try_rule(send_new_batch, k, candidate, client, partition, count)
        for count in index.possible_sizes(partition, first)
    ]
    for step in (again, *new):
        if step is not None:
            yield from write_request(k, index, candidate, step.actor, others)
    yield from write_request(k, index, candidate, client, others)


# The sender's loop


def run_loop(k: Configuration, index: TraceIndex, candidate: Candidate) -> Iterator[NamedStep]:
    """The client bumps its epoch, resolves sequences, expires batches or aborts them."""
    client = candidate.client
    bumped = try_rule(recovery.bump_epoch, k, client)
    if bumped is not None:
        yield "bump_epoch", replace(candidate, client=bumped)
    resolved = try_rule(legacy.resolve_sequences, k, client, candidate.untracked)
    if resolved is not None:
        yield "resolve_sequences", update_client(k, candidate, resolved)
    for partition in range(k.bounds.partitions):
        yield from expire_batches(k, index, candidate, partition)
    if legacy.expires_thrown(k):
        yield from expire_thrown_batches(k, index, candidate)
    if client.fatal:
        aborted = legacy.abort_batches(k, client, candidate.thrown)
        yield "on_answer", replace(candidate, client=aborted, unhandled=frozenset(), thrown=())


def expire_batches(
    k: Configuration, index: TraceIndex, candidate: Candidate, partition: int
) -> Iterator[NamedStep]:
    """The client gives a batch up; batches behind the head of a queue are not given up."""
    aside = behind_queue_head(candidate, partition)
    seen = set_aside(candidate.client, partition, aside)
    for old in recovery.overdue(k, seen.partitions[partition]):
        expired = try_rule(recovery.expire_batch, k, seen, partition, old.batch.first_record)
        if expired is not None and has_expired(k, index, partition, old):
            whole = restore(expired, candidate.client, partition, aside)
            after = update_client(k, candidate, whole)
            yield "expire_batch", forget_skipped(after, partition, old.batch.first_record)


def forget_skipped(candidate: Candidate, partition: int, first_record: int) -> Candidate:
    """The candidate after a batch has expired: if its response was skipped, the client awaits
    none."""
    key = partition, first_record
    if key not in candidate.unhandled:
        return candidate
    entry = candidate.client.partitions[partition]
    given_up = tuple(b for b in entry.given_up if b.batch.first_record != first_record)
    client = with_entry(candidate.client, partition, replace(entry, given_up=given_up))
    return replace(candidate, client=client, unhandled=candidate.unhandled - {key})


def expire_thrown_batches(
    k: Configuration, index: TraceIndex, candidate: Candidate
) -> Iterator[NamedStep]:
    """A batch that an exception left without an outcome reaches its delivery timeout."""
    for partition, old in candidate.thrown:
        if not candidate.client.fatal and has_expired(k, index, partition, old):
            rest = tuple(row for row in candidate.thrown if row != (partition, old))
            expired = legacy.expire_thrown(k, candidate.client, partition, old)
            yield "expire_batch", replace(candidate, client=expired, thrown=rest)


def has_expired(k: Configuration, index: TraceIndex, partition: int, old: InFlightBatch) -> bool:
    """Whether a batch may have expired by now: its records fail, and its delivery timeout may have
    passed."""
    numbers = record_numbers(old.batch)
    if not all(index.has_failed(partition, number) for number in numbers):
        return False
    return index.now_us + CLOCK_SLACK_US >= earliest_expiry_us(k, index, partition, old)


def earliest_expiry_us(
    k: Configuration, index: TraceIndex, partition: int, old: InFlightBatch
) -> int:
    """The earliest time at which a batch may expire. ProducerBatch.hasReachedDeliveryTimeout; up to
    2.0 ProducerBatch.maybeExpire."""
    config, first = index.plan.settings, old.batch.first_record
    if k.variant.expiry == Expiry.DELIVERY_TIMEOUT:
        return index.created_us(partition, first) + 1_000 * config.delivery_timeout_ms
    if old.attempts == 0:
        return index.created_us(partition, first) + 1_000 * config.request_timeout_ms
    timeout_ms = config.request_timeout_ms + config.retry_backoff_ms
    return index.last_sent_us(partition, first) + 1_000 * timeout_ms


INTERNAL: Final[tuple[StepRule, ...]] = (receive_response, disconnect, run_loop)
"""The internal steps of every run; `lose_request` is tried only if these do not explain the run."""
