"""Variable-length integers, tagged fields and frames: what the generated code calls.

Three rules:

1. Reading takes `(data, position)` and returns the value and the next position; nothing is copied.
2. A value that most messages carry (a short length) is one dictionary look-up, never a loop.
3. Limits are here: `MAX_FRAME_BYTES` for a frame, five or ten bytes for an integer.

Theory of operation: a varint is seven bits a byte, least significant first, the top bit meaning
"more follows". Unsigned ones carry compact lengths and tags; zig-zag ones carry the fields of a
record. `UVARINT` and `VARINT` remember the encodings of small numbers (a bounded memo, filled on
demand), so that the generated encoders spell a length as `UVARINT[n]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from impl.protocol.errors import (
    FrameTooLarge,
    InvalidField,
    InvalidTags,
    InvalidVarint,
    TruncatedFrame,
)

MAX_FRAME_BYTES: Final = 104_857_600
"""Largest request or response, in bytes. `socket.request.max.bytes`."""

ZERO_UUID: Final = bytes(16)
"""The topic id that means "none". `Uuid.ZERO_UUID`."""

_MEMO_LIMIT: Final = 1 << 14
_SIZE: Final = Struct(">i")


def encode_uvarint(value: int) -> bytes:
    """Seven bits a byte, least significant first. `ByteUtils.writeUnsignedVarint`."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Zig-zag, then seven bits a byte; int32 and int64 alike. `ByteUtils.writeVarlong`."""
    return encode_uvarint((value << 1) ^ (value >> 63))


class _UnsignedMemo(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        encoded = encode_uvarint(value)
        if value < _MEMO_LIMIT:
            self[value] = encoded
        return encoded


class _ZigZagMemo(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidField(f"{value} is no int64", "varint")
        encoded = encode_varint(value)
        if -_MEMO_LIMIT < value < _MEMO_LIMIT:
            self[value] = encoded
        return encoded


UVARINT: Final[dict[int, bytes]] = _UnsignedMemo()
"""`UVARINT[n]` is the encoding of the unsigned `n`."""

VARINT: Final[dict[int, bytes]] = _ZigZagMemo()
"""`VARINT[n]` is the zig-zag encoding of the signed `n`."""


def _decode_raw(data: bytes, position: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    start = position
    while True:
        if position >= len(data):
            raise TruncatedFrame("the data ends inside a varint", position)
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            raise InvalidVarint(f"a varint is longer than {bits} bits", start)
    if value >> bits:
        raise InvalidVarint(f"a varint is larger than {bits} bits", start)
    return value, position


def decode_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the next position.

    Raises `TruncatedFrame`, `InvalidVarint`. `ByteUtils.readUnsignedVarint`.
    """
    return _decode_raw(data, position, 32)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """A zig-zag int32 and the next position. `ByteUtils.readVarint`."""
    if position < len(data) and (byte := data[position]) < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    if position + 1 < len(data) and (top := data[position + 1]) < 128:
        return (byte & 127 | top << 7) >> 1 ^ -(byte & 1), position + 2
    if position + 2 < len(data) and (high := data[position + 2]) < 128:
        return (byte & 127 | (top & 127) << 7 | high << 14) >> 1 ^ -(byte & 1), position + 3
    raw, position = _decode_raw(data, position, 32)
    return (raw >> 1) ^ -(raw & 1), position


def decode_varlong(data: bytes, position: int) -> tuple[int, int]:
    """A zig-zag int64 and the next position. `ByteUtils.readVarlong`."""
    if position < len(data) and (byte := data[position]) < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw, position = _decode_raw(data, position, 64)
    return (raw >> 1) ^ -(raw & 1), position


def encode_tags(tags: Mapping[int, bytes]) -> bytes:
    """A tagged-field section: count, then tag, size and bytes, tags ascending. KIP-482."""
    parts = [UVARINT[len(tags)]]
    for tag in sorted(tags):
        parts += (UVARINT[tag], UVARINT[len(tags[tag])], tags[tag])
    return b"".join(parts)


def decode_tag(data: bytes, position: int, previous: int) -> tuple[int, int, int]:
    """One tag's head: the tag, where its bytes begin, where they end.

    `previous` is the tag before, -1 at the first. Raises `InvalidTags`, `TruncatedFrame`.
    """
    tag, begin = decode_uvarint(data, position)
    if tag <= previous:
        raise InvalidTags(f"tag {tag} follows tag {previous}", position)
    size, begin = decode_uvarint(data, begin)
    end = begin + size
    if end > len(data):
        raise TruncatedFrame(f"tag {tag} announces {size} bytes", begin)
    return tag, begin, end


def decode_tags(data: bytes, position: int, count: int) -> tuple[dict[int, bytes], int]:
    """`count` unknown tags, kept as `{tag: bytes}`, and the next position."""
    tags: dict[int, bytes] = {}
    previous = -1
    for _ in range(count):
        previous, begin, position = decode_tag(data, position, previous)
        tags[previous] = data[begin:position]
    return tags, position


def frame(payload: bytes) -> bytes:
    """`payload` behind its 4-byte size, ready for a socket. Raises `FrameTooLarge`."""
    return size_of_frame(payload) + payload


def size_of_frame(payload: bytes) -> bytes:
    """The 4 bytes that precede `payload` on a socket. Raises `FrameTooLarge`."""
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"a payload of {len(payload)} bytes", 0)
    return _SIZE.pack(len(payload))


def take_frames(buffer: bytearray, limit_bytes: int = MAX_FRAME_BYTES) -> list[bytes]:
    """All complete payloads at the head of `buffer`, which keeps the unfinished rest.

    Raises `FrameTooLarge` (the buffer is then as it was) before anything of that size is read.
    """
    payloads: list[bytes] = []
    position, available = 0, len(buffer)
    while available - position >= 4:
        size: int = _SIZE.unpack_from(buffer, position)[0]
        if not 0 <= size <= limit_bytes:
            raise FrameTooLarge(f"a frame announces {size} bytes", position)
        end = position + 4 + size
        if end > available:
            break
        payloads.append(bytes(memoryview(buffer)[position + 4 : end]))
        position = end
    del buffer[:position]
    return payloads


def announced_bytes(buffer: bytearray) -> int:
    """What the frame at the head of `buffer` needs, its size included; 0 if that is not known."""
    return _SIZE.unpack_from(buffer)[0] + _SIZE.size if len(buffer) >= _SIZE.size else 0
