"""The connections that clients use, and their form on asyncio.

1. A transport carries whole payloads, in order, both ways, until it breaks: then `receive` raises.
2. A payload that was sent may have arrived or not.

Theory of operation: clients take a `Network`. `AsyncioNetwork` opens sockets; a simulator opens
connections of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from impl.protocol.errors import FrameTooLarge
from impl.protocol.primitives import MAX_FRAME_BYTES, frame

if TYPE_CHECKING:
    from ssl import SSLContext

_SIZE_BYTES = 4
_FAREWELL_S = 1.0


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


class AsyncioTransport:
    """A TCP connection. Unsent payloads are kept in memory: callers bound them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, payload: bytes) -> None:
        """See `Transport`."""
        if not self._writer.is_closing():
            self._writer.write(frame(payload))

    async def receive(self) -> bytes:
        """See `Transport`."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES), "big", signed=True)
            if not 0 <= size <= MAX_FRAME_BYTES:
                raise FrameTooLarge(f"a frame of {size} bytes", 0)
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the peer closed the connection") from error

    def close(self) -> None:
        """See `Transport`."""
        self._writer.close()

    async def wait_closed(self) -> None:
        """See `Transport`: TLS says farewell first."""
        with suppress(OSError):
            await self._writer.wait_closed()


class AsyncioNetwork:
    """TCP, with TLS if there is a context."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self._context = context

    async def connect(self, host: str, port: int) -> AsyncioTransport:
        """See `Network`."""
        farewell_s = _FAREWELL_S if self._context else None  # None is for TCP alone
        return AsyncioTransport(
            *await asyncio.open_connection(
                host, port, ssl=self._context, ssl_shutdown_timeout=farewell_s
            )
        )
