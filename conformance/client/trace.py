"""What was seen of one run: the requests of a client, what it was answered, what it told.

A file is JSON lines: a header with format, version, client and plan, then one event a line, in
the order in which the proxy saw and did things; `at_us` counts from the beginning of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.client.plan import RunPlan

FORMAT: Final = "kafka-eos client run"
VERSION: Final = 1


class BadClientTrace(ValueError):
    """A file that is no recorded run; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch as a client sent it. `records` are the numbers that its records carry."""

    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Produce:
    """A Produce request arrived."""

    at_us: int
    connection: int
    correlation_id: int
    batches: tuple[SentBatch, ...]


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """An InitProducerId request arrived, with the id and epoch that it wants raised, or -1."""

    at_us: int
    connection: int
    correlation_id: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """What a Produce answer says of one partition."""

    partition: int
    error: int
    base_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """The answer to a Produce left for the client."""

    at_us: int
    connection: int
    correlation_id: int
    partitions: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class InitAnswer:
    """The answer to an InitProducerId left for the client."""

    at_us: int
    connection: int
    correlation_id: int
    error: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The client has connected to the node, or only to where it looks for nodes."""

    at_us: int
    connection: int
    to_node: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """The proxy has ended a connection: it sends nothing more, and reads what is on its way."""

    at_us: int
    connection: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The client's end of a connection is closed."""

    at_us: int
    connection: int


Event = Produce | InitProducerId | ProduceAnswer | InitAnswer | Opened | Cut | Closed
EVENTS: Final = {
    kind.__name__: kind
    for kind in (Produce, InitProducerId, ProduceAnswer, InitAnswer, Opened, Cut, Closed)
}

Record = tuple[int, int]
"""A partition, and the number of a record in it."""


UNKNOWN: Final = -1
UNFINISHED: Final = "the client was not done in time"
"""The problem of a run that was not waited for to its end: what was seen of it is judged."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the client told the application of one record: an offset, or the error's name.

    `handed_us` is when the application handed it over, at the earliest; `at_us` when it was told,
    by the client's own clock, UNKNOWN if it does not say.
    """

    at_us: int
    handed_us: int
    offset: int = -1
    error: str = ""


@dataclass(frozen=True, slots=True)
class ClientTrace:
    """One run as it was seen. `stored` is what the logs held when it ended, at `ended_us`;
    `problem` says what kept it from its end, if anything did."""

    client: str
    plan: RunPlan
    events: tuple[Event, ...]
    outcomes: Mapping[Record, Outcome] = field(default_factory=dict)
    stored: tuple[SentBatch, ...] = ()
    ended_us: int = 0
    problem: str = ""


# As lines


def lines(trace: ClientTrace) -> list[str]:
    """The trace as lines of JSON."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "client": trace.client,
        "ended_us": trace.ended_us,
        "problem": trace.problem,
        "plan": trace.plan.to_json(),
    }
    events = [{"event": type(event).__name__} | asdict(event) for event in trace.events]
    told = [
        {"event": "Outcome", "record": record} | asdict(outcome)
        for record, outcome in sorted(trace.outcomes.items())
    ]
    stored = [{"event": "Stored"} | asdict(batch) for batch in trace.stored]
    return [json.dumps(row, separators=(",", ":")) for row in (header, *events, *told, *stored)]


def parsed(text: str, where: str) -> ClientTrace:
    """The trace that `lines` wrote. Raises BadClientTrace."""
    try:
        header, *rows = [json.loads(line) for line in text.splitlines()]
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise BadClientTrace(f"{where} is no {FORMAT!r} of version {VERSION}")
        outcomes, events, stored = {}, [], []
        for row in rows:
            kind = row.pop("event")
            if kind == "Outcome":
                partition, number = row.pop("record")
                outcomes[partition, number] = Outcome(**row)
            elif kind == "Stored":
                stored.append(batch_from(row))
            else:
                events.append(event_from(kind, row))
        plan = RunPlan.from_json(header["plan"])
        return ClientTrace(
            header["client"],
            plan,
            tuple(events),
            outcomes,
            tuple(stored),
            header["ended_us"],
            header["problem"],
        )
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, BadClientTrace):
            raise
        raise BadClientTrace(f"{where} is no recorded run: {error!r}") from error


def batch_from(row: dict[str, Any]) -> SentBatch:
    """A batch of a file. Raises KeyError, TypeError."""
    return SentBatch(**(row | {"records": tuple(row["records"])}))


def event_from(kind: str, row: dict[str, Any]) -> Event:
    """One event of a file. Raises KeyError, TypeError."""
    if "batches" in row:
        row["batches"] = tuple(batch_from(batch) for batch in row["batches"])
    if "partitions" in row:
        row["partitions"] = tuple(PartitionAnswer(**p) for p in row["partitions"])
    event: Event = EVENTS[kind](**row)
    return event


def read(path: Path) -> ClientTrace:
    """A recorded run. Raises BadClientTrace, OSError."""
    return parsed(path.read_text(encoding="utf-8"), str(path))
