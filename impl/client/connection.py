"""One connection to a broker: it matches answers to requests.

1. Answers arrive in the order of the requests; an answer out of order, or one that cannot be
   decoded, closes the connection.
2. When a connection closes, its requests in flight fail, once.

Theory of operation: `send` writes a request and keeps the callback of its answer, which the
transport has called while it reads: `receive`. Source: `NetworkClient` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from impl.client.transport import Network, Transport
from impl.protocol.errors import ProtocolError
from impl.protocol.messages import decode_response, encode_request
from impl.settings import INT_MAX

_log = logging.getLogger(__name__)

Body = Mapping[str, Any]
"""A message as `impl.protocol.messages` reads and writes it."""


class _InFlightRequest(NamedTuple):
    """A request without an answer; its callback gets None if the connection closes."""

    api_key: int
    api_version: int
    correlation_id: int
    on_answer: Callable[[Body | None], None]


class Connection:
    """A connection in use, and its `Receiver`. Attributes: `is_closed`."""

    def __init__(self, client_id: str, address: str) -> None:
        """One that `open` has still to open."""
        self._address = address
        self._transport: Transport | None = None
        self._client_id = client_id
        self._correlation_id = 0
        self._in_flight: deque[_InFlightRequest] = deque()
        self._on_closed: Callable[[], None] | None = None
        self.is_closed = False

    @classmethod
    async def open(cls, network: Network, host: str, port: int, client_id: str) -> Connection:
        """Open a connection. Raises `OSError`."""
        connection = cls(client_id, f"{host}:{port}")
        transport = await network.connect(host, port, connection)
        connection._transport = transport
        if connection.is_closed:  # it broke meanwhile
            transport.close()
        return connection

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Call this when the connection closes, after the callbacks of its requests."""
        self._on_closed = callback

    def send(
        self,
        api_key: int,
        api_version: int,
        body: Body,
        on_answer: Callable[[Body | None], None] | None,
    ) -> None:
        """Send a request; None for one without an answer. Raises `EncodeError`."""
        self._correlation_id = (self._correlation_id + 1) & INT_MAX
        payload = encode_request(
            api_key, api_version, self._correlation_id, self._client_id, dict(body)
        )
        if on_answer is not None:
            self._in_flight.append(
                _InFlightRequest(api_key, api_version, self._correlation_id, on_answer)
            )
        if self._transport is not None:
            self._transport.send(payload)

    async def request(self, api_key: int, api_version: int, body: Body) -> Body:
        """Send a request and wait for its answer. Raises `ConnectionError`, `EncodeError`."""
        if self.is_closed:
            raise ConnectionResetError("the connection is closed")
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Body | None) -> None:
            if future.done():
                return
            if answer is None:
                future.set_exception(ConnectionResetError("the connection is closed"))
            else:
                future.set_result(answer)

        self.send(api_key, api_version, body, on_answer)
        return await future

    # ---- what the transport calls

    def receive(self, payload: bytes) -> None:
        """An answer: pass it to the callback of its request."""
        if self.is_closed:
            return
        try:
            self._process_answer(payload)
        except (OSError, ProtocolError) as error:
            self.lose(error)
        except BaseException:
            self.close()
            raise

    def lose(self, cause: Exception) -> None:
        """The connection broke, or its answers cannot be understood."""
        if self.is_closed:
            return
        if isinstance(cause, OSError):
            _log.info("the connection to %s broke: %s", self._address, cause)
        else:
            _log.warning("closes the connection to %s: %s", self._address, cause)
        self.close()

    def _process_answer(self, payload: bytes) -> None:
        if not self._in_flight:
            raise ConnectionResetError("an answer without a request")
        request = self._in_flight[0]
        header, body = decode_response(request.api_key, request.api_version, payload)
        if header["correlation_id"] != request.correlation_id:
            raise ConnectionResetError("an answer out of order")
        self._in_flight.popleft()
        request.on_answer(body)

    async def wait_closed(self) -> None:
        """Wait until nothing is left of the connection, after `close`."""
        if self._transport is not None:
            await self._transport.wait_closed()

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()
        left, self._in_flight = self._in_flight, deque()
        for request in left:
            request.on_answer(None)
        if self._on_closed is not None:
            self._on_closed()
