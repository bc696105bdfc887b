"""Which partition a record goes to when its sender does not say.

1. A key goes to the same partition as Java's client sends it to: murmur2 of its bytes.
2. Records without a key stay with one partition for a batch's worth of bytes, then move on
   (KIP-794), so that batches fill.

Source: `BuiltInPartitioner`, `Utils.murmur2` of Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ (word >> _R)) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ word
    if length > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ (hashed >> 13)) * _M & _MASK
    return hashed ^ (hashed >> 15)


class Partitioner:
    """The partitions of one producer's records; `batch_size` in bytes."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = max(batch_size, 1)
        self._sent_bytes: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, size_bytes: int, partitions: int) -> int:
        """The partition of a record of that size."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % partitions
        sent_bytes = self._sent_bytes.get(topic, 0)
        self._sent_bytes[topic] = sent_bytes + max(size_bytes, 1)
        return sent_bytes // self._batch_size % partitions
