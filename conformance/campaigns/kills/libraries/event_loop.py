"""An event loop in a thread of its own, for libraries based on asyncio."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from conformance.campaigns.kills.roles import Told
from conformance.campaigns.kills.workload import MOST_RECORDS, TOPIC, Delivered

T = TypeVar("T")

SHOW_TASKS: Final = signal.SIGUSR2
"""The signal that makes a client print where its tasks wait."""


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        signal.signal(SHOW_TASKS, lambda *_: self._show_tasks())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that needs the loop. Raises what it raises."""

        async def call() -> T:
            return function(*arguments)

        return self.run(call())

    def _show_tasks(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.print_stack(file=sys.stderr)


class AsyncioProducer:
    """A `LoadProducer` from a producer with aiokafka's names."""

    def __init__(self, thread: LoopThread, producer: Any) -> None:
        self._thread = thread
        self.producer = producer

    def send(self, topic: str, partition: int, value: str, told: Told) -> None:
        """`LoadProducer.send`."""

        def tell(outcome: asyncio.Future[Any]) -> None:
            if outcome.cancelled():
                told(None, "cancelled")
            elif error := outcome.exception():
                told(None, error)
            else:
                told(outcome.result().offset, None)

        async def queue() -> None:
            sent = await self.producer.send(topic, value.encode(), partition=partition)
            sent.add_done_callback(tell)

        self._thread.run(queue())

    def flush(self) -> None:
        """`LoadProducer.flush`."""
        self._thread.run(self.producer.flush())

    def begin(self) -> None:
        """`LoadProducer.begin`."""
        self._thread.run(self.producer.begin_transaction())

    def send_offsets(self, offsets: Mapping[int, int], consumer: AsyncioConsumer) -> None:
        """`LoadProducer.send_offsets`."""
        named = consumer.places(offsets)
        self._thread.run(self.producer.send_offsets_to_transaction(named, consumer.member()))

    def commit(self) -> None:
        """`LoadProducer.commit`."""
        self._thread.run(self.producer.commit_transaction())

    def abort(self) -> None:
        """`LoadProducer.abort`."""
        self._thread.run(self.producer.abort_transaction())

    def close(self) -> None:
        """`LoadProducer.close`."""
        self._thread.run(self.producer.stop())


class AsyncioConsumer:
    """A `LoadConsumer` from a consumer with aiokafka's names.

    `place` makes the library's name of a partition; `member` returns the value that its producer
    takes for the group.
    """

    def __init__(
        self,
        thread: LoopThread,
        consumer: Any,
        place: Callable[[str, int], Any],
        member: Callable[[], Any],
    ) -> None:
        self._thread = thread
        self._consumer = consumer
        self._place = place
        self.member = member

    def poll(self, timeout_s: float) -> Sequence[Delivered]:
        """`LoadConsumer.poll`."""
        timeout_ms = int(timeout_s * 1_000)
        polled = self._consumer.getmany(timeout_ms=timeout_ms, max_records=MOST_RECORDS)
        found = self._thread.run(polled)
        return [
            Delivered(record.partition, record.offset, record.value.decode())
            for records in found.values()
            for record in records
        ]

    def assignment(self) -> set[int]:
        """`LoadConsumer.assignment`."""
        return {partition for _, partition in self._consumer.assignment()}

    def places(self, offsets: Mapping[int, int]) -> dict[Any, int]:
        """Offsets by the library's names of partitions."""
        return {self._place(TOPIC, partition): offset for partition, offset in offsets.items()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """`LoadConsumer.commit`."""
        self._thread.run(self._consumer.commit(self.places(offsets)))

    def seek(self, partition: int, offset: int) -> None:
        """`LoadConsumer.seek`."""
        self._thread.call(self._consumer.seek, self._place(TOPIC, partition), offset)

    def close(self) -> None:
        """`LoadConsumer.close`."""
        self._thread.run(self._consumer.stop())
