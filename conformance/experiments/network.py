"""The network between a client and a broker: it loses requests and answers, or holds answers.

Nothing is ever sent twice, and no answer is made up. A record is known by its name, the first
letter of its value; a batch has one record.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Condition, Thread
from typing import Final, NamedTuple, Self, cast

from conformance.client.proxy import identity, rows_of
from conformance.kafka.errors import RequestRefused
from conformance.kafka.recipe import HOST
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response, encode_response
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey
from proofs.say import note

AWAIT_TIMEOUT_S: Final = 60.0
SILENT: Final = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
"""Requests that are not worth a line."""
ADDRESSED: Final = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
"""Answers that say where brokers are."""

_CHUNK_BYTES: Final = 1 << 16
_LOOK_S: Final = 0.05


class ClientBatch(NamedTuple):
    """A batch as a client sent it."""

    record: str
    producer_id: int
    producer_epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.record} {self.producer_id}:{self.producer_epoch}#{self.sequence}"


class ClientNetwork(ThreadingTCPServer):
    """Listens for a client of the broker at an address; a context manager.

    `lost_requests`, `lost_answers` and `held_answers` are names of records, to be changed by
    `change`; `sent` are the batches of the client, `answered` the records that the broker has
    answered.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, broker: tuple[str, int]) -> None:
        super().__init__((HOST, 0), _Connection)
        self.broker = broker
        self.changed = Condition()
        self.lost_requests: set[str] = set()
        self.lost_answers: set[str] = set()
        self.held_answers: set[str] = set()
        self.sent: list[ClientBatch] = []
        self.answered: set[str] = set()
        self.asked: list[str] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

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

    def takes(self, request: bytes) -> bool:
        """Note a request; whether it reaches the broker."""
        header, body = decode_request(request)
        key = ApiKey(header["api_key"])
        batches = list(_batches(body)) if key is ApiKey.PRODUCE else []
        with self.changed:
            self.sent += batches
            self.asked.append(key.name)
            self.changed.notify_all()
        is_lost = any(batch.record in self.lost_requests for batch in batches)
        if key not in SILENT:
            numbers = [
                f"{b.record} {b.producer_id}:{b.producer_epoch}#{b.sequence}" for b in batches
            ]
            note(f"  {key.name} {', '.join(numbers)}{', lost' * is_lost}")
        return not is_lost

    def delivers(self, request: bytes, answer: bytes) -> bytes | None:
        """The answer as the client receives it, once it does; None if it does not."""
        header, asked = decode_request(request)
        key, version, correlation_id = identity(header)
        _, body = decode_response(key, version, answer)
        if key in ADDRESSED:
            self._readdress(body)
            return encode_response(key, version, correlation_id, body)
        batches = list(_batches(asked)) if key == ApiKey.PRODUCE else []
        records = {batch.record for batch in batches}
        is_lost = bool(records & self.lost_answers)
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
        """Whether the answer about a batch is held: as its record was sent first."""
        first = {sent.record: sent for sent in reversed(self.sent)}
        return any(b.record in self.held_answers and b == first[b.record] for b in batches)

    def _readdress(self, body: Value) -> None:
        """All brokers are where the network listens."""
        for row in (*(body.get("brokers") or ()), *(body.get("coordinators") or ()), body):
            if row.get("host"):
                row["host"], row["port"] = HOST, self.port

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(_LOOK_S,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.change(self.held_answers, set())
        self.shutdown()
        self.server_close()


class _Connection(BaseRequestHandler):
    """One connection of a client, and the one behind it. If either ends, both do."""

    request: socket.socket

    def handle(self) -> None:
        """Pass requests on."""
        network = cast(ClientNetwork, self.server)
        waiting: deque[bytes] = deque()
        with suppress(OSError), socket.create_connection(network.broker) as broker:
            Thread(target=self._pass_back, args=(network, broker, waiting), daemon=True).start()
            for request in _payloads(self.request):
                if network.takes(request):
                    waiting.append(request)
                    broker.sendall(frame(request))

    def _pass_back(
        self, network: ClientNetwork, broker: socket.socket, waiting: deque[bytes]
    ) -> None:
        with suppress(OSError):
            for payload in _payloads(broker):
                answer = network.delivers(waiting.popleft(), payload)
                if answer is not None:
                    self.request.sendall(frame(answer))
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)


def _payloads(connection: socket.socket) -> Iterator[bytes]:
    unfinished = bytearray()
    while chunk := connection.recv(_CHUNK_BYTES):
        unfinished += chunk
        yield from take_frames(unfinished)


def _batches(body: Value) -> Iterator[ClientBatch]:
    for _, row in rows_of(body):
        for batch in decode_batches(row["records"] or b""):
            name = (batch.records[0].value or b"?")[:1].decode()
            yield ClientBatch(name, batch.producer_id, batch.producer_epoch, batch.base_sequence)


def _errors(value: Value) -> Iterator[str]:
    """The errors of an answer, wherever they stand, and the producer id that it gives."""
    for name, field in value.items():
        if name == "error_code":
            yield ErrorCode(field).name
        elif name == "producer_id" and field >= 0:
            yield f"{field}:{value['producer_epoch']}"
        elif isinstance(field, list):
            for row in field:
                yield from _errors(row) if isinstance(row, dict) else ()
