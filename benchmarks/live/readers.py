"""Two consumers on asyncio behind one small surface, ours and aiokafka's, and the logs they read.

Both read all partitions of a topic from its beginning, without a group, with their own defaults for
sizes and times, checksums checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

from benchmarks.live.clients import PARTITIONS
from impl import Producer

BATCH_BYTES: Final = 16_384
RECORDS_OF_A_TRANSACTION: Final = 100
TRANSACTIONS_TO_AN_ABORT: Final = 5
TIMEOUT_S: Final = 60.0


class Read(NamedTuple):
    """How many records were read, and how many bytes their values have."""

    records: int
    value_bytes: int


class MustRead(NamedTuple):
    """The settings of one reading: so many records are to be read, by `call`."""

    servers: str
    topic: str
    isolation_level: str
    call: str
    records: int


# ---- what is read


@dataclass(frozen=True, slots=True)
class Log:
    """Records whose values have these sizes in turn, and keys if they are to differ in both.

    In transactions, one of five is aborted: its values have one byte more, so that a reader which
    shows them is noticed.
    """

    name: str
    count: int
    value_bytes: Sequence[int]
    has_keys: bool = False
    is_transactional: bool = False

    @property
    def isolation_level(self) -> str:
        """The one in which `count` records are seen."""
        return "read_committed" if self.is_transactional else "read_uncommitted"

    @property
    def content(self) -> Read:
        """What a reader finds."""
        return Read(self.count, sum(len(self.value(number)) for number in range(self.count)))

    def key(self, number: int) -> bytes | None:
        """Of the record of this number, counted from 0."""
        return b"key-%d" % number if self.has_keys else None

    def value(self, number: int) -> bytes:
        """Of the record of this number."""
        return bytes(self.value_bytes[number // PARTITIONS % len(self.value_bytes)])


async def write_log(servers: str, log: Log) -> None:
    """Write it to its topic, in batches of at most 16 KiB. Raises `ProducerError`, `OSError`."""
    name = log.name if log.is_transactional else None
    settings: dict[str, Any] = {"transactional_id": name, "batch_size": BATCH_BYTES}
    async with Producer(servers, linger_ms=5, **settings) as producer:
        if log.is_transactional:
            await _write_transactions(producer, log)
        else:
            await _write_records(producer, log, range(log.count))


async def _write_records(
    producer: Producer, log: Log, numbers: Iterable[int], more: bytes = b""
) -> None:
    sent = [
        await producer.send(
            log.name, log.value(number) + more, log.key(number), partition=number % PARTITIONS
        )
        for number in numbers
    ]
    await producer.flush()
    for outcome in sent:
        await outcome


async def _write_transactions(producer: Producer, log: Log) -> None:
    for transaction, begin in enumerate(range(0, log.count, RECORDS_OF_A_TRANSACTION)):
        numbers = range(begin, min(begin + RECORDS_OF_A_TRANSACTION, log.count))
        if transaction % TRANSACTIONS_TO_AN_ABORT == 0:
            await producer.begin_transaction()
            await _write_records(producer, log, numbers, more=b"\0")
            await producer.abort_transaction()
        async with producer.transaction():
            await _write_records(producer, log, numbers)


# ---- how it is read: each of them touches every value


async def by_getmany(consumer: Any, count: int) -> Read:
    """All records that are there, again and again."""
    found = value_bytes = 0
    while found < count:
        for records in (await consumer.getmany(timeout_ms=1_000)).values():
            found += len(records)
            for record in records:
                value_bytes += len(record.value)
    return Read(found, value_bytes)


async def by_getone(consumer: Any, count: int) -> Read:
    """Record by record."""
    value_bytes = 0
    for _ in range(count):
        record = await consumer.getone()
        value_bytes += len(record.value)
    return Read(count, value_bytes)


async def by_iteration(consumer: Any, count: int) -> Read:
    """`async for`."""
    found = value_bytes = 0
    async for record in consumer:
        value_bytes += len(record.value)
        found += 1
        if found == count:
            break
    return Read(found, value_bytes)


CALLS: Final[Mapping[str, Callable[[Any, int], Awaitable[Read]]]] = {
    "getmany": by_getmany,
    "getone": by_getone,
    "async for": by_iteration,
}


# ---- who reads


class Place(NamedTuple):
    """A partition, as both take it."""

    topic: str
    partition: int


READERS: Final[Mapping[str, tuple[str, str]]] = {
    "ours": ("impl", "Consumer"),
    "aiokafka": ("aiokafka", "AIOKafkaConsumer"),
}
"""By the names of `CLIENTS`: module and class."""


class Reader:
    """A consumer that is connected, and has asked for nothing yet."""

    def __init__(self, client: str, asked: MustRead) -> None:
        """Raises what the library raises."""
        self._asked = asked
        self._runner = asyncio.Runner()
        try:
            self._consumer = self._runner.run(self._start(client))
        except BaseException:
            self._runner.close()
            raise

    async def _start(self, client: str) -> Any:
        settings = {
            "bootstrap_servers": self._asked.servers,
            "isolation_level": self._asked.isolation_level,
            "auto_offset_reset": "earliest",
        }
        module, kind = READERS[client]
        consumer = getattr(import_module(module), kind)(**settings)
        await consumer.start()
        return consumer

    def close(self) -> None:
        """Stop it."""
        with self._runner:
            self._runner.run(self._consumer.stop())

    def read(self) -> Read:
        """Read what was asked. Raises `TimeoutError` after a minute, and its library's errors."""
        return self._runner.run(self._read())

    async def _read(self) -> Read:
        self._consumer.assign([Place(self._asked.topic, index) for index in range(PARTITIONS)])
        async with asyncio.timeout(TIMEOUT_S):
            return await CALLS[self._asked.call](self._consumer, self._asked.records)
