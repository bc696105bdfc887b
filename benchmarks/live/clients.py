"""Four producers behind one small surface: ours, aiokafka, kafka-python, confluent-kafka.

Each has the settings that users would give it for the same behaviour, and is called as its own
documents do. aiokafka has no setting for requests in flight: it has one to each broker.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol

from benchmarks.peers import kafka_python
from impl import Producer

BATCH_BYTES: Final = 16_384
IN_FLIGHT: Final = 5
PARTITIONS: Final = 4
VALUE: Final = bytes(100)
TIMEOUT_S: Final = 60.0

clock = time.perf_counter


class NotAcknowledged(RuntimeError):
    """A client reports a lost record."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a client that differ between benchmarks."""

    servers: str
    topic: str
    linger_ms: int = 0
    transactional_id: str | None = None


class Client(Protocol):
    """A producer that is connected; it raises what its library raises, or NotAcknowledged."""

    def burst(self, count: int) -> None:
        """Send so many records to all partitions in turn, and wait until all are acknowledged."""

    def one_by_one(self, count: int) -> list[float]:
        """The seconds from sending a record to its acknowledgement; the next one waits for it."""

    def transactions(self, count: int, records: int) -> None:
        """Commit so many transactions, one after the other, each of so many records."""

    def close(self) -> None:
        """Stop it; nothing waits to be sent."""


class AsyncioClient:
    """Ours, or aiokafka's: the names of the calls are the same."""

    def __init__(self, make: Callable[[Settings], Any], settings: Settings) -> None:
        self._topic = settings.topic
        self._runner = asyncio.Runner()
        try:
            self._producer = self._runner.run(self._start(make, settings))
        except BaseException:
            self._runner.close()
            raise

    async def _start(self, make: Callable[[Settings], Any], settings: Settings) -> Any:
        producer = make(settings)
        await producer.start()
        return producer

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._producer.stop())

    def burst(self, count: int) -> None:
        self._runner.run(self._burst(count))

    async def _burst(self, count: int) -> None:
        send = self._producer.send
        sent: list[Awaitable[object]] = [
            await send(self._topic, VALUE, partition=number % PARTITIONS) for number in range(count)
        ]
        await self._producer.flush()
        for outcome in sent:
            await outcome

    def one_by_one(self, count: int) -> list[float]:
        return self._runner.run(self._one_by_one(count))

    async def _one_by_one(self, count: int) -> list[float]:
        found = []
        for _ in range(count):
            begun = clock()
            await self._producer.send_and_wait(self._topic, VALUE, partition=0)
            found.append(clock() - begun)
        return found

    def transactions(self, count: int, records: int) -> None:
        self._runner.run(self._transactions(count, records))

    async def _transactions(self, count: int, records: int) -> None:
        for _ in range(count):
            async with self._producer.transaction():
                for _ in range(records):
                    await self._producer.send(self._topic, VALUE, partition=0)


def common_settings(settings: Settings) -> dict[str, Any]:
    """What three of the libraries call alike."""
    return {
        "bootstrap_servers": settings.servers,
        "acks": "all",
        "enable_idempotence": True,
        "transactional_id": settings.transactional_id,
        "linger_ms": settings.linger_ms,
    }


LIMITS: Final[Mapping[str, Any]] = {
    "batch_size": BATCH_BYTES,
    "max_in_flight_requests_per_connection": IN_FLIGHT,
}


def our_producer(settings: Settings) -> Producer:
    return Producer(**common_settings(settings), **LIMITS)


def aiokafka_producer(settings: Settings) -> Any:
    make = import_module("aiokafka").AIOKafkaProducer
    return make(**common_settings(settings), max_batch_size=BATCH_BYTES)


