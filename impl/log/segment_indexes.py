"""The offset index and the time index of a segment.

Three rules:

1. The bytes are Kafka's: entries of 8 bytes (relative offset, position of the batch in the file)
   and of 12 (timestamp, relative offset).
2. An entry is added before the first batch that is more than `INDEX_INTERVAL_BYTES` after the last
   one; it names the batch's last offset.
3. Timestamps increase strictly. The newest one is added when the file is written.

Source: `LogSegment.append`, `OffsetIndex`, `TimeIndex.maybeAppend`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

INDEX_INTERVAL_BYTES: Final = 4096
"""`index.interval.bytes`."""

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")


class SegmentIndexes:
    """Both indexes of the segment that begins at `base_offset`, as its batches are added."""

    __slots__ = ("_base_offset", "_newest", "_offsets", "_since_entry", "_times", "size_bytes")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets: list[tuple[int, int]] = []
        self._times: list[tuple[int, int]] = []
        self._newest = (-1, 0)
        self._since_entry = 0
        self.size_bytes = 0

    def add(self, last_offset: int, max_timestamp: int, size_bytes: int) -> None:
        """Add the next batch of the file."""
        relative = last_offset - self._base_offset
        if max_timestamp > self._newest[0]:
            self._newest = (max_timestamp, relative)
        if self._since_entry > INDEX_INTERVAL_BYTES:
            self._offsets.append((relative, self.size_bytes))
            if self._has_newer:
                self._times.append(self._newest)
            self._since_entry = 0
        self._since_entry += size_bytes
        self.size_bytes += size_bytes

    @property
    def _has_newer(self) -> bool:
        return self._newest[0] > (self._times[-1][0] if self._times else -1)

    def encode_offset_index(self) -> bytes:
        """The bytes of the `.index` file."""
        return b"".join(_OFFSET_ENTRY.pack(*entry) for entry in self._offsets)

    def encode_time_index(self) -> bytes:
        """The bytes of the `.timeindex` file."""
        entries = [*self._times, self._newest] if self._has_newer else self._times
        return b"".join(_TIME_ENTRY.pack(*entry) for entry in entries)
