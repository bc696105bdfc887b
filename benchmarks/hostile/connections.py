"""Connections that no honest client makes: slow, silent, half-open, flooding, torn.

Each kind is a coroutine over an open connection. It returns when it has done its worst; the
connection stays open then, until all are closed, but for kinds that a broker has to close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from impl import encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey

REQUEST_MAX_BYTES: Final = 1 << 20
"""The broker's `socket.request.max.bytes`."""
WAIT_SECONDS: Final = 5
"""How long the broker may take to close a connection that it has to close."""
_VERSIONS: Final = frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "hostile", {}))
_METADATA: Final = frame(
    encode_request(
        ApiKey.METADATA, 4, 1, "hostile", {"topics": None, "allow_auto_topic_creation": False}
    )
)
_FLOOD_BYTES: Final = 1 << 18
_CLIENT_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)


class Peer(NamedTuple):
    """One open connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def _send(peer: Peer, data: bytes) -> None:
    peer.writer.write(data)


async def _send_slowly(peer: Peer) -> None:
    """A byte a second."""
    while not peer.writer.is_closing():
        for place in range(len(_VERSIONS)):
            peer.writer.write(_VERSIONS[place : place + 1])
            await asyncio.sleep(1)


async def _flood(peer: Peer) -> None:
    """Requests as fast as they are taken; no answer is read."""
    requests = (_VERSIONS + _METADATA) * 100
    transport = peer.writer.transport
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
    while not peer.writer.is_closing():
        if transport.get_write_buffer_size() < _FLOOD_BYTES:
            peer.writer.write(requests)
        await asyncio.sleep(0.1)


async def _half_close(peer: Peer) -> None:
    peer.writer.write(_VERSIONS[:9])
    peer.writer.write_eof()


async def _reset(peer: Peer) -> None:
    peer.writer.write(_VERSIONS[:9])
    await peer.writer.drain()
    peer.writer.transport.abort()


class Kind(NamedTuple):
    """What a connection does; whether over TLS, and whether the broker has to close and log it."""

    act: Callable[[Peer], Awaitable[None]]
    is_tls: bool = False
    is_closed: bool = False
    is_logged: bool = False


def _sends(data: bytes) -> Callable[[Peer], Awaitable[None]]:
    return lambda peer: _send(peer, data)


def _size(size: int) -> bytes:
    return size.to_bytes(4, "big", signed=True)


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "silent": Kind(_sends(b"")),
        "half a frame": Kind(_sends(_VERSIONS[:9])),
        "half a large frame": Kind(_sends(_size(REQUEST_MAX_BYTES) + bytes(100_000))),
        "a byte a second": Kind(_send_slowly),
        "flooding": Kind(_flood),
        "too large": Kind(_sends(_size(2**31 - 1)), is_closed=True, is_logged=True),
        "negative size": Kind(_sends(_size(-1)), is_closed=True, is_logged=True),
        "no request": Kind(_sends(frame(b"\xff" * 100)), is_closed=True, is_logged=True),
        "empty frame": Kind(_sends(_size(0)), is_closed=True, is_logged=True),
        "half closed": Kind(_half_close, is_closed=True),
        "reset": Kind(_reset, is_closed=True),
        "half a handshake": Kind(_sends(_CLIENT_HELLO), is_tls=True),
        "silent before TLS": Kind(_sends(b""), is_tls=True),
        "no TLS": Kind(_sends(_VERSIONS), is_tls=True, is_closed=True, is_logged=True),
    }
)


class Crowd:
    """Many hostile connections. Attributes: `unclosed`, which the broker should have closed."""

    def __init__(self, port: int, tls_port: int) -> None:
        self._ports = {False: port, True: tls_port}
        self._peers: list[tuple[str, Peer]] = []
        self._addresses: list[str] = []
        self._acting: set[asyncio.Task[None]] = set()
        self.unclosed: list[str] = []

    async def open(self, count: int) -> None:
        """Open so many, of each kind in turn. Raises `OSError`."""
        names = list(KINDS)
        for number in range(count):
            name = names[number % len(names)]
            kind = KINDS[name]
            peer = Peer(*await asyncio.open_connection("127.0.0.1", self._ports[kind.is_tls]))
            self._peers.append((name, peer))
            self._addresses.append("{}:{}".format(*peer.writer.get_extra_info("sockname")))
            task = asyncio.ensure_future(_act(kind, peer))
            self._acting.add(task)
            task.add_done_callback(self._acting.discard)

    def find_unlogged(self, log: str) -> list[str]:
        """Which ones the broker had to log, and has not."""
        return [
            name
            for (name, _), address in zip(self._peers, self._addresses, strict=True)
            if KINDS[name].is_logged and f"closes the connection from {address}: " not in log
        ]

    async def close(self) -> None:
        """Close all, and look which ones the broker has closed before."""
        for task in list(self._acting):
            task.cancel()
        await asyncio.gather(*self._acting, return_exceptions=True)
        for name, peer in self._peers:
            if KINDS[name].is_closed and not await _is_closed(peer):
                self.unclosed.append(name)
            peer.writer.transport.abort()
        closing = (peer.writer.wait_closed() for _, peer in self._peers)
        await asyncio.gather(*closing, return_exceptions=True)


async def _act(kind: Kind, peer: Peer) -> None:
    with suppress(OSError):
        await kind.act(peer)


async def _is_closed(peer: Peer) -> bool:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while await peer.reader.read(1 << 16):
                pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
