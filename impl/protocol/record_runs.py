"""The timestamps of records, without the records: what a leader checks of a batch.

Three rules:

1. What is accepted here is what `read_records` accepts, with the same timestamps; only it raises.
2. A run is records of one size, in which each byte of a length is the same, and each number has the
   same width; they have no headers. Most producers send such batches.
3. A run is checked by columns: one slice has the same byte of all its records. Where it is short,
   records are read one by one.

Theory of operation: the first record of a run gives its shape, that is for each byte of a number
the bytes that may stand there in the others. The first column with another byte ends the run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.protocol.errors import DecodeError
from impl.protocol.primitives import decode_varint, decode_varlong
from impl.protocol.records import end_of_number, is_near, read_records

_LEAST: Final = 16
"""In fewer records than this, to find a run takes longer than to read them."""

_LAST: Final = bytes(range(128))
"""The bytes that end a number."""
_NOT_LAST: Final = bytes(range(128, 256))
_MOST_TIMESTAMP_BYTES: Final = 2
_MOST_OFFSET_BYTES: Final = 4
"""Of as many bytes, every number is an int32."""


class _Shape(NamedTuple):
    """What the records of a run have in common: their size, and by place the possible bytes.

    The timestamp is at place `timestamp`, before `offset`.
    """

    size_bytes: int
    allowed: list[tuple[int, bytes]]
    timestamp: int
    offset: int


def read_timestamps(
    data: bytes, position: int, end: int, count: int, base_timestamp: int
) -> set[int]:
    """The different timestamps of `count` records that fill `data` from `position` to `end`.

    Raises `InvalidRecord`.
    """
    timestamps: set[int] = set()
    while count >= _LEAST and is_near(base_timestamp):
        shape = _shape_at(data, position, end)
        length = 0 if shape is None else _length(shape, data, position, end, count)
        if shape is None or length < _LEAST:
            break
        following = position + length * shape.size_bytes
        deltas = _deltas(shape, data[position:following])
        timestamps |= {base_timestamp + delta for delta in deltas}
        position, count = following, count - length
    rest = read_records(data, position, end, count, base_timestamp, False)
    timestamps.update([record[1] for record in rest])
    return timestamps


def _shape_at(data: bytes, position: int, end: int) -> _Shape | None:
    """The shape of the record at `position`; None if it is no part of a run."""
    try:
        size, attributes = decode_varint(data, position)
        timestamp = attributes + 1
        offset = end_of_number(data, timestamp)
        key = end_of_number(data, offset)
        key_bytes, after_key = decode_varint(data, key)
        value = after_key + max(key_bytes, 0)
        value_bytes, after_value = decode_varint(data, value)
        headers = after_value + max(value_bytes, 0)
        has_headers = data[headers] != 0
    except (IndexError, DecodeError):
        return None
    is_plain = not has_headers and headers + 1 == attributes + size <= end
    are_short = offset - timestamp <= _MOST_TIMESTAMP_BYTES and key - offset <= _MOST_OFFSET_BYTES
    if not (is_plain and are_short):
        return None
    allowed = [
        *_same(data, position, position, attributes),
        *_same(data, position, key, after_key),
        *_same(data, position, value, after_value),
        *_same(data, position, headers, headers + 1),
        *_number(position, timestamp, offset),
        *_number(position, offset, key),
    ]
    return _Shape(headers + 1 - position, allowed, timestamp - position, offset - position)


def _same(data: bytes, first: int, begin: int, end: int) -> list[tuple[int, bytes]]:
    """These bytes are the same in all records. `first` is where this one begins."""
    return [(place - first, data[place : place + 1]) for place in range(begin, end)]


def _number(first: int, begin: int, end: int) -> list[tuple[int, bytes]]:
    """These bytes are a number, of the same width in all records."""
    return [
        *((place - first, _NOT_LAST) for place in range(begin, end - 1)),
        (end - 1 - first, _LAST),
    ]


def _length(shape: _Shape, data: bytes, position: int, end: int, count: int) -> int:
    """How many records, at most `count`, have this shape."""
    length = min(count, (end - position) // shape.size_bytes)
    for place, allowed in shape.allowed:
        stop = position + length * shape.size_bytes
        column = data[position + place : stop : shape.size_bytes]
        length -= len(column.lstrip(allowed))
    return length


def _deltas(shape: _Shape, run: bytes) -> set[int]:
    """The different timestamp deltas of the records of a run."""
    columns = [run[place :: shape.size_bytes] for place in range(shape.timestamp, shape.offset)]
    numbers = set(zip(*columns, strict=True)) if len(columns) > 1 else zip(set(columns[0]))
    return {decode_varlong(bytes(number), 0)[0] for number in numbers}
