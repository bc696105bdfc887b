"""Checks of settings, which are frozen values, and the largest numbers of Kafka's protocol.

An invalid setting is refused when its object is created, with the setting's name.
Source: the validators of `AbstractKafkaConfig`, `LogConfig`.
"""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any, Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
MAX_PORT: Final = 65_535


class InvalidSetting(ValueError):
    """A setting out of range. Attributes: `setting`, its name."""

    def __init__(self, settings: object, name: str, may_be: str) -> None:
        is_now = getattr(settings, name)
        super().__init__(f"{type(settings).__name__}.{name} must be {may_be}, is {is_now!r}")
        self.setting = name


def integer(default: int, *, least: int = 0, greatest: int | None = None) -> Any:
    """A field of `Settings`: an integer with this default and range."""
    return field(default=default, metadata={"range": (least, greatest)})


def ratio(default: float) -> Any:
    """A field of `Settings`: a number from 0 to 1 with this default."""
    return field(default=default, metadata={"ratio": True})


class Settings:
    """The base of dataclasses of settings: checks each field of the functions above.

    Raises `InvalidSetting`.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for setting in fields(self):  # type: ignore[arg-type]
            self._check_range(setting)

    def _check_range(self, setting: Field[Any]) -> None:
        value, bounds = getattr(self, setting.name), setting.metadata.get("range")
        if setting.metadata.get("ratio") and not 0 <= value <= 1:
            raise InvalidSetting(self, setting.name, "a number from 0 to 1")
        if bounds is None:
            return
        least, greatest = bounds
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or value < least or (greatest is not None and value > greatest):
            limit = "on" if greatest is None else f"to {greatest}"
            raise InvalidSetting(self, setting.name, f"an integer from {least} {limit}")
