"""The recorded run of a client: its requests, the responses to it, and its reports.

A file is JSON lines: a header with format, version, client and plan, then one event a line, in the
order in which the proxy saw or caused them. `at_us` counts from the start of the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.adapters.clients.run_plan import RunPlan
from conformance.adapters.clients.transactional_plan import plan_from

FORMAT: Final = "kafka-eos client run"
VERSION: Final = 1

UNKNOWN: Final = -1
ALL_REPLICAS: Final = -1
"""acks=all."""
UNFINISHED: Final = "the client was not done in time"
"""The problem of a run that timed out; its recorded part is judged."""

Record = tuple[int, int]
"""A partition, and the number of a record in it."""


class BadClientTrace(ValueError):
    """The file is not a recorded run; the message says why."""


@dataclass(frozen=True, slots=True)
class WireBatch:
    """A batch on the wire. `records` has the numbers in its records. A control batch has no
    records; its `marker` is COMMIT or ABORT."""

    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[int, ...]
    is_transactional: bool = False
    marker: str = ""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The row of a Produce response for one partition; `error` is an error code."""

    partition: int
    error: int
    base_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """Something happened on a connection; connections are numbered as the client opens them."""

    at_us: int
    connection: int


@dataclass(frozen=True, slots=True)
class ConnectionOpened(ConnectionEvent):
    """The client connected to the node, or to the bootstrap address."""

    to_node: bool


@dataclass(frozen=True, slots=True)
class ConnectionCut(ConnectionEvent):
    """The proxy closed its side: it sends nothing more, and reads the data under way."""


@dataclass(frozen=True, slots=True)
class ConnectionClosed(ConnectionEvent):
    """The client closed its side."""


@dataclass(frozen=True, slots=True)
class ProduceRequested(ConnectionEvent):
    """A Produce request arrived; `acks` is the client's setting."""

    correlation_id: int
    batches: tuple[WireBatch, ...]
    version: int = UNKNOWN
    acks: int = ALL_REPLICAS


@dataclass(frozen=True, slots=True)
class ProduceAnswered(ConnectionEvent):
    """The response to a Produce left for the client."""

    correlation_id: int
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True)
class ProducerIdRequested(ConnectionEvent):
    """An InitProducerId arrived, with the id and epoch to bump, or -1 for a new id."""

    correlation_id: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerIdAnswered(ConnectionEvent):
    """The response to an InitProducerId left for the client; `error` is an error code."""

    correlation_id: int
    error: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class CoordinatorRequested(ConnectionEvent):
    """A request of a transaction arrived. `api` names it: AddPartitionsToTxn with its `partitions`,
    AddOffsetsToTxn, TxnOffsetCommit with its `offset`, or EndTxn, which `commits`."""

    correlation_id: int
    api: str
    version: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[int, ...] = ()
    offset: int | None = None
    commits: bool | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorAnswered(ConnectionEvent):
    """The response to a request of a transaction left for the client; `error` is the first of its
    error codes. EndTxn may give the next epoch."""

    correlation_id: int
    api: str
    error: int
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionalIdFenced(ConnectionEvent):
    """Another producer initialized the transactional id: the client is fenced."""


