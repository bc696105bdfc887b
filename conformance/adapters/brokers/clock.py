"""The time that passes while brokers are judged: the machine's, or one that only waiting moves."""

from __future__ import annotations

import time
from typing import Final, Protocol


class BrokersClock(Protocol):
    """What sessions and their scheduler ask for the time, in seconds."""

    def now_s(self) -> float:
        """A time that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let so much of it pass."""


class MachineClock:
    """That of this machine."""

    def now_s(self) -> float:
        """See `BrokersClock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `BrokersClock`."""
        time.sleep(seconds)


MACHINE_CLOCK: Final = MachineClock()
