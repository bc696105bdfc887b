"""Records waiting to be sent: for each partition a queue of batches.

1. A queue holds first the batches that wait for a retry, in sequence order, then those without a
   sequence in the order of their records. Nothing overtakes the head.
2. A pass over a node takes at most one batch a partition. A head in backoff hides its partition; a
   head that may not be sent yet ends the pass for the whole node.
3. buffer_memory bounds all batches: a batch takes its share when it is created, and returns it when
   it is finished and not in flight.

Theory of operation: `append` fills the last batch of a queue or adds a new one; `ready_nodes` lists
the leaders with a due partition; `drain` takes what one leader gets now; `reenqueue` puts back what
must be sent again, `split_and_reenqueue` in smaller batches; `expire` fails what is too old. Times
are the caller's milliseconds; a due time of 0 means at once.
Source: `RecordAccumulator` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from impl.client.arguments import check_partition, check_topic
from impl.producer.arguments import check_timestamp_ms
from impl.producer.batch import (
    MAX_RECORD_OVERHEAD_BYTES,
    DeliveryHandle,
    ProducerBatch,
    size_upper_bound_bytes,
)
from impl.producer.config import ProducerConfig
from impl.producer.errors import BufferExhaustedError, RecordTooLargeError
from impl.producer.in_flight_requests import NO_NODE
from impl.producer.sequence_manager import SequenceManager, precedes
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import NO_SEQUENCE
from impl.settings import LONG_MAX

Backoff = Callable[[int], float]
"""From a backoff in milliseconds to one with jitter."""


class RecordAccumulator:
    """The queues of one producer: see the rules above.

    Attributes: `free_bytes` of buffer_memory; `has_unknown_leaders`, the last `ready_nodes` found a
    partition without a leader; `is_closed`, nothing lingers any more.
    """

    def __init__(
        self, config: ProducerConfig, transaction_manager: SequenceManager, jitter: Backoff
    ) -> None:
        self._config = config
        self._manager = transaction_manager
        self._jitter = jitter
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._partitions_of: dict[int, tuple[TopicPartition, ...]] = {}
        self._drain_index: dict[int, int] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._muted: set[TopicPartition] = set()
        self._mutes = config.max_in_flight_requests_per_connection == 1
        self._wanted_bytes = 0
        # A record that fits a batch of this size cannot be too large.
        self._certain_bytes = (
            min(config.max_request_size, config.buffer_memory) - MAX_RECORD_OVERHEAD_BYTES
        )
        self._leaders: dict[TopicPartition, int] = {}
        # Unfinished batches, the oldest first. A plain dict finds its first key in linear time.
        self._incomplete: OrderedDict[ProducerBatch, None] = OrderedDict()
        self._flushing: deque[ProducerBatch] = deque()
        self.has_unknown_leaders = False
        self.is_closed = False
        self.free_bytes = config.buffer_memory

    @property
    def oldest(self) -> ProducerBatch | None:
        """The oldest unfinished batch."""
        return next(iter(self._incomplete), None)

    # ---- flushing

    def begin_flush(self) -> None:
        """Send without lingering until all batches are finished. `RecordAccumulator.beginFlush`."""
        self._flushing.extend(self._incomplete)

    @property
    def is_flushing(self) -> bool:
        """Whether a flush waits for unfinished batches."""
        while self._flushing and self._flushing[0].has_ended:
            self._flushing.popleft()
        return bool(self._flushing)

    # ---- metadata

    @property
    def nodes(self) -> list[int]:
        """The ids of all nodes that lead a partition, ascending."""
        return sorted(self._partitions_of)

    def update_leaders(
        self, leaders: Mapping[TopicPartition, int], leader_epochs: Mapping[TopicPartition, int]
    ) -> None:
        """Replace the known leaders; queues and sequences stay."""
        self._leaders = dict(leaders)
        self._leader_epochs = dict(leader_epochs)
        grouped: dict[int, list[TopicPartition]] = {}
        for topic_partition, node_id in sorted(self._leaders.items()):
            grouped.setdefault(node_id, []).append(topic_partition)
        grouped.pop(NO_NODE, None)
        self._partitions_of = {node_id: tuple(led) for node_id, led in grouped.items()}

    def update_leader(
        self, topic_partition: TopicPartition, node_id: int, leader_epoch: int
    ) -> None:
        """Take a leader from an answer, if its node is known and its epoch newer. KIP-951."""
        known_epoch = self._leader_epochs.get(topic_partition, -1)
        if node_id in self._partitions_of and leader_epoch > known_epoch:
            self.update_leaders(
                self._leaders | {topic_partition: node_id},
                self._leader_epochs | {topic_partition: leader_epoch},
            )

    # ---- records in

    def try_append(
        self, topic_partition: TopicPartition, key: object, value: object, timestamp_ms: Any
    ) -> ProducerBatch | None:
        """Add a record without headers to the partition's last batch, if nothing needs a check.

        None, without a change, if it has no room, or anything is unusual: `append` knows why.
        `RecordAccumulator.tryAppend`.
        """
        queue = self._queues.get(topic_partition)
        if queue is None or type(timestamp_ms) is not int or not 0 <= timestamp_ms <= LONG_MAX:
            return None
        batch = queue[-1]
        if batch.limit_bytes > self._certain_bytes:
            return None
        if (value is None or type(value) is bytes) and (key is None or type(key) is bytes):
            return batch if batch.add(timestamp_ms, key, value, ()) else None
        return None

    def append(
        self,
        topic_partition: TopicPartition,
        key: Any,
        value: Any,
        headers: Any,
        timestamp_ms: Any,
        now_ms: int,
    ) -> DeliveryHandle:
        """Add a record to the partition's last batch, or to a new one.

        Raises `RecordTooLargeError`, `BufferExhaustedError` (lingering ends until memory is free
        again), `TooManyPartitionsError`, `InvalidArgumentError`; nothing is added then.
        """
        if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= LONG_MAX:
            check_timestamp_ms(timestamp_ms)
        upper_bound = size_upper_bound_bytes(key, value, headers)
        self._check_size(upper_bound)
        queue = self._queues.get(topic_partition)
        if queue is not None:
            handle = queue[-1].try_append(timestamp_ms, key, value, headers)
            if handle is not None:
                return handle
        buffer_bytes = max(self._config.batch_size, upper_bound)
        self._check_memory(buffer_bytes)
        # A topic name that cannot be encoded would fail all other records of its request.
        check_topic(topic_partition[0])
        check_partition(topic_partition[1])
        batch = ProducerBatch(
            topic_partition,
            now_ms,
            buffer_bytes,
            timestamp_ms,
            compression=self._config.compression,
        )
        handle = batch.try_append(timestamp_ms, key, value, headers)
        assert handle is not None, "the first record always fits"
        self._manager.add_partition(topic_partition)
        self._add_last(topic_partition, batch)
        return handle

    def append_batch(
        self, topic_partition: TopicPartition, batch: ProducerBatch, now_ms: int
    ) -> None:
        """Add a whole batch behind the partition's others. Raises as `append`."""
        self._check_size(batch.size_bytes)
        self._check_memory(batch.size_bytes)
        check_topic(topic_partition[0])
        check_partition(topic_partition[1])
        self._manager.add_partition(topic_partition)
        batch.place(topic_partition, now_ms)
        self._add_last(topic_partition, batch)

    def _check_size(self, size_bytes: int) -> None:
        for name in ("max_request_size", "buffer_memory"):
            limit_bytes: int = getattr(self._config, name)
            if size_bytes > limit_bytes:
                raise RecordTooLargeError(size_bytes, name, limit_bytes)

    def _check_memory(self, needed_bytes: int) -> None:
        if needed_bytes > self.free_bytes:
            self._wanted_bytes = needed_bytes
            raise BufferExhaustedError(needed_bytes, self.free_bytes)
        self._wanted_bytes = 0

    def _add_last(self, topic_partition: TopicPartition, batch: ProducerBatch) -> None:
        queue = self._queues.setdefault(topic_partition, deque())
        if queue:
            queue[-1].is_closed = True
        queue.append(batch)
        self.free_bytes -= batch.buffer_bytes
        self._incomplete[batch] = None

    # ---- batches out

    def ready_nodes(self, now_ms: int) -> list[int]:
        """The leaders with a due partition, ascending. `RecordAccumulator.ready`."""
        ready: set[int] = set()
        self.has_unknown_leaders = False
        for topic_partition, queue in self._queues.items():
            node_id = self._leaders.get(topic_partition, NO_NODE)
            if node_id == NO_NODE:
                self.has_unknown_leaders = True
            elif (
                node_id not in ready
                and topic_partition not in self._muted
                and self._due_ms(queue) <= now_ms
            ):
                ready.add(node_id)
        return sorted(ready)

    def due_times_ms(self) -> Iterator[int]:
        """When the oldest batch expires, and when each queue may be drained."""
        oldest = self.oldest
        if oldest is not None:
            yield oldest.created_ms + self._config.delivery_timeout_ms
        yield from map(self._due_ms, self._queues.values())

    def _due_ms(self, queue: deque[ProducerBatch]) -> int:
        head = queue[0]
        if head.attempts:
            return 0 if self._leader_is_new(head) else head.retry_at_ms
        if len(queue) > 1 or head.is_full or self._wanted_bytes > self.free_bytes:
            return 0
        if self.is_closed or self.is_flushing or self._manager.is_completing:
            return 0
        return head.created_ms + self._config.linger_ms

    def _leader_is_new(self, batch: ProducerBatch) -> bool:
        """A retry to another leader than the last attempt's does not back off. KIP-951."""
        leader_epoch = self._leader_epochs.get(batch.topic_partition, -1)
        return leader_epoch not in (-1, batch.leader_epoch)

    def _backs_off(self, batch: ProducerBatch, now_ms: int) -> bool:
        return batch.attempts > 0 and now_ms < batch.retry_at_ms and not self._leader_is_new(batch)

    def drain(self, node_id: int, now_ms: int) -> list[ProducerBatch]:
        """Take the batches that this leader gets now, in one request, with their sequences.

        The pass starts at the partition where the last one ended. QUIRK: a head that must wait for
        other batches also ends the pass for the remaining partitions.
        Source: `RecordAccumulator.drainBatchesForOneNode`.
        """
        partitions = self._partitions_of[node_id]
        start = self._drain_index.get(node_id, 0)
        size_bytes = 0
        drained: list[ProducerBatch] = []
        for step in range(len(partitions)):
            index = (start + step) % len(partitions)
            self._drain_index[node_id] = index
            topic_partition = partitions[index]
            queue = self._queues.get(topic_partition)
            if queue is None or topic_partition in self._muted:
                continue
            head = queue[0]
            if self._backs_off(head, now_ms):
                continue
            size_bytes += head.size_bytes
            if drained and size_bytes > self._config.max_request_size:
                break
            if not self._drain_head(queue):
                break
            drained.append(head)
        return drained

    def _drain_head(self, queue: deque[ProducerBatch]) -> bool:
        """Drain the head of a queue; False, without a change, if it must wait."""
        head = queue[0]
        manager = self._manager
        entry = manager.entry(head.topic_partition)
        if manager.stops_drain(head, entry):
            return False
        if head.base_sequence == NO_SEQUENCE:
            manager.assign(head, entry)
        self._pop_head(queue)
        head.mark_drained(self._leader_epochs.get(head.topic_partition, -1))
        if self._mutes:
            self._muted.add(head.topic_partition)
        return True

    def _pop_head(self, queue: deque[ProducerBatch]) -> ProducerBatch:
        head = queue.popleft()
        if not queue:
            del self._queues[head.topic_partition]
        return head

    # ---- answers

    def release(self, batch: ProducerBatch) -> None:
        """A batch is no longer in flight: it was answered, or its connection broke."""
        batch.outstanding = False
        self._muted.discard(batch.topic_partition)
        if batch.is_done:
            self.free_bytes += batch.buffer_bytes

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Queue a batch for its next attempt, in sequence order.

        Source: `RecordAccumulator.reenqueue`, `insertInSequenceOrder`; unlike Kafka's, the
        comparison handles the wrap (see `sequence_manager`).
        """
        batch.mark_reenqueued(now_ms + self._backoff_ms(batch.attempts))
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        """Insert by sequence, ahead of all batches without one."""
        queue = self._queues.setdefault(batch.topic_partition, deque())
        place = 0
        for queued in queue:
            if queued.base_sequence == NO_SEQUENCE or precedes(
                batch.base_sequence, queued.base_sequence
            ):
                break
            place += 1
        queue.insert(place, batch)

    def split_and_reenqueue(self, batch: ProducerBatch) -> None:
        """Queue the records of a batch that was too large for its leader, in smaller batches.

        They are sent without backoff: their attempts start at 0.
        Source: `RecordAccumulator.splitAndReenqueue`.
        """
        parts = batch.split(self._config.batch_size)
        self._manager.replace(batch, parts)
        for part in reversed(parts):
            self._insert(part)
        order = list(self._incomplete)
        place = order.index(batch)
        order[place : place + 1] = parts
        self._incomplete = OrderedDict.fromkeys(order)
        self.free_bytes += batch.buffer_bytes

    def _backoff_ms(self, attempts: int) -> int:
        """100, 200, 400, 800, 1000, 1000 ... with the default settings. `ExponentialBackoff`."""
        most = self._config.retry_backoff_max_ms
        # 2^31 exceeds every limit: larger powers are not needed.
        plain = min(self._config.retry_backoff_ms << min(attempts, 31), most)
        return min(int(self._jitter(plain)), most)

    def complete(self, batch: ProducerBatch) -> None:
        """Remove a finished batch. Its memory is free unless it is still in flight."""
        del self._incomplete[batch]
        if not batch.outstanding:
            self.free_bytes += batch.buffer_bytes

    # ---- expiry and abort

    def expire(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return expired batches: queued ones first, then those in flight.

        Source: `RecordAccumulator.expiredBatches`, `Sender.getExpiredInflightBatches`.
        """
        expired: list[ProducerBatch] = []
        for queue in list(self._queues.values()):
            while queue and self.is_expired(queue[0], now_ms):
                expired.append(self._pop_head(queue))
        for batch in self._incomplete:
            if not self.is_expired(batch, now_ms):
                break
            if batch.outstanding:
                expired.append(batch)
        return expired

    def is_expired(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether delivery_timeout_ms has passed. `ProducerBatch.hasReachedDeliveryTimeout`."""
        return now_ms - batch.created_ms >= self._config.delivery_timeout_ms

    def take_unsequenced(self) -> list[ProducerBatch]:
        """Remove and return undrained batches. `RecordAccumulator.abortUndrainedBatches`."""
        taken = [batch for batch in self._incomplete if batch.base_sequence == NO_SEQUENCE]
        for topic_partition in {batch.topic_partition: None for batch in taken}:
            queue = self._queues.pop(topic_partition)
            sequenced = deque(b for b in queue if b.base_sequence != NO_SEQUENCE)
            if sequenced:
                self._queues[topic_partition] = sequenced
        return taken

    def take_all(self) -> list[ProducerBatch]:
        """Remove and return all unfinished batches. `RecordAccumulator.abortBatches`."""
        self._queues.clear()
        return list(self._incomplete)
