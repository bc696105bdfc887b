"""The time by which clients wait: that of their event loop, which a test may advance.

1. Every wait of a client goes by a `LoopClock`: time-outs, backoffs, lingering, heartbeats, `stop`.
2. A broker in this process has a `SharedClock`. A client whose `bootstrap_servers` name this broker
   lives by it; any other client has a `SharedClock` of its own, which nobody advances.
3. When a shared clock is advanced, each wait that is due by then ends in the next turn of its event
   loop, in the order in which they are due. Otherwise time passes as it does on the event loop.

Theory of operation: each wait knows when it is due on its clock, so to advance is to reschedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from threading import Lock
from time import time_ns
from types import TracebackType
from typing import Any, Final, Protocol
from weakref import WeakSet

from impl.addresses import Address

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names by which clients reach a broker of their own process, whatever it calls itself."""


class SharedClock:
    """What was added to the time of those who share it; any thread may call its methods."""

    def __init__(self) -> None:
        self._followers: WeakSet[LoopClock] = WeakSet()
        self._lock = Lock()
        self.added_ms = 0

    def add(self, duration_ms: int) -> None:
        """Let this time pass. Waits that are due do not end before `wake`."""
        self.added_ms += duration_ms

    def wake(self) -> None:
        """End all waits that are due."""
        with self._lock:
            followers = list(self._followers)
        for each in followers:
            each.wake()

    def follow(self, clock: LoopClock) -> None:
        """Wake this clock, too, as long as somebody uses it."""
        with self._lock:
            self._followers.add(clock)


# ---- the clocks of this process


_served: Final[dict[Address, SharedClock]] = {}
"""The clocks of the brokers that serve in this process, by address."""


def announce(clock: SharedClock, hosts: Iterable[str], ports: Iterable[int]) -> None:
    """A broker with this clock serves at these ports from now on."""
    names = LOCAL_HOSTS.union(hosts)
    for port in ports:
        _served.update({(host, port): clock for host in names})


def withdraw(clock: SharedClock) -> None:
    """The broker with this clock serves no longer."""
    for address in [address for address, other in list(_served.items()) if other is clock]:
        _served.pop(address, None)


def clock_of(addresses: Iterable[Address]) -> SharedClock:
    """The clock of the first address at which this process serves, or a new one."""
    found = (_served[address] for address in addresses if address in _served)
    return next(found, None) or SharedClock()


# ---- one event loop


def system_time_ms() -> int:
    """Milliseconds since the epoch."""
    return time_ns() // 1_000_000


class _Wait(Protocol):
    """Something that ends at a time of its clock, `due_s`."""

    due_s: float

    def reschedule(self) -> None:
        """The clock was advanced."""


class LoopClock:
    """A shared clock on the running event loop. Its methods are for that loop, but for `wake`."""

    def __init__(self, shared: SharedClock) -> None:
        """Raises `RuntimeError` without a running event loop."""
        self.loop = asyncio.get_running_loop()
        self._shared = shared
        self.waits: dict[_Wait, None] = {}
        shared.follow(self)

    def time_s(self) -> float:
        """Monotonic seconds."""
        return self.loop.time() + self._shared.added_ms / 1_000

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time_ns() // 1_000_000 + self._shared.added_ms

    def loop_time_s(self, due_s: float) -> float:
        """When that is on the event loop, if nobody advances the clock."""
        return due_s - self._shared.added_ms / 1_000

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        """Call this once, then."""
        return Timer(self, self.time_s() + delay_s, callback)

    def timeout(self, duration_s: float | None) -> TimeLimit:
        """As `asyncio.timeout`."""
        return TimeLimit(self, duration_s)

    async def sleep(self, duration_s: float) -> None:
        """As `asyncio.sleep`."""
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        ended: asyncio.Future[None] = self.loop.create_future()
        timer = self.call_later(duration_s, partial(_end, ended))
        try:
            await ended
        finally:
            timer.cancel()

    async def wait(self, tasks: Collection[asyncio.Task[Any]], timeout_s: float) -> None:
        """Wait until these are done, or the time is over; they go on."""
        with suppress(TimeoutError):
            async with self.timeout(timeout_s):
                await asyncio.wait(tasks)

    def wake(self) -> None:
        """End the waits that are due; may be called on any thread."""
        if _is_running(self.loop):
            self._reschedule()
            return
        with suppress(RuntimeError):  # the loop is closed, and nobody waits on it
            self.loop.call_soon_threadsafe(self._reschedule)

    def _reschedule(self) -> None:
        for each in sorted(self.waits, key=lambda wait: wait.due_s):
            each.reschedule()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class Timer:
    """Calls a function once, when it is due. Read-only: `due_s`, on its clock."""

    __slots__ = ("_callback", "_clock", "_handle", "due_s")

    def __init__(self, clock: LoopClock, due_s: float, callback: Callable[[], Any]) -> None:
        self._clock = clock
        self._callback = callback
        self.due_s = due_s
        self._handle: asyncio.Handle = clock.loop.call_at(clock.loop_time_s(due_s), self._fire)
        clock.waits[self] = None

    def cancel(self) -> None:
        """Do not call, if that has not happened yet."""
        self._clock.waits.pop(self, None)
        self._handle.cancel()

    def reschedule(self) -> None:
        """See `_Wait`."""
        self._handle.cancel()
        loop, at_s = self._clock.loop, self._clock.loop_time_s(self.due_s)
        is_due = at_s <= loop.time()  # timers that are due have no order, what comes soon has
        self._handle = loop.call_soon(self._fire) if is_due else loop.call_at(at_s, self._fire)

    def _fire(self) -> None:
        self._clock.waits.pop(self, None)
        self._callback()


class TimeLimit:
    """`async with`: a block that takes longer is cancelled, and `TimeoutError` is raised."""

    __slots__ = ("_clock", "_duration_s", "_limit", "due_s")

    def __init__(self, clock: LoopClock, duration_s: float | None) -> None:
        self._clock = clock
        self._duration_s = duration_s
        self.due_s = 0.0

    async def __aenter__(self) -> None:
        """Begin."""
        duration_s, clock = self._duration_s, self._clock
        self._limit = asyncio.timeout(duration_s)
        await self._limit.__aenter__()
        if duration_s is not None:
            self.due_s = clock.time_s() + duration_s
            clock.waits[self] = None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raises `TimeoutError`."""
        self._clock.waits.pop(self, None)
        await self._limit.__aexit__(kind, error, traceback)

    def reschedule(self) -> None:
        """See `_Wait`."""
        if not self._limit.expired():
            self._limit.reschedule(self._clock.loop_time_s(self.due_s))


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
