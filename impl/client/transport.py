"""The connections that clients use, and their form on asyncio.

1. A transport carries whole payloads, in order, both ways, until it breaks.
2. A payload that was sent may have arrived or not.
3. What arrives is received where it is read: a task would cost a turn of the event loop.

Theory of operation: clients take a `Network`, and give it a `Receiver` for each connection.
`AsyncioNetwork` opens sockets; a simulator opens connections of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from impl.protocol.errors import FrameTooLarge
from impl.protocol.primitives import MAX_FRAME_BYTES, frame

if TYPE_CHECKING:
    from ssl import SSLContext

_SIZE_BYTES: Final = 4
_FAREWELL_S: Final = 1.0


class Receiver(Protocol):
    """What arrives on a connection. A payload is a message without its 4-byte size."""

    def receive(self, payload: bytes) -> None:
        """The next payload."""

    def lose(self, cause: Exception) -> None:
        """Nothing arrives any more: `OSError`, or `FrameTooLarge` of what should come next. The
        event loop calls it, never a method of the transport."""


class Transport(Protocol):
    """One connection."""

    def send(self, payload: bytes) -> None:
        """Send the payload; does nothing once the connection is closed."""

    def close(self) -> None:
        """Close the connection."""

    async def wait_closed(self) -> None:
        """Wait until nothing is left of a connection that was closed."""


class Network(Protocol):
    """Opens connections."""

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        """Open a connection. Raises `OSError`."""


class AsyncioTransport(asyncio.Protocol):
    """A TCP connection. Unsent payloads are kept in memory: callers bound them.

    What arrives is copied once, into its payload: answers to Fetch are large.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._socket: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._missing_bytes = _SIZE_BYTES
        self._is_in_size = True
        self._is_lost = False
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, payload: bytes) -> None:
        """See `Transport`."""
        if self._socket is not None and not self._socket.is_closing():
            self._socket.write(frame(payload))

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
        while len(data) >= self._missing_bytes and not self._is_lost:
            self._parts.append(data[: self._missing_bytes])
            data = data[self._missing_bytes :]
            whole = b"".join(self._parts)
            self._parts.clear()
            if self._is_in_size:
                self._begin_payload(int.from_bytes(whole, "big", signed=True))
            else:
                self._missing_bytes = _SIZE_BYTES
                self._is_in_size = True
                self._receiver.receive(whole)
        if data:
            self._parts.append(data)
            self._missing_bytes -= len(data)

    def _begin_payload(self, size: int) -> None:
        if not 0 <= size <= MAX_FRAME_BYTES:
            self._lose(FrameTooLarge(f"a frame of {size} bytes", 0))
        self._missing_bytes = size
        self._is_in_size = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left of the connection."""
        self._lose(exc or ConnectionResetError("the peer closed the connection"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _lose(self, cause: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._receiver.lose(cause)


class AsyncioNetwork:
    """TCP, with TLS if there is a context."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self._context = context

    async def connect(self, host: str, port: int, receiver: Receiver) -> AsyncioTransport:
        """See `Network`."""
        farewell_s = _FAREWELL_S if self._context else None  # None is for TCP alone
        _, transport = await asyncio.get_running_loop().create_connection(
            partial(AsyncioTransport, receiver),
            host,
            port,
            ssl=self._context,
            ssl_shutdown_timeout=farewell_s,
        )
        return transport