RequestEvent = ProduceRequested | ProducerIdRequested
AnswerEvent = ProduceAnswered | ProducerIdAnswered
EVENTS: Final[Mapping[str, type[ConnectionEvent]]] = {
    "Opened": ConnectionOpened,
    "Cut": ConnectionCut,
    "Closed": ConnectionClosed,
    "Produce": ProduceRequested,
    "ProduceAnswer": ProduceAnswered,
    "InitProducerId": ProducerIdRequested,
    "InitAnswer": ProducerIdAnswered,
    "Coordinator": CoordinatorRequested,
    "CoordinatorAnswer": CoordinatorAnswered,
    "Taken": TransactionalIdFenced,
}
"""The name of each event in a file."""
NAMES: Final = {kind: name for name, kind in EVENTS.items()}


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The client's report of one record to the application: an offset, or the name of an error.

    `handed_us` is the earliest time at which the application called `send`; `at_us` is the time of
    the callback, by the client's own clock, UNKNOWN if the client does not say.
    """

    at_us: int
    handed_us: int
    offset: int = -1
    error: str = ""


COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


@dataclass(frozen=True, slots=True)
class ClientTrace:
    """One recorded run. `stored` is the content of the logs when it ended, at `ended_us`; `problem`
    says why the client did not reach its end, if it did not. `ends` has the outcome of each
    transaction that the application received: COMMITTED, ABORTED or an error. `offset` is the
    committed offset of its group. `variant` is the variant of the model that judged the run when it
    was recorded, if any."""

    client: str
    plan: RunPlan
    events: tuple[ConnectionEvent, ...]
    outcomes: Mapping[Record, RecordOutcome] = field(default_factory=dict)
    stored: tuple[WireBatch, ...] = ()
    ended_us: int = 0
    problem: str = ""
    ends: Mapping[int, str] = field(default_factory=dict)
    offset: int | None = None
    variant: str = ""


# As lines


def format_trace(trace: ClientTrace) -> str:
    """The file of a run: JSON lines."""
    rows = (
        {"format": FORMAT, "version": VERSION, **header_of(trace)},
        *({"event": NAMES[type(event)]} | asdict(event) for event in trace.events),
        *(
            {"event": "Outcome", "record": record} | asdict(outcome)
            for record, outcome in sorted(trace.outcomes.items())
        ),
        *({"event": "Stored"} | asdict(batch) for batch in trace.stored),
    )
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def header_of(trace: ClientTrace) -> dict[str, Any]:
    """The header, which describes the whole run."""
    return {
        "client": trace.client,
        "ended_us": trace.ended_us,
        "problem": trace.problem,
        "ends": [list(end) for end in sorted(trace.ends.items())],
        "offset": trace.offset,
        "variant": trace.variant,
        "plan": trace.plan.to_json(),
    }


def parse_trace(text: str, where: str) -> ClientTrace:
    """The trace in the `text` of a file called `where`. Raises BadClientTrace."""
    try:
        header, *rows = [json.loads(line) for line in text.splitlines()]
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise BadClientTrace(f"{where} is no {FORMAT!r} of version {VERSION}")
        return ClientTrace(
            header["client"],
            plan_from(header["plan"]),
            tuple(parse_event(row) for row in rows if row["event"] not in ("Outcome", "Stored")),
            dict(parse_outcome(row) for row in rows if row["event"] == "Outcome"),
            tuple(parse_batch(row) for row in rows if row["event"] == "Stored"),
            header["ended_us"],
            header["problem"],
            dict(header.get("ends", ())),
            header.get("offset"),
            header.get("variant", ""),
        )
    except BadClientTrace:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BadClientTrace(f"{where} is no recorded run: {error!r}") from error


def parse_event(row: Mapping[str, Any]) -> ConnectionEvent:
    """An event of a file. Raises KeyError, TypeError."""
    fields = {name: value for name, value in row.items() if name != "event"}
    if "batches" in row:
        fields["batches"] = tuple(map(parse_batch, row["batches"]))
    if "partitions" in row:
        fields["partitions"] = tuple(
            PartitionResult(**one) if isinstance(one, dict) else one for one in row["partitions"]
        )
    return EVENTS[row["event"]](**fields)


def parse_outcome(row: Mapping[str, Any]) -> tuple[Record, RecordOutcome]:
    """A record and its outcome in a file. Raises KeyError, TypeError."""
    partition, number = row["record"]
    fields = {name: value for name, value in row.items() if name not in ("event", "record")}
    return (partition, number), RecordOutcome(**fields)


def parse_batch(row: Mapping[str, Any]) -> WireBatch:
    """A batch of a file. Raises KeyError, TypeError."""
    fields = {name: value for name, value in row.items() if name != "event"}
    return WireBatch(**fields | {"records": tuple(row["records"])})


def read_trace(path: Path) -> ClientTrace:
    """A recorded run. Raises BadClientTrace, OSError."""
    return parse_trace(path.read_text(encoding="utf-8"), str(path))


# Queries


def produce_requests(trace: ClientTrace) -> Iterator[tuple[int, ProduceRequested]]:
    """Each Produce request and its position among the events."""
    for position, event in enumerate(trace.events):
        if isinstance(event, ProduceRequested):
            yield position, event


def sent_batches(trace: ClientTrace) -> Iterator[tuple[int, WireBatch]]:
    """Each batch that was sent and the position of its request among the events."""
    for position, request in produce_requests(trace):
        yield from ((position, batch) for batch in request.batches)
