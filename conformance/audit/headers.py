"""Reads the headers of the batches in a segment into one table, and checks their checksums.

Python follows the chain of lengths; then all headers are gathered at once. `google_crc32c` computes
the checksums. Batches before format 2 (magic 0 and 1) have no producers: they are counted, and
their checksums checked.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from impl.protocol.control_records import ControlType, read_marker
from impl.protocol.crc32c import crc32c
from impl.protocol.errors import ProtocolError
from impl.protocol.record_batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    decode_batch,
)

Rows = np.ndarray[Any, np.dtype[np.void]]

Content = memoryview | bytes
"""A segment, or an answer to Fetch."""

WIRE: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""The header as the file has it. `DefaultRecordBatch`."""

KEPT: Final = (
    "base_offset",
    "last_offset_delta",
    "attributes",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
    "max_timestamp",
)
ROW: Final = np.dtype(
    [
        *((name, WIRE[name].newbyteorder("=")) for name in KEPT),
        ("control_type", "i2"),
        ("coordinator_epoch", "i4"),
    ]
)
"""The values kept of a batch. `control_type` is -1 for data; `coordinator_epoch` is -1 except for
markers."""

SMALLEST_BYTES: Final = 14
"""The least length that a batch of any format has."""
CRC_OFFSET: Final = 17
OFFSETS_IN_SEGMENT: Final = 1 << 31
"""More offsets than a segment has: they are relative to its base offset, and signed."""
_offset_at: Final = Struct(">q").unpack_from
_length_at: Final = Struct(">i").unpack_from
_crc_at: Final = Struct(">I").unpack_from

MARKER: Final = np.frombuffer(bytes.fromhex("200000000800000000"), np.uint8)
"""A marker's record up to the last byte of its type, which may be 1: length, attributes, deltas,
the size of the key, version 0, type."""
MARKER_BYTES: Final = len(MARKER) + 7
VALUE_BYTES: Final = 12
"""The size of a marker's value, as the record has it."""


class SegmentBatches(NamedTuple):
    """The content of a file: `rows` of its sound batches; the place from which on it is unreadable,
    if any; the base offsets of batches with a wrong checksum; the number of batches in older
    formats."""

    rows: Rows
    bytes: int
    damaged_at: int | None
    torn_off_at: int | None
    corrupt: tuple[tuple[int, int], ...]
    older_batches: int


def read_batches(data: Content) -> SegmentBatches:
    """Read the batches that follow each other."""
    if not data:
        return SegmentBatches(np.empty(0, ROW), 0, None, None, (), 0)
    positions, checksums, end = walk(data)
    buffer = np.frombuffer(data, np.uint8)
    whole = positions[positions + HEADER_BYTES <= len(buffer)]
    headers = gather(buffer, whole, HEADER_BYTES).view(WIRE).reshape(-1)
    current = np.zeros(len(positions), bool)
    current[: len(whole)] = headers["magic"] == MAGIC
    sound = headers["crc"] == checksums[: len(whole)]
    kept = current & sound
    rows = np.empty(int(kept.sum()), ROW)
    for name in KEPT:
        rows[name] = headers[name][kept]
    read_markers(data, buffer, whole[kept], rows)
    is_older = np.array([is_of_older_format(data, int(at)) for at in positions[~current]], bool)
    bad = np.concatenate([whole[current & ~sound], positions[~current][~is_older]])
    corrupt = tuple((_offset_at(data, int(at))[0], int(at)) for at in np.sort(bad))
    last = _offset_at(data, int(positions[-1]))[0] if len(positions) else -1
    damaged, torn_off = why_it_ends(data, end, last)
    del buffer, headers
    return SegmentBatches(rows, len(data), damaged, torn_off, corrupt, int(is_older.sum()))


def walk(data: Content) -> tuple[Any, Any, int]:
    """The position of each batch, its expected checksum, and the position after which no batch
    follows."""
    positions, checksums = list[int](), list[int]()
    add_position, add_checksum = positions.append, checksums.append
    position, last = 0, len(data)
    while position + CRC_OFFSET <= last:
        (length,) = _length_at(data, position + 8)
        following = position + LOG_OVERHEAD_BYTES + length
        if length < SMALLEST_BYTES or following > last:
            break
        add_position(position)
        add_checksum(crc32c(bytes(data[position + CRC_OFFSET + 4 : following])))
        position = following
    return np.array(positions, np.int64), np.array(checksums, np.uint32), position


