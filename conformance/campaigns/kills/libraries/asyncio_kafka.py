"""aiokafka.

Release 0.14 asks for committed offsets in OffsetFetch 3, which has no `require_stable` (KIP-447).
If a member rejoins while its own transaction ends, it receives the old offsets, and would process
records twice. So the application remembers the offsets that it has committed, as it must with this
library. The other libraries, and the stored files, show that the broker remembers them, too.
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
    """Drops records before an offset that was committed for it."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._committed: dict[int, int] = {}

    def remember(self, offsets: Mapping[int, int]) -> None:
        """Note committed offsets."""
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
    """Reports each change of the assignment."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def on_partitions_revoked(self, revoked):
        """Positions must not be committed any more."""
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
