"""The network between a client and a broker: it loses requests and answers, or delays answers.

A record has the first letter of its value as its name; a batch has one record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.recipe import HOST
from conformance.adapters.brokers.kafka.request_proxy import RequestProxy
from conformance.adapters.clients.proxy import identity, rows_of
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_request, decode_response, encode_response
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey
from proofs.say import note

AWAIT_TIMEOUT_S: Final = 60.0
SILENT: Final = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
"""Requests that are left out of the story's text."""
ADDRESSED: Final = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
"""Answers that have the addresses of brokers."""


class ClientBatch(NamedTuple):
    """A batch that a client sent."""

    record: str
    producer_id: int
    producer_epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.record} {self.producer_id}:{self.producer_epoch}#{self.sequence}"


class ClientNetwork(RequestProxy):
    """The network of a client of the broker at an address.

    `lost_requests`, `lost_answers`, `held_answers` and `late_errors` are names of records; `change`
    changes them. `sent` has the batches of the client, `answered` the records that the broker has
    answered.
    """

    def __init__(self, broker: tuple[str, int]) -> None:
        super().__init__(0, broker)
        self.lost_requests: set[str] = set()
        self.lost_answers: set[str] = set()
        self.held_answers: set[str] = set()
        self.late_errors: set[str] = set()
        self.sent: list[ClientBatch] = []
        self.answered: set[str] = set()
        self.asked: list[str] = []

    def change(self, names: set[str], to: set[str]) -> None:
        """Replace one of the sets of names."""
        with self.changed:
            names.clear()
            names |= to
            self.changed.notify_all()

    def await_true(self, holds: Callable[[], bool], problem: str) -> None:
        """Wait for the client or the broker. Raises RequestRefused after AWAIT_TIMEOUT_S."""
        with self.changed:
            if not self.changed.wait_for(holds, AWAIT_TIMEOUT_S):
                raise RequestRefused(problem)

    def release(self) -> None:
        """Hold no answer any more."""
        self.change(self.held_answers, set())

    def take_request(self, request: bytes) -> bool:
        """Note a request; returns whether it reaches the broker."""
        header, body = decode_request(request)
        key = ApiKey(header["api_key"])
        batches = list(_batches(body)) if key is ApiKey.PRODUCE else []
        with self.changed:
            self.sent += batches
            self.asked.append(key.name)
            self.changed.notify_all()
        is_lost = any(batch.record in self.lost_requests for batch in batches)
        if key not in SILENT:
            note(f"  {key.name} {', '.join(map(str, batches))}{', lost' * is_lost}")
        return not is_lost

    def take_answer(self, request: bytes, answer: bytes) -> bytes | None:
        """The answer that the client receives; returns once it may have it. None if the answer is
        lost."""
        header, asked = decode_request(request)
        key, version, correlation_id = identity(header)
        _, body = decode_response(key, version, answer)
        if key in ADDRESSED:
            self._readdress(body)
            return encode_response(key, version, correlation_id, body)
        batches = list(_batches(asked)) if key == ApiKey.PRODUCE else []
        records = {batch.record for batch in batches}
        is_lost = bool(records & self.lost_answers)
        if records & self.late_errors:
            self.change(self.late_errors, self.late_errors - records)
            for _, row in rows_of(body):
                row["error_code"] = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            answer = encode_response(key, version, correlation_id, body)
        if key not in SILENT:
            note(
                f"    {' '.join(records)} {', '.join(_errors(body)) or 'NONE'}{', lost' * is_lost}"
            )
        with self.changed:
            self.answered |= records
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self._holds(batches))
        return None if is_lost else answer

    def _holds(self, batches: Iterable[ClientBatch]) -> bool:
        """Whether the answer about a batch is held: that to the first request with its record."""
        first = {sent.record: sent for sent in reversed(self.sent)}
        return any(b.record in self.held_answers and b == first[b.record] for b in batches)

    def _readdress(self, body: Value) -> None:
        """Replace all brokers' addresses by the network's."""
        for row in (*(body.get("brokers") or ()), *(body.get("coordinators") or ()), body):
            if row.get("host"):
                row["host"], row["port"] = HOST, self.port


def _batches(body: Value) -> Iterator[ClientBatch]:
    for _, row in rows_of(body):
        for batch in decode_batches(row["records"] or b""):
            name = (batch.records[0].value or b"?")[:1].decode()
            yield ClientBatch(name, batch.producer_id, batch.producer_epoch, batch.base_sequence)


def _errors(value: Value) -> Iterator[str]:
    """The errors of an answer, at any place, and the producer id that it gives."""
    for name, field in value.items():
        if name == "error_code":
            yield ErrorCode(field).name
        elif name == "producer_id" and field >= 0:
            yield f"{field}:{value['producer_epoch']}"
        elif isinstance(field, list):
            for row in field:
                yield from _errors(row) if isinstance(row, dict) else ()
