"""A recording as plain data, from which trace files, pages and scripts take the bytes.

Each exchange has `says` (the request in words), `connection`, `api`, `bytes` (a template), `expect`
(fields of the answer by their place in it) and `observed` (those that differ, None if missing).
Producer ids are named P0, P1, ... and epochs of coordinators E0, ..., in the order in which answers
give them. `to` is the Metadata or FindCoordinator request that names the receiver, with the
`partition` that the receiver leads; an exchange without it may go to any broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.adapters.brokers.kafka.admin import INIT_PRODUCER_ID_REQUEST, topic_request
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.reading import leadership
from conformance.adapters.brokers.recording import RecordedExchange, Recording
from conformance.adapters.brokers.templates import batches_in, leaves, template_of
from conformance.adapters.brokers.wire import find_coordinator
from conformance.judging.masks import Row
from conformance.judging.reports.script import NotReproducible, layout_of
from conformance.judging.signatures import INDEX
from impl.protocol.control_records import read_marker
from impl.protocol.record_batch import decode_batches, decode_whole_batches
from impl.protocol.schemas import ApiKey

Fields = dict[str, Any]
Seen = dict[str, list[int]]
"""The numbers in answers of the fields in NAMED."""

JUDGED: Final = frozenset(
    {
        "error_code",
        "partition_error_code",
        "base_offset",
        "log_start_offset",
        "low_watermark",
        "producer_id",
        "producer_epoch",
        "high_watermark",
        "last_stable_offset",
        "kind",
        "base_sequence",
        "last_sequence",
        "coordinator_epoch",
        "current_txn_start_offset",
        "transaction_state",
        "committed_offset",
    }
)
"""Fields of answers that do not vary from run to run."""

ON_THE_WIRE: Final = {
    "error": "error_code",
    "state": "transaction_state",
    "sequence": "base_sequence",
    "current_txn_first_offset": "current_txn_start_offset",
    "committed": "committed_offset",
    "stable": "committed_offset",
}
"""The judge's names of fields that Kafka's messages name otherwise."""

LISTS: Final = {"log": "records", "producers": "active_producers"}
INDEXES: Final = ("index", "partition_index", "partition")
NOBODY: Final = -1
PRODUCER_ID: Final = "producer_id"
NAMED: Final = {PRODUCER_ID: "P", "coordinator_epoch": "E"}
"""Fields that vary from cluster to cluster, and the letter that their names begin with."""

LED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DELETE_RECORDS,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""The APIs that the leader of a partition serves."""
OF_GROUP: Final = frozenset({ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_FETCH})
"""The APIs that the coordinator of a group serves. The coordinator of a transactional id serves
other requests that have one."""
TOPICS: Final = frozenset({"name", "topic"})
PARTITIONS: Final = frozenset({*INDEXES, "partition_indexes"})
IDS: Final = frozenset({"transactional_id", "transactional_ids", "v3_and_below_transactional_id"})


def reproduction_of(recording: Recording) -> list[dict[str, Any]]:
    """All exchanges, with those before the trace first: topics are created, and producer ids
    requested. Raises NotReproducible if no place of an answer shows the difference."""
    seen: Seen = {**{field: [] for field in NAMED}, PRODUCER_ID: [*recording.producers]}
    names: list[str] = []
    rows = [exchange_json(one, "a", seen, names) for one in before(recording)]
    routes: dict[Any, str] = {}
    for exchange in recording.exchanges:
        route = routes.setdefault(exchange.connection, chr(ord("a") + len(routes)))
        rows.append(exchange_json(exchange, route, seen, names))
    if not any(row["observed"] for row in rows):
        raise NotReproducible("no single field of an answer shows it")
    return rows


def before(recording: Recording) -> Iterator[RecordedExchange]:
    """The exchanges that set up a trace: its topics, and producer ids."""
    configs = recording.topic_configs
    for name, partitions in sorted(topics_in(recording.exchanges).items()):
        made = {"topics": [{"name": name, "error_code": 0}]}
        yield RecordedExchange("a", topic_request(name, partitions, configs=configs), made)
    for producer_id in recording.producers:
        given = {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}
        yield RecordedExchange("a", INIT_PRODUCER_ID_REQUEST, given)


