"""The clock of brokers under test: the machine's time, or one that only waiting advances."""

from __future__ import annotations

import time
from typing import Final, Protocol


class BrokersClock(Protocol):
    """The time for sessions and their scheduler, in seconds."""

    def now_s(self) -> float:
        """The time; it never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let this much time pass."""


class MachineClock:
    """The clock of this machine."""

    def now_s(self) -> float:
        """See `BrokersClock`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `BrokersClock`."""
        time.sleep(seconds)


MACHINE_CLOCK: Final = MachineClock()
