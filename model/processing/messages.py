"""The index types, error codes and sentinels of processing."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from model.language import Index, Range

Member = Annotated[int, Index("members")]
"""One process of the application: it consumes, transforms and produces, and may come back after a
crash."""
InputOffset = Annotated[int, Range(0, "inputs")]
"""A place in the one input partition; a committed offset is that of the next record to process."""
InputOffsetOrNone = Annotated[int, Range(-1, "inputs")]
Generation = Annotated[int, Range(0, "max_generation")]

NO_MEMBER = -1
NO_OFFSET = -1


class Error(IntEnum):
    """The error codes of Kafka that the group coordinator answers here."""

    NONE = 0
    ILLEGAL_GENERATION = 22


class Fate(IntEnum):
    """The decision on a record or an offset in a transaction."""

    PENDING = 0
    COMMITTED = 1
    ABORTED = 2
