"""Records that are alike, read together; and timestamps alone, which a leader checks of a batch.

Three rules:

1. What is accepted here is what `read_records` accepts, with the same result; only it raises.
2. A run is records of one size, in which each byte of a length is the same, and each number has the
   same width; they have no headers. Most producers send such batches.
3. A run is checked by columns: one slice has the same byte of all its records. Where it is short,
   records are read one by one.

Theory of operation: the first record of a run gives its shape, that is for each byte of a number
the bytes that may stand there in the others. The first column with another byte ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from mypy_extensions import i64

from impl.form import IS_COMPILED
from impl.protocol.errors import DecodeError
from impl.protocol.primitives import decode_varint, decode_varlong
from impl.protocol.records import (
    end_of_number,
    is_near,
    number_at,
    number_format,
    read_by_numbers,
    read_records,
)

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

    The timestamp is at place `timestamp`, before `offset`. `unpack` gives timestamps and offsets,
    to be looked up in their tables, keys and values: empty where they are null.
    """

    size_bytes: int
    allowed: list[tuple[int, bytes]]
    timestamp: int
    offset: int
    unpack: Callable[[bytes], Iterator[tuple[Any, ...]]]
    timestamps: Any
    offsets: Any
    has_key: bool
    has_value: bool


def read_rows(
    data: bytes, position: int, end: int, count: int, base_timestamp: int, named: bool = True
) -> list[Any]:
    """What `read_records` returns, from the same arguments. Raises as it."""
    if IS_COMPILED:
        return read_by_numbers(data, position, end, count, base_timestamp, named)
    if count < _LEAST:
        return read_records(data, position, end, count, base_timestamp, named)
    rows: list[Any] = []
    while run := _run_at(data, position, end, count, base_timestamp):
        shape, following, length = run
        rows += _rows(shape, data[position:following], base_timestamp)
        position, count = following, count - length
    rest = read_records(data, position, end, count, base_timestamp, named)
    return rows + rest if rows else rest


def read_timestamps(
    data: bytes, position: int, end: int, count: int, base_timestamp: int
) -> set[int]:
    """The different timestamps of `count` records that fill `data` from `position` to `end`.

    Raises `InvalidRecord`.
    """
    if IS_COMPILED or count < _LEAST:
        skimmed = _skim_deltas(data, position, end, count)
        if skimmed is not None and is_near(base_timestamp):
            return {base_timestamp + delta for delta in skimmed}
    timestamps: set[int] = set()
    while run := _run_at(data, position, end, count, base_timestamp):
        shape, following, length = run
        deltas = _deltas(shape, data[position:following])
        timestamps |= {base_timestamp + delta for delta in deltas}
        position, count = following, count - length
    rest = read_records(data, position, end, count, base_timestamp, False)
    timestamps.update([record[1] for record in rest])
    return timestamps


def _skim_deltas(data: bytes, position: i64, end: i64, count: int) -> set[int] | None:
    """The different timestamp deltas of `count` records from `position` to `end`.

    None unless they have no headers, and numbers of at most three bytes. Compiled, this is the
    fastest way to check any batch; in Python columns are faster.
    """
    deltas: set[int] = set()
    last: i64 = -1
    try:
        for _ in range(count):
            size, position = number_at(data, position)
            stop = position + (size >> 1)
            delta, position = number_at(data, position + 1)
            offset, position = number_at(data, position)
            key, position = number_at(data, position)
            if not key & 1:
                position += key >> 1
            value, position = number_at(data, position)
            if not value & 1:
                position += value >> 1
            has_headers = data[position] != 0
            position += 1
            if size & 1 or delta < 0 or offset < 0 or key < 0 or value < 0:
                return None
            if has_headers or position != stop:
                return None
            if delta != last:
                deltas.add((delta >> 1) ^ -(delta & 1))
                last = delta
    except IndexError:
        return None
    return deltas if position == end else None


