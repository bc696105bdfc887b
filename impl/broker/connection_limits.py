"""Limits on a server's connections, and on the memory of requests that are still being received.

Four rules:

1. Beyond `max_connections` a connection waits, unread, until another one ends, as in Kafka, where
   it is not accepted yet. Beyond `max_connections_per_ip` it is closed.
2. A request larger than one read waits until less than `queued_max_request_bytes` of such requests
   are in memory; so these have at most this much, and one request more.
3. A connection on which nothing comes or goes for `connections_max_idle_ms` is closed, and so is
   one whose TLS handshake takes a minute. What has not ended its handshake counts, too.
4. Time is that of the event loop: a broker's own clock may jump.

Sources: `ConnectionQuotas`, `SimpleMemoryPool`, `Selector.maybeCloseOldestConnection`; KIP-72,
KIP-402.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Final, cast

from impl.broker.config import NodeConfig
from impl.protocol.primitives import frame

_log = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 16
"""What is read at once. Requests up to this size are limited by the number of connections."""
HANDSHAKE_SECONDS: Final = 60
_CHECKS_OF_IDLE: Final = 4
"""How often a connection is looked at before it is idle for too long."""


class TooManyConnections(Exception):
    """A host has as many connections as it may have."""


class ServedConnection:
    """One connection: who it is, and when something last came or went."""

    __slots__ = ("_loop", "_unsent", "_unsent_bytes", "active_at", "peer", "writer")

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        host, port, *_ = writer.get_extra_info("peername") or ("?", "?")
        self.peer = f"{host}:{port}"
        self._loop = asyncio.get_running_loop()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self.active_at = self._loop.time()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Shake hands. Raises `OSError`: `ConnectionAbortedError` if that takes a minute."""
        self.active_at = inf  # asyncio cannot end a handshake that somebody else aborts
        await self.writer.start_tls(context, ssl_handshake_timeout=HANDSHAKE_SECONDS)
        self.active_at = self._loop.time()

    async def read_into(self, buffer: bytearray, reader: asyncio.StreamReader) -> bool:
        """Read what is there; False if the other side has closed. Raises `OSError`."""
        data = await reader.read(READ_BYTES)
        self.active_at = self._loop.time()
        buffer += data
        return bool(data)

    async def write(self, payload: bytes) -> None:
        """Write an answer. Those of one turn of the event loop are sent at once. Raises `OSError`.

        A large one, or many, wait until most is sent.
        """
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(frame(payload))
        self._unsent_bytes += len(payload)
        if self._unsent_bytes >= READ_BYTES:
            await self.flush()

    def _send(self) -> None:
        if self._unsent:
            self.writer.write(b"".join(self._unsent))
            self._unsent.clear()
            self._unsent_bytes = 0

    async def flush(self) -> None:
        """Send what was written, and wait until most of it is sent. Raises `OSError`."""
        self._send()
        await self.writer.drain()
        self.active_at = self._loop.time()

    def close(self) -> None:
        """Send what was written, and close."""
        self._send()
        self.writer.close()


class ConnectionLimits:
    """The limits of one server. Read-only: `request_max_bytes`, of one request."""

    def __init__(self, config: NodeConfig) -> None:
        self.request_max_bytes = config.socket_request_max_bytes
        self._per_host = config.max_connections_per_ip
        self._slots = asyncio.Semaphore(config.max_connections)
        self._idle_seconds = config.connections_max_idle_ms / 1000
        self._queued_max_bytes = config.queued_max_request_bytes
        self._queued_bytes = 0
        self._freed = asyncio.Condition()
        self._hosts: Counter[str] = Counter()
        self._open: set[ServedConnection] = set()

    @asynccontextmanager
    async def admit(self, connection: ServedConnection) -> AsyncIterator[None]:
        """Wait until the connection may be served. Raises `TooManyConnections`."""
        host = connection.peer.rpartition(":")[0]
        if self._hosts[host] >= self._per_host:
            raise TooManyConnections(f"{host} has {self._per_host} connections already")
        self._hosts[host] += 1
        self._open.add(connection)
        try:
            transport = cast(asyncio.Transport, connection.writer.transport)
            transport.pause_reading()
            async with self._slots:
                transport.resume_reading()
                yield
        finally:
            self._open.remove(connection)
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait until there is memory for a large request, and keep it."""
        async with self._freed:
            await self._freed.wait_for(self._has_room)
            self._queued_bytes += size_bytes
            self._freed.notify()  # there may be room for another one
        try:
            yield
        finally:
            self._queued_bytes -= size_bytes
            async with self._freed:
                self._freed.notify()

    def _has_room(self) -> bool:
        return not 0 <= self._queued_max_bytes <= self._queued_bytes

    async def close_idle(self) -> None:
        """Close what is idle for too long, for ever."""
        while self._idle_seconds >= 0:
            await asyncio.sleep(self._idle_seconds / _CHECKS_OF_IDLE)
            last = asyncio.get_running_loop().time() - self._idle_seconds
            for connection in [each for each in self._open if each.active_at < last]:
                _log.info("closes the connection from %s: it is idle", connection.peer)
                connection.writer.transport.abort()
