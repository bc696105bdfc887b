"""A batch of records, and the handle of each record's outcome.

1. Records are added while the batch is the last of its queue. Once it is drained, or another batch
   is queued after it, it is closed for good.
2. The drain sets producer id, epoch and base sequence once; only a bump renumbers them.
3. A batch finishes once: SUCCEEDED, FAILED or ABORTED. An answer after a local failure is ignored;
   nothing follows SUCCEEDED. A batch that is split does not finish: its parts do.

Theory of operation: a record is encoded when it is added, so that the batch's size is known exactly
and a retry only writes a new header. `encode` makes the bytes of one attempt; they never change
afterwards, even if the batch expires or is renumbered while its request is in flight
(KAFKA-19012). Source: `ProducerBatch`, `MemoryRecordsBuilder` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import Any, Final

from impl.producer.arguments import BYTES, invalid_record
from impl.producer.errors import DeliveryError
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.primitives import VARINT
from impl.protocol.record_batch import (
    HEADER_BYTES,
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Record,
    assemble_batch,
    decode_batch,
    encode_record,
    increment_sequence,
    last_sequence,
)

MAX_RECORD_OVERHEAD_BYTES: Final = 21
"""Length, attributes, timestamp and offset delta at their widest. `DefaultRecord`."""


def size_upper_bound_bytes(key: Any, value: Any, headers: Any) -> int:
    """The largest size of a batch with only this record.

    Raises `InvalidArgumentError`. Source: `AbstractRecords.estimateSizeInBytesUpperBound`.
    """
    try:
        size = HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + _field_bytes(key) + _field_bytes(value)
        size += len(VARINT[len(headers)])
        for name, content in headers:
            size += _field_bytes(name.encode()) + _field_bytes(content)
    except (TypeError, ValueError, AttributeError):
        raise invalid_record(key, value, headers) from None
    return size


def _field_bytes(field: Any) -> int:
    if field is None:
        return 1
    if type(field) is not bytes and not isinstance(field, BYTES):
        raise TypeError
    return len(VARINT[len(field)]) + len(field)


class FinalState(Enum):
    """How a batch finished. `ProducerBatch.FinalState`."""

    NONE = "none"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class ProducerBatch:
    """Records for one partition under one base sequence. `ProducerBatch`.

    Times are milliseconds. `attempts` counts failed ones, and `in_retry` stays set after the first;
    `outstanding`: its request is in flight; `limit_bytes`: its largest size; `encoded_bytes`: what
    was sent, 0 before; `leader_epoch`: that of the last attempt, -1 if unknown; `last_refusal`: why
    the last attempt failed, NONE before; `is_split`: a part of a batch that was too large; `parts`:
    what this batch was split into; `is_whole`: filled by the application, and never split;
    `is_transactional` from the first drain on; `thunks`: what a driver keeps of each record, in
    their order (`ProducerBatch.Thunk`); `compression`: the codec; `log_append_time` and
    `log_start_offset` are the leader's, -1 without.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "compression",
        "created_ms",
        "encoded_bytes",
        "error",
        "final_state",
        "in_retry",
        "is_closed",
        "is_split",
        "is_transactional",
        "is_whole",
        "last_refusal",
        "leader_epoch",
        "limit_bytes",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "outstanding",
        "parts",
        "producer_epoch",
        "producer_id",
        "records",
        "retry_at_ms",
        "sequence_has_been_reset",
        "size_bytes",
        "thunks",
        "timestamps",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        created_ms: int,
        limit_bytes: int,
        timestamp_ms: int,
        *,
        is_split: bool = False,
        is_whole: bool = False,
        compression: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.limit_bytes = limit_bytes
        self.is_split = is_split
        self.is_whole = is_whole
        self.compression = compression
        self.parts: tuple[ProducerBatch, ...] = ()
        self.base_timestamp = self.max_timestamp = timestamp_ms
        self.records: list[bytes] = []
        self.timestamps: list[int] = []
        self.thunks: list[Any] = []
        self.size_bytes = HEADER_BYTES
        self.encoded_bytes = 0
        self.is_closed = False
        self.attempts = 0
        self.in_retry = False
        self.last_refusal = ErrorCode.NONE
        self.retry_at_ms = created_ms
        self.leader_epoch = -1
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.sequence_has_been_reset = False
        self.outstanding = False
        self.final_state = FinalState.NONE
        self.base_offset = INVALID_OFFSET
        self.log_append_time = NO_TIMESTAMP
        self.log_start_offset = INVALID_OFFSET
        self.error: DeliveryError | None = None

    @property
    def buffer_bytes(self) -> int:
        """Its share of buffer_memory: none if it is a part of another batch."""
        return 0 if self.is_split else self.limit_bytes

    @property
    def record_count(self) -> int:
        """Records in the batch."""
        return len(self.records)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped; NO_SEQUENCE before the first drain."""
        return last_sequence(self.base_sequence, len(self.records) - 1)

    @property
    def is_full(self) -> bool:
        """Whether no more records fit. `MemoryRecordsBuilder.isFull`."""
        return self.is_closed or self.size_bytes >= self.limit_bytes

    @property
    def is_done(self) -> bool:
        """Whether it is finished."""
        return self.final_state is not FinalState.NONE

    @property
    def has_ended(self) -> bool:
        """Whether all its records are finished, those of its parts included."""
        return all(part.has_ended for part in self.parts) if self.parts else self.is_done

    def add(
        self,
        timestamp_ms: int,
        key: Any,
        value: Any,
        headers: Any,
    ) -> bool:
        """Add a record; False if the batch is closed or full. The first record always fits.

        `ProducerBatch.tryAppend`.
        """
        if self.is_closed:
            return False
        count = len(self.records)
        record = encode_record(count, timestamp_ms - self.base_timestamp, key, value, headers)
        size_bytes = self.size_bytes + len(record)
        if count and size_bytes > self.limit_bytes:
            return False
        self.records.append(record)
        self.timestamps.append(timestamp_ms)
        self.size_bytes = size_bytes
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        return True

    def try_append(
        self,
        timestamp_ms: int,
        key: Any,
        value: Any,
        headers: Any,
    ) -> DeliveryHandle | None:
        """As `add`, with the handle of the record; None for False."""
        is_added = self.add(timestamp_ms, key, value, headers)
        return DeliveryHandle(self, len(self.records) - 1) if is_added else None

    def place(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Close a whole batch, which is queued now for this partition."""
        self.topic_partition = topic_partition
        self.created_ms = self.retry_at_ms = now_ms
        self.limit_bytes = self.size_bytes
        self.is_closed = True

    def split(self, batch_size: int) -> tuple[ProducerBatch, ...]:
        """Split the records into batches of batch_size bytes, or of one record.

        A part that is split again makes parts of half its size instead (KAFKA-8350), or of one
        record each if that changes nothing. Parts keep this batch's creation time and sequences,
        and are closed. Handles of its records refer to the parts from now on.
        `ProducerBatch.split`.
        """
        records = decode_batch(self.encode()).records
        alone_bytes = [size_upper_bound_bytes(r.key, r.value, r.headers) for r in records]
        limit_bytes = max(*alone_bytes, self.size_bytes // 2) if self.is_split else batch_size
        parts = self._pack(records, [max(limit_bytes, least) for least in alone_bytes])
        if self.is_split and len(parts) == 1:
            # Kafka would send the same batch again, without backoff, until it expires.
            parts = self._pack(records, [0] * len(records))
        sequence = self.base_sequence
        for part in parts:
            part.is_closed = True
            part.is_transactional = self.is_transactional
            if sequence != NO_SEQUENCE:
                part.set_producer_state(self.producer_id, self.producer_epoch, sequence)
                sequence = increment_sequence(sequence, part.record_count)
        self._hand_over(parts)
        return self.parts

    def _hand_over(self, parts: Sequence[ProducerBatch]) -> None:
        """From now on the parts have the records. `ProducerBatch.split` moves thunks, too."""
        thunks = iter(self.thunks)
        for part in parts:
            part.thunks = list(islice(thunks, part.record_count))
        self.parts = tuple(parts)

    def _pack(self, records: Sequence[Record], limits_bytes: Sequence[int]) -> list[ProducerBatch]:
        """Pack records into batches; the first record of each sets its limit."""
        parts: list[ProducerBatch] = []
        for record, limit_bytes in zip(records, limits_bytes, strict=True):
            fields = (record.timestamp, record.key, record.value, record.headers)
            if not parts or parts[-1].try_append(*fields) is None:
                part = ProducerBatch(
                    self.topic_partition,
                    self.created_ms,
                    limit_bytes,
                    record.timestamp,
                    is_split=True,
                    compression=self.compression,
                )
                part.try_append(*fields)
                parts.append(part)
        return parts

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Number the batch at its first drain. `ProducerBatch.setProducerState`."""
        assert self.base_sequence == NO_SEQUENCE, "a batch with a sequence is never reassigned"
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.base_sequence = base_sequence

    def reset_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> None:
        """Renumber a batch in flight at an epoch bump. `ProducerBatch.resetProducerState`."""
        assert self.base_sequence != NO_SEQUENCE, "only a batch with a sequence is renumbered"
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.base_sequence = base_sequence
        self.sequence_has_been_reset = True

    def mark_drained(self, leader_epoch: int) -> None:
        """Close the batch, whose request is sent. `ProducerBatch.close`, `drained`."""
        self.is_closed = True
        self.outstanding = True
        self.sequence_has_been_reset = False
        self.leader_epoch = leader_epoch

    def mark_reenqueued(self, retry_at_ms: int) -> None:
        """Count a failed attempt; the next one waits until then. `ProducerBatch.reenqueued`."""
        self.attempts += 1
        self.in_retry = True
        self.retry_at_ms = retry_at_ms

    def encode(self) -> bytes:
        """The record batch of one attempt; `encoded_bytes` has its size from then on."""
        encoded = assemble_batch(
            self.records,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            attributes=self.compression | (TRANSACTIONAL if self.is_transactional else 0),
        )
        self.encoded_bytes = len(encoded)
        return encoded

    def finish(
        self, final_state: FinalState, base_offset: int, error: DeliveryError | None
    ) -> bool:
        """Finish the batch; False, without a change, if it is finished. `ProducerBatch.done`."""
        if self.is_done:
            assert self.final_state is not FinalState.SUCCEEDED, "a batch succeeds only once"
            return False
        self.final_state, self.base_offset, self.error = final_state, base_offset, error
        return True


class DeliveryHandle:
    """The outcome of one record. `FutureRecordMetadata`.

    Once `done`, either `error` is None and `offset` is the record's offset (-1 if the leader no
    longer knows it), or `error` says what happened.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def batch(self) -> ProducerBatch:
        """The batch that has the record now."""
        return self._current()

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        batch = self._current() if self._batch.parts else self._batch
        return batch.final_state is not FinalState.NONE

    @property
    def offset(self) -> int:
        """The record's offset in the log, -1 without one."""
        base_offset = self._current().base_offset
        return base_offset + self._index if base_offset != INVALID_OFFSET else INVALID_OFFSET

    @property
    def error(self) -> DeliveryError | None:
        """Why the record was not acknowledged; None before the outcome, and after success."""
        return self._current().error

    def _current(self) -> ProducerBatch:
        """The batch that has the record now: perhaps a part of the one it was added to.

        `FutureRecordMetadata.chain`.
        """
        while self._batch.parts:
            for part in self._batch.parts:
                if self._index < part.record_count:
                    self._batch = part
                    break
                self._index -= part.record_count
        return self._batch

    def __repr__(self) -> str:
        batch = self._current()
        topic, partition = batch.topic_partition
        state = batch.final_state.value
        return f"DeliveryHandle({topic}-{partition}, {state}, offset={self.offset})"
