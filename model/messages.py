"""What travels between actors, and the numbers it is made of."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from model.language import Index, Range, record
from model.setting import Setting

Producer = Annotated[int, Index("producers")]
"""A producer id, counted from 0 in the order of first use."""
Partition = Annotated[int, Index("partitions")]
RecordNumber = Annotated[int, Index("records")]
"""What a record says: the n-th that its producer's application sent to its partition."""

Epoch = Annotated[int, Range(0, "max_epoch")]
EpochOrNone = Annotated[int, Range(-1, "max_epoch")]
Sequence = Annotated[int, Range(0, "max_sequence")]
SequenceOrNone = Annotated[int, Range(-1, "max_sequence")]
RecordCount = Annotated[int, Range(1, "max_batch")]
Offset = Annotated[int, Range(0, "max_offset")]
OffsetOrNone = Annotated[int, Range(-1, "max_offset")]

NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
INVALID_OFFSET = -1


class Error(IntEnum):
    """Kafka's error codes, as many as this part of the protocol answers."""

    NONE = 0
    NOT_ENOUGH_REPLICAS = 19
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47


@record
class Batch:
    """A record batch. Its records are `first_record` and the following ones. KIP-98."""

    producer_id: Producer
    producer_epoch: Epoch
    base_sequence: Sequence
    record_count: RecordCount
    first_record: RecordNumber


@record
class ProduceRequest:
    """Produce with acks=all: one batch for one partition."""

    batch: Batch


@record
class ProduceResponse:
    """The answer for one batch.

    `first_record` is the correlation: it names the request, whose batch began with that record.
    The broker lets the answer go once the high watermark has reached `required_offset`.
    """

    first_record: RecordNumber
    error: Error
    base_offset: OffsetOrNone
    required_offset: Offset


def increment_sequence(k: Setting, sequence: int, count: int) -> int:
    """The sequence `count` later; 0 follows the last. DefaultRecordBatch.incrementSequence."""
    if sequence > k.layout.max_sequence - count:
        return count - (k.layout.max_sequence - sequence) - 1
    return sequence + count


def decrement_sequence(k: Setting, sequence: int, count: int) -> int:
    """The sequence `count` earlier. DefaultRecordBatch.decrementSequence."""
    if sequence < count:
        return k.layout.max_sequence - (count - sequence) + 1
    return sequence - count


def last_sequence(k: Setting, batch: Batch) -> int:
    """The sequence of the batch's last record. DefaultRecordBatch.lastSequence."""
    return increment_sequence(k, batch.base_sequence, batch.record_count - 1)
