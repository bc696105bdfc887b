"""The partitions of internal topics, whose leaders are the coordinators of names."""

from __future__ import annotations

from typing import Final

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
OFFSETS_TOPIC: Final = "__consumer_offsets"

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
