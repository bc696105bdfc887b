"""A batch of records on its way, and the handle that its sender keeps.

1. Records are added while the batch is the last of its queue; from the moment it is drained, or
   something is queued behind it, it is closed for good.
2. Producer id, epoch and base sequence are set once, by the drain; only a bump rewrites them.
3. It ends once: SUCCEEDED, FAILED or ABORTED. What a leader says after a local end is told to
   nobody; after SUCCEEDED nothing can follow.

Theory of operation: a record is encoded when it is added, so that the size of the batch is known
exactly and a retry only writes a new header. `encode` makes the bytes of one attempt; they never
change afterwards, also if the batch expires or is renumbered while a request carries them
(KAFKA-19012). Source: `ProducerBatch`, `MemoryRecordsBuilder` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from impl.producer.errors import DeliveryError
from impl.protocol.record_batch import (
    HEADER_BYTES,
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Header,
    assemble_batch,
    encode_record,
    last_sequence,
)

TopicPartition = tuple[str, int]
"""(topic, partition)."""


class FinalState(Enum):
    """How a batch ended. `ProducerBatch.FinalState`."""

    NONE = "none"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class ProducerBatch:
    """Records for one partition under one base sequence. `ProducerBatch`.

    Times are milliseconds. `attempts` counts the failed ones, `in_retry` stays set after the first;
    `outstanding` while a request that carries the batch awaits its answer; `buffer_bytes` is what
    it takes from buffer_memory; `leader_epoch` that of the last attempt, -1 unknown.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer_bytes",
        "created_ms",
        "error",
        "final_state",
        "in_retry",
        "is_closed",
        "leader_epoch",
        "max_timestamp",
        "outstanding",
        "producer_epoch",
        "producer_id",
        "records",
        "retry_at_ms",
        "sequence_has_been_reset",
        "size_bytes",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, created_ms: int, buffer_bytes: int, timestamp_ms: int
    ) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.buffer_bytes = buffer_bytes
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
        self.sequence_has_been_reset = False
        self.outstanding = False
        self.final_state = FinalState.NONE
        self.base_offset = INVALID_OFFSET
        self.error: DeliveryError | None = None

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
        return self.is_closed or self.size_bytes >= self.buffer_bytes

    @property
    def is_done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.final_state is not FinalState.NONE

    def try_append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> DeliveryHandle | None:
        """Add a record; None if the batch is closed or has no room. The first always has room.

        Raises `InvalidField` for a record that cannot be encoded. `ProducerBatch.tryAppend`.
        """
        if self.is_closed:
            return None
        count = len(self.records)
        record = encode_record(count, timestamp_ms - self.base_timestamp, key, value, headers)
        size_bytes = self.size_bytes + len(record)
        if count and size_bytes > self.buffer_bytes:
            return None
        self.records.append(record)
        self.size_bytes = size_bytes
        self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        return DeliveryHandle(self, count)

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
        return self._batch.is_done

    @property
    def offset(self) -> int:
        """The record's offset in the log, -1 without one."""
        base_offset = self._batch.base_offset
        return base_offset + self._index if base_offset != INVALID_OFFSET else INVALID_OFFSET

    @property
    def error(self) -> DeliveryError | None:
        """Why the record was not acknowledged; None while it is open or when it succeeded."""
        return self._batch.error

    def __repr__(self) -> str:
        topic, partition = self._batch.topic_partition
        state = self._batch.final_state.value
        return f"DeliveryHandle({topic}-{partition}, {state}, offset={self.offset})"
