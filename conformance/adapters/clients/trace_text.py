"""A run as text: the observations up to the divergence, and what the model would have allowed."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapters.clients.judgement import DIVERGES, ClientJudgement
from conformance.adapters.clients.trace import (
    ClientTrace,
    ConnectionClosed,
    ConnectionCut,
    ConnectionEvent,
    ConnectionOpened,
    CoordinatorAnswered,
    CoordinatorRequested,
    ProduceAnswered,
    ProduceRequested,
    ProducerIdAnswered,
    ProducerIdRequested,
    TransactionalIdFenced,
)
from impl.protocol.errors import ErrorCode


def format_run(trace: ClientTrace, judgement: ClientJudgement, until: int = 0) -> Iterator[str]:
    """The lines of a run and its judgement, up to the unexplained event, or the event `until`."""
    configs = trace.plan.settings.to_configs()
    yield f"{trace.client}, seed {trace.plan.seed}, run {trace.plan.number}"
    yield ", ".join(f"{name}={value}" for name, value in configs.items())
    yield ""
    last = judgement.position if judgement.verdict == DIVERGES else len(trace.events)
    last = max(last, until - 1)
    for number, event in enumerate(trace.events[: last + 1], start=1):
        yield f"{number:5}. {event.at_us / 1000:10.3f} ms  {format_event(event)}"
    yield ""
    yield from format_judgement(trace, judgement)


def format_judgement(trace: ClientTrace, judgement: ClientJudgement) -> Iterator[str]:
    """The lines of a judgement."""
    if judgement.verdict != DIVERGES:
        yield f"{judgement.verdict} {judgement.why}".rstrip()
        return
    at_end = judgement.position >= len(trace.events)
    where = "at the end" if at_end else f"event {judgement.position + 1}"
    yield f"nothing explains this {judgement.rule}, {where}:"
    for path, value in judgement.observed.items():
        yield f"  {path} is {value}, the model says {judgement.expected[path]}"
    if judgement.allowed:
        yield "the model would have allowed:"
        yield from (f"  {text}" for text in judgement.allowed)


def format_event(event: ConnectionEvent) -> str:
    """One event."""
    match event:
        case TransactionalIdFenced():
            return "another producer takes the transactional id"
        case CoordinatorRequested():
            what = f": {format_coordinator(event)}"
        case CoordinatorAnswered():
            given = f"epoch {event.producer_epoch} is next" if event.producer_epoch >= 0 else "done"
            what = f": answered {format_result(event.error, given)}"
        case ConnectionOpened():
            where = "the node" if event.to_node else "the bootstrap address"
            what = f" is opened to {where}"
        case ConnectionCut():
            what = " is cut"
        case ConnectionClosed():
            what = " is closed by the client"
        case ProducerIdRequested():
            what = ": InitProducerId"
        case ProducerIdAnswered():
            given = f"producer id {event.producer_id}, epoch {event.producer_epoch}"
            what = f": answered {format_result(event.error, given)}"
        case ProduceRequested():
            version = f" v{event.version}" if event.version >= 0 else ""
            what = f": Produce{version} {'; '.join(format_batches(event))}"
        case ProduceAnswered():
            rows = (
                f"partition {row.partition}: "
                + format_result(row.error, f"stored at {row.base_offset}")
                for row in event.partitions
            )
            what = f": answered {'; '.join(rows)}"
    return f"connection {event.connection}{what}"


def format_coordinator(event: CoordinatorRequested) -> str:
    """A request of a transaction."""
    about = {
        "ADD_PARTITIONS_TO_TXN": f" partitions {', '.join(map(str, event.partitions))}",
        "TXN_OFFSET_COMMIT": f" offset {event.offset}",
        "END_TXN": " commits" if event.commits else " aborts",
    }.get(event.api, "")
    ids = f"id {event.producer_id}, epoch {event.producer_epoch}"
    return f"{event.api} v{event.version}{about}, {ids}"


def format_batches(event: ProduceRequested) -> Iterator[str]:
    """The batches of a request."""
    for b in event.batches:
        numbers = f"id {b.producer_id}, epoch {b.producer_epoch}, sequence {b.base_sequence}"
        yield f"partition {b.partition}: {numbers}, records {', '.join(map(str, b.records))}"


def format_result(error: int, success: str) -> str:
    """The name of an error code, or the success."""
    return ErrorCode(error).name if error else success
