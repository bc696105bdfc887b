"""The connections that clients use, and their form on asyncio.

1. A transport carries whole payloads, in order, both ways, until it breaks: then `receive` raises.
2. A payload that was sent may have arrived or not.

Theory of operation: clients take a `Network`. `AsyncioNetwork` opens sockets; a simulator opens
connections of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from impl.protocol.errors import FrameTooLarge
from impl.protocol.primitives import MAX_FRAME_BYTES, frame

if TYPE_CHECKING:
    from ssl import SSLContext

_SIZE_BYTES: Final = 4
_FAREWELL_S: Final = 1.0
_MOST_WAITING: Final = 64
"""So many payloads that nobody has received yet stop the reading."""


class Transport(Protocol):
    """One connection. A payload is a message without its 4-byte size."""

    def send(self, payload: bytes) -> None:
        """Send the payload; does nothing once the connection is closed."""

    async def receive(self) -> bytes:
        """The next payload. Raises `OSError` once the connection is closed, `FrameTooLarge`."""

    def close(self) -> None:
        """Close the connection."""

    async def wait_closed(self) -> None:
        """Wait until nothing is left of a connection that was closed."""


class Network(Protocol):
    """Opens connections."""

    async def connect(self, host: str, port: int) -> Transport:
        """Open a connection. Raises `OSError`."""


class AsyncioTransport(asyncio.Protocol):
    """A TCP connection. Unsent payloads are kept in memory: callers bound them.

    What arrives is copied once, into its payload: answers to Fetch are large.
    """

    def __init__(self) -> None:
        self._socket: asyncio.Transport | None = None
        self._payloads: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._missing_bytes = _SIZE_BYTES
        self._is_in_size = True
        self._failure: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, payload: bytes) -> None:
        """See `Transport`."""
        if self._socket is not None and not self._socket.is_closing():
            self._socket.write(frame(payload))

    async def receive(self) -> bytes:
        """See `Transport`."""
        while not self._payloads:
            if self._failure is not None:
                raise self._failure
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        if len(self._payloads) == _MOST_WAITING and self._socket is not None:
            self._socket.resume_reading()
        return self._payloads.popleft()

    def close(self) -> None:
        """See `Transport`."""
        if self._socket is not None:
            self._socket.close()

    def abort(self) -> None:
        """Close without sending what is left to send."""
        if self._socket is not None:
            self._socket.abort()

    async def wait_closed(self) -> None:
        """See `Transport`: TLS says farewell first."""
        with suppress(OSError):
            await asyncio.shield(self._closed)

    # ---- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport

    def data_received(self, data: bytes) -> None:
        """Sizes and payloads in turn, in parts of any length."""
        while len(data) >= self._missing_bytes and self._failure is None:
            self._parts.append(data[: self._missing_bytes])
            data = data[self._missing_bytes :]
            whole = b"".join(self._parts)
            self._parts.clear()
            if self._is_in_size:
                self._begin_payload(int.from_bytes(whole, "big", signed=True))
            else:
                self._end_payload(whole)
        if data:
            self._parts.append(data)
            self._missing_bytes -= len(data)

    def _begin_payload(self, size: int) -> None:
        if not 0 <= size <= MAX_FRAME_BYTES:
            self._fail(FrameTooLarge(f"a frame of {size} bytes", 0))
        self._missing_bytes = size
        self._is_in_size = False

    def _end_payload(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self._missing_bytes = _SIZE_BYTES
        self._is_in_size = True
        if len(self._payloads) == _MOST_WAITING and self._socket is not None:
            self._socket.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left of the connection."""
        self._fail(exc or ConnectionResetError("the peer closed the connection"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class AsyncioNetwork:
    """TCP, with TLS if there is a context."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self._context = context

    async def connect(self, host: str, port: int) -> AsyncioTransport:
        """See `Network`."""
        farewell_s = _FAREWELL_S if self._context else None  # None is for TCP alone
        _, transport = await asyncio.get_running_loop().create_connection(
            AsyncioTransport, host, port, ssl=self._context, ssl_shutdown_timeout=farewell_s
        )
        return transport
