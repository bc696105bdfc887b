"""A run in words: what was seen, as far as it is explained, and what may have come instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.client.judge import DIVERGES, Judgement
from conformance.client.trace import (
    ClientTrace,
    Closed,
    Cut,
    Event,
    InitAnswer,
    InitProducerId,
    Opened,
    Produce,
    ProduceAnswer,
)
from impl.protocol.errors import ErrorCode


def story(trace: ClientTrace, judgement: Judgement) -> Iterator[str]:
    """The lines of a run, up to what nothing explains."""
    named = trace.plan.settings.named()
    yield f"{trace.client}, seed {trace.plan.seed}, run {trace.plan.number}"
    yield ", ".join(f"{name}={value}" for name, value in named.items())
    yield ""
    last = judgement.position if judgement.verdict == DIVERGES else len(trace.events)
    for number, event in enumerate(trace.events[: last + 1], start=1):
        yield f"{number:5}. {event.at_us / 1000:10.3f} ms  {in_words(event)}"
    yield ""
    yield from verdict(judgement)


def verdict(judgement: Judgement) -> Iterator[str]:
    """What became of the run."""
    if judgement.verdict != DIVERGES:
        yield f"{judgement.verdict} {judgement.why}".rstrip()
        return
    yield f"nothing explains this {judgement.rule}:"
    for path, value in judgement.observed.items():
        yield f"  {path} is {value}, the model says {judgement.expected[path]}"
    if judgement.allowed:
        yield "the model would have allowed:"
        yield from (f"  {text}" for text in judgement.allowed)


def in_words(event: Event) -> str:
    """One event."""
    match event:
        case Opened():
            where = "the node" if event.to_node else "where nodes are looked for"
            return f"connection {event.connection} is opened to {where}"
        case Cut():
            return f"connection {event.connection} is cut"
        case Closed():
            return f"connection {event.connection} is closed by the client"
        case InitProducerId():
            return f"connection {event.connection}: InitProducerId"
        case InitAnswer():
            given = f"producer id {event.producer_id}, epoch {event.producer_epoch}"
            return f"connection {event.connection}: answered {code(event.error, given)}"
        case Produce():
            return f"connection {event.connection}: Produce {'; '.join(sent(event))}"
        case ProduceAnswer():
            return f"connection {event.connection}: answered {'; '.join(answered(event))}"


def sent(event: Produce) -> Iterable[str]:
    """The batches of a request."""
    for b in event.batches:
        numbers = f"id {b.producer_id}, epoch {b.producer_epoch}, sequence {b.base_sequence}"
        yield f"partition {b.partition}: {numbers}, records {', '.join(map(str, b.records))}"


def answered(event: ProduceAnswer) -> Iterable[str]:
    """What an answer says of each partition."""
    for row in event.partitions:
        yield f"partition {row.partition}: {code(row.error, f'stored at {row.base_offset}')}"


def code(error: int, success: str) -> str:
    """An error's name, or the success."""
    return ErrorCode(error).name if error else success