def _run_at(
    data: bytes, position: int, end: int, count: int, base_timestamp: int
) -> tuple[_Shape, int, int] | None:
    """The run that begins at `position`: its shape, its end, and how many records it has."""
    if count < _LEAST or not is_near(base_timestamp):
        return None
    shape = _shape_at(data, position, end)
    length = 0 if shape is None else _length(shape, data, position, end, count)
    if shape is None or length < _LEAST:
        return None
    return shape, position + length * shape.size_bytes, length


def _shape_at(data: bytes, position: int, end: int) -> _Shape | None:
    """The shape of the record at `position`; None if it is no part of a run."""
    try:
        size, attributes = decode_varint(data, position)
        following = attributes + size
        if data[following : following + attributes - position] != data[position:attributes]:
            return None  # as most of records that are not alike
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
    is_plain = not has_headers and headers + 1 == following <= end
    are_short = offset - timestamp <= _MOST_TIMESTAMP_BYTES and key - offset <= _MOST_OFFSET_BYTES
    if not (is_plain and are_short):
        return None
    return _shape(
        data[position:attributes],
        offset - timestamp,
        key - offset,
        data[key:after_key],
        key_bytes,
        data[value:after_value],
        value_bytes,
    )


@lru_cache(maxsize=1_024)
def _shape(
    size: bytes,
    timestamp_bytes: int,
    offset_bytes: int,
    key_size: bytes,
    key_bytes: int,
    value_size: bytes,
    value_bytes: int,
) -> _Shape:
    """Sizes are those of the record, of its key and of its value; negative ones are null."""
    timestamp = len(size) + 1
    offset = timestamp + timestamp_bytes
    key = offset + offset_bytes
    value = key + len(key_size) + max(key_bytes, 0)
    headers = value + len(value_size) + max(value_bytes, 0)
    allowed = [
        *_same(0, size),
        *_same(key, key_size),
        *_same(value, value_size),
        *_same(headers, b"\0"),
        *_number(timestamp, timestamp_bytes),
        *_number(offset, offset_bytes),
    ]
    timestamp_code, timestamps = number_format(timestamp_bytes)
    offset_code, offsets = number_format(offset_bytes)
    fields = f"{len(key_size)}x{max(key_bytes, 0)}s{len(value_size)}x{max(value_bytes, 0)}s"
    layout = Struct(f"<{timestamp}x{timestamp_code}{offset_code}{fields}x")
    return _Shape(
        layout.size,
        allowed,
        timestamp,
        offset,
        layout.iter_unpack,
        timestamps,
        offsets,
        key_bytes >= 0,
        value_bytes >= 0,
    )


def _same(place: int, content: bytes) -> list[tuple[int, bytes]]:
    """These bytes are the same in all records."""
    return [(place + at, content[at : at + 1]) for at in range(len(content))]


def _number(place: int, width: int) -> list[tuple[int, bytes]]:
    """These bytes are a number, of the same width in all records."""
    return [*((place + at, _NOT_LAST) for at in range(width - 1)), (place + width - 1, _LAST)]


def _length(shape: _Shape, data: bytes, position: int, end: int, count: int) -> int:
    """How many records, at most `count`, have this shape."""
    length = min(count, (end - position) // shape.size_bytes)
    for place, allowed in shape.allowed:
        stop = position + length * shape.size_bytes
        column = data[position + place : stop : shape.size_bytes]
        length -= len(column.lstrip(allowed))
    return length


def _rows(shape: _Shape, run: bytes, base_timestamp: int) -> list[Any]:
    *_, unpack, timestamps, offsets, has_key, has_value = shape
    return [
        (
            offsets[offset],
            base_timestamp + timestamps[delta],
            key if has_key else None,
            value if has_value else None,
            (),
        )
        for delta, offset, key, value in unpack(run)
    ]


def _deltas(shape: _Shape, run: bytes) -> set[int]:
    """The different timestamp deltas of the records of a run."""
    columns = [run[place :: shape.size_bytes] for place in range(shape.timestamp, shape.offset)]
    numbers = set(zip(*columns, strict=True)) if len(columns) > 1 else zip(set(columns[0]))
    return {decode_varlong(bytes(number), 0)[0] for number in numbers}