def topics_in(exchanges: Sequence[RecordedExchange]) -> dict[str, int]:
    """The topics that requests name, and the number of partitions used of each."""
    asked: dict[str, int] = {}
    for exchange in exchanges:
        for row in exchange.request.body.get("topics", ()):
            add_partitions(row, asked)
        for row in exchange.request.body.get("v3_and_below_topics", ()):
            add_partitions(row, asked)
        for marker in exchange.request.body.get("markers", ()):
            for row in marker["topics"]:
                add_partitions(row, asked)
    return {name: count for name, count in asked.items() if not name.startswith("__")}


def add_partitions(row: Mapping[str, Any], asked: dict[str, int]) -> None:
    """One topic of a request."""
    name = row.get("name") or row.get("topic")
    listed = row.get("partitions", row.get("partition_indexes", ()))
    indexes = [
        next(one[key] for key in INDEXES if key in one) if isinstance(one, Mapping) else one
        for one in listed
    ]
    if name:
        asked[name] = max([asked.get(name, 1), *(index + 1 for index in indexes)])


def exchange_json(
    exchange: RecordedExchange, route: str, seen: Seen, names: list[str]
) -> dict[str, Any]:
    """One exchange; `seen` are the numbers given so far, `names` those in use."""
    request = exchange.request
    api = api_of(request)
    template = template_of(request, seen[PRODUCER_ID], names)
    answer = {} if exchange.answer is None else on_the_wire(exchange.answer, layout_of(api))
    found = flat(answer, "", seen)
    observed = {
        place: value
        for place, value in found.items()
        if INDEX.sub("", place).rpartition(".")[2] in JUDGED
    }
    expected = dict(observed)
    for row in exchange.differing:
        expected |= expected_places(row, observed)
    return {
        "says": says(request, seen),
        "connection": route,
        "api": api,
        "bytes": template,
        **asked_of(request, names),
        "expect": expected,
        "observed": {p: observed.get(p) for p in expected if expected[p] != observed.get(p)},
    }


def api_of(request: WireRequest) -> str:
    """`PRODUCE 12`."""
    return f"{ApiKey(request.api_key).name} {request.api_version}"


def asked_of(request: WireRequest, names: list[str]) -> Fields:
    """The receiver of a request: `to`, or nothing if any broker serves it."""
    fields = [*leaves("", request.body)]

    def first(kind: frozenset[str]) -> Any:
        return next((v for name, v in fields if name in kind and v not in (None, "")), None)

    if request.api_key in LED:
        topic, partition = first(TOPICS), first(PARTITIONS)
        lookup = leadership((topic, partition)).request
        return {"to": lookup_json(lookup, names) | {"partition": partition}}
    group = request.api_key in OF_GROUP
    key = first(frozenset({"group_id"})) if group else first(IDS)
    return {"to": lookup_json(find_coordinator(key, of_group=group).request, names)} if key else {}


def lookup_json(request: WireRequest, names: list[str]) -> Fields:
    """The request whose answer names the receiver."""
    return {"api": api_of(request), "bytes": template_of(request, (), names)}


def on_the_wire(answer: Fields, layout: Mapping[str, Any]) -> Fields:
    """The fields of an answer that its version has; reading filled in the others."""
    return of_layout(answer, layout["fields"])


def of_layout(value: Fields, fields: Sequence[Any]) -> Fields:
    """The fields of a struct that are in its layout."""
    return {
        name: [of_layout(one, inner) for one in value[name]]
        if inner and isinstance(value[name], list | tuple)
        else value[name]
        for name, _, _, inner in fields
        if name in value
    }


# ---- places


def flat(value: Any, path: str, seen: Seen) -> Fields:
    """Lists each field of an answer by its place."""
    if isinstance(value, Mapping):
        return {
            place: found
            for name, inner in value.items()
            for place, found in flat(inner, f"{path}.{name}" if path else name, seen).items()
        }
    if isinstance(value, bytes) and path.endswith("records"):
        return flat([batch_fields(batch) for batch in decode_whole_batches(value)], path, seen)
    if isinstance(value, list | tuple):
        by_producer = path.endswith("active_producers")
        return {
            place: found
            for index, inner in enumerate(value)
            for place, found in flat(
                inner,
                f"{path}[{named(PRODUCER_ID, inner, seen) if by_producer else index}]",
                seen,
            ).items()
        }
    field = path.rpartition(".")[2]
    is_named = field in seen and isinstance(value, int) and value >= 0
    return {path: named(field, {field: value}, seen) if is_named else value}


def named(field: str, row: Mapping[str, Any], seen: Seen) -> str:
    """P0 for the first producer id that an answer gave, and so on."""
    known = seen[field]
    if row[field] not in known:
        known.append(row[field])
    return f"{NAMED[field]}{known.index(row[field])}"


