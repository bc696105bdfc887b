"""What numbers in the fields of several messages mean."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

CONSUMER_REPLICA: Final = -1
"""The replica id of a consumer; a broker has its own, a tool for debugging -2."""


class CoordinatorType(IntEnum):
    """`key_type` of FindCoordinator. `FindCoordinatorRequest.CoordinatorType`."""

    GROUP = 0
    TRANSACTION = 1


class Isolation(IntEnum):
    """`isolation_level` of Fetch and ListOffsets. `IsolationLevel`."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Timestamp(IntEnum):
    """What is asked of ListOffsets instead of a time. `ListOffsetsRequest`."""

    LATEST = -1
    EARLIEST = -2
    MAX = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6
