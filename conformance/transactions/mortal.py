"""A client's machine that dies at a step of its life: asyncio sockets, cut without a goodbye.

1. A step is a message of the client, by its name: `sends END_TXN 2` is the second EndTxn that it
   sends, `hears END_TXN 2` the answer to that. Names stay the same when other messages are repeated
   more often than last time.
2. Who dies when it sends has sent: the request meets whatever comes next. Who dies when it hears
   has not heard: the broker has done all that it was asked.
3. The dead say nothing: connections end as those of a killed process, and there are no new ones.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Final, NamedTuple

from impl.client.transport import AsyncioTransport
from impl.protocol.schemas import ApiKey

SENDS: Final = "sends"
HEARS: Final = "hears"

_API_KEY: Final = slice(0, 2)


class Step(NamedTuple):
    """A message of one life; the messages of an API are counted from 1."""

    deed: str
    api: str
    number: int

    def __str__(self) -> str:
        return f"{self.deed} {self.api} {self.number}"


class MortalNetwork:
    """A `Network` until its client dies, at `crash` or when told to.

    Attributes: `steps` so far, `died`, an event.
    """

    def __init__(self, crash: Step | None) -> None:
        self._crash = crash
        self._counts: Counter[tuple[str, str]] = Counter()
        self._writers: list[asyncio.StreamWriter] = []
        self.steps: list[Step] = []
        self.died = asyncio.Event()

    async def connect(self, host: str, port: int) -> _Line:
        """See `Network`."""
        if not self.died.is_set():
            reader, writer = await asyncio.open_connection(host, port)
            self._writers.append(writer)
            if not self.died.is_set():
                return _Line(AsyncioTransport(reader, writer), self)
            writer.transport.abort()
        raise ConnectionRefusedError(f"{host}:{port}: the client is dead")

    def die(self) -> None:
        """Cut every connection; nothing is sent or heard any more."""
        self.died.set()
        for writer in self._writers:
            writer.transport.abort()

    def step(self, deed: str, api: str) -> None:
        """One more step; whether the client lives to see the next, `died` says."""
        self._counts[deed, api] += 1
        step = Step(deed, api, self._counts[deed, api])
        self.steps.append(step)
        if step == self._crash:
            self.die()


class _Line:
    """A `Transport`. Answers come in the order of the requests: that names them."""

    def __init__(self, transport: AsyncioTransport, network: MortalNetwork) -> None:
        self._transport = transport
        self._network = network
        self._asked: deque[str] = deque()

    def send(self, payload: bytes) -> None:
        """See `Transport`."""
        if not self._network.died.is_set():
            api = ApiKey(int.from_bytes(payload[_API_KEY], "big")).name
            self._asked.append(api)
            self._transport.send(payload)
            self._network.step(SENDS, api)

    async def receive(self) -> bytes:
        """See `Transport`."""
        payload = await self._transport.receive()
        self._network.step(HEARS, self._asked.popleft())
        if self._network.died.is_set():
            raise ConnectionResetError("the client is dead")
        return payload

    def close(self) -> None:
        """See `Transport`."""
        self._transport.close()
