"""The time of a broker in the process of its tests, which may stop or move the time of Python.

freezegun and time-machine replace what `time`, `datetime` and event loops say, while clients that
are written in C go on: records would come from the future, and time-outs never. What the monotonic
clock of a POSIX system says is replaced by neither.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Final

if sys.platform == "win32":
    from time import monotonic_ns as _monotonic_ns
    from time import time_ns as _time_ns
else:
    from time import CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime_ns

    _monotonic_ns = partial(clock_gettime_ns, CLOCK_MONOTONIC)
    _time_ns = partial(clock_gettime_ns, CLOCK_REALTIME)

_BEGAN_NS: Final = _time_ns() - _monotonic_ns()
"""When the monotonic clock began."""


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return (_BEGAN_NS + _monotonic_ns()) // 1_000_000


class MonotonicEventLoop(asyncio.SelectorEventLoop):
    """asyncio's, on the system's monotonic clock; uvloop's is, too."""

    def time(self) -> float:
        """Seconds."""
        return _monotonic_ns() / 1e9
