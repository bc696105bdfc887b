"""The event loop of a broker: uvloop's where it is installed, asyncio's otherwise."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from impl.broker.monotonic_time import MonotonicEventLoop


def new_event_loop(*, has_tls: bool) -> asyncio.AbstractEventLoop:
    """A loop for a thread that serves.

    uvloop 0.23 does not always end the handshake of a connection whose TLS begins after it is made.
    """
    if has_tls:
        return MonotonicEventLoop()
    try:
        import uvloop
    except ImportError:
        return MonotonicEventLoop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def collect_rarely() -> None:
    """For a process that does nothing but serve: what it reads and answers leaves no cycles behind,
    and logs grow; the collector is to look through them rarely."""
    gc.set_threshold(50_000, 20, 50)


_MALLOC_OPTIONS: Final = {-1: 64 << 20, -2: 16 << 20, -3: 32 << 20}
"""M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of mallopt(3), in bytes."""


def keep_freed_memory() -> None:
    """For a process that does nothing but serve: requests and answers come and go, and what glibc
    gives back to the system has to be cleared, page by page, before it is used again."""
    if "CS_GNU_LIBC_VERSION" in os.confstr_names:
        for option, size_bytes in _MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, size_bytes)


def run(serving: Coroutine[Any, Any, None], *, has_tls: bool = False) -> None:
    """Run a process that does nothing but serve."""
    gc.freeze()  # what is there stays: to look for cycles in it would take longer than the rest
    collect_rarely()
    keep_freed_memory()
    with asyncio.Runner(loop_factory=partial(new_event_loop, has_tls=has_tls)) as runner:
        runner.run(serving)


def listening_sockets(server: asyncio.Server) -> list[socket.socket]:
    """The sockets of a server. uvloop's type for them is another than asyncio's."""
    return list(server.sockets)
