"""The requests that a broker received, in order, as text: what a failed test prints.

Three rules:

1. The last `REQUESTS_KEPT` requests are kept, with `BYTES_KEPT` of a request and of its answer; a
   longer one is shown without its fields.
2. Nothing is decoded before the text is asked for.
3. Equal requests in a row are one line, with their number.
4. A request that has to wait, as a Fetch waits for records, says so: for how long until now, or
   after how long it was answered. One that a fault keeps from its answer names the fault.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from impl.broker.apis import API_NAMES
from impl.broker.cluster import Cluster
from impl.broker.injected_faults import NoteFault
from impl.broker.listeners import Answer
from impl.broker.outputs import Close, Output, Response
from impl.broker.topics import Topic
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.fields import NO_PRODUCER_ID
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_request, decode_response
from impl.protocol.schemas import ApiKey

REQUESTS_KEPT: Final = 300
BYTES_KEPT: Final = 1 << 14
LINES: Final = 50
LONG_MS: Final = 10
"""How long a request waits before its line says so."""
LINE_CHARS: Final = 200

_OLD_PREFIX: Final = "v3_and_below_"
_FIELDS: Final = (
    "transactional_id",
    "v3_and_below_transactional_id",
    "group_id",
    "groups_names",
    "member_id",
    "generation_id",
    "key",
    "coordinator_keys",
    "producer_id",
    "v3_and_below_producer_id",
    "producer_epoch",
    "v3_and_below_producer_epoch",
    "committed",
    "transaction_result",
    "acks",
)
"""Fields that a line shows, where they say something."""

_SAY_NOTHING: Final[tuple[object, ...]] = ("", -1, None, [])
_PARTITION: Final = ("index", "partition_index", "partition")


class _Entry:
    """One request: when it came, and what the connection got, and when; None until then, or for
    ever. `fault` affects it; with `is_lost` nothing will come."""

    __slots__ = ("_clock_ms", "answered_ms", "asked_ms", "fault", "is_lost", "output", "payload")

    def __init__(self, clock_ms: Callable[[], int], payload: bytes) -> None:
        self._clock_ms = clock_ms
        self.asked_ms = clock_ms()
        self.answered_ms: int | None = None
        self.payload = payload[:BYTES_KEPT]
        self.output: Output | None = None
        self.fault: object = None
        self.is_lost = False

    @property
    def waited_ms(self) -> int:
        """Until the answer, or until now; 0 for one that was answered at once."""
        if self.answered_ms is not None:
            return self.answered_ms - self.asked_ms
        return 0 if self.output is not None else self._clock_ms() - self.asked_ms

    def note_fault(self, fault: object) -> None:
        """This fault affects it."""
        self.fault = fault

    def finish(self, output: Output) -> None:
        """Keep what the connection got."""
        if isinstance(output, Response) and output.payload is not None:
            output = Response(None, output.payload[:BYTES_KEPT])
        self.output = output

    def finish_later(self, answer: asyncio.Future[Output]) -> None:
        """As `finish`, if it got anything."""
        if answer.cancelled() or answer.exception() is not None:
            self.is_lost = True
        else:
            self.finish(answer.result())
            self.answered_ms = self._clock_ms()


class Timeline:
    """Records requests; `format` has a line for each, with seconds since the first that is kept."""

    def __init__(self, clock_ms: Callable[[], int], cluster: Cluster) -> None:
        self._clock_ms = clock_ms
        self._cluster = cluster
        self._entries: deque[_Entry] = deque(maxlen=REQUESTS_KEPT)

    def intercept(self, payload: bytes, handle: Callable[[bytes, NoteFault], Answer]) -> Answer:
        """Handle a request, and record it."""
        entry = _Entry(self._clock_ms, payload)
        self._entries.append(entry)
        answer = handle(payload, entry.note_fault)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(entry.finish_later)
        else:
            entry.finish(answer)
        return answer

    def format(self) -> str:
        """The last `LINES` lines: time, client, API, fields -> answer."""
        told = [(entry, self._format_entry(entry)) for entry in self._entries]
        lines = []
        for text, group in groupby(told, key=lambda row: row[1]):
            equal = [entry for entry, _text in group]
            begun_ms = equal[0].asked_ms - self._entries[0].asked_ms
            repeated = f" ({len(equal)} times)" if len(equal) > 1 else ""
            lines.append(f"{begun_ms / 1000:8.3f} s  {text}{_format_wait(equal)}{repeated}")
        left_out = len(lines) - LINES
        first = [f"... {left_out} lines before"] if left_out > 0 else []
        return "\n".join(first + lines[-LINES:])

    def _format_entry(self, entry: _Entry) -> str:
        request = " ".join(self._request_words(entry.payload))
        answer = " ".join(self._answer_words(entry))
        return f"{request[:LINE_CHARS]} -> {answer[:LINE_CHARS]}"

    def _request_words(self, payload: bytes) -> Iterator[str]:
        try:
            header, body = decode_request(payload)
        except DecodeError:
            yield _format_api(int.from_bytes(payload[:2], "big"))
            return
        yield header["client_id"] or "-"
        yield _format_api(header["api_key"])
        yield from self._fields_of(body)

    def _answer_words(self, entry: _Entry) -> Iterator[str]:
        output = entry.output
        if output is None:
            yield _format_missing(entry)
        elif isinstance(output, Close):
            yield f"connection closed: {output.reason}"
        elif not isinstance(output, Response) or output.payload is None:
            yield "none expected"
        else:
            yield from self._body_words(entry.payload, output.payload)

    def _body_words(self, request: bytes, payload: bytes) -> Iterator[str]:
        api_key, version = (int.from_bytes(request[at : at + 2], "big") for at in (0, 2))
        try:
            body = decode_response(api_key, version, payload)[1]
        except DecodeError:
            yield f"{len(payload)} bytes or more"
            return
        codes = dict.fromkeys(code for code in _errors_in(body) if code)
        yield ", ".join(ErrorCode.of(code).name for code in codes) or "ok"
        yield from self._fields_of({name: body[name] for name in _FIELDS if name in body})

    def _fields_of(self, body: Value) -> Iterator[str]:
        """The fields of a struct that say something, then those of the structs in it."""
        for name in _FIELDS:
            if body.get(name) not in _SAY_NOTHING:
                yield f"{name.removeprefix(_OLD_PREFIX)}={body[name]}"
        for row in _structs_in(body):
            if "partitions" in row or "partition_indexes" in row:
                yield from self._partitions_of(row)
            else:
                yield from self._fields_of(row)

    def _partitions_of(self, row: Value) -> Iterator[str]:
        name = row.get("name") or row.get("topic") or self._name_of(row.get("topic_id"))
        for partition in row.get("partitions") or row.get("partition_indexes") or ():
            if isinstance(partition, int):
                yield f"{name}-{partition}"
            else:
                index = next(partition[key] for key in _PARTITION if key in partition)
                yield f"{name}-{index}{_format_batch(partition.get('records'))}"

    def _name_of(self, topic_id: bytes | None) -> str:
        topic = self._cluster.topics.find(topic_id or b"")
        return topic.name if isinstance(topic, Topic) else "?"


def _format_missing(entry: _Entry) -> str:
    """Why there is no answer."""
    if entry.fault is not None:
        return f"no answer: {entry.fault} was injected"
    return "no answer" if entry.is_lost else "waits"


def _format_wait(equal: Sequence[_Entry]) -> str:
    """How long requests waited that have been answered, or have waited until now."""
    shortest, longest = (choose(entry.waited_ms for entry in equal) for choose in (min, max))
    if longest < LONG_MS or equal[0].is_lost:
        return ""
    relation = "for" if equal[0].output is None else "after"
    return f" {relation} {shortest}{f' to {longest}' if longest > shortest else ''} ms"


def _format_api(number: int) -> str:
    return API_NAMES[ApiKey(number)] if number in set(ApiKey) else f"api key {number}"


def _format_batch(records: bytes | None) -> str:
    """The numbers of a producer's batch."""
    from impl.protocol.record_batch import read_header

    with suppress(DecodeError):
        header = read_header(records or b"")
        count = f"{header.records_count} records"
        if header.producer_id == NO_PRODUCER_ID:
            return f" ({count})"
        numbers = f"{header.producer_id}, epoch {header.producer_epoch}"
        return f" ({count}, producer id {numbers}, sequence {header.base_sequence})"
    return ""


def _structs_in(body: Value) -> Iterator[Value]:
    for value in body.values():
        for row in value if isinstance(value, list) else ():
            if isinstance(row, dict):
                yield row


def _errors_in(body: Value) -> Iterator[int]:
    yield from (value for name, value in body.items() if name.endswith("error_code"))
    for row in _structs_in(body):
        yield from _errors_in(row)
