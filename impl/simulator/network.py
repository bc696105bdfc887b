"""Connections of a simulated world.

1. Messages of a connection arrive in order, each after a delay.
2. When it breaks, messages to the client are lost; messages to the broker are lost or arrive later,
   in order, at most once. Their answers are lost.
3. The network never duplicates a message.

Theory of operation: a `SimulatedConnection` has a client's end, a `Transport`, and calls its broker
for each message that arrives. Delays come from the world's random numbers, in the order of the
messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from impl.client.transport import Receiver
from impl.simulator.faults import Faults

TIE_S: Final = 1e-6


class Peer(Protocol):
    """The broker's end of a link."""

    def receive_request(self, link: SimulatedConnection, payload: bytes) -> None:
        """Receive a request."""

    def close_link(self, link: SimulatedConnection) -> None:
        """The connection is closed."""


class StepObserver(Protocol):
    """Observes the steps of a client."""

    def step(self, what: str, payload: bytes) -> bool:
        """Count a message sent or received; False if the client died before."""


class SimulatedConnection:
    """One connection. Attributes: `is_broken`, `number`."""

    def __init__(
        self,
        number: int,
        peer: Peer,
        steps: StepObserver,
        receiver: Receiver,
        faults: Faults,
        rng: Random,
    ) -> None:
        self.number = number
        self.is_broken = False
        self._peer = peer
        self._steps = steps
        self._receiver = receiver
        self._faults = faults
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._on_the_way: deque[asyncio.TimerHandle] = deque()
        self._payloads: deque[bytes] = deque()
        self._arrives_s = [0.0, 0.0]
        self._held: list[Callable[[], None]] | None = None

    # ---- the client's end

    def send(self, payload: bytes) -> None:
        """See `Transport`."""
        if self.is_broken or not self._steps.step("sends", payload):
            return
        self._when_awake(lambda: self._send(payload))

    def _send(self, payload: bytes) -> None:
        if self.is_broken:
            return
        self._payloads.append(payload)
        self._on_the_way.append(self._later(0, self._arrive))
        if self._rng.random() < self._faults.break_rate:
            self.break_off()

    def _receive(self, payload: bytes) -> None:
        if self._steps.step("receives", payload):
            self._receiver.receive(payload)
        else:
            self._lose()

    def _lose(self) -> None:
        self._receiver.lose(ConnectionResetError("the connection broke"))

    def close(self) -> None:
        """See `Transport`. Messages to the broker in transit arrive."""
        if not self.is_broken:
            self._end()

    async def wait_closed(self) -> None:
        """See `Transport`: it is closed at once."""

    def _end(self) -> None:
        self.is_broken = True
        self._loop.call_soon(self._lose)
        self._loop.call_at(self._in_order(0.0, 0), lambda: self._peer.close_link(self))

    # ---- the broker's end

    def answer(self, payload: bytes) -> None:
        """Send an answer to the client."""
        if self.is_broken:
            return
        self._later(1, lambda: self._deliver(payload))
        if self._rng.random() < self._faults.break_rate:
            self.break_off()

    def _deliver(self, payload: bytes) -> None:
        if not self.is_broken:
            self._when_awake(lambda: self._receive(payload))

    def _arrive(self) -> None:
        self._on_the_way.popleft()
        self._peer.receive_request(self, self._payloads.popleft())

    # ---- timing

    def _later(self, way: int, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Run this after a delay, in the order of the direction's messages."""
        delay_s = self._rng.randint(*self._faults.delay_ms) / 1_000
        return self._loop.call_at(self._in_order(delay_s, way), action)

    def _in_order(self, delay_s: float, way: int) -> float:
        """The arrival time. Times are distinct, as asyncio does not order equal ones."""
        at_s = max(self._loop.time() + delay_s, self._arrives_s[way] + TIE_S)
        self._arrives_s[way] = at_s
        return at_s

    def break_off(self) -> None:
        """Break the connection, for both ends."""
        if self.is_broken:
            return
        for timer in self._on_the_way:
            timer.cancel()
        self._on_the_way.clear()
        left, self._payloads = self._payloads, deque()
        for payload in left:
            if self._rng.random() >= self._faults.loss_rate:
                self._payloads.append(payload)
                late_s = self._rng.randint(*self._faults.late_ms) / 1_000
                at_s = self._in_order(late_s, 0)
                self._on_the_way.append(self._loop.call_at(at_s, self._arrive))
        self._end()

    # ---- a paused client

    def hold(self) -> None:
        """Pause the client's host: it neither sends nor receives."""
        self._held = []

    def release(self) -> None:
        """Resume the client's host."""
        held, self._held = self._held or [], None
        for action in held:
            action()

    def _when_awake(self, action: Callable[[], None]) -> None:
        if self._held is None:
            action()
        else:
            self._held.append(action)
