"""Records of format v2: written one at a time, read a block at a time.

Four rules:

1. `_write_record` and `_read_record` define the format, and only they raise errors. The fast paths,
   of Python and of compiled code, return the same, or fall back to them.
2. Reading trusts no size: fields must fill their record, records must fill their block.
3. Numbers of one or two bytes are looked up, not computed. Tables have None for invalid input; a
   sum with None is how the fast path detects it.
4. A key or value with any negative length is null, as in `DefaultRecord.readFrom`.

Theory of operation: the numbers before a value (size, timestamp, offset, length of the key) have
the same widths in most records of a batch. A layout is a choice of these widths, with a compiled
`struct` for each length of a key, so that one call unpacks all that precedes the value. Then the
sizes must add up. If they do not, the record's widths are measured: it has another layout, and
following records probably too; or it has this one (a null value) and is read byte by byte.
Sources: `DefaultRecord`, `ByteUtils`; KIP-82, KIP-98.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from impl.form import IS_COMPILED
from impl.protocol.errors import (
    DecodeError,
    InvalidField,
    InvalidRecord,
    InvalidVarint,
    TruncatedFrame,
)
from impl.protocol.primitives import (
    VARINT,
    decode_varint,
    decode_varlong,
)

Header = tuple[str, bytes | None]
"""A record header: its key, never null, and its value."""


class Record(NamedTuple):
    """One record. `timestamp` is absolute, `offset_delta` counts from the batch's base offset."""

    offset_delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


RawRecord = tuple[int, int, bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]
"""The fields of a `Record`; header keys may still be bytes."""

_TWO_BYTES_END: Final = 1 << 14
_INT64: Final = 1 << 63
_FAR: Final = 1 << 61
_FAR_BACK: Final = -_FAR
_join: Final = b"".join


# Writing: tables from a number to its bytes.

_SHORT: Final = [
    bytes((raw,)) if raw < 128 else bytes((raw & 127 | 128, raw >> 7))
    for raw in range(_TWO_BYTES_END)
]
_LENGTHS: Final = _SHORT[::2]
_COUNTS: Final = _LENGTHS[:16]
_LATER: Final = [b"\0" + number for number in _LENGTHS]
"""Attributes, which are always 0, and a timestamp delta."""
_EARLIER: Final = [b"\0" + number for number in _SHORT[::-2]]
"""The same for negative deltas, indexed by them: -1 is the last."""

_NAMES: Final[dict[str, list[Callable[[tuple[bytes, bytes]], bytes]]]] = {}
"""By header key and length of the value: a function that joins the prefix and the value.

Applications use few keys, and header values are short.
"""


def _remember(name: str) -> bytes:
    encoded = _sized(name.encode())
    if len(_NAMES) < 256 and len(name) < 64:
        _NAMES[name] = [(encoded + length).join for length in _LENGTHS[:128]]
    return encoded


def _sized(field: Any) -> bytes:
    return b"\1" if field is None else VARINT[len(field)] + field


def _write_record(
    offset_delta: Any, timestamp_delta: Any, key: Any, value: Any, headers: Any
) -> bytes:
    try:
        parts = [b"\0", VARINT[timestamp_delta], VARINT[offset_delta], _sized(key), _sized(value)]
        parts.append(VARINT[len(headers)])
        for name, content in headers:
            parts += (_remember(name), _sized(content))
        body = b"".join(parts)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidField(str(error), f"record {offset_delta}") from error
    return VARINT[len(body)] + body


def encode_record(
    offset_delta: Any, timestamp_delta: Any, key: Any, value: Any, headers: Any = ()
) -> bytes:
    """One record with its length in front. Raises `InvalidField`. `DefaultRecord.writeTo`.

    Deltas are integers, key and value bytes or None, headers as in `Record`. What applications give
    is checked here alone, with an error that names the record: so no type is declared, which
    compiled code would check before.
    """
    try:
        if IS_COMPILED:
            return _write_by_numbers(offset_delta, timestamp_delta, key, value, headers)
        tail = b"\0"
        if headers:
            tail = _COUNTS[len(headers)]
            for name, content in headers:
                tail = _NAMES[name][len(content)]((tail, content))
        body = _join(
            (
                _LATER[timestamp_delta] if timestamp_delta >= 0 else _EARLIER[timestamp_delta],
                _LENGTHS[offset_delta] if offset_delta >= 0 else VARINT[offset_delta],
                b"\1" if key is None else _LENGTHS[len(key)],
                b"" if key is None else key,
                b"\1" if value is None else _LENGTHS[len(value)],
                b"" if value is None else value,
                tail,
            )
        )
        return _LENGTHS[len(body)] + body
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return _write_record(offset_delta, timestamp_delta, key, value, headers)


