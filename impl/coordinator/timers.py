"""Deadlines with names: setting one again moves it. Times in ms."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K")


class Timers(Generic[K]):
    """Deadlines by key; those that are due come in their order."""

    __slots__ = ("_due_ms", "_heap", "_numbers")

    def __init__(self) -> None:
        self._numbers = count()
        self._due_ms: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []

    def set(self, key: K, due_ms: int) -> None:
        """Set or move a deadline."""
        number = next(self._numbers)
        self._due_ms[key] = (due_ms, number)
        heappush(self._heap, (due_ms, number, key))

    def __contains__(self, key: K) -> bool:
        """Whether a deadline is set."""
        return key in self._due_ms

    def cancel(self, key: K) -> None:
        """Remove a deadline, if it is set."""
        self._due_ms.pop(key, None)

    @property
    def next_due_ms(self) -> int | None:
        """The earliest deadline, None without one."""
        while self._heap:
            due_ms, number, key = self._heap[0]
            if self._due_ms.get(key) == (due_ms, number):
                return due_ms
            heappop(self._heap)
        return None

    def pop_due(self, now_ms: int) -> K | None:
        """The earliest key whose deadline has come, which is removed; None if none has."""
        due_ms = self.next_due_ms
        if due_ms is None or due_ms > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._due_ms[key]
        return key
