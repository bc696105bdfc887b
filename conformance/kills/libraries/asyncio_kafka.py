"""aiokafka."""

from __future__ import annotations

from collections.abc import Callable

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)

from conformance.kills.libraries.event_loop import AsyncioConsumer, AsyncioProducer, LoopThread
from conformance.kills.workload import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    TOPIC,
    TRANSACTION_TIMEOUT_MS,
)

BACKOFF_MS = 100


class RebalanceListener(ConsumerRebalanceListener):
    """Tells of each change."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def on_partitions_revoked(self, revoked):
        """Positions are not committed any more."""
        self._on_change()

    def on_partitions_assigned(self, assigned):
        """The same."""
        self._on_change()


class AsyncioLibrary:
    """The `ClientLibrary`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._thread = LoopThread()

    def producer(self, transactional_id: str | None) -> AsyncioProducer:
        """`ClientLibrary.producer`."""
        settings = {}
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
            settings["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS

        async def start():
            producer = AIOKafkaProducer(
                bootstrap_servers=self._address,
                enable_idempotence=True,
                retry_backoff_ms=BACKOFF_MS,
                **settings,
            )
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            return producer

        return AsyncioProducer(self._thread, self._thread.run(start()))

    def consumer(self, group: str, protocol: str, on_change: Callable[[], None]) -> AsyncioConsumer:
        """`ClientLibrary.consumer`."""

        async def start():
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._address,
                group_id=group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                retry_backoff_ms=BACKOFF_MS,
            )
            consumer.subscribe([TOPIC], listener=RebalanceListener(on_change))
            try:
                await consumer.start()
            except BaseException:
                await consumer.stop()
                raise
            return consumer

        consumer = self._thread.run(start())
        return AsyncioConsumer(self._thread, consumer, TopicPartition, lambda: group)


def open_library(address: str) -> AsyncioLibrary:
    """The library, for a broker at this address."""
    return AsyncioLibrary(address)
