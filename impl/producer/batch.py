"""A batch of records on its way, and the handle that its sender keeps.

1. Records are added while the batch is the last of its queue; from the moment it is drained, or
   something is queued behind it, it is closed for good.
2. Producer id, epoch and base sequence are set once, by the drain; only a bump rewrites them.
3. It ends once: SUCCEEDED, FAILED or ABORTED. What a leader says after a local end is told to
   nobody; after SUCCEEDED nothing can follow. One that is split does not end: its parts do.

Theory of operation: a record is encoded when it is added, so that the size of the batch is known
exactly and a retry only writes a new header. `encode` makes the bytes of one attempt; they never
change afterwards, also if the batch expires or is renumbered while a request carries them
(KAFKA-19012). Source: `ProducerBatch`, `MemoryRecordsBuilder` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from impl.producer.arguments import BYTES, bad_record
from impl.producer.errors import DeliveryError
from impl.protocol.primitives import VARINT
from impl.protocol.record_batch import (
    HEADER_BYTES,
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Record,
    assemble_batch,
    decode_batch,
    encode_record,
    increment_sequence,
    last_sequence,
)

TopicPartition = tuple[str, int]
"""(topic, partition)."""

MAX_RECORD_OVERHEAD_BYTES: Final = 21
"""Length, attributes, timestamp and offset delta at their widest. `DefaultRecord`."""


def size_upper_bound_bytes(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> int:
    """What a batch with this record alone takes at most.

    Raises `InvalidArgumentError`. Source: `AbstractRecords.estimateSizeInBytesUpperBound`.
    """
    try:
        size = HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + _field_bytes(key) + _field_bytes(value)
        size += len(VARINT[len(headers)])
        for name, content in headers:
            size += _field_bytes(name.encode()) + _field_bytes(content)
    except (TypeError, ValueError, AttributeError):
        raise bad_record(key, value, headers) from None
    return size


def _field_bytes(field: bytes | None) -> int:
    if field is None:
        return 1
    if type(field) is not bytes and not isinstance(field, BYTES):
        raise TypeError
    return len(VARINT[len(field)]) + len(field)


class FinalState(Enum):
    """How a batch ended. `ProducerBatch.FinalState`."""

    NONE = "none"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class ProducerBatch:
    """Records for one partition under one base sequence. `ProducerBatch`.

    Times are milliseconds. `attempts` counts the failed ones, `in_retry` stays set after the first;
    `outstanding` while a request that carries the batch awaits its answer; `limit_bytes` is what it
    may take; `leader_epoch` that of the last attempt, -1 unknown; `is_split`, it
    is a part of one that was too large; `parts`, those of this one; `is_transactional` from the
    first drain on.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "created_ms",
        "error",
        "final_state",
        "in_retry",
        "is_closed",
        "is_split",
        "is_transactional",
        "leader_epoch",
        "limit_bytes",
        "max_timestamp",
        "outstanding",
        "parts",
        "producer_epoch",
        "producer_id",
        "records",
        "retry_at_ms",
        "sequence_has_been_reset",
        "size_bytes",
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
    ) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.limit_bytes = limit_bytes
        self.is_split = is_split
        self.parts: tuple[ProducerBatch, ...] = ()
        self.base_timestamp = self.max_timestamp = timestamp_ms
        self.records: list[bytes] = []
        self.size_bytes = HEADER_BYTES
        self.is_closed = False
        self.attempts = 0
        self.in_retry = False
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
        self.error: DeliveryError | None = None

    @property
    def buffer_bytes(self) -> int:
        """What it takes from buffer_memory: nothing if it is a part of another one."""
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
        """Whether waiting for more records is of no use. `MemoryRecordsBuilder.isFull`."""
        return self.is_closed or self.size_bytes >= self.limit_bytes

    @property
    def is_done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.final_state is not FinalState.NONE

    @property
    def has_ended(self) -> bool:
        """Whether all its records have their outcome, wherever they are now."""
        return all(part.has_ended for part in self.parts) if self.parts else self.is_done

    def try_append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> DeliveryHandle | None:
        """Add a record that has a size; None if the batch is closed or has no room.

        The first always has room. `ProducerBatch.tryAppend`.
        """
        if self.is_closed:
            return None
        count = len(self.records)
        record = encode_record(count, timestamp_ms - self.base_timestamp, key, value, headers)
        size_bytes = self.size_bytes + len(record)
        if count and size_bytes > self.limit_bytes:
            return None
        self.records.append(record)
        self.size_bytes = size_bytes
        self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        return DeliveryHandle(self, count)

    def split(self, batch_size: int) -> tuple[ProducerBatch, ...]:
        """The same records in order in smaller batches: of batch_size bytes, or of one record.

        A part that is split again makes parts of half its size instead (KAFKA-8350), or of one
        record each if that changes nothing. They are as old as this one, closed, and numbered from
        its base sequence on if it has one. The handles of its records follow them from now on.
        `ProducerBatch.split`.
        """
        records = decode_batch(self.encode()).records
        alone_bytes = [size_upper_bound_bytes(r.key, r.value, r.headers) for r in records]
        limit_bytes = max(*alone_bytes, self.size_bytes // 2) if self.is_split else batch_size
        parts = self._packed(records, [max(limit_bytes, least) for least in alone_bytes])
        if self.is_split and len(parts) == 1:
            # Kafka would send it again as it is, at once and until it expires.
            parts = self._packed(records, [0] * len(records))
        sequence = self.base_sequence
        for part in parts:
            part.is_closed = True
            part.is_transactional = self.is_transactional
            if sequence != NO_SEQUENCE:
                part.set_producer_state(self.producer_id, self.producer_epoch, sequence)
                sequence = increment_sequence(sequence, part.record_count)
        self.parts = tuple(parts)
        return self.parts

    def _packed(
        self, records: Sequence[Record], limits_bytes: Sequence[int]
    ) -> list[ProducerBatch]:
        """`records` in batches; the one that begins a batch decides how large it may be."""
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

    def drained(self, leader_epoch: int) -> None:
        """A request takes the batch as it is now. `ProducerBatch.close`, `drained`."""
        self.is_closed = True
        self.outstanding = True
        self.sequence_has_been_reset = False
        self.leader_epoch = leader_epoch

    def reenqueued(self, retry_at_ms: int) -> None:
        """An attempt has failed, the next one waits until then. `ProducerBatch.reenqueued`."""
        self.attempts += 1
        self.in_retry = True
        self.retry_at_ms = retry_at_ms

    def encode(self) -> bytes:
        """The record batch of one attempt."""
        return assemble_batch(
            self.records,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            attributes=TRANSACTIONAL if self.is_transactional else 0,
        )

    def finish(
        self, final_state: FinalState, base_offset: int, error: DeliveryError | None
    ) -> bool:
        """End the batch; False, and nothing changes, if it has ended. `ProducerBatch.done`."""
        if self.is_done:
            assert self.final_state is not FinalState.SUCCEEDED, "a batch succeeds once, at the end"
            return False
        self.final_state, self.base_offset, self.error = final_state, base_offset, error
        return True


class DeliveryHandle:
    """What became of one record. `FutureRecordMetadata`.

    `done` is true from the end on; then either `error` is None and `offset` is the record's offset
    in the log (-1 if the leader does not know it any more), or `error` says what happened.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

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
        """Why the record was not acknowledged; None while it is open or when it succeeded."""
        return self._current().error

    def _current(self) -> ProducerBatch:
        """The batch that has the record now: a part of the one it was added to, if that was split.

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
