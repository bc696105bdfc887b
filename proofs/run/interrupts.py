"""Worker processes, which Ctrl-C does not concern."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back. Processes that start meanwhile inherit this and never hear it: it is their
    parent's business, and a Python that is about to start would answer it with a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
