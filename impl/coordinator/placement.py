"""Internal topics: the leader of a partition coordinates the names that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from impl.protocol.errors import ErrorCode

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
OFFSETS_TOPIC: Final = "__consumer_offsets"

_E = ErrorCode

LOG_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
    {
        _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE,
        _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
        _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    }
)
"""An error of an internal topic's log to the coordinator's answer."""

_INT_MIN: Final = -(1 << 31)


def java_string_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + units[index] * 256 + units[index + 1]) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def partition_for(name: str, num_partitions: int) -> int:
    """The partition of a transactional id or a group. `TransactionStateManager.partitionFor`."""
    value = java_string_hash(name)
    return (0 if value == _INT_MIN else abs(value)) % num_partitions
