"""Record batches of format v2, and the arithmetic of sequences.

Four rules:

1. `encode_batch` writes any values; `client_batch` refuses what Kafka's writer refuses. Tests need
   the first, producers the second.
2. Reading never trusts a size: each one is checked against the batch before it is used.
3. Offset and leader epoch are outside the CRC, so a leader sets them without reading records.
4. Sequences run from 0 to 2147483647 and wrap to 0; only the functions here do that arithmetic.

Theory of operation: a batch is a header of 61 bytes, followed by the records (`records.py`).
`read_header` reads the header, `check_crc` checks the checksum, `scan_timestamps` checks the
records (a leader's hot path), `scan_records` reads them without decoding header keys,
`decode_batch` reads everything. A producer encodes each record when it is appended
(`encode_record`), and adds the header, with its sequence, when the batch is sent
(`assemble_batch`). Timestamps are milliseconds since the epoch, -1 for none.
Sources: `DefaultRecordBatch`, `DefaultRecord`, `ByteUtils`; KIP-98.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from mmap import mmap
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from impl.protocol.compression import compress, decompress
from impl.protocol.crc32c import crc32c, extend_crc32c
from impl.protocol.errors import (
    CrcMismatch,
    InvalidBatch,
    InvalidField,
    InvalidRecord,
    ProtocolError,
    TruncatedBatch,
    UnsupportedMagic,
    UnwritableBatch,
)
from impl.protocol.fields import INVALID_OFFSET as INVALID_OFFSET
from impl.protocol.fields import NO_PRODUCER_ID as NO_PRODUCER_ID
from impl.protocol.record_runs import read_rows, read_timestamps
from impl.protocol.records import Header as Header
from impl.protocol.records import RawRecord
from impl.protocol.records import Record as Record
from impl.protocol.records import encode_record as encode_record

NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 32767
"""The last epoch. A transactional producer never gets it: its coordinator uses it to fence."""

NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
MAX_SEQUENCE: Final = 2_147_483_647
MAGIC: Final = 2
_LARGE_BYTES: Final = 1 << 14
"""So many bytes are copied once, not twice; for fewer, that takes longer."""

LogFile = bytes | mmap
"""The content of a file of batches; a large one is mapped."""

HEADER_BYTES: Final = 61
"""Size of the header, and of a batch without records."""

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length, which the length does not include. `Records.LOG_OVERHEAD`."""
LENGTH_OFFSET: Final = 8
MAGIC_OFFSET: Final = 16
"""Positions of length and magic in batches of any format."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = Struct(">qiibIhiqqqhii")
_PLACE: Final = Struct(">qii")
_LENGTH: Final = Struct(">i")
_PREFIX_BYTES: Final = 21
_unpack_header: Final = _HEADER.unpack_from
_join: Final = b"".join
_new: Final = tuple.__new__
_COUNTED_HEADER_BYTES: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
_SMALL_BYTES: Final = 4_096
"""Below this size, copying the records is cheaper than extending a checksum."""

_Found = TypeVar("_Found")
_Reader = Callable[[bytes, int, int, int, int], _Found]
"""Reads records: data, begin, end, count, base timestamp."""
_read_raw: Final[_Reader[list[Any]]] = partial(read_rows, named=False)


def increment_sequence(sequence: int, count: int) -> int:
    """`sequence` + `count` in 0 ... 2^31-1, wrapping. `DefaultRecordBatch.incrementSequence`."""
    return (sequence + count) & MAX_SEQUENCE


def decrement_sequence(sequence: int, count: int) -> int:
    """`sequence` - `count` in 0 ... 2^31-1, wrapping. `DefaultRecordBatch.decrementSequence`."""
    return (sequence - count) & MAX_SEQUENCE


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record; NO_SEQUENCE stays. `RecordBatch.lastSequence`."""
    if base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) & MAX_SEQUENCE


def is_next_sequence(last: int, following: int) -> bool:
    """Whether `following` comes right after `last`. `ProducerAppendInfo.inSequence`."""
    return following == last + 1 or (following == 0 and last == MAX_SEQUENCE)


