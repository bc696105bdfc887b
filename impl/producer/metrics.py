"""What a producer counts, by the names of Kafka's metrics.

1. Totals, averages and maxima are of the whole life of the producer; Kafka's averages and maxima
   are those of the last minute.
2. Nothing is counted by the record: requests when they are sent and answered, batches when they
   are done.

Source: `SenderMetricsRegistry`, `Selector.SelectorMetrics` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from impl.producer.batch import ProducerBatch

_COUNT: Final = Struct(">i")
_COUNT_OFFSET: Final = 57
"""Where a batch has the number of its records."""


class _Series:
    """Numbers, of which the average and the greatest are asked; 0 without any."""

    __slots__ = ("count", "greatest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = self.greatest = 0.0

    def add(self, number: float) -> None:
        self.count += 1
        self.total += number
        if number > self.greatest:
            self.greatest = number

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


class ProducerMetrics:
    """The figures of one producer."""

    def __init__(self) -> None:
        self._batch_bytes = _Series()
        self._compression = _Series()
        self._records_of_requests = _Series()
        self._latencies_ms = _Series()
        self._throttles_ms = _Series()
        self._requests = 0
        self._totals = {"record-error-total": 0, "record-retry-total": 0, "batch-split-total": 0}

    def on_request(self) -> None:
        """A request of any kind is sent."""
        self._requests += 1

    def on_produce(self, body: Mapping[str, Any]) -> None:
        """A Produce request is sent."""
        rows = [row["records"] for topic in body["topics"] for row in topic["partitions"]]
        for records in rows:
            self._batch_bytes.add(len(records))
        counts = [_COUNT.unpack_from(records, _COUNT_OFFSET)[0] for records in rows]
        self._records_of_requests.add(sum(counts))

    def on_answer(self, latency_ms: float, answer: Mapping[str, Any]) -> None:
        """The answer to a request."""
        self._latencies_ms.add(latency_ms)
        self._throttles_ms.add(answer.get("throttle_time_ms", 0))

    def on_batch(self, batch: ProducerBatch) -> None:
        """A batch is done. Retries are counted then, however many there were."""
        if batch.is_split:
            self._totals["batch-split-total"] += 1
        if batch.attempts:
            self._totals["record-retry-total"] += batch.attempts * batch.record_count
        if batch.error is not None:
            self._totals["record-error-total"] += batch.record_count
        elif batch.encoded_bytes:
            self._compression.add(batch.encoded_bytes / batch.size_bytes)

    def read(self) -> dict[str, float]:
        """The figures: sizes in bytes, times in milliseconds."""
        return {
            "record-send-total": self._records_of_requests.total,
            **self._totals,
            "records-per-request-avg": self._records_of_requests.average,
            "batch-size-avg": self._batch_bytes.average,
            "batch-size-max": self._batch_bytes.greatest,
            "compression-rate-avg": self._compression.average,
            "request-total": self._requests,
            "response-total": self._latencies_ms.count,
            "request-latency-avg": self._latencies_ms.average,
            "request-latency-max": self._latencies_ms.greatest,
            "produce-throttle-time-avg": self._throttles_ms.average,
            "produce-throttle-time-max": self._throttles_ms.greatest,
        }
