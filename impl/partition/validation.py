"""The checks of a client's batch that need no producer state.

Five rules:

1. The checks run in Kafka's order: a batch with two defects gets the answer that Kafka gives.
2. A Produce request has one batch of magic 2 for each partition, compressed or not.
3. A wrong maximum timestamp or timestamp type is corrected, with a new CRC, not refused.
4. An unknown codec, or a block that its codec cannot read, is UNKNOWN_SERVER_ERROR, because Kafka
   does not expect it.
5. A batch with another codec than the topic's `compression.type` is converted to it, unless it is a
   control batch, and is refused if it is too large then.

Theory of operation: `first_batch` finds the batch, `validate_batch` checks it. Both return an
`ErrorCode` instead of raising, because a refusal is an answer; `RefusedRecords` where single
records are to blame. Trailing bytes that are too few for
a batch are dropped, as in Kafka.
Sources: `ProduceRequest.validateRecords`, `ByteBufferLogInputStream.nextBatchSize`,
`UnifiedLog.analyzeAndValidateRecords`, `LogValidator`; release 4.3.1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from librt.strings import read_i32_be

from impl.partition.batch_conversion import convert_batch
from impl.partition.errors import RecordError
from impl.partition.log_config import PRODUCER, LogConfig
from impl.partition.origins import Checks
from impl.protocol.compression import Compression
from impl.protocol.errors import (
    CompressionNotInstalled,
    CrcMismatch,
    ErrorCode,
    InvalidCompression,
    InvalidRecord,
)
from impl.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_OFFSET,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    read_header,
    restamp_batch,
    scan_records,
    scan_timestamps,
)

_LAST_CODEC: Final = int(Compression.ZSTD)
_new: Final = tuple.__new__
_LEAST_RECORD_BYTES: Final = 7
_LEAST_LENGTH: Final = 14
"""The smallest batch length of any format. `LegacyRecord.RECORD_OVERHEAD_V0`."""


class ValidBatch(NamedTuple):
    """A batch that passed the checks without producer state.

    `header` is as the client sent it, or as the conversion left it; `attributes` and
    `max_timestamp` are those of `data`.
    """

    header: BatchHeader
    attributes: int
    max_timestamp: int
    data: bytes


class BatchLimits:
    """What a topic's settings say of a batch, as a leader checks it; `config` are all of them."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "config",
        "is_codec_kept",
        "is_compacted",
        "is_log_append_time",
        "max_message_bytes",
        "max_segment_ms",
        "most_records",
        "segment_bytes",
    )

    def __init__(self, config: LogConfig) -> None:
        """`most_records` is how many fit into a batch of the largest size that is not compressed.

        Kafka has no such limit: there a small compressed batch may hold millions, and keeps a
        thread busy.
        """
        self.config = config
        self.max_message_bytes = config.max_message_bytes
        self.most_records = config.max_message_bytes // _LEAST_RECORD_BYTES
        self.segment_bytes = config.segment_bytes
        self.max_segment_ms = config.max_segment_ms
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.is_log_append_time = config.is_log_append_time
        self.is_compacted = config.is_compacted
        self.is_codec_kept = config.compression_type == PRODUCER


CORRUPT: Final = -1


def next_size(records: bytes, offset: int) -> int | None:
    """Size in bytes of the batch at `offset`, None if it is not whole, CORRUPT if it is."""
    available = len(records) - offset
    if available < LOG_OVERHEAD_BYTES:
        return None
    length = int(read_i32_be(records, offset + LENGTH_OFFSET))
    if length < _LEAST_LENGTH:
        return CORRUPT
    if available <= MAGIC_OFFSET:
        return None
    if records[offset + MAGIC_OFFSET] > MAGIC:
        return CORRUPT
    size = length + LOG_OVERHEAD_BYTES
    return size if size <= available else None


def first_batch(records: bytes | None) -> bytes | ErrorCode:
    """The only batch of a produce request's `records`, or the error to answer.

    `ProduceRequest.validateRecords`: INVALID_RECORD for none, several, or an old format.
    """
    if records is None:
        return ErrorCode.INVALID_RECORD
    size = next_size(records, 0)
    if size == len(records) and records[MAGIC_OFFSET] == MAGIC:
        return records
    if size == CORRUPT:
        return ErrorCode.CORRUPT_MESSAGE
    if size is None or records[MAGIC_OFFSET] != MAGIC:
        return ErrorCode.INVALID_RECORD
    following = next_size(records, size)
    if following is not None:
        return ErrorCode.CORRUPT_MESSAGE if following == CORRUPT else ErrorCode.INVALID_RECORD
    return records[:size]


def _check_size_and_crc(
    data: bytes, limits: BatchLimits, checks: Checks
) -> BatchHeader | ErrorCode:
    """`UnifiedLog.analyzeAndValidateRecords`."""
    if checks.client_header and data[:8] != b"\0\0\0\0\0\0\0\0":
        return ErrorCode.INVALID_RECORD
    if len(data) > limits.max_message_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if len(data) < HEADER_BYTES:
        return ErrorCode.CORRUPT_MESSAGE
    header = read_header(data)
    try:
        check_crc(data, header)
    except CrcMismatch:
        return ErrorCode.CORRUPT_MESSAGE
    if header.attributes & COMPRESSION_MASK > _LAST_CODEC:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return header