# Writing to a buffer, for compiled code.


def _write_by_numbers(
    offset_delta: i64, timestamp_delta: i64, key: bytes | None, value: bytes | None, headers: Any
) -> bytes:
    out = BytesWriter()
    out.append(0)
    _write_varint(out, timestamp_delta)
    _write_varint(out, offset_delta)
    _write_sized(out, key)
    _write_sized(out, value)
    if headers:
        _write_varint(out, len(headers))
        name: str
        content: bytes | None
        for name, content in headers:
            _write_sized(out, name.encode())
            _write_sized(out, content)
    else:
        out.append(0)
    body = out.getvalue()
    size = len(body)
    return (_LENGTHS[size] if size < _TWO_BYTES_END >> 1 else VARINT[size]) + body


def _write_varint(out: BytesWriter, value: i64) -> None:
    code = (value << 1) ^ (value >> 63)
    if code < 0:
        raise ValueError("more than 62 bits")
    while code > 127:
        out.append(u8(code & 127 | 128))
        code >>= 7
    out.append(u8(code))


def _write_sized(out: BytesWriter, field: bytes | None) -> None:
    if field is None:
        out.append(1)
        return
    _write_varint(out, len(field))
    out.write(field)


# Reading: tables from bytes to numbers.

_ONE: Final[list[Any]] = [None if byte > 127 else byte >> 1 ^ -(byte & 1) for byte in range(256)]
"""The number of one byte, None if the byte does not end the number."""


def _alternate(even: Sequence[int | None], odd: Sequence[int | None]) -> list[int | None]:
    """One of each in turn: a number is twice its size, and one more if negative."""
    both: list[int | None] = [None] * (2 * len(even))
    both[::2], both[1::2] = even, odd
    return both


