"""An event loop of asyncio whose time passes only when nobody has anything to do.

1. Time jumps to the next timer; nothing ever waits for a real clock.
2. The same program has the same history, step by step.
3. A loop in which nobody waits for time any more stands still: that is `Standstill`, not a hang.

Theory of operation: a `BaseEventLoop` without sockets. Where it would wait for the operating
system, it moves its clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Standstill(Exception):
    """Everybody waits, and nobody for time to pass."""


class _Clock:
    """Stands where the selector does."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> list[object]:
        """Nothing happens but time."""
        if timeout_s is None:
            raise Standstill("every task waits for another one")
        self.now_s += timeout_s
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. It has no sockets, no signals, no threads.

    Attributes: `failure`, the first exception of a callback: asyncio would only log it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Clock()
        self.failure: BaseException | None = None
        self.set_exception_handler(_note_failure)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._selector.now_s

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody asked the outcome of any more is not a failure: clients die here."""
    assert isinstance(loop, VirtualLoop)
    if "handle" in context and loop.failure is None:
        loop.failure = context["exception"]


def _end_all(loop: VirtualLoop) -> None:
    """What still runs when the program has ended is cancelled, as `asyncio.run` does."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end on a loop of its own. Raises what it raises, and `Standstill`."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(work)
    finally:
        _end_all(loop)
        loop.close()
    if loop.failure is not None:
        raise loop.failure
    return result