def batch_fields(batch: Any) -> Fields:
    """A batch of a log, in the form that the script reads."""
    who = {"base_offset": batch.base_offset, "producer_id": batch.producer_id}
    who |= {"producer_epoch": batch.producer_epoch}
    marker = read_marker(batch.records[0]) if batch.is_control and batch.records else None
    if marker is not None:
        return {**who, "kind": marker.control_type.name}
    return {**who, "kind": "DATA", "base_sequence": batch.base_sequence}


def expected_places(row: Row, observed: Mapping[str, Any]) -> Fields:
    """The model's values, at the places of an answer that a row of the judge is about."""
    path, expected, _ = row
    names = [name for name in path.split(".") if name]
    inside = next((name for name in names if INDEX.sub("", name) in LISTS), "")
    if not inside:
        return plain_places(names[-1], expected, observed)
    prefix = list_prefix(inside, observed)
    if inside == names[-1] and not isinstance(expected, Mapping):
        return {place: None for place in observed if place.startswith(prefix)}
    return {
        place: value
        for place, value in parts(names[names.index(inside) + 1 :], expected, prefix)
        if place.rpartition(".")[2] in JUDGED
    }


def plain_places(name: str, expected: Any, observed: Mapping[str, Any]) -> Fields:
    """The place of a field that an answer has once, or the places of an error that it has several
    times."""
    if isinstance(expected, Mapping):
        return {
            place: value
            for inner, one in expected.items()
            for place, value in plain_places(inner, one, observed).items()
        }
    wire = ON_THE_WIRE.get(name, name)
    places = [place for place in observed if place.rpartition(".")[2].endswith(wire)]
    if wire == "error_code" and len(places) > 1:
        places = [place for place in places if observed[place]] or places[-1:]
    return {place: wire_value(wire, expected) for place in places}


def parts(names: Sequence[str], expected: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The fields of one element of a list."""
    fields = expected if isinstance(expected, Mapping) else {names[-1]: expected} if names else {}
    for name, value in fields.items():
        wire = ON_THE_WIRE.get(name, name)
        is_of_marker = wire == "base_sequence" and value is None
        if not is_of_marker:
            yield f"{prefix}.{wire}", wire_value(wire, value)


def wire_value(name: str, value: Any) -> Any:
    """The wire's value of a model's value: the model counts the fields in NAMED from 0."""
    if name in NAMED and isinstance(value, int) and value != NOBODY:
        return f"{NAMED[name]}{value}"
    return list(value) if isinstance(value, tuple) else value


def list_prefix(element: str, observed: Mapping[str, Any]) -> str:
    """The place of `log[1]` or `producers[0]` in an answer."""
    name, _, index = element.rstrip("]").partition("[")
    key = f"P{index}" if name == "producers" else index
    wire = LISTS[name]
    heads = {place[: place.index(wire)] for place in observed if f"{wire}[" in place}
    rows = {place.rpartition(".")[0] for place in observed if place.endswith("error_code")}
    head = min(heads) if heads else f"{max(rows, key=len)}."
    return f"{head}{wire}[{key}]"


# ---- words


def says(request: WireRequest, seen: Seen) -> str:
    """A request in words: its API, its sender, and its subject."""
    api = ApiKey(request.api_key)
    title = "".join(part.capitalize() for part in api.name.split("_"))
    told = [f"{title} v{request.api_version}"]
    known = seen[PRODUCER_ID]
    fields = flat(request.body, "", {PRODUCER_ID: [*known]})
    for place, value in fields.items():
        name = INDEX.sub("", place).rpartition(".")[2].removeprefix("v3_and_below_")
        if name in TOLD and value not in (None, NOBODY):
            told.append(f"{TOLD[name]} {value}" if TOLD[name] else str(value))
    for batch in batches_in(request.body):
        [one] = decode_batches(batch)
        who = f"P{known.index(one.producer_id)}" if one.producer_id in known else "no producer"
        last = one.base_sequence + len(one.records) - 1
        told.append(f"{who} epoch {one.producer_epoch} sequences {one.base_sequence} to {last}")
    return ", ".join(told)


TOLD: Final = {
    "producer_id": "",
    "producer_epoch": "epoch",
    "committed": "committed",
    "transaction_result": "commit",
    "committed_offset": "offset",
    "fetch_offset": "from",
    "offset": "up to",
    "index": "partition",
    "partition_index": "partition",
    "coordinator_epoch": "coordinator epoch",
}
