"""Limits on a server's connections, and on the memory of requests that are still being received.

Five rules:

1. Beyond `max_connections` a connection waits, unread, until another one ends, as in Kafka, where
   it is not accepted yet. Beyond `max_connections_per_ip` it is closed.
2. A request larger than one read waits until less than `queued_max_request_bytes` of such requests
   are in memory; so these have at most this much, and one request more.
3. A connection on which nothing comes or goes for `connections_max_idle_ms` is closed, and so is
   one whose TLS handshake takes a minute. What has not ended its handshake counts, too.
4. The first two can be changed while connections are open; those that are open stay.
5. Time is that of the event loop: a broker's own clock may jump.

Sources: `ConnectionQuotas`, `SimpleMemoryPool`, `Selector.maybeCloseOldestConnection`; KIP-72,
KIP-402.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from impl.broker.config import NodeConfig
from impl.broker.served_connection import ServedConnection

_log = logging.getLogger(__name__)

_CHECKS_OF_IDLE: Final = 4
"""How often a connection is looked at before it is idle for too long."""


class TooManyConnections(Exception):
    """A host has as many connections as it may have."""


class _Places:
    """Places for connections, of which there may be more or fewer later; who comes first, waits
    least."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def allow(self, most: int) -> None:
        """Have this many from now on; who has a place keeps it."""
        self._most = most
        self._give()

    async def __aenter__(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._give()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._taken -= 1
        self._give()

    def _give(self) -> None:
        while self._waiting and self._taken < self._most:
            place = self._waiting.popleft()
            if not place.done():
                self._taken += 1
                place.set_result(None)


class ConnectionLimits:
    """The limits of one server. Read-only: `request_max_bytes`, of one request."""

    def __init__(self, config: NodeConfig) -> None:
        self.request_max_bytes = config.socket_request_max_bytes
        self._per_host = config.max_connections_per_ip
        self._places = _Places(config.max_connections)
        self._idle_seconds = config.connections_max_idle_ms / 1000
        self._queued_max_bytes = config.queued_max_request_bytes
        self._queued_bytes = 0
        self._freed = asyncio.Condition()
        self._hosts: Counter[str] = Counter()
        self._open: set[ServedConnection] = set()

    def follow(self, config: NodeConfig) -> None:
        """Have the limits of these settings on how many connections there may be."""
        self._per_host = config.max_connections_per_ip
        self._places.allow(config.max_connections)

    @asynccontextmanager
    async def admit(self, connection: ServedConnection) -> AsyncIterator[None]:
        """Wait until the connection may be served. Raises `TooManyConnections`."""
        host = connection.peer.rpartition(":")[0]
        if self._hosts[host] >= self._per_host:
            raise TooManyConnections(f"{host} has {self._per_host} connections already")
        self._hosts[host] += 1
        self._open.add(connection)
        try:
            connection.transport.pause_reading()
            async with self._places:
                connection.transport.resume_reading()
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
                connection.transport.abort()
