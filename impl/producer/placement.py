"""Where a record goes, and what it waits for before it is queued: metadata, and memory.

1. Nothing waits longer than max_block_ms, nor longer than unknown_topic_timeout_ms for a topic or
   partition that the cluster says it does not have.
2. The error says what was waited for, and what to do.

Theory of operation: `_poll_until` repeats an attempt whenever the sender may have changed
something; attempts ask `_partitions_of` first, which requests metadata as long as it has none.
Source: `KafkaProducer.waitOnMetadata`, `partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from impl.client.errors import (
    InvalidArgumentError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from impl.client.network_client import NetworkClient
from impl.producer.config import ProducerConfig
from impl.producer.errors import BufferExhaustedError, TopicRefusedError
from impl.producer.in_flight_requests import NO_NODE
from impl.producer.partitioner import Partitioner
from impl.producer.sender import Sender
from impl.protocol.errors import ErrorCode

T = TypeVar("T")

PLAIN: Final = (bytes, type(None))
"""The types of keys and values that need no check."""

PartitionerFunction = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""From a serialized key, all partitions, and those with a leader, to one of them."""


class RecordPlacement:
    """Places the records of one producer that runs."""

    def __init__(
        self,
        cluster: NetworkClient,
        sender: Sender,
        config: ProducerConfig,
        partitioner: PartitionerFunction | None,
        check_running: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._max_block_ms = config.max_block_ms
        self._unknown_topic_timeout_ms = config.unknown_topic_timeout_ms
        self._check_running = check_running
        self._partitioner = partitioner
        self._default_partitioner = Partitioner(config.batch_size)

    async def place(
        self,
        topic: str,
        partition: int | None,
        sizes: tuple[bytes | None, bytes | None],
        append: Callable[[int], T],
    ) -> T:
        """What `append` gives for the record's partition: `partition`, or one that is chosen.

        It is called again as long as it raises `BufferExhaustedError`. Raises as `_poll_until`,
        `TopicRefusedError`, and as `append` and the partitioner.
        """
        self._watch(topic)

        def attempt() -> T | None:
            nonlocal partition
            partitions = self._partitions_of(topic, partition)
            if partitions is None:
                return None
            if partition is None:
                partition = self._choose(topic, *sizes, partitions)
            try:
                return append(partition)
            except BufferExhaustedError:
                return None

        return await self._poll_until(attempt, topic, partition)

    def choose_at_once(self, topic: str, key: object, value: object) -> int | None:
        """The partition of a record that names none; None if that needs a check, or metadata."""
        partitions = self._cluster.partitions.get(topic)
        if not partitions or type(key) not in PLAIN or type(value) not in PLAIN:
            return None
        return self._choose(topic, key, value, partitions)  # type: ignore[arg-type]

    async def count_partitions(self, topic: str) -> int:
        """The number of partitions. Raises as `place`."""
        self._watch(topic)
        return await self._poll_until(lambda: self._partitions_of(topic), topic)

    def _choose(self, topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        if self._partitioner is None:
            size_bytes = len(key or b"") + len(value or b"")
            return self._default_partitioner.partition(topic, key, size_bytes, partitions)
        every = list(range(partitions))
        leaders = self._cluster.leaders
        available = [index for index in every if leaders.get((topic, index), NO_NODE) != NO_NODE]
        chosen = self._partitioner(key, every, available)
        if chosen not in every:
            may_be = f"must return a partition of {topic!r} from 0 to {partitions - 1}"
            raise InvalidArgumentError("partitioner", may_be, chosen)
        return chosen

    def _watch(self, topic: str) -> None:
        """Add the topic to those whose metadata is requested, without its last error."""
        if topic not in self._sender.topics:
            self._sender.topics.add(topic)
            self._cluster.topic_errors.pop(topic, None)

    def _partitions_of(self, topic: str, partition: int | None = None) -> int | None:
        """The number of partitions, once it exceeds `partition`; None while it is unknown.

        Raises `TopicRefusedError`, after which the topic's metadata is no longer requested, and as
        `check_running`.
        """
        partitions = self._cluster.partitions.get(topic, 0)
        if partitions > (partition or 0):
            return partitions
        self._check_running()
        error = self._cluster.topic_errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not error.is_retriable:
            self._sender.topics.discard(topic)
            raise TopicRefusedError(topic, error)
        self._sender.request_metadata()
        return None

    async def _poll_until(
        self, attempt: Callable[[], T | None], topic: str, partition: int | None = None
    ) -> T:
        """The first result of `attempt` that is not None.

        Callers try once before: the timer alone costs as much as queueing a record. Raises
        `KafkaTimeoutError`, `UnknownTopicOrPartitionError`, and as `attempt`.
        """
        found = attempt()
        if found is not None:
            return found
        # Send lingering batches now. Once: each loop of the sender wakes its waiters.
        self._sender.notify()
        unknown_until_ms = self._sender.now_ms() + self._unknown_topic_timeout_ms
        try:
            async with self._cluster.clock.timeout(self._max_block_ms / 1_000):
                while found is None:
                    await self._sender.wait_for_change()
                    found = attempt()
                    is_late = self._sender.now_ms() >= unknown_until_ms
                    if found is None and is_late and self._is_unknown(topic, partition):
                        raise self._unknown_error(topic, partition, self._unknown_topic_timeout_ms)
        except TimeoutError:
            raise self._timeout_error(topic, partition) from None
        return found

    def _is_unknown(self, topic: str, partition: int | None) -> bool:
        """Whether the cluster says that it has no such topic, or fewer partitions."""
        known = self._cluster.partitions.get(topic, 0)
        if not known:
            error = self._cluster.topic_errors.get(topic)
            return error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return partition is not None and partition >= known

    def _unknown_error(
        self, topic: str, partition: int | None, waited_ms: int
    ) -> UnknownTopicOrPartitionError:
        known = self._cluster.partitions.get(topic, 0)
        after = f"after {waited_ms} ms still"
        if known:
            what = f"topic {topic!r} has {known} partition(s), no partition {partition}, {after}"
            return UnknownTopicOrPartitionError(what)
        what = f"the cluster has no topic {topic!r}, {after} (UNKNOWN_TOPIC_OR_PARTITION)"
        return UnknownTopicOrPartitionError(f"{what}: create it, or check its name")

    def _timeout_error(self, topic: str, partition: int | None) -> KafkaTimeoutError:
        """What a record waited for."""
        if self._is_unknown(topic, partition):
            return self._unknown_error(topic, partition, self._max_block_ms)
        within = f"within {self._max_block_ms} ms"
        if self._cluster.partitions.get(topic, 0):
            what = f"no room in buffer_memory for a record of topic {topic!r}"
            return KafkaTimeoutError(f"{what}, {within}")
        error = self._cluster.topic_errors.get(topic)
        what = f"no metadata of topic {topic!r}" + (f" but {error.name}" if error else "")
        return KafkaTimeoutError(f"{what}, {within}")
