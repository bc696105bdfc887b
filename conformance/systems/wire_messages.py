"""A trace's questions as Kafka's messages, and their answers in the trace's own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from conformance.kafka.admin import PartitionProducers
from conformance.kafka.connection import Request
from conformance.systems.wire_observer import Answer, ProducerState
from conformance.systems.wire_supply import Booking
from conformance.systems.wire_trial import Produce, Silent
from impl import ApiKey, ErrorCode, Record, RecordBatch, encode_batch
from impl.protocol.codegen import Value
from model.messages import Batch

NEWEST_PRODUCE: Final = 12
"""The last version that names topics by name."""
OLDEST_PRODUCE: Final = 3
"""The first with batches that a producer id can be in."""
ALL_REPLICAS: Final = -1
TIMEOUT_MS: Final = 5_000


class Misaddressed(Exception):
    """An answer for another partition than was asked about."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What the model's numbers are at the broker, for one trace.

    `timestamp_ms` is that of all its records, so that a batch that is sent again is the same bytes.
    """

    booking: Booking
    produce_version: int
    timestamp_ms: int

    def request(self, asked: Produce) -> Request:
        """A Produce request with one batch, acks=all."""
        slot = self.booking.slots[asked.partition]
        data = {"index": slot.partition, "records": self._records(asked.batch)}
        body = {
            "transactional_id": None,
            "acks": ALL_REPLICAS,
            "timeout_ms": TIMEOUT_MS,
            "topics": [{"name": slot.topic, "partitions": [data]}],
        }
        return Request(ApiKey.PRODUCE, self.produce_version, body)

    def answer(self, asked: Produce, body: Value) -> Answer:
        """What was answered. Raises Misaddressed."""
        slot = self.booking.slots[asked.partition]
        rows = {
            (topic["name"], row["index"]): row
            for topic in body["topics"]
            for row in topic["partitions"]
        }
        if rows.keys() != {(slot.topic, slot.partition)}:
            raise Misaddressed(f"asked {slot.topic}-{slot.partition}, answered {sorted(rows)}")
        row = rows[slot.topic, slot.partition]
        offset = row["base_offset"]
        return Answer(row["error_code"], offset if offset < 0 else offset - slot.log_end_offset)

    def described(
        self, partition: int, told: Mapping[tuple[str, int], PartitionProducers]
    ) -> dict[int, ProducerState] | Silent:
        """The state of each of the trace's producers that the broker knows."""
        slot = self.booking.slots[partition]
        known = told.get((slot.topic, slot.partition))
        if known is None or known.error_code != ErrorCode.NONE:
            return Silent(f"error {known.error_code}" if known else "nothing")
        return {
            i: ProducerState(
                known.producers[producer.producer_id].producer_epoch - producer.producer_epoch,
                known.producers[producer.producer_id].last_sequence,
            )
            for i, producer in enumerate(self.booking.producers)
            if producer.producer_id in known.producers
        }

    def _records(self, batch: Batch) -> bytes:
        """The batch as bytes; each record says its number."""
        producer = self.booking.producers[batch.producer_id]
        time_ms = self.timestamp_ms
        numbers = range(batch.first_record, batch.first_record + batch.record_count)
        return encode_batch(
            RecordBatch(
                records=tuple(
                    Record(delta, time_ms, None, b"%d" % number)
                    for delta, number in enumerate(numbers)
                ),
                last_offset_delta=batch.record_count - 1,
                base_timestamp=time_ms,
                max_timestamp=time_ms,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch + batch.producer_epoch,
                base_sequence=batch.base_sequence,
            )
        )
