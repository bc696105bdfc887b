"""The names of things here."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from model.language import Index, Range

Member = Annotated[int, Index("members")]
"""One application, which consumes, transforms and produces, and which may come back."""
InputOffset = Annotated[int, Range(0, "inputs")]
"""A place in the one input partition; a committed offset is the next record to be processed."""
InputOffsetOrNone = Annotated[int, Range(-1, "inputs")]
Generation = Annotated[int, Range(0, "max_generation")]

NO_MEMBER = -1
NO_OFFSET = -1


class Error(IntEnum):
    """Kafka's error codes, as many as the group coordinator answers here."""

    NONE = 0
    ILLEGAL_GENERATION = 22


class Fate(IntEnum):
    """What has been decided of a record or an offset in a transaction."""

    PENDING = 0
    COMMITTED = 1
    ABORTED = 2
