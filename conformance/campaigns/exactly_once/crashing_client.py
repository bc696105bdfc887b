"""The network of a client that crashes at a step: asyncio sockets that are cut without a close.

1. A step is a message of the client, by its name: `sends END_TXN 2` is the second EndTxn that it
   sends, `receives END_TXN 2` is the answer to it. Names stay the same if other messages are
   repeated more often than last time.
2. A client that crashes at a send has sent the request, which takes effect. A client that crashes
   at a receive has not received the answer, but the broker has carried out the request.
3. Connections end like those of a killed process, and no new ones are opened.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Final, NamedTuple

from impl.client.transport import AsyncioNetwork, AsyncioTransport, Receiver
from impl.protocol.schemas import ApiKey

SENDS: Final = "sends"
RECEIVES: Final = "receives"

_API_KEY: Final = slice(0, 2)


class ClientMessage(NamedTuple):
    """A message of one client; the messages of an API are counted from 1."""

    direction: str
    api: str
    number: int

    def __str__(self) -> str:
        return f"{self.direction} {self.api} {self.number}"


class CrashingNetwork:
    """A `Network` until its client crashes, at a step or by `crash`.

    Attributes: `steps` so far, `has_crashed`, an event.
    """

    def __init__(self, crash: ClientMessage | None) -> None:
        self._crash_at = crash
        self._counts: Counter[tuple[str, str]] = Counter()
        self._transports: list[AsyncioTransport] = []
        self.steps: list[ClientMessage] = []
        self.has_crashed = asyncio.Event()

    async def connect(self, host: str, port: int, receiver: Receiver) -> _Line:
        """See `Network`."""
        if not self.has_crashed.is_set():
            line = _Line(receiver, self)
            line.transport = await AsyncioNetwork().connect(host, port, line)
            self._transports.append(line.transport)
            if not self.has_crashed.is_set():
                return line
            line.transport.abort()
        raise ConnectionRefusedError(f"{host}:{port}: the client has crashed")

    def crash(self) -> None:
        """Cut every connection; no message is sent or received any more."""
        self.has_crashed.set()
        for transport in self._transports:
            transport.abort()

    def step(self, direction: str, api: str) -> None:
        """Count one more step; returns whether the client crashes at it."""
        self._counts[direction, api] += 1
        step = ClientMessage(direction, api, self._counts[direction, api])
        self.steps.append(step)
        if step == self._crash_at:
            self.crash()


class _Line:
    """A `Transport`, and the `Receiver` to which it passes answers. Answers come in the order of
    the requests, which gives them their names."""

    transport: AsyncioTransport

    def __init__(self, receiver: Receiver, network: CrashingNetwork) -> None:
        self._receiver = receiver
        self._network = network
        self._asked: deque[str] = deque()

    def send(self, payload: bytes) -> None:
        """See `Transport`."""
        if not self._network.has_crashed.is_set():
            api = ApiKey(int.from_bytes(payload[_API_KEY], "big")).name
            self._asked.append(api)
            self.transport.send(payload)
            self._network.step(SENDS, api)

    def receive(self, payload: bytes) -> None:
        """See `Receiver`."""
        if not self._network.has_crashed.is_set():
            self._network.step(RECEIVES, self._asked.popleft())
        if not self._network.has_crashed.is_set():
            self._receiver.receive(payload)

    def lose(self, cause: Exception) -> None:
        """See `Receiver`."""
        self._receiver.lose(cause)

    def close(self) -> None:
        """See `Transport`."""
        self.transport.close()

    async def wait_closed(self) -> None:
        """See `Transport`."""
        await self.transport.wait_closed()
