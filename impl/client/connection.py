"""One connection to a broker: each answer goes to its request.

1. Answers come in the order of the requests; one that is not the next, or cannot be read, ends the
   connection.
2. A connection ends once, and says so once, with the requests that were not answered.

Theory of operation: `send` writes a request and keeps what is to be called with its answer; `run`
reads until the connection ends. Source: `NetworkClient` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from impl.client.transport import Transport
from impl.protocol.errors import ProtocolError
from impl.protocol.messages import decode_response, encode_request
from impl.settings import INT_MAX

Body = Mapping[str, Any]
"""A message as `impl.protocol.messages` reads and writes it."""


class _Open(NamedTuple):
    """A request that awaits its answer; None instead of the answer if it never comes."""

    api_key: int
    api_version: int
    correlation_id: int
    on_answer: Callable[[Body | None], None]


class Connection:
    """A connection in use. Attributes: `is_closed`."""

    def __init__(self, transport: Transport, client_id: str) -> None:
        self._transport = transport
        self._client_id = client_id
        self._correlation_id = 0
        self._open: deque[_Open] = deque()
        self._on_closed: Callable[[], None] | None = None
        self.is_closed = False

    def on_closed(self, told: Callable[[], None]) -> None:
        """Call this when the connection ends; its open requests have been told then."""
        self._on_closed = told

    def send(
        self,
        api_key: int,
        api_version: int,
        body: Body,
        on_answer: Callable[[Body | None], None] | None,
    ) -> None:
        """Send a request; with None it is one that is never answered. Raises `EncodeError`."""
        self._correlation_id = (self._correlation_id + 1) & INT_MAX
        payload = encode_request(
            api_key, api_version, self._correlation_id, self._client_id, dict(body)
        )
        if on_answer is not None:
            self._open.append(_Open(api_key, api_version, self._correlation_id, on_answer))
        self._transport.send(payload)

    async def request(self, api_key: int, api_version: int, body: Body) -> Body:
        """Send a request and wait for its answer. Raises `ConnectionError`, `EncodeError`."""
        if self.is_closed:
            raise ConnectionResetError("the connection has ended")
        answered: asyncio.Future[Body] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Body | None) -> None:
            if answered.done():
                return
            if answer is None:
                answered.set_exception(ConnectionResetError("the connection has ended"))
            else:
                answered.set_result(answer)

        self.send(api_key, api_version, body, on_answer)
        return await answered

    async def run(self) -> None:
        """Read answers until the connection ends."""
        try:
            while not self.is_closed:
                payload = await self._transport.receive()
                if self.is_closed:
                    return
                self._answered(payload)
        except (OSError, ProtocolError):
            pass
        finally:
            self.close()

    def _answered(self, payload: bytes) -> None:
        if not self._open:
            raise ConnectionResetError("an answer without a request")
        request = self._open[0]
        header, body = decode_response(request.api_key, request.api_version, payload)
        if header["correlation_id"] != request.correlation_id:
            raise ConnectionResetError("an answer to another request")
        self._open.popleft()
        request.on_answer(body)

    def close(self) -> None:
        """End the connection, if it has not ended."""
        if self.is_closed:
            return
        self.is_closed = True
        self._transport.close()
        left, self._open = self._open, deque()
        for request in left:
            request.on_answer(None)
        if self._on_closed is not None:
            self._on_closed()
