"""aiokafka.

Release 0.14 asks for committed offsets in OffsetFetch 3, which has no `require_stable` (KIP-447). A
member that joins anew while its own transaction ends is told the offsets of before, and would
process records twice. So the application remembers what it has committed, as it must with this
library. That the broker remembers it is shown by the other libraries, and by what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)

from conformance.campaigns.kills.libraries.event_loop import (
    AsyncioConsumer,
    AsyncioProducer,
    LoopThread,
)
from conformance.campaigns.kills.workload import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    TOPIC,
    TRANSACTION_TIMEOUT_MS,
    Delivered,
)

BACKOFF_MS = 100


class AsyncioKafkaConsumer(AsyncioConsumer):
    """Passes on no record before an offset that was committed for it."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._committed: dict[int, int] = {}

    def remember(self, offsets: Mapping[int, int]) -> None:
        """These are committed."""
        self._committed.update(offsets)

    def poll(self, timeout_s: float) -> Sequence[Delivered]:
        """`LoadConsumer.poll`."""
        found = super().poll(timeout_s)
        return [each for each in found if each.offset >= self._committed.get(each.partition, 0)]


class AsyncioKafkaProducer(AsyncioProducer):
    """Tells a consumer which offsets its transactions have committed."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._added: tuple[AsyncioKafkaConsumer, Mapping[int, int]] | None = None

    def begin(self) -> None:
        """`LoadProducer.begin`."""
        self._added = None
        super().begin()

    def send_offsets(self, offsets: Mapping[int, int], consumer: AsyncioKafkaConsumer) -> None:
        """`LoadProducer.send_offsets`."""
        super().send_offsets(offsets, consumer)
        self._added = consumer, offsets

    def commit(self) -> None:
        """`LoadProducer.commit`."""
        super().commit()
        if self._added is not None:
            consumer, offsets = self._added
            consumer.remember(offsets)


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

    def producer(self, transactional_id: str | None) -> AsyncioKafkaProducer:
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

        return AsyncioKafkaProducer(self._thread, self._thread.run(start()))

    def consumer(
        self, group: str, protocol: str, on_change: Callable[[], None]
    ) -> AsyncioKafkaConsumer:
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
        return AsyncioKafkaConsumer(self._thread, consumer, TopicPartition, lambda: group)


def open_library(address: str) -> AsyncioLibrary:
    """The library, for a broker at this address."""
    return AsyncioLibrary(address)
