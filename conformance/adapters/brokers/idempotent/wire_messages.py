"""Turns a trace's requests into Kafka's messages, and their answers into the trace's own
numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from conformance.adapters.brokers.idempotent.observer import ObservedAnswer, ProducerState
from conformance.adapters.brokers.kafka.admin import (
    ProducerIdentity,
    TopicPartition,
    producers_in,
    producers_request,
)
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.kafka.errors import WireError
from conformance.adapters.brokers.partition_pool import PartitionOffsets
from conformance.adapters.brokers.wire import WireCall
from impl import ApiKey, ErrorCode, Record, RecordBatch, encode_batch
from impl.protocol.message_form import Value
from model.idempotent.configuration import Configuration
from model.idempotent.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Batch

DELETE_RECORDS_VERSION: Final = 1
NOBODY: Final = -1
"""The producer id of a batch without a producer."""
ALL_REPLICAS: Final = -1
LEADER_ALONE: Final = 1
TIMEOUT_MS: Final = 5_000
RECORD_BYTES: Final = 8
"""The size of a record's value; all batches with the same number of records have the same size."""


class Misaddressed(WireError):
    """An answer for another partition than the request named."""


class Deleted(NamedTuple):
    """Whether the head of a log was deleted, and the present log start offset."""

    error: int
    low_watermark: int


@dataclass(slots=True)
class Binding:
    """The broker's producers and logs for one trace, by the model's numbers. `logs` change when the
    broker restarts.

    `timestamp_ms` is that of all records, so that a batch that is sent again has the same bytes.
    """

    producers: Sequence[ProducerIdentity]
    logs: Sequence[PartitionOffsets]
    produce_version: int
    timestamp_ms: int

    def produce(
        self, partition: int, batch: Batch, *, is_isolated: bool
    ) -> WireCall[ObservedAnswer]:
        """A request with one batch: acks=all, or 1 if no follower fetches."""
        log = self.logs[partition]
        topic, index = log.partition
        data = {"index": index, "records": self._records(batch)}
        body = {
            "transactional_id": None,
            "acks": LEADER_ALONE if is_isolated else ALL_REPLICAS,
            "timeout_ms": TIMEOUT_MS,
            "topics": [{"name": topic, "partitions": [data]}],
        }
        request = WireRequest(ApiKey.PRODUCE, self.produce_version, body)
        return WireCall(request, partial(self._answered, log))

    def _answered(self, log: PartitionOffsets, body: Value) -> ObservedAnswer:
        """The answer in the trace's numbers. Raises Misaddressed."""
        rows = {
            (topic["name"], row["index"]): row
            for topic in body["topics"]
            for row in topic["partitions"]
        }
        if rows.keys() != {log.partition}:
            raise Misaddressed(f"asked {log.partition}, answered {sorted(rows)}")
        row = rows[log.partition]
        offset, start = row["base_offset"], row["log_start_offset"]
        return ObservedAnswer(
            row["error_code"],
            offset if offset < 0 else offset - log.end,
            start if start < 0 else log.relative_start(start),
        )

    def delete_records(self, partition: int, offset: int) -> WireCall[Deleted]:
        """Delete the head of the log up to an offset of the model."""
        log = self.logs[partition]
        topic, index = log.partition
        data = {"partition_index": index, "offset": log.end + offset}
        topics = [{"name": topic, "partitions": [data]}]
        body = {"topics": topics, "timeout_ms": TIMEOUT_MS}
        request = WireRequest(ApiKey.DELETE_RECORDS, DELETE_RECORDS_VERSION, body)
        return WireCall(request, partial(self._deleted, log))

    def _deleted(self, log: PartitionOffsets, body: Value) -> Deleted:
        [row] = [row for topic in body["topics"] for row in topic["partitions"]]
        return Deleted(row["error_code"], log.relative_start(row["low_watermark"]))

    def describe_producers(self, partition: int) -> WireCall[dict[int, ProducerState] | str]:
        """The known state of each of the trace's producers, or the error that was answered."""
        topic, index = self.logs[partition].partition
        request = producers_request({topic: [index]})
        return WireCall(request, partial(self._described, (topic, index)))

    def _described(self, partition: TopicPartition, body: Value) -> dict[int, ProducerState] | str:
        known = producers_in(body).get(partition)
        if known is None or known.error_code != ErrorCode.NONE:
            return f"error {known.error_code}" if known else "nothing"
        return {
            i: ProducerState(
                known.producers[producer.producer_id].producer_epoch - producer.producer_epoch,
                known.producers[producer.producer_id].last_sequence,
            )
            for i, producer in enumerate(self.producers)
            if producer.producer_id in known.producers
        }

    def _records(self, batch: Batch) -> bytes:
        """The bytes of a batch."""
        if batch.producer_id == NO_PRODUCER_ID:
            return batch_bytes(batch, self.timestamp_ms, NOBODY, NO_PRODUCER_EPOCH)
        producer = self.producers[batch.producer_id]
        epoch = producer.producer_epoch + batch.producer_epoch
        return batch_bytes(batch, self.timestamp_ms, producer.producer_id, epoch)


def batch_bytes(batch: Batch, time_ms: int, producer_id: int, producer_epoch: int) -> bytes:
    """A batch of the model for a producer of the broker; each record has its number as its
    value."""
    numbers = range(batch.first_record, batch.first_record + batch.record_count)
    return encode_batch(
        RecordBatch(
            records=tuple(
                Record(delta, time_ms, None, b"%0*d" % (RECORD_BYTES, number))
                for delta, number in enumerate(numbers)
            ),
            last_offset_delta=batch.record_count - 1,
            base_timestamp=time_ms,
            max_timestamp=time_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=batch.base_sequence,
        )
    )


def topic_configs(k: Configuration) -> dict[str, str]:
    """The configs of a topic in which the largest batch is that of the scope."""
    if not k.bounds.splits:
        return {}
    largest = Batch(0, 0, 0, k.bounds.max_message, 0, 0)
    size = len(batch_bytes(largest, time_ms=0, producer_id=0, producer_epoch=0))
    return {"max.message.bytes": str(size)}
