"""confluent-kafka, which is librdkafka.

librdkafka 2.16.0 stands still after it has bootstrapped again (KIP-899). The coordinators that it
remembers (`rdkafka_coord.c`) are handles of brokers that it has decommissioned, and a
TxnOffsetCommit waits in such a handle for ever. So the settings forbid another bootstrap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from conformance.campaigns.kills.roles import Told
from conformance.campaigns.kills.workload import (
    HEARTBEAT_INTERVAL_MS,
    MOST_RECORDS,
    SESSION_TIMEOUT_MS,
    TOPIC,
    TRANSACTION_TIMEOUT_MS,
    Delivered,
)

log = logging.getLogger(__name__)
POLL_S = 0.1
CLOSE_S = 10.0


class LibrdkafkaProducer:
    """The `LoadProducer`. A thread serves the callbacks."""

    def __init__(self, settings: Mapping[str, object], transactional_id: str | None) -> None:
        mine = {"linger.ms": 2, "enable.idempotence": True, "retry.backoff.ms": 20}
        if transactional_id is not None:
            mine["transactional.id"] = transactional_id
            mine["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_MS
        self._producer = Producer({**settings, **mine})
        self._closed = Event()
        Thread(target=self._serve, daemon=True).start()
        if transactional_id is not None:
            self._producer.init_transactions()

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(POLL_S)

    def send(self, topic: str, partition: int, value: str, told: Told) -> None:
        """`LoadProducer.send`."""

        def delivered(error, message):
            told(message.offset() if error is None else None, error)

        self._producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)

    def flush(self) -> None:
        """`LoadProducer.flush`."""
        while self._producer.flush(POLL_S):
            pass

    def begin(self) -> None:
        """`LoadProducer.begin`."""
        self._producer.begin_transaction()

    def send_offsets(self, offsets: Mapping[int, int], consumer: LibrdkafkaConsumer) -> None:
        """`LoadProducer.send_offsets`."""
        member = consumer.consumer.consumer_group_metadata()
        self._retry(self._producer.send_offsets_to_transaction, places(offsets), member)

    def commit(self) -> None:
        """`LoadProducer.commit`."""
        self._retry(self._producer.commit_transaction)

    def abort(self) -> None:
        """`LoadProducer.abort`."""
        self._retry(self._producer.abort_transaction)

    def _retry(self, call, *arguments) -> None:
        """Repeat a call while its error says that it may be repeated."""
        while True:
            try:
                call(*arguments)
                return
            except KafkaException as error:
                log.warning("%s: %s", call.__name__, error)
                if not error.args[0].retriable():
                    raise

    def close(self) -> None:
        """`LoadProducer.close`. Remaining records are given up."""
        self._producer.flush(CLOSE_S)
        self._closed.set()


class LibrdkafkaConsumer:
    """The `LoadConsumer`."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def poll(self, timeout_s: float) -> Sequence[Delivered]:
        """`LoadConsumer.poll`."""
        first = self.consumer.poll(timeout_s)
        more = self.consumer.consume(MOST_RECORDS - 1, 0) if first is not None else []
        found = []
        for message in [first, *more] if first is not None else []:
            if message.error() is not None:
                raise KafkaException(message.error())
            value = message.value().decode()
            found.append(Delivered(message.partition(), message.offset(), value))
        return found

    def assignment(self) -> set[int]:
        """`LoadConsumer.assignment`."""
        return {place.partition for place in self.consumer.assignment()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """`LoadConsumer.commit`."""
        for place in self.consumer.commit(offsets=places(offsets), asynchronous=False):
            if place.error is not None:
                raise KafkaException(place.error)

    def seek(self, partition: int, offset: int) -> None:
        """`LoadConsumer.seek`."""
        self.consumer.seek(TopicPartition(TOPIC, partition, offset))

    def close(self) -> None:
        """`LoadConsumer.close`."""
        self.consumer.close()


def places(offsets: Mapping[int, int]) -> list[TopicPartition]:
    """Offsets in the library's form."""
    return [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]


class LibrdkafkaLibrary:
    """The `ClientLibrary`."""

    def __init__(self, address: str) -> None:
        self._settings = {
            "bootstrap.servers": address,
            "reconnect.backoff.max.ms": 500,
            "metadata.recovery.strategy": "none",
            "logger": log,
        }
        if log.isEnabledFor(logging.DEBUG):
            self._settings["debug"] = "broker,protocol,eos,cgrp,metadata"

    def producer(self, transactional_id: str | None) -> LibrdkafkaProducer:
        """`ClientLibrary.producer`."""
        return LibrdkafkaProducer(self._settings, transactional_id)

    def consumer(
        self, group: str, protocol: str, on_change: Callable[[], None]
    ) -> LibrdkafkaConsumer:
        """`ClientLibrary.consumer`."""
        settings = {
            **self._settings,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = SESSION_TIMEOUT_MS
            settings["heartbeat.interval.ms"] = HEARTBEAT_INTERVAL_MS
        consumer = Consumer(settings)

        def changed(*_: object) -> None:
            on_change()

        consumer.subscribe([TOPIC], on_assign=changed, on_revoke=changed, on_lost=changed)
        return LibrdkafkaConsumer(consumer)


def open_library(address: str) -> LibrdkafkaLibrary:
    """The library, for a broker at this address."""
    return LibrdkafkaLibrary(address)
