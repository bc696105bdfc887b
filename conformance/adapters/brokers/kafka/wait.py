"""Waiting for brokers: repeated looks, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PAUSE_S: Final = 0.01


def poll(look: Callable[[], T], suffices: Callable[[T], object], timeout_s: float) -> T:
    """Look repeatedly until the result suffices, or the time is up; returns the last result."""
    deadline = time.monotonic() + timeout_s
    while not suffices(found := look()) and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    return found


def wait_until(holds: Callable[[], object], timeout_s: float, failure: Exception) -> None:
    """Wait until the condition holds. Raises `failure` if that takes longer."""
    if not poll(holds, bool, timeout_s):
        raise failure
