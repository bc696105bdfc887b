"""The messages between producers and leaders, and the numbers in them."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from model.idempotent.configuration import Configuration
from model.language import Index, Range, record

Producer = Annotated[int, Index("producers")]
"""A producer: one instance of an application's client."""
ProducerId = Annotated[int, Index("producer_ids")]
"""A producer id, counted from 0 in the order of first use."""
ProducerIdOrNone = Annotated[int, Range("least_producer_id", "last_producer_id")]
Partition = Annotated[int, Index("partitions")]
RecordNumber = Annotated[int, Index("records")]
"""The content of a record: n for the n-th record that its producer's application sent to its
partition."""
StoredCount = Annotated[int, Range(0, "log")]
"""A number of batches at the beginning of a log."""
InFlightCount = Annotated[int, Range(0, "unfinished")]
"""A number of batches at the beginning of those in flight."""
Flag = Annotated[int, Range(0, 1)]
"""A choice between two: 0 or 1."""

Epoch = Annotated[int, Range(0, "max_epoch")]
EpochOrNone = Annotated[int, Range(-1, "max_epoch")]
BatchEpoch = Annotated[int, Range("least_epoch", "max_epoch")]
"""-1 in a batch without a producer id."""
Sequence = Annotated[int, Range(0, "max_sequence")]
BatchSequence = Annotated[int, Range("least_sequence", "max_sequence")]
"""-1 in a batch without a producer id."""
SequenceOrNone = Annotated[int, Range(-1, "max_sequence")]
RecordCount = Annotated[int, Range(1, "max_batch")]
Offset = Annotated[int, Range(0, "max_offset")]
OffsetOrNone = Annotated[int, Range(-1, "max_offset")]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
INVALID_OFFSET = -1


class Error(IntEnum):
    """The error codes of Kafka that this part of the protocol answers."""

    NONE = 0
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_TIMESTAMP = 32
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    UNKNOWN_PRODUCER_ID = 59


@record
class Batch:
    """A record batch. KIP-98.

    `producer` and `first_record` stand for the content of the records: the producer whose
    application sent them, and the number of the first. The numbers of the others follow. No broker
    reads either field.
    """

    producer_id: ProducerIdOrNone
    producer_epoch: BatchEpoch
    base_sequence: BatchSequence
    record_count: RecordCount
    producer: Producer
    first_record: RecordNumber


@record
class ProduceRequest:
    """Produce: one batch for one partition."""

    batch: Batch


@record
class ProduceResponse:
    """The answer for one batch.

    `first_record` is the correlation: it names the request, whose batch began with that record. The
    broker sends the answer once the high watermark has reached `required_offset`.
    """

    first_record: RecordNumber
    error: Error
    base_offset: OffsetOrNone
    required_offset: Offset
    log_start_offset: Offset


def increment_sequence(k: Configuration, sequence: int, count: int) -> int:
    """The sequence `count` later; after the last comes 0. DefaultRecordBatch.incrementSequence."""
    if sequence > k.bounds.max_sequence - count:
        return count - (k.bounds.max_sequence - sequence) - 1
    return sequence + count


def decrement_sequence(k: Configuration, sequence: int, count: int) -> int:
    """The sequence `count` earlier. DefaultRecordBatch.decrementSequence."""
    if sequence < count:
        return k.bounds.max_sequence - (count - sequence) + 1
    return sequence - count


def last_sequence(k: Configuration, batch: Batch) -> int:
    """The sequence of the batch's last record. DefaultRecordBatch.lastSequence."""
    return increment_sequence(k, batch.base_sequence, batch.record_count - 1)
