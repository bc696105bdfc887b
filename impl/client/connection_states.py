"""When an address that cannot be reached is tried again, and how often that is logged.

Two rules:

1. Behind the first failure an address is left alone for RECONNECT_BACKOFF_S, and behind each one
   that follows for twice as long, up to RECONNECT_BACKOFF_MAX_S, 20 % more or less.
2. The first failure is a warning, the second, fourth, eighth, and so on; what is reached again
   after a failure is told.

Source: `ClusterConnectionStates` of Kafka 4.3.1 (`reconnect.backoff.ms`), KIP-144.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from random import Random
from typing import Final

RECONNECT_BACKOFF_S: Final = 0.05
RECONNECT_BACKOFF_MAX_S: Final = 1.0
JITTER: Final = 0.2

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failures:
    """Of one address, since it was reached for the last time."""

    count: int
    reason: str
    until_s: float


class ConnectionStates:
    """The addresses that cannot be reached, by name (host:port)."""

    def __init__(self, rng: Random | None = None) -> None:
        """`rng` makes the jitter."""
        self._rng = rng or Random()
        self._failures: dict[str, _Failures] = {}

    def check(self, address: str, now_s: float) -> None:
        """Raise `ConnectionRefusedError`, with the last reason, while an address is left alone."""
        failures = self._failures.get(address)
        if failures is not None and now_s < failures.until_s:
            raise ConnectionRefusedError(failures.reason)

    def note_failure(self, address: str, error: OSError, now_s: float) -> None:
        """The address cannot be reached."""
        known = self._failures.get(address)
        count = 1 if known is None else known.count + 1
        plain_s = min(RECONNECT_BACKOFF_S * 2 ** min(count - 1, 16), RECONNECT_BACKOFF_MAX_S)
        until_s = now_s + plain_s * self._rng.uniform(1 - JITTER, 1 + JITTER)
        reason = str(error) or type(error).__name__
        self._failures[address] = _Failures(count, reason, until_s)
        if count & (count - 1) == 0:
            so_far = f" ({count} failures so far)" if count > 1 else ""
            _log.warning("%s cannot be reached: %s%s", address, reason, so_far)

    def note_success(self, address: str) -> None:
        """The address is reached."""
        failures = self._failures.pop(address, None)
        if failures is not None:
            _log.info("%s is reached again, after %d failures", address, failures.count)
