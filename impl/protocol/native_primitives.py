"""What the codecs of `native_codegen` read and write with: a reader of bytes, writers to a buffer.

Two rules:

1. This is for compiled code: numbers are machine words, positions do not become objects.
2. What is wrong is said as by the functions of `codegen`. A value that does not fit raises
   `ValueError`, one of another type `TypeError`: the encoder asks its `MessageForm` for the field.
"""

from __future__ import annotations

from typing import Any, Final, final

from librt.strings import (
    BytesWriter,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, mypyc_attr, u8

from impl.protocol.codegen import bad_length, short
from impl.protocol.errors import InvalidTags
from impl.protocol.message_form import UNKNOWN_TAGS, Value
from impl.protocol.primitives import decode_tag, decode_tags, decode_uvarint, encode_tags

_LARGE_BYTES: Final = 4096
"""So many bytes are copied once, into the message, not into the buffer first."""


@final
@mypyc_attr(acyclic=True)
class FrameReader:
    """Bytes, and how far they are read.

    A method that reads beyond the end raises `IndexError`, others what the functions of `codegen`
    raise. `path` names the field in an error.
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position: i64 = 0
        self.end: i64 = len(data)

    # ---- numbers

    def byte(self) -> i64:
        """An unsigned byte."""
        value: i64 = self.data[self.position]
        self.position += 1
        return value

    def int8(self) -> i64:
        """A signed byte."""
        value = self.byte()
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        """A byte that is not 0."""
        return self.byte() != 0

    def int16(self) -> i64:
        """Two bytes."""
        value = i64(read_i16_be(self.data, self.position))
        self.position += 2
        return value

    def uint16(self) -> i64:
        """Two bytes without a sign."""
        return self.int16() & 0xFFFF

    def int32(self) -> i64:
        """Four bytes."""
        value = i64(read_i32_be(self.data, self.position))
        self.position += 4
        return value

    def int64(self) -> i64:
        """Eight bytes."""
        value = read_i64_be(self.data, self.position)
        self.position += 8
        return value

    def float64(self) -> float:
        """Eight bytes."""
        value = read_f64_be(self.data, self.position)
        self.position += 8
        return value

    def compact_length(self) -> i64:
        """A length that is written with 1 added, -1 for null."""
        value = self.byte()
        if value > 127:
            value, self.position = decode_uvarint(self.data, self.position - 1)
        return value - 1

    # ---- strings, bytes, arrays

    def uuid(self) -> bytes:
        """Sixteen bytes."""
        begin = self.position
        self.position = begin + 16
        if self.position > self.end:
            raise IndexError
        return self.data[begin : self.position]

    def raw(self, path: str, length: i64) -> bytes:
        """As many bytes."""
        end = self.position + length
        if length < 0:
            raise bad_length(path, length, self.position)
        if end > self.end:
            raise short(path, end, self.position)
        value = self.data[self.position : end]
        self.position = end
        return value

    def nullable_raw(self, path: str, length: i64) -> bytes | None:
        """As many bytes, None for -1."""
        return None if length == -1 else self.raw(path, length)

    def text(self, path: str, length: i64) -> str:
        """Text of as many bytes; if it is none, `position` is where it begins."""
        begin = self.position
        raw = self.raw(path, length)
        self.position = begin
        value = raw.decode()
        self.position = begin + length
        return value

    def nullable_text(self, path: str, length: i64) -> str | None:
        """Text of as many bytes, None for -1."""
        return None if length == -1 else self.text(path, length)

    def items(self, path: str, length: i64) -> i64:
        """The length of an array, each of whose items has one byte at least."""
        if length < 0:
            raise bad_length(path, length, self.position)
        if length > self.end - self.position:
            raise short(path, self.position + length, self.position)
        return length

    def nullable_items(self, path: str, length: i64) -> i64:
        """The same; -1 for null."""
        return length if length == -1 else self.items(path, length)

    # ---- tagged fields

    def tags(self) -> i64:
        """How many tagged fields follow."""
        count = self.byte()
        if count > 127:
            count, self.position = decode_uvarint(self.data, self.position - 1)
        return count

    def tag(self, previous: i64) -> tuple[i64, i64]:
        """A tag, and where its field ends."""
        tag, self.position, end = decode_tag(self.data, self.position, previous)
        return tag, end

    def rest_of_tag(self, end: i64) -> bytes:
        """The field of a tag, unread."""
        value = self.data[self.position : end]
        self.position = end
        return value

    def check_tag(self, path: str, end: i64) -> None:
        """Raises `InvalidTags` unless the field was read to its end."""
        if self.position != end:
            raise InvalidTags(path + " fills not", self.position)

    def unknown_tags(self, struct: Value) -> None:
        """Tagged fields none of which is known, into the struct."""
        count = self.tags()
        if count:
            struct[UNKNOWN_TAGS], self.position = decode_tags(self.data, self.position, count)


# ---- writing


def write_uvarint(out: BytesWriter, value: i64) -> None:
    """Seven bits a byte, least significant first."""
    while value > 127:
        out.append(u8(value & 127 | 128))
        value >>= 7
    out.append(u8(value))


def write_int8(out: BytesWriter, value: i64) -> None:
    """Raises `ValueError`."""
    if not -128 <= value < 128:
        raise ValueError("no int8")
    out.append(u8(value & 255))


def write_boolean(out: BytesWriter, value: Any) -> None:
    """As `struct`: whatever is true is 1."""
    out.append(1 if value else 0)


def write_int16(out: BytesWriter, value: i64) -> None:
    """Raises `ValueError`."""
    if not -0x8000 <= value < 0x8000:
        raise ValueError("no int16")
    write_i16_be(out, i16(value))


def write_uint16(out: BytesWriter, value: i64) -> None:
    """Raises `ValueError`."""
    if not 0 <= value < 0x10000:
        raise ValueError("no uint16")
    out.append(u8(value >> 8))
    out.append(u8(value & 255))


def write_int32(out: BytesWriter, value: i64) -> None:
    """Raises `ValueError`."""
    if not -0x80000000 <= value < 0x80000000:
        raise ValueError("no int32")
    write_i32_be(out, i32(value))


def write_int64(out: BytesWriter, value: i64) -> None:
    """Eight bytes."""
    write_i64_be(out, value)


def write_float64(out: BytesWriter, value: float) -> None:
    """Eight bytes."""
    write_f64_be(out, value)


def write_uuid(out: BytesWriter, value: bytes) -> None:
    """Raises `ValueError`."""
    if len(value) != 16:
        raise ValueError("a uuid has 16 bytes")
    out.write(value)


def write_compact_length(out: BytesWriter, length: i64) -> None:
    """With 1 added; null is -1."""
    write_uvarint(out, length + 1)


def write_string(out: BytesWriter, value: str) -> None:
    """Behind an int16. Raises `ValueError`."""
    raw = value.encode()
    write_int16(out, len(raw))
    out.write(raw)


def write_nullable_string(out: BytesWriter, value: str | None) -> None:
    """The same, or null."""
    if value is None:
        write_int16(out, -1)
    else:
        write_string(out, value)


def write_compact_string(out: BytesWriter, value: str) -> None:
    """Behind a compact length."""
    raw = value.encode()
    write_compact_length(out, len(raw))
    out.write(raw)


def write_compact_nullable_string(out: BytesWriter, value: str | None) -> None:
    """The same, or null."""
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def write_bytes(out: BytesWriter, parts: list[bytes], value: bytes) -> None:
    """Bytes alone; large ones go to `parts`, behind what the buffer holds."""
    if len(value) < _LARGE_BYTES:
        out.write(value)
        return
    parts.append(out.getvalue())
    parts.append(value)
    out.truncate(0)


def join_parts(parts: list[bytes], out: BytesWriter) -> bytes:
    """All that was written."""
    if not parts:
        return out.getvalue()
    parts.append(out.getvalue())
    return b"".join(parts)


def write_tags(out: BytesWriter, struct: Value) -> None:
    """Those that the table lacks; no other is known."""
    if UNKNOWN_TAGS in struct:
        out.write(encode_tags(struct[UNKNOWN_TAGS]))
    else:
        out.append(0)


def write_known_tags(out: BytesWriter, tags: dict[int, bytes], struct: Value) -> None:
    """These, and those that the table lacks."""
    if UNKNOWN_TAGS in struct:
        tags = {**struct[UNKNOWN_TAGS], **tags}
    if tags:
        out.write(encode_tags(tags))
    else:
        out.append(0)
