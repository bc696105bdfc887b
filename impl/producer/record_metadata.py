"""What became of records: where each of a batch is, or why it is not."""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.coordinator.metadata import TopicPartition
from impl.producer.batch import ProducerBatch
from impl.protocol.record_batch import INVALID_OFFSET, NO_TIMESTAMP

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
"""Values of `timestamp_type`. `TimestampType`."""

_new: Final = tuple.__new__


class RecordMetadata(NamedTuple):
    """Where a record is.

    `offset` is -1 if the leader no longer knows it, or was not asked (acks=0). `timestamp` is in
    milliseconds: the record's own (`timestamp_type` 0), or the leader's if the topic has
    message.timestamp.type=LogAppendTime (1). `log_start_offset` is -1 if unknown.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    timestamp_type: int
    log_start_offset: int


def record_metadata(batch: ProducerBatch) -> list[RecordMetadata]:
    """Of each record of an acknowledged batch. `ProducerBatch.completeFutureAndFireCallbacks`."""
    place = TopicPartition(*batch.topic_partition)
    count, base_offset, start = batch.record_count, batch.base_offset, batch.log_start_offset
    offsets = [INVALID_OFFSET] * count
    if base_offset != INVALID_OFFSET:
        offsets = list(range(base_offset, base_offset + count))
    timestamps, timestamp_type = batch.timestamps, CREATE_TIME
    if batch.log_append_time != NO_TIMESTAMP:
        timestamps, timestamp_type = [batch.log_append_time] * count, LOG_APPEND_TIME
    return [
        _new(RecordMetadata, (*place, place, offset, timestamp, timestamp_type, start))
        for offset, timestamp in zip(offsets, timestamps, strict=True)
    ]