def _two() -> list[Any]:
    """The number of two bytes, low one first, None unless it has exactly two."""
    numbers: list[int | None] = []
    for first in range(0, _TWO_BYTES_END // 2, 64):
        numbers += [None] * 128
        numbers += _alternate(range(first, first + 64), range(-first - 1, -first - 65, -1))
    return numbers


def _reach() -> list[Any]:
    """By the two bytes at a length: the distance to the end of the field.

    None for null, and for a length of more than two bytes.
    """
    null = (None,) * 64
    one = _alternate(range(1, 65), null)
    reach: list[int | None] = []
    for first in range(2, 2 + _TWO_BYTES_END // 2, 64):
        reach += one
        reach += _alternate(range(first, first + 64), null)
    return reach + (one + [None] * 128) * 128


_TWO: Final = _two()
_REACH: Final = _reach()


class _Wide:
    """Numbers of three and more bytes, computed; None unless valid and not huge."""

    def __getitem__(self, raw: bytes) -> int | None:
        number, size = decode_varlong(raw, 0)
        return number if size == len(raw) and _FAR_BACK < number < _FAR else None


_TIMES: Final[list[Any]] = [
    None if byte > 127 or byte & 1 else range(byte >> 1) for byte in range(256)
]
"""By the byte that counts headers: a range of as many."""

_CODES: Final = {1: "B", 2: "H"}
_TABLES: Final[dict[int, Any]] = {1: _ONE, 2: _TWO}


def number_format(width: int) -> tuple[str, Any]:
    """The code of `struct` for numbers of so many bytes, and a table from what it unpacks."""
    return _CODES.get(width, f"{width}s"), _TABLES.get(width) or _Wide()


class _Layout(NamedTuple):
    """Heads of records whose size has one byte, and two; the positions of the key's length in both;
    the tables of timestamps and of offsets."""

    short: Sequence[Any]
    long: Sequence[Any]
    short_key: int
    long_key: int
    timestamps: Any
    offsets: Any


def _heads(numbers: str) -> list[Any]:
    """By the key's length byte: how to unpack a record's head, and where the value's length is.

    A length of -1 is null. Lower ones are null as well, but are not written.
    """
    heads: list[Any] = []
    for byte in range(128):
        if byte & 1 and byte > 1:
            heads.append(None)
            continue
        head = Struct(f"<{numbers}x{0 if byte == 1 else byte >> 1}sH")
        heads.append((head.unpack_from, head.size - 2))
    return heads


@cache
def _layout(timestamp_bytes: int, offset_bytes: int) -> _Layout:
    timestamp_code, timestamps = number_format(timestamp_bytes)
    offset_code, offsets = number_format(offset_bytes)
    key = 2 + timestamp_bytes + offset_bytes
    numbers = f"x{timestamp_code}{offset_code}"
    heads = _heads("B" + numbers), _heads("H" + numbers)
    return _Layout(*heads, key, key + 1, timestamps, offsets)


_NAMED: Final = [None if byte == 1 else head for byte, head in enumerate(_heads(""))]
"""By the length byte of a header's key, which is never null: as in a layout."""

_NARROW: Final = _layout(1, 1)
_NO_LAYOUT: Final = _Layout((), (), 0, 0, (), ())


def end_of_number(data: bytes, position: int) -> int:
    """The place after the varint at `position`. Raises `IndexError`."""
    while data[position] > 127:
        position += 1
    return position + 1


def _measure(data: bytes, position: int) -> _Layout:
    """The layout of the record at `position`."""
    try:
        timestamp = end_of_number(data, position) + 1
        offset = end_of_number(data, timestamp)
        end = end_of_number(data, offset)
    except IndexError:
        return _NARROW
    if offset - timestamp > 5 or end - offset > 3:
        return _NARROW
    return _layout(offset - timestamp, end - offset)


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """A key or value. An excessive length is detected at the end of the record."""
    size, begin = decode_varint(data, position)
    return (None, begin) if size < 0 else (data[begin : begin + size], begin + size)


def _read_headers(data: bytes, position: int, stop: int, named: bool) -> tuple[Any, int]:
    """The headers of a record that ends at `stop`, keys decoded if `named`; and their end."""
    count, position = decode_varint(data, position)
    if not 0 <= count <= stop - position:
        raise InvalidRecord(f"a record announces {count} headers", min(position, stop))
    headers: list[Any] = []
    for _ in range(count):
        begin = position
        key, position = _read_bytes(data, position)
        if key is None:
            raise InvalidRecord("a header has no key", begin)
        value, position = _read_bytes(data, position)
        headers.append((key.decode() if named else key, value))
    return tuple(headers), position


def _read_record(
    data: bytes, first: int, end: int, base_timestamp: int, named: bool
) -> tuple[tuple[Any, ...], int]:
    if first > end:
        raise InvalidRecord(f"{first - end} bytes lack for the record before", end)
    try:
        size, position = decode_varint(data, first)
        stop = position + size
        if size < 0 or stop > end:
            raise InvalidRecord(f"a record announces {size} bytes", first)
        delta, position = decode_varlong(data, position + 1)
        offset_delta, position = decode_varint(data, position)
        key, position = _read_bytes(data, position)
        value, position = _read_bytes(data, position)
        headers, position = _read_headers(data, position, stop, named)
    except (InvalidVarint, TruncatedFrame) as error:
        raise InvalidRecord(f"a record is cut off ({error.problem})", first) from None
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"a header key is no UTF-8 ({error.reason})", first) from None
    if position != stop:
        raise InvalidRecord(f"the fields of a record end at byte {position}", first)
    timestamp = (base_timestamp + delta + _INT64) % (2 * _INT64) - _INT64  # Java's long wraps
    return (offset_delta, timestamp, key, value, headers), stop


def is_near(base_timestamp: int) -> bool:
    """Whether no timestamp of few bytes can wrap around int64 from here."""
    return _FAR_BACK < base_timestamp < _FAR


_UNUSUAL: Final = (TypeError, LookupError, StructError, UnicodeDecodeError, DecodeError)


def read_records(
    data: bytes, position: int, end: int, count: int, base_timestamp: int, named: bool
) -> list[Any]:
    """The fields of `count` records that fill `data` from `position` to `end`, as `RawRecord`.

    Header keys are text if `named`. Raises `InvalidRecord`.
    """
    records: list[Any] = []
    append = records.append
    has_layout = _FAR_BACK < base_timestamp < _FAR
    layout = _NARROW if has_layout else _NO_LAYOUT
    while (missing := count - len(records)) > 0:
        short, long, short_key, long_key, timestamps, offsets = layout
        for _ in range(missing):
            try:
                if data[position] < 128:
                    key_byte = data[position + short_key]
                    unpack, begin = short[key_byte]
                elif data[position + 1] < 128:
                    key_byte = data[position + long_key]
                    unpack, begin = long[key_byte]
                else:  # 8 KiB and more: copying them is what takes time
                    position = _read_large(data, position, end, base_timestamp, named, records)
                    continue
                size, delta, place, key, length = unpack(data, position)
                following = position + _REACH[size]
                begin += position
                stop = begin + _REACH[length]
                value = data[begin + 2 if length & 128 else begin + 1 : stop]
                headers: tuple[Any, ...] = ()
                header_byte = data[stop]
                stop += 1
                if header_byte:
                    for _ in _TIMES[header_byte]:
                        unpack, begin = _NAMED[data[stop]]
                        name, length = unpack(data, stop)
                        begin += stop
                        stop = begin + _REACH[length]
                        content = data[begin + 2 if length & 128 else begin + 1 : stop]
                        headers += ((name.decode() if named else name, content),)
                offset_delta, timestamp = offsets[place], base_timestamp + timestamps[delta]
                if stop != following or offset_delta is None:
                    break
            except _UNUSUAL:
                break
            if key_byte == 1:
                key = None
            append((offset_delta, timestamp, key, value, headers))
            position = stop
        else:
            break
        measured = _measure(data, position) if has_layout else layout
        if measured is layout:
            record, position = _read_record(data, position, end, base_timestamp, named)
            append(record)
        layout = measured
    if position != end or count < 0:
        raise _bad_end(position, end, count)
    return records


def read_by_numbers(
    data: bytes, position: int, end: int, count: int, base_timestamp: int, named: bool
) -> list[Any]:
    """As `read_records`; compiled, arithmetic is faster than tables."""
    records: list[Any] = []
    can_skim = is_near(base_timestamp)
    while (missing := count - len(records)) > 0:
        if can_skim:
            position = _skim(data, position, missing, base_timestamp, named, records)
        if len(records) < count:
            record, position = _read_record(data, position, end, base_timestamp, named)
            records.append(record)
    if position != end or count < 0:
        raise _bad_end(position, end, count)
    return records


def _read_large(
    data: bytes, position: int, end: int, base_timestamp: int, named: bool, records: list[Any]
) -> int:
    """Append the record at `position`; its end. Raises `InvalidRecord`."""
    following = position
    if is_near(base_timestamp):
        following = _skim(data, position, 1, base_timestamp, named, records)
    if following == position:
        record, following = _read_record(data, position, end, base_timestamp, named)
        records.append(record)
    return following


def _skim(
    data: bytes, position: i64, count: int, base_timestamp: int, named: bool, records: list[Any]
) -> i64:
    """Append records up to an unusual one; where that one begins, or where all end."""
    try:
        for _ in range(count):
            size, at = number_at(data, position)
            stop = at + (size >> 1)
            delta, at = number_at(data, at + 1)
            offset, at = number_at(data, at)
            key_size, at = number_at(data, at)
            key: bytes | None = None
            if not key_size & 1:
                key = data[at : at + (key_size >> 1)]
                at += key_size >> 1
            value_size, at = number_at(data, at)
            value: bytes | None = None
            if not value_size & 1:
                value = data[at : at + (value_size >> 1)]
                at += value_size >> 1
            headers: Any = ()
            if data[at]:
                headers, at = _read_headers(data, at, stop, named)
            else:
                at += 1
            if size & 1 or delta < 0 or offset < 0 or key_size < 0 or value_size < 0 or at != stop:
                break  # a negative size, or a number that `number_at` does not read
            timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            records.append(((offset >> 1) ^ -(offset & 1), timestamp, key, value, headers))
            position = stop
    except _UNUSUAL:
        pass
    return position


def number_at(data: bytes, position: i64) -> tuple[i64, i64]:
    """The zig-zag code of at most three bytes, -1 for all others, and where it ends.

    Raises `IndexError`.

    Branches, not conditional expressions: compiled, those make an object of the number.
    """
    low: i64 = data[position]
    if low < 128:
        return low, position + 1
    middle: i64 = data[position + 1]
    if 0 < middle < 128:
        return low - 128 + (middle << 7), position + 2
    if middle:
        high: i64 = data[position + 2]
        if 0 < high < 128:
            return low - 128 + (middle - 128 << 7) + (high << 14), position + 3
    return -1, position + 1


def _bad_end(position: int, end: int, count: int) -> InvalidRecord:
    if count < 0:
        return InvalidRecord(f"a batch announces {count} records", position)
    rest = f"{abs(end - position)} bytes {'follow' if position < end else 'lack for'}"
    return InvalidRecord(f"{rest} the last record", min(position, end))
