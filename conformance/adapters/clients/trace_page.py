"""Draws a client's run on the page that shows all traces: requests and answers as arrows, faults of
the network, and the logs at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from conformance.adapters.clients.run_plan import PASS, FaultKind, RequestFault
from conformance.adapters.clients.trace import (
    NAMES,
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
    WireBatch,
)
from conformance.adapters.clients.trace_text import format_event
from impl.protocol.errors import ErrorCode
from proofs.trace.html import filled_page

CLIENT: Final = "client"
NODE: Final = "node"
NETWORK: Final = "network"
REQUESTS: Final = (ProduceRequested, ProducerIdRequested, CoordinatorRequested)
ANSWERS: Final = (ProduceAnswered, ProducerIdAnswered, CoordinatorAnswered)

PLAYED: Final[Mapping[FaultKind, str]] = {
    FaultKind.DELAY: "the network: its answer waits {delay_ms} ms",
    FaultKind.REFUSE: "the network: never delivered; it answers {error} in the broker's place",
    FaultKind.REPLACE: "the network: delivered; it answers {error} in the broker's place",
    FaultKind.CUT: "the network: never delivered; the connection ends",
    FaultKind.CUT_LATE: "the network: the connection ends; delivered {delay_ms} ms later",
    FaultKind.CUT_ANSWERED: "the network: delivered; the connection ends before the answer",
    FaultKind.STALL: "the network: delivered; the connection carries no answer any more",
    FaultKind.FENCE: "the test: another producer takes the transactional id before",
}
SAID: Final[Mapping[type[ConnectionEvent], str]] = {
    ConnectionOpened: "connection {} opened",
    ConnectionClosed: "connection {} closed",
    ConnectionCut: "connection {} cut",
    TransactionalIdFenced: "fenced by another",
}
"""The names of events that are not messages."""
OF_CLIENT: Final = (*REQUESTS, ConnectionOpened, ConnectionClosed)
OF_NETWORK: Final = (ConnectionCut, TransactionalIdFenced)
NEVER_DELIVERED: Final = (FaultKind.CUT, FaultKind.REFUSE)
ANSWERED_BY_NETWORK: Final = (FaultKind.REFUSE, FaultKind.REPLACE)

Asked = dict[tuple[int, int], RequestFault]
"""The fault of each request so far, by connection and correlation id."""


def client_page(trace: ClientTrace, finding: Mapping[str, Any] | None, lines: Sequence[str]) -> str:
    """The page, up to the step that differs; `lines` show the same as text."""
    until = len(trace.events) if finding is None else finding["steps"]
    faults = faults_of(trace)
    asked: Asked = {}
    events = [
        event_json(number, event, faults.get(number - 1, PASS), asked)
        for number, event in enumerate(trace.events[:until], start=1)
    ]
    logs = [log_json(partition, trace) for partition in partitions_of(trace)]
    title = f"{trace.client}, run {trace.plan.number}"
    told = ends_of(trace)
    said = "" if finding is None else f": {finding['rule']}; breaks {finding['breaks']}"
    data = {
        "title": f"{title}{said}",
        "scope": "transactions" if trace.ends else "a client's run",
        "variant": f"transaction.version {trace.plan.level}",
        "seed": trace.plan.seed,
        "system": trace.client,
        "patches": [],
        "breaches": [],
        "notes": [f"the application was told: {told}"] if told else [],
        "differs": differs_of(finding),
        "lanes": [CLIENT, NETWORK, NODE],
        "events": events,
        "logs": [logs] * (len(events) + 1),
    }
    return filled_page(data, "\n".join(lines))


def ends_of(trace: ClientTrace) -> str:
    """The outcomes of its transactions that the application received."""
    return ", ".join(f"transaction {number} {end}" for number, end in sorted(trace.ends.items()))


def differs_of(finding: Mapping[str, Any] | None) -> list[list[str]]:
    """Both sides of each place that differs."""
    if finding is None:
        return []
    expected, observed = finding["expected"], finding["observed"]
    return [[path, str(value), str(observed.get(path))] for path, value in expected.items()]


def faults_of(trace: ClientTrace) -> dict[int, RequestFault]:
    """The fault of each request, by the position of its event. The faults of an API apply in
    order."""
    left = {api: iter(faults) for api, faults in trace.plan.faults.items()}
    found = {}
    for position, event in enumerate(trace.events):
        if isinstance(event, REQUESTS):
            found[position] = next(left.get(api_of(event), iter(())), PASS)
    return found


def api_of(event: ConnectionEvent) -> str:
    """The API of a request."""
    if isinstance(event, CoordinatorRequested):
        return event.api
    return "PRODUCE" if isinstance(event, ProduceRequested) else "INIT_PRODUCER_ID"


def event_json(
    number: int,
    event: ConnectionEvent,
    fault: RequestFault,
    asked: Asked,
) -> dict[str, Any]:
    """One event in the form that the page shows."""
    said = format_event(event)
    moves = list(moves_of(number, event, fault, asked))
    actor = moves[0]["from"] if moves else actor_of(event)
    played = PLAYED.get(fault.kind)
    more = [] if played is None else [played.format(**asdict(fault) | {"error": fault.error.name})]
    return {
        "number": number,
        "rule": name_of(event),
        "lanes": [],
        "sentences": [f"{event.at_us / 1000:.1f} ms: {said}", *more],
        "moves": moves,
        "changes": [[actor, *row] for row in fields_of(event)],
    }


def actor_of(event: ConnectionEvent) -> str:
    """The actor of an event that is not a message."""
    if isinstance(event, OF_CLIENT):
        return CLIENT
    return NETWORK if isinstance(event, OF_NETWORK) else NODE


def fields_of(event: ConnectionEvent) -> Iterator[list[str]]:
    """The fields of a message, place by place."""
    for name, value in asdict(event).items():
        if isinstance(value, tuple) and value and isinstance(value[0], dict):
            for index, row in enumerate(value):
                yield from ([f"{name}[{index}].{k}", value_text(v)] for k, v in row.items())
        elif name != "at_us":
            yield [name, value_text(value)]


def value_text(value: Any) -> str:
    """The text of a field's value; records are listed one by one."""
    if isinstance(value, tuple | list):
        return ", ".join(map(value_text, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_of(event: ConnectionEvent) -> str:
    """The name of the event in the picture."""
    if isinstance(event, CoordinatorRequested):
        return event.api
    if isinstance(event, CoordinatorAnswered):
        return f"{event.api} answer"
    return SAID.get(type(event), NAMES[type(event)]).format(event.connection)


def moves_of(
    number: int, event: ConnectionEvent, fault: RequestFault, asked: Asked
) -> Iterator[dict[str, Any]]:
    """The message of an event: it leaves, and arrives or does not."""
    if isinstance(event, REQUESTS):
        asked[event.connection, event.correlation_id] = fault
        fate = "LOST" if fault.kind in NEVER_DELIVERED else "DELIVERED"
        message = {"number": number, "from": CLIENT, "to": NODE, "label": label_of(event)}
        for kind in ("SENT", fate):
            yield message | {"kind": kind, "refused": False, "answer": False}
    elif isinstance(event, ANSWERS):
        error, met = error_of(event), asked[event.connection, event.correlation_id]
        sender = NETWORK if error and met.kind in ANSWERED_BY_NETWORK else NODE
        label = ErrorCode(error).name if error else "done"
        message = {"number": number, "from": sender, "to": CLIENT, "label": label}
        for kind in ("ANSWERED", "RECEIVED"):
            yield message | {"kind": kind, "refused": bool(error), "answer": True}


def label_of(event: ConnectionEvent) -> str:
    """A label that distinguishes requests."""
    if isinstance(event, ProduceRequested):
        one, *more = event.batches
        numbers = f"epoch {one.producer_epoch} sequence {one.base_sequence}"
        return f"{len(event.batches)} batches" if more else numbers
    if isinstance(event, CoordinatorRequested) and event.commits is not None:
        return f"{event.api} {'COMMIT' if event.commits else 'ABORT'}"
    return api_of(event)


def error_of(event: ProduceAnswered | ProducerIdAnswered | CoordinatorAnswered) -> int:
    """The first error of an answer."""
    if isinstance(event, ProduceAnswered):
        return next((row.error for row in event.partitions if row.error), 0)
    return event.error


# Logs


def partitions_of(trace: ClientTrace) -> list[int]:
    """The partitions with a record or batch."""
    return sorted({batch.partition for batch in trace.stored})


def log_json(partition: int, trace: ClientTrace) -> dict[str, Any]:
    """A partition's log at the end of the run."""
    stored = [batch for batch in trace.stored if batch.partition == partition]
    offset, batches = 0, []
    for index, batch in enumerate(stored):
        fate = fate_of(stored, index)
        batches.append({"offset": offset, "fate": fate, "lines": lines_of(batch, offset, fate)})
        offset += len(batch.records) or 1
    return {"partition": f"partition {partition}, in the end", "marks": [], "batches": batches}


def lines_of(batch: WireBatch, offset: int, fate: str) -> list[str]:
    """A batch, one line for each fact."""
    ids = f"producer {batch.producer_id} epoch {batch.producer_epoch}"
    if batch.marker:
        return [f"offset {offset} {batch.marker}", ids]
    records = ", ".join(map(str, batch.records))
    lines = [f"offset {offset}", ids, f"sequence {batch.base_sequence}", f"records {records}"]
    return [*lines, *([fate] if fate else [])]


def fate_of(stored: Sequence[WireBatch], index: int) -> str:
    """The outcome that the next marker gives to a transactional batch; empty for any other
    batch."""
    batch = stored[index]
    if batch.marker or not batch.is_transactional:
        return ""
    later = (b for b in stored[index + 1 :] if b.producer_id == batch.producer_id and b.marker)
    ends = {"COMMIT": "committed", "ABORT": "aborted"}
    return next((ends[marker.marker] for marker in later), "open")
