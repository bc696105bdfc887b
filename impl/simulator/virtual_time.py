"""An asyncio event loop with virtual time, which passes only when no callback is ready.

1. Time jumps to the next timer; nothing waits for a real clock.
2. The same program has the same history, step by step.
3. If all tasks wait and there is no timer, `Deadlock` is raised.

Theory of operation: a `BaseEventLoop` without sockets. Instead of waiting for the operating system,
it advances its clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """All tasks wait, and none for a timer."""


class _Clock:
    """The clock, in place of a selector."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> list[object]:
        """Advance the clock."""
        if timeout_s is None:
            raise Deadlock("all tasks wait, and none for a timer")
        self.now_s += timeout_s
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop, without sockets, signals and threads.

    Attributes: `failure`, the first exception of a callback: asyncio would only log it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Clock()
        self.failure: BaseException | None = None
        self.set_exception_handler(_keep_failure)

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._selector.now_s

    def _process_events(self, event_list: list[object]) -> None:
        """There are no events."""


def _keep_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Keep exceptions of callbacks; those of abandoned tasks are expected, as clients die."""
    assert isinstance(loop, VirtualLoop)
    if "handle" in context and loop.failure is None:
        loop.failure = context["exception"]


def _cancel_all(loop: VirtualLoop) -> None:
    """Cancel remaining tasks, as `asyncio.run` does."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own. Raises its exception, or `Deadlock`."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(work)
    finally:
        _cancel_all(loop)
        loop.close()
    if loop.failure is not None:
        raise loop.failure
    return result
