"""Records waiting to be sent: per partition a queue of batches.

1. A queue holds batches that wait for a retry first, in sequence order, then those without a
   sequence in the order of their records. Nothing overtakes the head.
2. A pass over a node takes at most one batch a partition. A head that backs off hides its
   partition; a head that may not be sent yet ends the pass for the whole node.
3. buffer_memory bounds everything here: a batch takes its share when it begins, and gives it back
   when it has ended and no request carries it any more.

Theory of operation: `append` fills the last batch of a queue or puts a new one behind it;
`ready_nodes` names the leaders that have something due; `drain` takes what one leader gets now;
`reenqueue` puts back what must be sent again; `split_and_reenqueue` in smaller batches; `expire`
gives up what is too old. A time is the caller's milliseconds, a due time 0 means at once.
Source: `RecordAccumulator` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from impl.producer.arguments import check_partition, check_timestamp_ms, check_topic
from impl.producer.batch import (
    DeliveryHandle,
    ProducerBatch,
    TopicPartition,
    size_upper_bound_bytes,
)
from impl.producer.config import ProducerConfig
from impl.producer.connections import NO_NODE
from impl.producer.errors import BufferExhaustedError, RecordTooLargeError
from impl.producer.sequence import precedes
from impl.producer.transaction_manager import TransactionManager
from impl.protocol.record_batch import NO_SEQUENCE
from impl.settings import LONG_MAX

Backoff = Callable[[int], float]
"""From a backoff in milliseconds to one with jitter."""


class RecordAccumulator:
    """The queues of one producer: see the rules above.

    Attributes: `free_bytes`, what is left of buffer_memory; `has_unknown_leaders`, whether the last
    `ready_nodes` met a partition without a leader; `is_closed`, nothing lingers any more.
    """

    def __init__(
        self, config: ProducerConfig, transaction_manager: TransactionManager, jitter: Backoff
    ) -> None:
        self._config = config
        self._transaction_manager = transaction_manager
        self._jitter = jitter
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._partitions_of: dict[int, tuple[TopicPartition, ...]] = {}
        self._drain_index: dict[int, int] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._muted: set[TopicPartition] = set()
        self._mutes = config.max_in_flight_requests_per_connection == 1
        self._wanted_bytes = 0
        self._leaders: dict[TopicPartition, int] = {}
        # All that has not ended, the oldest first; a plain dict finds its first key in linear time.
        self._incomplete: OrderedDict[ProducerBatch, None] = OrderedDict()
        self._flushing: deque[ProducerBatch] = deque()
        self.has_unknown_leaders = False
        self.is_closed = False
        self.free_bytes = config.buffer_memory

    @property
    def oldest(self) -> ProducerBatch | None:
        """The oldest batch that has not ended."""
        return next(iter(self._incomplete), None)

    # ---- flushing

    def begin_flush(self) -> None:
        """Nothing lingers until all that is here now has ended. `RecordAccumulator.beginFlush`."""
        self._flushing.extend(self._incomplete)

    @property
    def is_flushing(self) -> bool:
        """Whether something that a flush waits for has not ended."""
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
        """Replace what is known; queues and sequences stay (a flapping leader resets nothing)."""
        self._leaders = dict(leaders)
        self._leader_epochs = dict(leader_epochs)
        grouped: dict[int, list[TopicPartition]] = {}
        for topic_partition, node_id in sorted(self._leaders.items()):
            grouped.setdefault(node_id, []).append(topic_partition)
        grouped.pop(NO_NODE, None)
        self._partitions_of = {node_id: tuple(led) for node_id, led in grouped.items()}

    def leader_changed(
        self, topic_partition: TopicPartition, node_id: int, leader_epoch: int
    ) -> None:
        """Believe a leader that an answer named, if it is a known node and newer. KIP-951."""
        known_epoch = self._leader_epochs.get(topic_partition, -1)
        if node_id in self._partitions_of and leader_epoch > known_epoch:
            self.update_leaders(
                self._leaders | {topic_partition: node_id},
                self._leader_epochs | {topic_partition: leader_epoch},
            )

    # ---- records in

    def append(
        self,
        topic_partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp_ms: int,
        now_ms: int,
    ) -> DeliveryHandle:
        """Add a record to the partition's last batch, or to a new one behind it.

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
        # A name that no request can carry would spoil the records of all others in it.
        check_topic(topic_partition[0])
        check_partition(topic_partition[1])
        batch = ProducerBatch(topic_partition, now_ms, buffer_bytes, timestamp_ms)
        handle = batch.try_append(timestamp_ms, key, value, headers)
        assert handle is not None, "the first record always has room"
        self._transaction_manager.entry(topic_partition)
        self._add_last(topic_partition, batch)
        return handle

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
        """The leaders, ascending, of whose partitions one is due. `RecordAccumulator.ready`."""
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
        if self.is_closed or self.is_flushing or self._transaction_manager.is_completing:
            return 0
        return head.created_ms + self._config.linger_ms

    def _leader_is_new(self, batch: ProducerBatch) -> bool:
        """A retry to another leader than the last attempt's does not back off. KIP-951."""
        leader_epoch = self._leader_epochs.get(batch.topic_partition, -1)
        return leader_epoch not in (-1, batch.leader_epoch)

    def _backs_off(self, batch: ProducerBatch, now_ms: int) -> bool:
        return batch.attempts > 0 and now_ms < batch.retry_at_ms and not self._leader_is_new(batch)

    def drain(self, node_id: int, now_ms: int) -> list[ProducerBatch]:
        """What this leader gets now, each batch with its sequence, in one request.

        The pass begins at the partition where the last one ended. QUIRK: a head that must wait
        for other batches ends the pass also for the partitions behind it.
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
            if (drained and size_bytes > self._config.max_request_size) or not self._take(queue):
                break
            drained.append(head)
        return drained

    def _take(self, queue: deque[ProducerBatch]) -> bool:
        """Take the head out, numbered and closed; False, and nothing happens, if it must wait."""
        head = queue[0]
        manager = self._transaction_manager
        entry = manager.entry(head.topic_partition)
        if manager.stops_drain(head, entry):
            return False
        if head.base_sequence == NO_SEQUENCE:
            manager.assign(head, entry)
        self._pop_head(queue)
        head.drained(self._leader_epochs.get(head.topic_partition, -1))
        if self._mutes:
            self._muted.add(head.topic_partition)
        return True

    def _pop_head(self, queue: deque[ProducerBatch]) -> ProducerBatch:
        head = queue.popleft()
        if not queue:
            del self._queues[head.topic_partition]
        return head

    # ---- answers

    def answered(self, batch: ProducerBatch) -> None:
        """No request carries the batch any more: its answer came, or its connection broke."""
        batch.outstanding = False
        self._muted.discard(batch.topic_partition)
        if batch.is_done:
            self.free_bytes += batch.buffer_bytes

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Queue a batch for its next attempt, at its place by sequence.

        Source: `RecordAccumulator.reenqueue`, `insertInSequenceOrder`; the comparison heeds the
        wrap, which Kafka's does not (see `sequence`).
        """
        batch.reenqueued(now_ms + self._backoff_ms(batch.attempts))
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        """Ahead of all that has no sequence; of several without one, ahead of the others."""
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
        """Queue the records of a batch that a leader found too large, in smaller batches.

        They go at once: the attempts of the large batch are not theirs.
        Source: `RecordAccumulator.splitAndReenqueue`.
        """
        parts = batch.split(self._config.batch_size)
        self._transaction_manager.replace(batch, parts)
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
        # 2^31 is beyond every limit: no need to compute larger powers.
        plain = min(self._config.retry_backoff_ms << min(attempts, 31), most)
        return min(int(self._jitter(plain)), most)

    def complete(self, batch: ProducerBatch) -> None:
        """The batch has ended. Its memory is free unless a request still carries it."""
        del self._incomplete[batch]
        if not batch.outstanding:
            self.free_bytes += batch.buffer_bytes

    # ---- giving up

    def expire(self, now_ms: int) -> list[ProducerBatch]:
        """Take out what is too old: queued batches first, then those that await an answer.

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
        """Take out what was never drained. `RecordAccumulator.abortUndrainedBatches`."""
        taken = [batch for batch in self._incomplete if batch.base_sequence == NO_SEQUENCE]
        for topic_partition in {batch.topic_partition: None for batch in taken}:
            queue = self._queues.pop(topic_partition)
            sequenced = deque(b for b in queue if b.base_sequence != NO_SEQUENCE)
            if sequenced:
                self._queues[topic_partition] = sequenced
        return taken

    def take_all(self) -> list[ProducerBatch]:
        """Take out everything that has not ended. `RecordAccumulator.abortBatches`."""
        self._queues.clear()
        return list(self._incomplete)