def _is_well_formed(header: BatchHeader) -> bool:
    """The fields agree, and a client may write such a batch. `LogValidator.validateBatch`."""
    return (
        header.records_count > 0
        and header.records_count == header.last_offset_delta + 1
        and not header.attributes & CONTROL
        and (header.producer_id <= NO_PRODUCER_ID or header.base_sequence >= 0)
    )


def _has_invalid_timestamp(
    timestamps: set[int], attributes: int, limits: BatchLimits, now_ms: int
) -> bool:
    """Whether a timestamp is out of range, or of a type that producers may not set.

    QUIRK: the type is checked only where no range applies.
    `LogValidator.validateTimestamp`.
    """
    earliest = now_ms - limits.before_max_ms
    latest = now_ms + limits.after_max_ms
    has_range = not limits.is_log_append_time
    for timestamp in timestamps:
        if has_range and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                return True
        elif attributes & LOG_APPEND_TIME:
            return True
    return False


class RefusedRecords(NamedTuple):
    """A batch that is refused because of some of its records. `RecordValidationException`."""

    error: ErrorCode
    records: tuple[RecordError, ...]


_KEYLESS: Final = "Compacted topic cannot accept message without key in topic partition {}"


def _refuse_records(
    data: bytes, header: BatchHeader, limits: BatchLimits, now_ms: int
) -> RefusedRecords | None:
    """The records that are refused, None if all are valid. `LogValidator.validateRecord`."""
    refused: list[RecordError] = []
    error = ErrorCode.INVALID_RECORD
    attributes = header.attributes
    for index, (delta, written, key, *_) in enumerate(scan_records(data, header)):
        timestamp = header.max_timestamp if attributes & LOG_APPEND_TIME else written
        if limits.is_compacted and key is None:
            refused.append(RecordError(index, _KEYLESS))
        elif _has_invalid_timestamp({timestamp}, attributes, limits, now_ms):
            error = ErrorCode.INVALID_TIMESTAMP
            problem = _timestamp_problem(timestamp, header.base_offset + delta, limits, now_ms)
            refused.append(RecordError(index, problem))
    return RefusedRecords(error, tuple(refused)) if refused else None


def _timestamp_problem(timestamp: int, offset: int, limits: BatchLimits, now_ms: int) -> str:
    if limits.is_log_append_time or timestamp == NO_TIMESTAMP:
        return "Invalid timestamp type: a producer should not set it to LogAppendTime."
    earliest, latest = now_ms - limits.before_max_ms, now_ms + limits.after_max_ms
    return (
        f"Timestamp {timestamp} of message with offset {offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def validate_batch(
    data: bytes, limits: BatchLimits, now_ms: int, checks: Checks
) -> ValidBatch | ErrorCode | RefusedRecords:
    """Check one batch, and correct its timestamps; `now_ms` is the broker's clock."""
    header = _check_size_and_crc(data, limits, checks)
    if not isinstance(header, BatchHeader):
        return header
    if checks.client_header and not _is_well_formed(header):
        return ErrorCode.INVALID_RECORD
    if header.records_count > limits.most_records:
        return ErrorCode.MESSAGE_TOO_LARGE
    attributes = header.attributes
    timestamps = _scan_timestamps(data, header)
    if not isinstance(timestamps, set):
        return timestamps
    if timestamps and attributes & LOG_APPEND_TIME:
        timestamps = {header.max_timestamp}
    if limits.is_compacted or _has_invalid_timestamp(timestamps, attributes, limits, now_ms):
        refused = _refuse_records(data, header, limits, now_ms)
        if refused is not None:
            return refused
    if not limits.is_codec_kept:
        converted = _with_topics_codec(data, header, limits.config)
        if isinstance(converted, ErrorCode):
            return converted
        data, header = converted
    if len(data) > limits.segment_bytes:
        return ErrorCode.RECORD_LIST_TOO_LARGE
    newest = _newest(timestamps)
    return _with_timestamp_type(data, header, newest, limits.is_log_append_time, now_ms)


def _scan_timestamps(data: bytes, header: BatchHeader) -> set[int] | ErrorCode:
    try:
        return scan_timestamps(data, header)
    except CompressionNotInstalled:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    except InvalidCompression:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    except InvalidRecord:
        return ErrorCode.INVALID_RECORD


def _newest(timestamps: set[int]) -> int:
    newest = NO_TIMESTAMP
    for timestamp in timestamps:
        if timestamp > newest:
            newest = timestamp
    return newest


def _with_topics_codec(
    data: bytes, header: BatchHeader, config: LogConfig
) -> tuple[bytes, BatchHeader] | ErrorCode:
    """The batch as it is stored, converted if its codec is another one, unless it is too large.

    `LogValidator.validateMessagesAndAssignOffsets`.
    """
    codec, attributes = config.codec, header.attributes
    if codec is None or codec == attributes & COMPRESSION_MASK or attributes & CONTROL:
        return data, header
    try:
        data = convert_batch(data, header, codec, config.compression_level)
    except CompressionNotInstalled:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(data) > config.max_message_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    return data, read_header(data)


def _with_timestamp_type(
    data: bytes, header: BatchHeader, newest: int, is_log_append_time: bool, now_ms: int
) -> ValidBatch:
    """Set timestamp type and maximum timestamp. `DefaultRecordBatch.setMaxTimestamp`."""
    attributes = header.attributes & ~LOG_APPEND_TIME
    if is_log_append_time:
        attributes, newest = attributes | LOG_APPEND_TIME, now_ms
    if attributes != header.attributes or newest != header.max_timestamp:
        data = restamp_batch(data, attributes, newest)
    return _new(ValidBatch, (header, attributes, newest, data))
