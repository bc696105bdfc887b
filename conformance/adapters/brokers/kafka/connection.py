"""A blocking client connection that keeps many requests in flight.

Kafka answers the requests of one connection in order, so a queue of requests matches the responses.
`impl.protocol` encodes and decodes the bytes.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from conformance.adapters.brokers.kafka.errors import (
    AnswerTimeout,
    ConnectionLost,
    TooManyInFlight,
    UnexpectedAnswer,
)
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames

ANSWER_TIMEOUT_MS: Final = 5_000
MAX_IN_FLIGHT: Final = 1_000
USUAL_IN_FLIGHT: Final = 50
UNNUMBERED: Final = -1


_HEAD: Final = struct.Struct(">hh")
_CHUNK_BYTES: Final = 1 << 16
_LAST_CORRELATION_ID: Final = 2**31 - 1
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # linger on, for 0 s


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request: an API, a version of it, and its fields as in `impl.protocol.schemas`."""

    api_key: int
    api_version: int
    body: Value


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """A response, with its request and the correlation id of both."""

    correlation_id: int
    request: WireRequest
    body: Value


class BrokerConnection:
    """One TCP connection; a context manager that closes it. Not thread-safe.

    `timeout_ms` limits connecting, sending a request and waiting for a response. `source` is the
    host from which it connects, "" for the system's choice. Raises ConnectionLost if the broker
    cannot be reached.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int = ANSWER_TIMEOUT_MS,
        client_id: str | None = "kafka-eos",
        source: str = "",
    ) -> None:
        self.address = (host, port)
        self._source = (source, 0)
        self.peer = f"{host}:{port}"
        self.timeout_ms = timeout_ms
        self._client_id = client_id
        self._next_correlation_id = 0
        self._asked: deque[tuple[int, WireRequest]] = deque()
        self._arrived: deque[bytes] = deque()
        self._unfinished = bytearray()
        self._connect()

    def _connect(self) -> None:
        try:
            timeout_s = self.timeout_ms / 1000
            self._socket = socket.create_connection(self.address, timeout_s, self._source)
        except OSError as error:
            raise ConnectionLost(f"{self.peer}: cannot connect: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their answers."""
        return len(self._asked)

    def send(self, api_key: int, api_version: int, body: Value, *, is_answered: bool = True) -> int:
        """Send one request and return its correlation id, without waiting.

        `is_answered` is False for a Produce with acks=0, which no broker answers. Raises
        ConnectionLost, TooManyInFlight, and `EncodeError` for a body that cannot be written.
        """
        if len(self._asked) >= MAX_IN_FLIGHT:
            raise TooManyInFlight(f"{self.peer}: {MAX_IN_FLIGHT} requests wait for answers")
        correlation_id = self._next_correlation_id
        data = frame(encode_request(api_key, api_version, correlation_id, self._client_id, body))
        self._write(data)
        self._next_correlation_id = (
            0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        )
        if is_answered:
            self._asked.append((correlation_id, WireRequest(api_key, api_version, body)))
        return correlation_id

    def receive(self, timeout_ms: int | None = None) -> WireAnswer:
        """Return the answer to the oldest unanswered request.

        `timeout_ms` is the connection's unless given. Raises AnswerTimeout, ConnectionLost,
        UnexpectedAnswer, and `DecodeError` for an answer that is no Kafka message.
        """
        if not self._asked:
            raise UnexpectedAnswer(f"{self.peer}: no request waits for an answer")
        payload = self._next_payload(self.timeout_ms if timeout_ms is None else timeout_ms)
        correlation_id, request = self._asked.popleft()
        header, body = decode_response(request.api_key, request.api_version, payload)
        if header["correlation_id"] != correlation_id:
            raise UnexpectedAnswer(
                f"{self.peer}: correlation id {header['correlation_id']} came, "
                f"{correlation_id} was next"
            )
        return WireAnswer(correlation_id, request, body)

    def ask(
        self, api_key: int, api_version: int, body: Value, timeout_ms: int | None = None
    ) -> Value:
        """Send one request on a connection with none in flight; return its answer's body.

        `timeout_ms` is the connection's unless given. Raises what `send` and `receive` raise;
        UnexpectedAnswer when others are in flight.
        """
        if self._asked:
            raise UnexpectedAnswer(f"{self.peer}: {self.in_flight} older requests come first")
        self.send(api_key, api_version, body)
        return self.receive(timeout_ms).body

    def ask_bytes(self, payload: bytes, timeout_ms: int | None = None) -> bytes:
        """As `ask`, for an API that the table of messages lacks: takes and returns whole payloads,
        headers included.

        The request has correlation id UNNUMBERED. Raises as `ask`.
        """
        if self._asked:
            raise UnexpectedAnswer(f"{self.peer}: {self.in_flight} older requests come first")
        self._write(frame(payload))
        api_key, api_version = _HEAD.unpack_from(payload)
        self._asked.append((UNNUMBERED, WireRequest(api_key, api_version, {})))
        try:
            return self._next_payload(self.timeout_ms if timeout_ms is None else timeout_ms)
        finally:
            self._asked.clear()

    def send_bytes(self, payload: bytes) -> None:
        """Send a whole payload, header included, to which no answer comes. Raises
        ConnectionLost."""
        self._write(frame(payload))

    def pipeline(
        self, requests: Iterable[WireRequest], in_flight: int = USUAL_IN_FLIGHT
    ) -> Iterator[WireAnswer]:
        """Send `requests`, at most `in_flight` ahead of the answers; yield these in order.

        Raises what `send` and `receive` raise.
        """
        for request in requests:
            if self.in_flight >= in_flight:
                yield self.receive()
            self.send(request.api_key, request.api_version, request.body)
        while self.in_flight:
            yield self.receive()

    def close(self) -> None:
        """Close the connection; answers not yet received are lost. Does nothing if it is closed
        already."""
        self._socket.close()

    def abort(self) -> None:
        """Close the connection with a reset, as a client does that dies with unread answers."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_payload(self, timeout_ms: int) -> bytes:
        deadline = time.monotonic() + timeout_ms / 1000
        while not self._arrived:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                correlation_id, request = self._asked[0]
                raise AnswerTimeout(
                    f"{self.peer}: api {request.api_key} version {request.api_version}, "
                    f"correlation id {correlation_id}: no answer in {timeout_ms} ms"
                )
            self._unfinished += self._read(left_s)
            self._arrived.extend(take_frames(self._unfinished))
        return self._arrived.popleft()

    def _write(self, data: bytes) -> None:
        self._socket.settimeout(self.timeout_ms / 1000)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionLost(f"{self.peer}: cannot send: {error}") from error

    def _read(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived; empty if `timeout_s` passes first."""
        self._socket.settimeout(timeout_s)
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            return b""
        except OSError as error:
            raise ConnectionLost(f"{self.peer}: {error}") from error
        if not chunk:
            raise ConnectionLost(f"{self.peer}: closed by the broker, {self.in_flight} in flight")
        return chunk
