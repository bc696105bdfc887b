"""Checks of settings, which are frozen values, and the largest numbers of Kafka's protocol.

An invalid setting is refused when its object is created, with the setting's name.
Source: the validators of `AbstractKafkaConfig`, `LogConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
MAX_PORT: Final = 65_535


class InvalidSetting(ValueError):
    """A setting out of range. Attributes: `setting`, its name."""

    def __init__(self, settings: object, name: str, may_be: str) -> None:
        is_now = getattr(settings, name)
        super().__init__(f"{type(settings).__name__}.{name} must be {may_be}, is {is_now!r}")
        self.setting = name


def check_least(settings: object, least: Mapping[str, int]) -> None:
    """Check that these settings are integers of at least this value. Raises `InvalidSetting`."""
    for name, smallest in least.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            raise InvalidSetting(settings, name, f"an integer from {smallest} on")
