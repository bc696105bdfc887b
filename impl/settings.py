"""Settings that are frozen values: each says from where on its numbers make sense.

One rule: a value that no broker starts with is refused when it is made, by the name of the setting.
The largest numbers of Kafka's protocol are here, too: settings and arguments go up to them.
Source: the validators of `AbstractKafkaConfig`, `LogConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
MAX_PORT: Final = 65_535


class InvalidSetting(ValueError):
    """A setting that no broker starts with. Attributes: `setting`, its name."""

    def __init__(self, settings: object, name: str, may_be: str) -> None:
        is_now = getattr(settings, name)
        super().__init__(f"{type(settings).__name__}.{name} must be {may_be}, is {is_now!r}")
        self.setting = name


def check_least(settings: object, least: Mapping[str, int]) -> None:
    """Whether each of these numbers is one, and not too small. Raises `InvalidSetting`."""
    for name, smallest in least.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            raise InvalidSetting(settings, name, f"an integer from {smallest} on")
