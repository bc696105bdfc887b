"""Connections as the clients see them, and those of asyncio.

1. A transport carries whole payloads, in order, both ways, until it ends: then `receive` raises.
2. Nothing is known of a payload that was sent: it may have arrived or not.

Theory of operation: clients take a `Network`. `AsyncioNetwork` opens sockets; a simulator opens
what it likes.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from impl.protocol.errors import FrameTooLarge
from impl.protocol.primitives import MAX_FRAME_BYTES, frame

_SIZE_BYTES = 4


class Transport(Protocol):
    """One connection. A payload is a message without its 4-byte size."""

    def send(self, payload: bytes) -> None:
        """Put the payload on its way; nothing happens once the connection has ended."""

    async def receive(self) -> bytes:
        """The next payload. Raises `OSError` once the connection has ended, `FrameTooLarge`."""

    def close(self) -> None:
        """End the connection."""


class Network(Protocol):
    """Whatever opens connections."""

    async def connect(self, host: str, port: int) -> Transport:
        """Open one. Raises `OSError`."""


class AsyncioTransport:
    """A TCP connection. What the peer has not taken yet is kept in memory: callers bound it."""

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


class AsyncioNetwork:
    """TCP, without encryption."""

    async def connect(self, host: str, port: int) -> AsyncioTransport:
        """See `Network`."""
        return AsyncioTransport(*await asyncio.open_connection(host, port))