class ProducerIdAndEpoch(NamedTuple):
    """What identifies a producer, -1 without one."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER: Final = ProducerIdAndEpoch()


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, the length field included."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record (kept by compaction)."""
        return self.base_offset + self.last_offset_delta


class RecordBatch(NamedTuple):
    """A whole batch. `attributes` holds the wire's bits; the properties name them."""

    records: tuple[Record, ...]
    base_offset: int = 0
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or NO_SEQUENCE."""
        return last_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self) -> bool:
        """Bit 4."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Bit 5: the records are markers, not data."""
        return bool(self.attributes & CONTROL)

    @property
    def compression(self) -> int:
        """Bits 0-2: a `Compression`, or one of the unassigned codecs 5-7."""
        return self.attributes & COMPRESSION_MASK


def assemble_batch(
    records: Sequence[bytes],
    *,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    last_offset_delta: int | None = None,
    level: int | None = None,
) -> bytes:
    """The bytes of a batch around records from `encode_record`; unchecked but for field widths.

    They are compressed as one if `attributes` says so, at `level`. `last_offset_delta` is that of
    the last of `records` when not given. Raises `InvalidField`, `UnsupportedCompression`.
    """
    count = len(records)
    last = count - 1 if last_offset_delta is None else last_offset_delta
    try:
        joined, codec = _join(records), attributes & COMPRESSION_MASK
        if codec:
            joined = compress(codec, joined, level)
        out = BytesWriter()
        write_i16_be(out, attributes)
        write_i32_be(out, last)
        write_i64_be(out, base_timestamp)
        write_i64_be(out, max_timestamp)
        write_i64_be(out, producer_id)
        write_i16_be(out, producer_epoch)
        write_i32_be(out, base_sequence)
        write_i32_be(out, count)
        length = _COUNTED_HEADER_BYTES + len(joined)
        if length < _SMALL_BYTES:
            out.write(joined)
            body = out.getvalue()
            crc = crc32c(body)
            return _prefix(base_offset, length, partition_leader_epoch, crc) + body
        head = out.getvalue()
        crc = extend_crc32c(crc32c(head), joined)
        return _join((_prefix(base_offset, length, partition_leader_epoch, crc), head, joined))
    except ProtocolError:  # of the compression
        raise
    except (TypeError, ValueError) as error:
        raise InvalidField(str(error), "batch header") from error


def _prefix(base_offset: int, length: int, partition_leader_epoch: int, crc: int) -> bytes:
    """What stands before the bytes that the checksum is of."""
    out = BytesWriter()
    write_i64_be(out, base_offset)
    write_i32_be(out, length)
    write_i32_be(out, partition_leader_epoch)
    out.append(MAGIC)
    write_i32_be(out, crc if crc < 1 << 31 else crc - (1 << 32))
    return out.getvalue()


def encode_batch(batch: RecordBatch) -> bytes:
    """The bytes of `batch`, as it is: nothing but field widths is checked.

    Raises `InvalidField`, and `UnsupportedCompression` for a codec that is not served.
    """
    base = batch.base_timestamp
    rows: Sequence[Any] = batch.records
    records = [
        encode_record(offset_delta, timestamp - base, key, value, headers)
        for offset_delta, timestamp, key, value, headers in rows
    ]
    return assemble_batch(
        records,
        base_timestamp=base,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        attributes=batch.attributes,
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        last_offset_delta=batch.last_offset_delta,
    )