def gather(buffer: Any, positions: Any, width: int) -> Any:
    """A row of `width` bytes from each position."""
    windows = np.lib.stride_tricks.as_strided(
        buffer, (max(0, len(buffer) - width + 1), width), (1, 1), writeable=False
    )
    return windows[positions]


def is_of_older_format(data: Content, position: int) -> bool:
    """Whether a batch has magic 0 or 1, and the checksum of its bytes.
    `LegacyRecord.ensureValid`."""
    (length,) = _length_at(data, position + 8)
    body = data[position + MAGIC_OFFSET : position + LOG_OVERHEAD_BYTES + length]
    return body[0] < MAGIC and zlib.crc32(body) == _crc_at(data, position + LOG_OVERHEAD_BYTES)[0]


def why_it_ends(data: Content, end: int, last_offset: int) -> tuple[int | None, int | None]:
    """(where it is damaged, where it is torn off). The end of the file may cut a batch, and then
    nothing follows; bytes that are zero to the end were allocated in advance."""
    rest = bytes(data[end:])
    if not rest.strip(b"\0"):
        is_cut = 0 < len(rest) < LOG_OVERHEAD_BYTES
        return (None, end) if is_cut else (None, None)
    is_torn = begins_as_batch(rest, last_offset) and not has_batch_behind(rest, last_offset)
    return (None, end) if is_torn else (end, None)


def begins_as_batch(rest: bytes, last_offset: int) -> bool:
    """Whether these bytes may begin a batch that follows one with a known base offset."""
    if len(rest) < LOG_OVERHEAD_BYTES:
        return True
    is_next = 0 < _offset_at(rest)[0] - last_offset < OFFSETS_IN_SEGMENT
    has_magic = len(rest) <= MAGIC_OFFSET or rest[MAGIC_OFFSET] <= MAGIC
    return is_next and has_magic and _length_at(rest, 8)[0] >= SMALLEST_BYTES


def has_batch_behind(rest: bytes, last_offset: int) -> bool:
    """Whether the unreadable part has a whole batch anywhere: then a length has changed."""
    at = rest.find(MAGIC, MAGIC_OFFSET + 1)
    while at >= 0:
        begin = at - MAGIC_OFFSET
        (length,) = _length_at(rest, begin + 8)
        end = begin + LOG_OVERHEAD_BYTES + length
        is_next = 0 < _offset_at(rest, begin)[0] - last_offset < OFFSETS_IN_SEGMENT
        if is_next and begin + HEADER_BYTES <= end <= len(rest):
            body = rest[begin + CRC_OFFSET + 4 : end]
            if crc32c(body) == _crc_at(rest, begin + CRC_OFFSET)[0]:
                return True
        at = rest.find(MAGIC, at + 1)
    return False


def read_markers(data: Content, buffer: Any, positions: Any, rows: Rows) -> None:
    """Fill the columns that only control batches have: all at once for those of the usual form."""
    rows["control_type"] = rows["coordinator_epoch"] = -1
    control = np.flatnonzero(rows["attributes"] & CONTROL)
    begins = positions[control] + HEADER_BYTES
    fits = begins + MARKER_BYTES <= len(buffer)
    control, begins = control[fits], begins[fits]
    records = gather(buffer, begins, MARKER_BYTES)
    head, types = records[:, : len(MARKER) - 1], records[:, len(MARKER) - 1]
    usual = (head == MARKER[:-1]).all(axis=1) & (types <= ControlType.COMMIT)
    usual &= records[:, len(MARKER)] == VALUE_BYTES
    rows["control_type"][control[usual]] = types[usual]
    values = np.ascontiguousarray(records[usual, len(MARKER) + 3 : len(MARKER) + 7])
    rows["coordinator_epoch"][control[usual]] = values.view(">i4").reshape(-1)
    for number, position in zip(control[~usual], positions[control[~usual]], strict=True):
        rows["control_type"][number], rows["coordinator_epoch"][number] = decoded_marker(
            data, int(position)
        )


def decoded_marker(data: Content, position: int) -> tuple[int, int]:
    """(type, coordinator epoch) of a control batch of any form; -1 if it is not a marker."""
    (length,) = _length_at(data, position + 8)
    try:
        batch = decode_batch(bytes(data[position : position + LOG_OVERHEAD_BYTES + length]))
        marker = read_marker(batch.records[0]) if batch.records else None
    except ProtocolError:
        return -1, -1
    return (-1, -1) if marker is None else (int(marker.control_type), marker.coordinator_epoch)
