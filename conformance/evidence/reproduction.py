"""A recording as plain data: what trace files, pages and scripts have of the bytes.

Each exchange has `says` (what is sent), `connection`, `api`, `bytes` (a template), `expect` (fields
of the answer by their place in it) and `observed` (those of them that differ, None where nothing
is). Producer ids are P0, P1, ...: as answers give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from conformance.evidence.recording import NotReproducible, RecordedExchange, Recording
from conformance.evidence.script import layout_of
from conformance.evidence.templates import batches_in, template_of
from conformance.kafka.admin import INIT_PRODUCER_ID_REQUEST, topic_request
from conformance.kafka.connection import WireRequest
from conformance.masks import Row
from conformance.signatures import INDEX
from conformance.transactions.wire import find_coordinator
from impl.protocol.control_records import read_marker
from impl.protocol.record_batch import decode_batches, decode_whole_batches
from impl.protocol.schemas import ApiKey

Fields = dict[str, Any]

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
"""Fields of answers that do not differ from run to run."""

ON_THE_WIRE: Final = {
    "error": "error_code",
    "state": "transaction_state",
    "sequence": "base_sequence",
    "current_txn_first_offset": "current_txn_start_offset",
    "committed": "committed_offset",
    "stable": "committed_offset",
}
"""What the judge calls otherwise than Kafka's messages do."""

LISTS: Final = {"log": "records", "producers": "active_producers"}
INDEXES: Final = ("index", "partition_index", "partition")
NOBODY: Final = -1


def reproduction_of(recording: Recording) -> list[dict[str, Any]]:
    """All exchanges, those before the trace first: topics are made, and producer ids asked for that
    the trace is given. Raises NotReproducible if no place of an answer shows the difference."""
    known = list(recording.producers)
    names: list[str] = []
    rows = [exchange_json(one, "a", known, names) for one in before(recording)]
    routes: dict[Any, str] = {}
    for exchange in recording.exchanges:
        route = routes.setdefault(exchange.connection, chr(ord("a") + len(routes)))
        rows.append(exchange_json(exchange, route, known, names))
    if not any(row["observed"] for row in rows):
        raise NotReproducible("no single field of an answer shows it")
    return rows


def before(recording: Recording) -> Iterator[RecordedExchange]:
    """What a trace finds: its topics, coordinators, and producer ids."""
    configs = recording.topic_configs
    for name, partitions in sorted(topics_in(recording.exchanges).items()):
        made = {"topics": [{"name": name, "error_code": 0}]}
        yield RecordedExchange("a", topic_request(name, partitions, configs=configs), made)
    ids = {str(e.request.body.get("transactional_id") or "") for e in recording.exchanges} - {""}
    for name in sorted(ids):
        yield RecordedExchange("a", find_coordinator(name).request, {"error_code": 0})
    for producer_id in recording.producers:
        given = {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}
        yield RecordedExchange("a", INIT_PRODUCER_ID_REQUEST, given)


def topics_in(exchanges: Sequence[RecordedExchange]) -> dict[str, int]:
    """The topics that requests name, and how many partitions they ask of each."""
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
    exchange: RecordedExchange, route: str, known: list[int], names: list[str]
) -> dict[str, Any]:
    """One exchange; `known` are the producer ids that were given so far, `names` those in use."""
    request = exchange.request
    api = f"{ApiKey(request.api_key).name} {request.api_version}"
    template = template_of(request, known, names)
    answer = {} if exchange.answer is None else on_the_wire(exchange.answer, layout_of(api))
    found = flat(answer, "", known)
    observed = {
        place: value
        for place, value in found.items()
        if INDEX.sub("", place).rpartition(".")[2] in JUDGED
    }
    expected = dict(observed)
    for row in exchange.differing:
        expected |= expected_places(row, observed)
    return {
        "says": says(request, known),
        "connection": route,
        "api": api,
        "bytes": template,
        "expect": expected,
        "observed": {p: observed.get(p) for p in expected if expected[p] != observed.get(p)},
    }


def on_the_wire(answer: Fields, layout: Mapping[str, Any]) -> Fields:
    """The fields of an answer that its version has: others were filled in when it was read."""
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


def flat(value: Any, path: str, known: list[int]) -> Fields:
    """Each field of an answer by its place."""
    if isinstance(value, Mapping):
        return {
            place: found
            for name, inner in value.items()
            for place, found in flat(inner, f"{path}.{name}" if path else name, known).items()
        }
    if isinstance(value, bytes) and path.endswith("records"):
        return flat([batch_fields(batch) for batch in decode_whole_batches(value)], path, known)
    if isinstance(value, list | tuple):
        by_producer = path.endswith("active_producers")
        return {
            place: found
            for index, inner in enumerate(value)
            for place, found in flat(
                inner,
                f"{path}[{named(inner['producer_id'], known) if by_producer else index}]",
                known,
            ).items()
        }
    if path.endswith("producer_id") and isinstance(value, int) and value >= 0:
        return {path: named(value, known)}
    return {path: value}


def named(producer_id: int, known: list[int]) -> str:
    """P0 for the first producer id that an answer gave."""
    if producer_id not in known:
        known.append(producer_id)
    return f"P{known.index(producer_id)}"


def batch_fields(batch: Any) -> Fields:
    """A batch of a log, as the script sees it."""
    who = {"base_offset": batch.base_offset, "producer_id": batch.producer_id}
    who |= {"producer_epoch": batch.producer_epoch}
    marker = read_marker(batch.records[0]) if batch.is_control and batch.records else None
    if marker is not None:
        return {**who, "kind": marker.control_type.name}
    return {**who, "kind": "DATA", "base_sequence": batch.base_sequence}


def expected_places(row: Row, observed: Mapping[str, Any]) -> Fields:
    """What the model says, at the places of an answer that a row of the judge is about."""
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
    """A field that an answer has once, or an error that it may have in several places."""
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
    """A value of the model: producer ids by their names."""
    if name == "producer_id" and isinstance(value, int) and value != NOBODY:
        return f"P{value}"
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


def says(request: WireRequest, known: Sequence[int]) -> str:
    """A request for people: its API, who asks, and about what."""
    api = ApiKey(request.api_key)
    title = "".join(part.capitalize() for part in api.name.split("_"))
    told = [f"{title} v{request.api_version}"]
    fields = flat(request.body, "", list(known))
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
