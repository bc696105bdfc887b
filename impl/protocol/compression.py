"""The block of records of a compressed batch: gzip, snappy, lz4 and zstd.

Three rules:

1. A block is written as Kafka's Java client writes it, and read in every form that it reads.
2. Decompression stops at `MAX_DECOMPRESSED_BYTES`, whatever size the block announces.
3. What cannot be read raises a `DecodeError` with the block's byte offset; nothing else is raised.

Theory of operation: cramjam (the extra `compression`) has the four codecs. A block of lz4 or zstd
is decompressed into an anonymous map as large as the limit: the system backs only the pages that
are written, so a small block costs little and a bomb ends at the limit. Three codecs need care.
Snappy comes in xerial's framing (a 16-byte header, then blocks of at most 32 KiB behind their
sizes) and, from other clients, raw. An lz4 frame must have independent blocks: Kafka reads no
others, and nothing behind the first frame. gzip may have several members, and anything behind the
last one; zlib tells where each ends.
Sources: `CompressionType`, `SnappyOutputStream` (xerial), `Lz4BlockInputStream`,
`java.util.zip.GZIPInputStream`; KIP-110.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from importlib import import_module
from mmap import mmap
from struct import Struct
from types import ModuleType
from typing import Final

from impl.protocol.errors import (
    CompressionNotInstalled,
    DecompressedTooLarge,
    InvalidCompression,
    UnsupportedCompression,
)
from impl.protocol.primitives import MAX_FRAME_BYTES

MAX_DECOMPRESSED_BYTES: Final = MAX_FRAME_BYTES
"""The limit on a decompressed block: that of a frame."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SIZE: Final = Struct(">i")

_GZIP_MEMBER: Final = b"\x1f\x8b\x08"
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_LZ4_DESCRIPTOR_BYTES: Final = 7
_LZ4_FLAGS: Final = 4
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK_CHECKSUM: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_UNCOMPRESSED: Final = 0x8000_0000
_LZ4_SIZE: Final = Struct("<I")


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes. Source: `CompressionType`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def _cramjam(codec: int, offset: int) -> ModuleType:
    if not Compression.NONE < codec <= Compression.ZSTD:
        raise UnsupportedCompression(f"a batch is compressed with codec {codec}", offset)
    try:
        return import_module("cramjam")
    except ImportError:
        name = Compression(codec).name.lower()
        raise CompressionNotInstalled(f"a batch is compressed with {name}", offset) from None


def is_installed() -> bool:
    """Whether the four codecs can be used."""
    try:
        _cramjam(Compression.GZIP, 0)
    except CompressionNotInstalled:
        return False
    return True


def compress(codec: int, records: bytes, level: int | None = None) -> bytes:
    """`records` as one block, at the library's level if none is given; snappy has none.

    Raises `UnsupportedCompression`, `CompressionNotInstalled`.
    """
    cramjam = _cramjam(codec, 0)
    if codec == Compression.SNAPPY:
        return _write_xerial(cramjam, records)
    if codec == Compression.LZ4:
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(records)
        return bytes(frame.finish())
    module = cramjam.gzip if codec == Compression.GZIP else cramjam.zstd
    return bytes(module.compress(records, level=level))


def decompress(
    codec: int, block: bytes, offset: int = 0, limit_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """The records of `block`, which begins at byte `offset` of what the caller reads.

    Raises `InvalidCompression`, `DecompressedTooLarge`, `UnsupportedCompression`,
    `CompressionNotInstalled`.
    """
    cramjam = _cramjam(codec, offset)
    try:
        if codec == Compression.SNAPPY:
            return _read_snappy(cramjam, block, offset, limit_bytes)
        if codec == Compression.GZIP:
            return _read_gzip(block, offset, limit_bytes)
        is_lz4 = codec == Compression.LZ4
        frame = _first_lz4_frame(block, offset) if is_lz4 else block
        with mmap(-1, limit_bytes) as room:
            module = cramjam.lz4 if is_lz4 else cramjam.zstd
            return room[: module.decompress_into(frame, room)]
    except (cramjam.DecompressionError, zlib.error) as error:
        if "whole buffer" in str(error):
            raise DecompressedTooLarge(f"a block holds over {limit_bytes} bytes", offset) from None
        name = Compression(codec).name.lower()
        raise InvalidCompression(f"a block is no {name} ({error})", offset) from None


def _read_gzip(block: bytes, offset: int, limit_bytes: int) -> bytes:
    """All members. Kafka ignores what is behind them. Raises `zlib.error`."""
    found: list[bytes] = []
    left = limit_bytes
    while block.startswith(_GZIP_MEMBER) or not found:
        member = zlib.decompressobj(wbits=_GZIP_FORMAT)
        found.append(member.decompress(block, left + 1))
        left -= len(found[-1])
        if left < 0:
            raise DecompressedTooLarge(f"a block holds over {limit_bytes} bytes", offset)
        if not member.eof:
            raise InvalidCompression("a gzip member is cut off", offset)
        block = member.unused_data
    return b"".join(found)


def _first_lz4_frame(block: bytes, offset: int) -> bytes:
    """Without what is behind it, which Kafka ignores. Other damage is left to the decoder."""
    if len(block) < _LZ4_DESCRIPTOR_BYTES:
        return block
    flags = block[_LZ4_FLAGS]
    if not flags & _LZ4_INDEPENDENT:
        raise InvalidCompression("an lz4 frame's blocks depend on each other", offset)
    block_checksum = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    position = _LZ4_DESCRIPTOR_BYTES + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    while position + _LZ4_SIZE.size <= len(block):
        (size,) = _LZ4_SIZE.unpack_from(block, position)
        position += _LZ4_SIZE.size
        if not size:
            return block[: position + (4 if flags & _LZ4_CONTENT_CHECKSUM else 0)]
        position += (size & ~_LZ4_UNCOMPRESSED) + block_checksum
    return block


def _write_xerial(cramjam: ModuleType, records: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for begin in range(0, len(records), _XERIAL_BLOCK_BYTES):
        piece = bytes(cramjam.snappy.compress_raw(records[begin : begin + _XERIAL_BLOCK_BYTES]))
        parts += (_SIZE.pack(len(piece)), piece)
    return b"".join(parts)


def _read_snappy(cramjam: ModuleType, block: bytes, offset: int, limit_bytes: int) -> bytes:
    """Both forms; the announced sizes are checked before anything is decompressed."""
    framed = block.startswith(_XERIAL_MAGIC)
    pieces = _xerial_pieces(block, offset) if framed else [block]
    size = sum(cramjam.snappy.decompress_raw_len(piece) for piece in pieces)
    if size > limit_bytes:
        raise DecompressedTooLarge(f"a block announces {size} bytes", offset)
    return b"".join(bytes(cramjam.snappy.decompress_raw(piece)) for piece in pieces)


def _xerial_pieces(block: bytes, offset: int) -> list[bytes]:
    """The blocks after the header, without their sizes.

    The header's version is ignored: some clients write it in the wrong byte order.
    """
    pieces: list[bytes] = []
    position = len(_XERIAL_HEADER)
    if len(block) < position:
        raise InvalidCompression("a snappy header is cut off", offset)
    while position < len(block):
        begin = position + _SIZE.size
        if begin > len(block):
            raise InvalidCompression("a snappy block's size is cut off", offset + position)
        (size,) = _SIZE.unpack_from(block, position)
        if not 0 < size <= len(block) - begin:
            raise InvalidCompression(f"a snappy block announces {size} bytes", offset + position)
        position = begin + size
        pieces.append(block[begin:position])
    return pieces