class BlockingClient(ABC):
    """A library whose calls block, and whose own threads send."""

    def __init__(self, producer: Any, settings: Settings, *timeout_s: float) -> None:
        self._topic = settings.topic
        self._producer = producer
        self._timeout_s = timeout_s
        if settings.transactional_id is not None:
            producer.init_transactions(*timeout_s)

    @abstractmethod
    def _send(self, partition: int) -> None:
        """Hand one record to the producer."""

    @abstractmethod
    def _flush(self) -> None:
        """Send what lingers."""

    @abstractmethod
    def _wait(self) -> None:
        """Wait until all that was sent is acknowledged."""

    def close(self) -> None:
        self._producer.close()

    def burst(self, count: int) -> None:
        for number in range(count):
            self._send(number % PARTITIONS)
        self._flush()
        self._wait()

    def one_by_one(self, count: int) -> list[float]:
        found = []
        for _ in range(count):
            begun = clock()
            self._send(0)
            self._wait()
            found.append(clock() - begun)
        return found

    def transactions(self, count: int, records: int) -> None:
        for _ in range(count):
            self._producer.begin_transaction()
            for _ in range(records):
                self._send(0)
            self._producer.commit_transaction(*self._timeout_s)


class ThreadedClient(BlockingClient):
    """kafka-python: a thread of its own sends."""

    def __init__(self, settings: Settings) -> None:
        self._sent: list[Any] = []
        make = kafka_python("kafka").KafkaProducer
        super().__init__(make(**common_settings(settings), **LIMITS), settings)

    def _send(self, partition: int) -> None:
        self._sent.append(self._producer.send(self._topic, VALUE, partition=partition))

    def _flush(self) -> None:
        self._producer.flush()

    def _wait(self) -> None:
        sent, self._sent = self._sent, []
        for outcome in sent:
            outcome.get(TIMEOUT_S)


class LibrdkafkaClient(BlockingClient):
    """confluent-kafka: threads of librdkafka send; what has become of a record is a callback."""

    def __init__(self, settings: Settings) -> None:
        self._unacknowledged = self._sent = 0
        words: dict[str, Any] = {
            "bootstrap.servers": settings.servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": settings.linger_ms,
            "batch.size": BATCH_BYTES,
            "max.in.flight.requests.per.connection": IN_FLIGHT,
            "log_level": 0,  # what goes wrong is raised
        }
        if settings.transactional_id is not None:
            words["transactional.id"] = settings.transactional_id
        super().__init__(import_module("confluent_kafka").Producer(words), settings, TIMEOUT_S)

    def close(self) -> None:
        """What is not acknowledged yet would be waited for, for minutes: it is given up."""
        self._producer.purge()
        with suppress(NotAcknowledged):
            super().close()

    def _on_delivery(self, error: object, _: object) -> None:
        if error is not None:
            raise NotAcknowledged(str(error))
        self._unacknowledged -= 1

    def _send(self, partition: int) -> None:
        self._sent += 1
        self._unacknowledged += 1
        self._producer.produce(
            self._topic, VALUE, partition=partition, on_delivery=self._on_delivery
        )
        self._producer.poll(0)

    def _flush(self) -> None:
        """Its threads send without being asked."""

    def _wait(self) -> None:
        self._producer.flush(TIMEOUT_S)
        if self._unacknowledged:
            acknowledged = self._sent - self._unacknowledged
            raise NotAcknowledged(f"{acknowledged} of {self._sent} are acknowledged")


@dataclass(frozen=True, slots=True)
class Library:
    """A client's module, which may not be installed, and how it is opened."""

    module: str
    open: Callable[[Settings], Client]

    @property
    def is_installed(self) -> bool:
        return find_spec(self.module) is not None


CLIENTS: Final[Mapping[str, Library]] = {
    "ours": Library("impl", partial(AsyncioClient, our_producer)),
    "aiokafka": Library("aiokafka", partial(AsyncioClient, aiokafka_producer)),
    "kafka-python": Library("kafka", ThreadedClient),
    "confluent-kafka": Library("confluent_kafka", LibrdkafkaClient),
}
"""By the names of their distributions, but ours. A library is imported when it is opened."""