def client_batch(
    records: Sequence[Record],
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> RecordBatch:
    """A batch as a client sends it: base offset 0, timestamps taken from the records.

    Raises `UnwritableBatch` where Kafka's writer would: `MemoryRecordsBuilder` and
    `DefaultRecordBatch.writeHeader`.
    """
    if not records:
        raise UnwritableBatch("has no records", "records")
    if producer_id != NO_PRODUCER_ID and producer_epoch < 0:
        raise UnwritableBatch(f"{producer_epoch} with producer id {producer_id}", "producer_epoch")
    if producer_id != NO_PRODUCER_ID and base_sequence < 0:
        raise UnwritableBatch(f"{base_sequence} with producer id {producer_id}", "base_sequence")
    if is_transactional and producer_id == NO_PRODUCER_ID:
        raise UnwritableBatch("transactional without a producer id", "producer_id")
    return RecordBatch(
        records=tuple(records),
        attributes=TRANSACTIONAL if is_transactional else 0,
        last_offset_delta=records[-1].offset_delta,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def read_header(data: LogFile, offset: int = 0) -> BatchHeader:
    """The header of the batch that begins at byte `offset`; its records must lie in `data`, too.

    Raises `TruncatedBatch`, `UnsupportedMagic`, `InvalidBatch`. The CRC is `check_crc`'s.
    """
    available = len(data) - offset
    if available < HEADER_BYTES:
        raise TruncatedBatch(f"a header has {HEADER_BYTES} bytes, here are {available}", offset)
    header = _new(BatchHeader, _unpack_header(data, offset))
    if header.magic != MAGIC:
        raise UnsupportedMagic(f"a batch has magic {header.magic}", offset + MAGIC_OFFSET)
    size = LOG_OVERHEAD_BYTES + header.batch_length
    if size < HEADER_BYTES:
        raise InvalidBatch(f"a batch announces {header.batch_length} bytes", offset + LENGTH_OFFSET)
    if size > available:
        raise TruncatedBatch(f"a batch has {size} bytes, here are {available}", offset)
    return header


def check_crc(data: LogFile, header: BatchHeader, offset: int = 0) -> None:
    """Raise `CrcMismatch` unless the batch at byte `offset` has the checksum it carries."""
    end = offset + LOG_OVERHEAD_BYTES + header.batch_length
    if crc32c(data[offset + _PREFIX_BYTES : end]) != header.crc:
        raise _mismatch(header.crc, offset)


def _mismatch(crc: int, offset: int) -> CrcMismatch:
    return CrcMismatch(f"a batch carries crc {crc:08x}", offset + 17)


def read_headers(data: LogFile) -> Iterator[tuple[int, BatchHeader]]:
    """`(byte offset, header)` of each batch in `data`, which must end with one.

    Raises as `read_header`.
    """
    offset = 0
    while offset < len(data):
        header = read_header(data, offset)
        yield offset, header
        offset += header.batch_length + LOG_OVERHEAD_BYTES


def _read_compressed(
    data: bytes,
    begin: int,
    end: int,
    codec: int,
    count: int,
    base_timestamp: int,
    read: _Reader[_Found],
) -> _Found:
    """As `read`; errors have the offset of the block: its bytes have no place in `data`."""
    block = decompress(codec, data[begin:end], begin)
    try:
        return read(block, 0, len(block), count, base_timestamp)
    except InvalidRecord as error:
        where = f"{error.problem}, at byte {error.offset} of the decompressed records"
        raise InvalidRecord(where, begin) from None


def _scan(data: bytes, header: BatchHeader, offset: int, read: _Reader[_Found]) -> _Found:
    begin, end = offset + HEADER_BYTES, offset + LOG_OVERHEAD_BYTES + header.batch_length
    count, base_timestamp = header.records_count, header.base_timestamp
    if codec := header.attributes & COMPRESSION_MASK:
        return _read_compressed(data, begin, end, codec, count, base_timestamp, read)
    return read(data, begin, end, count, base_timestamp)


def scan_records(data: bytes, header: BatchHeader, offset: int = 0) -> list[RawRecord]:
    """The records of the batch at byte `offset`, each size checked, header keys not decoded.

    Raises `InvalidRecord`, `UnsupportedCompression`. `DefaultRecordBatch.iterator`.
    """
    return _scan(data, header, offset, _read_raw)


def scan_rows(data: bytes, header: BatchHeader, offset: int = 0) -> list[RawRecord]:
    """As `scan_records`, with header keys decoded: the fields of each `Record`."""
    return _scan(data, header, offset, read_rows)


def scan_timestamps(data: bytes, header: BatchHeader, offset: int = 0) -> set[int]:
    """The different timestamps of these records, which are checked as by `scan_records`."""
    return _scan(data, header, offset, read_timestamps)


def decode_batch(data: bytes, offset: int = 0) -> RecordBatch:
    """The whole batch at byte `offset`, checksum checked; bytes after it are not looked at.

    Raises `TruncatedBatch`, `UnsupportedMagic`, `InvalidBatch`, `CrcMismatch`, `InvalidRecord`,
    `UnsupportedCompression`, each a `DecodeError` with its byte offset.
    """
    begin = offset + HEADER_BYTES
    if begin > len(data):
        read_header(data, offset)  # it says what is wrong
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _unpack_header(data, offset)
    end = offset + LOG_OVERHEAD_BYTES + length
    if magic != MAGIC or end < begin or end > len(data):
        read_header(data, offset)
    if crc32c(data[offset + _PREFIX_BYTES : end]) != crc:
        raise _mismatch(crc, offset)
    if codec := attributes & COMPRESSION_MASK:
        records = _read_compressed(data, begin, end, codec, count, base_timestamp, read_rows)
    else:
        records = read_rows(data, begin, end, count, base_timestamp)
    return _new(
        RecordBatch,
        (
            tuple(map(_new, repeat(Record), records)),
            base_offset,
            leader_epoch,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
        ),
    )


def decode_batches(data: bytes) -> list[RecordBatch]:
    """All batches of `data`, which must end with one. Raises as `decode_batch`."""
    return [decode_batch(data, offset) for offset, _ in read_headers(data)]


def whole_batches(data: bytes) -> list[int]:
    """Where each whole batch of a Fetch answer begins; its last one may be cut, even in its header.

    A batch that announces an impossible size is the last.
    """
    offsets = []
    offset, end = 0, len(data)
    while end - offset >= HEADER_BYTES:
        following = (
            offset + LOG_OVERHEAD_BYTES + _LENGTH.unpack_from(data, offset + LENGTH_OFFSET)[0]
        )
        if following > end:
            break
        offsets.append(offset)
        if following < offset + HEADER_BYTES:
            break
        offset = following
    return offsets


def decode_whole_batches(data: bytes) -> Iterator[RecordBatch]:
    """The batches of a Fetch answer, which may end inside one. Raises as `decode_batch`."""
    return (decode_batch(data, offset) for offset in whole_batches(data))


def whole_batches_end(data: bytes) -> int:
    """The offset after the last whole batch of a Fetch answer, 0 without one."""
    offsets = whole_batches(data)
    return read_end_offset(data, offsets[-1]) if offsets else 0


def read_end_offset(data: bytes, offset: int) -> int:
    """The offset after the last record of the batch at byte `offset`; nothing is checked."""
    return _new(BatchHeader, _unpack_header(data, offset)).last_offset + 1


def place_batch(data: bytes, header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """`data` with the offset and leader epoch that a leader assigns; the CRC stays valid."""
    head = _PLACE.pack(base_offset, header.batch_length, leader_epoch)
    if len(data) < _LARGE_BYTES:
        return head + data[_PLACE.size :]
    return b"".join((head, memoryview(data)[_PLACE.size :]))


def restamp_batch(data: bytes, attributes: int, max_timestamp: int) -> bytes:
    """`data` with other attributes and maximum timestamp, and a new CRC.

    Source: `DefaultRecordBatch.setMaxTimestamp`.
    """
    body = bytearray(data[_PREFIX_BYTES:])
    Struct(">h").pack_into(body, 0, attributes)
    Struct(">q").pack_into(body, 14, max_timestamp)
    return b"".join((data[: _PREFIX_BYTES - 4], crc32c(bytes(body)).to_bytes(4, "big"), body))
