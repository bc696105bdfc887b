"""librdkafka's idempotent producer, speaking the lines of `conformance.adapters.clients`: an
example of how any client is put to the test. Usage: --client "python confluent_client.py"."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Producer

SAME_NAME = (
    "enable.idempotence",
    "max.in.flight.requests.per.connection",
    "batch.size",
    "linger.ms",
    "request.timeout.ms",
    "delivery.timeout.ms",
    "retry.backoff.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
)


def run(number: str, bootstrap: str, topic: str, settings: str, records: str) -> None:
    """One run: its records are sent, and what became of each is printed."""
    named = dict(configuration.split("=") for configuration in settings.split(","))
    config = {name: named[name] for name in SAME_NAME} | {"bootstrap.servers": bootstrap}
    producer = Producer(config | {"retry.backoff.max.ms": "1000", "log_level": "0"})
    for word in records.split(","):
        if word.startswith("+"):
            producer.poll(int(word[1:]) / 1000)
            continue
        partition, record = word.split(":")
        print(number, partition, record, "sent", time.monotonic_ns(), flush=True)
        tell = telling(number, partition, record)
        producer.produce(topic, record.encode(), partition=int(partition), on_delivery=tell)
    producer.flush(10)
    print(number, "closed", flush=True)


def telling(number: str, partition: str, record: str) -> Callable[[KafkaError | None, Any], None]:
    """What prints the outcome of one record."""

    def tell(error: KafkaError | None, message: Any) -> None:
        offset = -1 if message.offset() is None else message.offset()
        what = f"stored {offset}" if error is None else f"failed {error.name()}"
        print(number, partition, record, what, flush=True)

    return tell


if __name__ == "__main__":
    for line in sys.stdin:
        run(*line.split())
