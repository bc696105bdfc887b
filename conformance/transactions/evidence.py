"""Records as JSON: what was seen, without the clock, so that equal runs are equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

_OF_THE_CLOCK: Final = "_timestamp"


def plain(value: Any) -> Any:
    """A value of JSON: records by field, enums by name, partitions as `topic-0`."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in fields(value) if not f.name.endswith(_OF_THE_CLOCK)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key_text(key): plain(row) for key, row in value.items()}
    if isinstance(value, tuple) and is_partition(value):
        return key_text(value)
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(row) for row in value]
    return value


def is_partition(value: object) -> bool:
    """Whether it is a topic's name with a partition's index."""
    match value:
        case (str(), int()):
            return True
    return False


def key_text(key: Any) -> str:
    """`topic-0`; `group/topic-0`."""
    match key:
        case (str(name), int(index)):
            return f"{name}-{index}"
        case (str(group), tuple(partition)):
            return f"{group}/{key_text(partition)}"
    return str(key)
