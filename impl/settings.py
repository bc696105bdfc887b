"""Checks of settings, which are frozen values, of arguments, and the largest numbers of Kafka's
protocol.

What is invalid is refused when its object is created, or its call made, with its name.
Source: the validators of `AbstractKafkaConfig`, `LogConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any, Final, NamedTuple

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
MAX_PORT: Final = 65_535
MAX_REPLICAS: Final = 2**15 - 1

_VALID: Final = "valid"


class InvalidSetting(ValueError):
    """A setting, or an argument of a call, that cannot be. Attributes: `setting`, its name."""

    def __init__(self, settings: object, name: str, may_be: str) -> None:
        is_now = getattr(settings, name)
        super().__init__(f"{type(settings).__name__}.{name} must be {may_be}, is {is_now!r}")
        self.setting = name

    def __reduce__(self) -> tuple[Any, ...]:
        """Made again without its constructor, whose arguments an exception does not keep."""
        return _restore, (type(self), self.args), vars(self)


def _restore(kind: type[InvalidSetting], args: tuple[Any, ...]) -> InvalidSetting:
    return kind.__new__(kind, *args)


class InvalidArgument(InvalidSetting):
    """An argument of a call that cannot be: `call(name)`."""

    def __init__(self, call: str, name: str, may_be: str, value: object) -> None:
        ValueError.__init__(self, f"{call}({name}) must be {may_be}, is {value!r}")
        self.setting = name


class ValidValues(NamedTuple):
    """What a value may be: in words, which follow "must be", and as a function."""

    may_be: str
    allows: Callable[[Any], bool]

    def or_none(self) -> ValidValues:
        """The same, or None."""
        return ValidValues(
            f"{self.may_be}, or None", lambda value: value is None or self.allows(value)
        )


def is_text(value: object) -> bool:
    """Whether it is a string with something in it."""
    return isinstance(value, str) and value != ""


def has_only(value: object, allows: Callable[[Any], bool]) -> bool:
    """Whether it is a tuple or a list, all of whose items are as required."""
    return isinstance(value, (tuple, list)) and all(map(allows, value))


def maps_only(
    value: object, is_key: Callable[[Any], bool], is_value: Callable[[Any], bool]
) -> bool:
    """Whether it is a mapping, all of whose keys and values are as required."""
    return (
        isinstance(value, Mapping)
        and all(map(is_key, value))
        and has_only(list(value.values()), is_value)
    )


def integers(least: int = 0, greatest: int | None = None) -> ValidValues:
    """An integer in this range. A boolean is none."""
    limit = "on" if greatest is None else f"to {greatest}"

    def allows(value: object) -> bool:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            return False
        return greatest is None or value <= greatest

    return ValidValues(f"an integer from {least} {limit}", allows)


TEXT: Final = ValidValues("text with a character at least", is_text)
BOOLEAN: Final = ValidValues("True or False", lambda value: isinstance(value, bool))
RATIO: Final = ValidValues(
    "a number from 0 to 1", lambda value: isinstance(value, (int, float)) and 0 <= value <= 1
)


def unmet(
    table: Mapping[str, ValidValues], values: Mapping[str, object]
) -> Iterator[tuple[str, str, object]]:
    """Of each value that is not as required: its name, what it may be, and what it is."""
    for name, value in values.items():
        valid = table.get(name)
        if valid is not None and not valid.allows(value):
            yield name, valid.may_be, value


def required(default: Any, valid: ValidValues) -> Any:
    """A field of `Settings` with this default, which is checked."""
    metadata = {_VALID: valid}
    if isinstance(default, Hashable):  # a factory makes a class in half as much time again
        return field(default=default, metadata=metadata)
    return field(default_factory=lambda: default, metadata=metadata)


def integer(default: int, *, least: int = 0, greatest: int | None = None) -> Any:
    """A field of `Settings`: an integer with this default and range."""
    return required(default, integers(least, greatest))


def ratio(default: float) -> Any:
    """A field of `Settings`: a number from 0 to 1 with this default."""
    return required(default, RATIO)


class Settings:
    """The base of dataclasses of settings: checks each field of the functions above.

    It has what `dataclass` would write and compile for each of them, half a millisecond a class
    whenever a broker starts: declare them with `repr=False, eq=False`. Raises `InvalidSetting`.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for setting in fields(self):  # type: ignore[arg-type]
            valid = setting.metadata.get(_VALID)
            if valid is not None and not valid.allows(getattr(self, setting.name)):
                raise InvalidSetting(self, setting.name, valid.may_be)

    def __repr__(self) -> str:
        values = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(values)})"

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))


def _values(settings: Any) -> tuple[Any, ...]:
    return tuple(getattr(settings, each.name) for each in fields(settings))
