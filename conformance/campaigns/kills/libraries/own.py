"""`Producer` and `Consumer` of this project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
)
from impl import Consumer, Producer

BACKOFF_MS: Final = 100


class OwnLibrary:
    """The `ClientLibrary`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._thread = LoopThread()

    def producer(self, transactional_id: str | None) -> AsyncioProducer:
        """`ClientLibrary.producer`."""
        settings: dict[str, Any] = {"retry_backoff_ms": BACKOFF_MS}
        if transactional_id is not None:
            settings["transactional_id"] = transactional_id
            settings["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS
        producer = self._thread.call(lambda: Producer(self._address, **settings))
        self._thread.run(producer.start())
        return AsyncioProducer(self._thread, producer)

    def consumer(self, group: str, protocol: str, on_change: Callable[[], None]) -> AsyncioConsumer:
        """`ClientLibrary.consumer`."""

        class Listener:
            """Listens to rebalances."""

            def on_partitions_revoked(self, _: object) -> None:
                """Positions must not be committed any more."""
                on_change()

            on_partitions_assigned = on_partitions_lost = on_partitions_revoked

        timing: dict[str, Any] = {
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        }
        consumer = self._thread.call(
            lambda: Consumer(
                bootstrap_servers=self._address,
                group_id=group,
                group_protocol=protocol,
                **(timing if protocol == "classic" else {}),
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                retry_backoff_ms=BACKOFF_MS,
            )
        )
        self._thread.run(consumer.start())
        self._thread.call(consumer.subscribe, [TOPIC], None, Listener())
        return AsyncioConsumer(
            self._thread, consumer, lambda *place: place, consumer.group_metadata
        )


def open_library(address: str) -> OwnLibrary:
    """The library, for a broker at this address."""
    return OwnLibrary(address)
