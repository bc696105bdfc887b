"""The coordinators in their node: their logs, the markers, the answers.

Four rules:

1. An internal topic is created when somebody first asks for its coordinator. Who leads one of its
   partitions coordinates the ids or groups that belong there, under the leader's epoch.
2. Appends are carried out at once; markers in the next `advance`, or by a request to the leader.
   Leaders that move are heard of, and logs are read, at once, too, unless the node's
   `coordinator_lag_ms` and `coordinator_load_ms` say how long that takes.
3. A marker whose topic is gone counts as written; one whose leader is unknown waits.
4. Each answer goes to whoever asked, known by a number.

Theory of operation: `perform` takes effects until none is left. The core is in `core`; all that
is decided is decided there.
Sources: `TransactionStateManager.appendTransactionToLog`, `TransactionMarkerChannelManager`,
`BrokerMetadataPublisher`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from impl.broker.topics import Topic
from impl.coordinator.effects import Answered, AppendRecords, Effect, SendMarkers
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.offsets import OffsetsCoordinator
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, partition_for
from impl.coordinator.transactions import TransactionCoordinator
from impl.partition.leader import PartitionLeader
from impl.protocol.codegen import Value
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record, RecordBatch, decode_batch, encode_batch
from impl.protocol.schemas import ApiKey

if TYPE_CHECKING:
    from impl.broker.node import Node
    from impl.broker.verification import Question

MARKERS_VERSION: Final = 2
"""Of WriteTxnMarkers between brokers: the first that says the transaction's version (KIP-1228)."""

AnsweredThen = Callable[[Answered, int], None]
"""Gets a coordinator's answer, and the time."""

RETRY_BACKOFF_MS: Final = 50
"""Between two attempts to write the markers, or the CompleteX, that failed."""

INTERNAL_CONFIGS: Final = MappingProxyType(
    {"retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": "104857600"}
)
"""Coordinators load all they know from their log: nothing of it may go, whatever other topics do.
In Kafka it is compacted. `TransactionStateManager.transactionStateTopicConfigs`,
`GroupCoordinatorService.groupMetadataTopicConfigs`."""

IMPLICIT_ADD: Final = 2
"""The client's transaction version that a broker's own request to add a partition stands for."""


class Coordinating:
    """The coordinators of one node. Public state: `core` of transactions, `offsets` of groups."""

    __slots__ = (
        "_epochs",
        "_node",
        "_numbers",
        "_seen_version",
        "_then",
        "_topic_ids",
        "core",
        "offsets",
    )

    def __init__(self, node: Node) -> None:
        self._node = node
        self._numbers = count(1)
        self._then: dict[int, AnsweredThen] = {}
        self._seen_version = -1
        self._epochs: dict[str, dict[int, int]] = {TRANSACTION_STATE_TOPIC: {}, OFFSETS_TOPIC: {}}
        self._topic_ids: dict[str, bytes] = {}
        self.core = TransactionCoordinator(node.producer_ids.generate, node.config.transactions)
        self.offsets = OffsetsCoordinator(node.config.offsets)

    # ---- who coordinates what

    def partition_of(self, transactional_id: str) -> int:
        """The id's partition of `__transaction_state`."""
        return partition_for(transactional_id, self.core.config.num_partitions)

    def internal_topic(self, name: str) -> Topic:
        """The topic, created if it was not there. Raises `TopicRefused`: too many partitions."""
        topic = self._node.topics.named(name)
        if topic is None:
            is_state = name == TRANSACTION_STATE_TOPIC
            config = self.core.config if is_state else self.offsets.config
            topic = self._node.topics.create(name, config.num_partitions, INTERNAL_CONFIGS)
        return topic

    def follow_leadership(self, now_ms: int) -> None:
        """Hear of the leaders that have moved. `BrokerMetadataPublisher.onMetadataUpdate`."""
        if self._node.topics.version != self._seen_version:
            self._seen_version = self._node.topics.version
            self._after(self._node.config.coordinator_lag_ms, self._follow, now_ms)

    def _follow(self, now_ms: int) -> None:
        """Take over the partitions that are this node's now, give up those that are not.

        Who takes over reads the log first, and refuses until then.
        """
        load_ms = self._node.config.coordinator_load_ms
        lost, won = self._changes(TRANSACTION_STATE_TOPIC)
        for partition in lost:
            self.core.resign(partition)
        for partition, leader in won.items():
            self.core.elect(partition, leader.leader_epoch)
            self._after(load_ms, partial(self._load_transactions, partition, leader), now_ms)
        lost, won = self._changes(OFFSETS_TOPIC)
        for partition in lost:
            self.offsets.resign(partition)
        for partition, leader in won.items():
            self.offsets.begin_loading(partition)
            self._after(load_ms, partial(self._load_offsets, partition, leader), now_ms)
        self._forget_deleted_topics(now_ms)

    def _changes(self, name: str) -> tuple[set[int], dict[int, PartitionLeader]]:
        """Partitions of the topic that this node has lost, and those that it leads anew."""
        led = dict(self._led(name))
        before = self._epochs[name]
        now = {partition: leader.leader_epoch for partition, leader in led.items()}
        self._epochs[name] = now
        won = {p: leader for p, leader in led.items() if before.get(p) != leader.leader_epoch}
        return before.keys() - now.keys(), won

    def _after(self, delay_ms: int, action: Callable[[int], None], now_ms: int) -> None:
        """Do it then; at once if that is now."""
        if delay_ms:
            self._node.at(now_ms + delay_ms, action)
        else:
            action(now_ms)

    def _load_transactions(self, partition: int, leader: PartitionLeader, now_ms: int) -> None:
        epoch = leader.leader_epoch
        self.perform(self.core.load(partition, epoch, read_records(leader), now_ms), now_ms)

    def _load_offsets(self, partition: int, leader: PartitionLeader, now_ms: int) -> None:
        """Nothing happens if another leader has come meanwhile."""
        if self._epochs[OFFSETS_TOPIC].get(partition) == leader.leader_epoch:
            self.offsets.load(partition, (stored.data for stored in leader.batches))

    def _forget_deleted_topics(self, now_ms: int) -> None:
        """A new topic of an old name begins without offsets. `onPartitionsDeleted`."""
        now = {topic.name: topic.topic_id for topic in self._node.topics}
        gone = {name for name, topic_id in self._topic_ids.items() if now.get(name) != topic_id}
        self._topic_ids = now
        for partition, batch in self.offsets.forget_topics(gone, now_ms=now_ms) if gone else ():
            leader = self._node.leader(self._node.topics.named(OFFSETS_TOPIC), partition)
            assert isinstance(leader, PartitionLeader)
            outcome = leader.append_as_coordinator(batch, now_ms=now_ms)
            leader.advance_high_watermark(leader.log_end_offset)
            if not outcome.error:
                self.offsets.replay(partition, leader.batches[-1].data)

    def _led(self, name: str) -> Iterator[tuple[int, PartitionLeader]]:
        topic = self._node.topics.named(name)
        for index in range(len(topic.partitions) if topic else 0):
            leader = self._node.leader(topic, index)
            if isinstance(leader, PartitionLeader):
                yield index, leader

    def run_periodic_checks(self, now_ms: int) -> None:
        """Time-outs and expiry when they are due; whatever failed, again."""
        me = self.core.config
        if self._node.is_due("retry", RETRY_BACKOFF_MS, now_ms):
            self.perform(self.core.retry(), now_ms)
        if self._node.is_due("abort timed out", me.abort_timed_out_interval_ms, now_ms):
            self.perform(self.core.abort_timed_out(now_ms), now_ms)
        if self._node.is_due("remove expired", me.remove_expired_interval_ms, now_ms):
            self.perform(self.core.remove_expired(now_ms), now_ms)

    # ---- effects

    def asking(self, then: AnsweredThen) -> int:
        """A name for a request to the core; its answer goes to `then`."""
        number = next(self._numbers)
        self._then[number] = then
        return number

    def perform(self, effects: Iterable[Effect], now_ms: int) -> None:
        """Carry out what the core wants done, and what follows from it."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Answered):
                assert isinstance(effect.request, int)
                self._then.pop(effect.request)(effect, now_ms)
            elif isinstance(effect, AppendRecords):
                error = self._append(effect, now_ms)
                todo.extend(self.core.on_appended(effect.token, error, now_ms))
            else:
                self._send_markers(effect, now_ms)

    def _append(self, effect: AppendRecords, now_ms: int) -> ErrorCode:
        topic = self._node.topics.named(TRANSACTION_STATE_TOPIC)
        leader = self._node.leader(topic, effect.partition)
        if isinstance(leader, ErrorCode):
            return leader
        if leader.leader_epoch != effect.coordinator_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        records = tuple(
            Record(delta, now_ms, key, value) for delta, (key, value) in enumerate(effect.records)
        )
        batch = RecordBatch(
            records,
            last_offset_delta=len(records) - 1,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
        )
        outcome = leader.append_as_coordinator(encode_batch(batch), now_ms=now_ms)
        leader.advance_high_watermark(leader.log_end_offset)
        return outcome.error

    def add_or_verify(
        self, question: Question, now_ms: int, *, client_transaction_version: int = IMPLICIT_ADD
    ) -> None:
        """A question about a transaction that is coordinated here."""
        if question.verify_only:
            errors = self.core.verify_partitions(
                question.transactional_id, question.producer, question.partitions
            )
            question.then(errors, now_ms)
            return
        request = self.asking(lambda answer, now: question.refuse(answer.error, now))
        effects = self.core.add_partitions(
            request,
            question.transactional_id,
            question.producer,
            question.partitions,
            client_transaction_version,
            now_ms,
        )
        self.perform(effects, now_ms)

    # ---- markers

    def _send_markers(self, sent: SendMarkers, now_ms: int) -> None:
        """To each leader its own; `addTxnMarkersToBrokerQueue`."""
        by_node: dict[int, list[TopicPartition]] = {}
        settled: dict[TopicPartition, ErrorCode] = {}
        for place in sorted(sent.partitions):
            topic = self._node.topics.named(place.topic)
            broker = self._node.cluster.leader_of(*place)
            if topic is None or topic.partition(place.partition) is None:
                settled[place] = ErrorCode.NONE
            elif broker is None:
                settled[place] = ErrorCode.NETWORK_EXCEPTION
            else:
                by_node.setdefault(broker.node_id, []).append(place)
        if settled:
            self._node.defer(lambda now: self._written(sent, settled, now))
        for node_id, places in by_node.items():
            self._send_to(node_id, sent, places)

    def _send_to(self, node_id: int, sent: SendMarkers, places: list[TopicPartition]) -> None:
        body = {"markers": [_marker_row(sent, places)]}
        if node_id == self._node.config.node_id:
            self._node.defer(
                lambda now: self._written(sent, _errors(self.write_markers(body, now), places), now)
            )
            return

        def answered(answer: Value | None, now_ms: int) -> None:
            self._written(sent, _errors(answer, places), now_ms)

        self._node.ask(node_id, ApiKey.WRITE_TXN_MARKERS, MARKERS_VERSION, body, answered)

    def _written(
        self, sent: SendMarkers, errors: dict[TopicPartition, ErrorCode], now_ms: int
    ) -> None:
        self.perform(self.core.on_markers_written(sent, errors), now_ms)

    def write_markers(self, body: Value, now_ms: int) -> Value:
        """WriteTxnMarkers, to partitions that this node leads. `handleWriteTxnMarkersRequest`.

        A marker without topics is not even answered.
        """
        rows = []
        for marker in body["markers"]:
            topics = [
                {
                    "name": topic["name"],
                    "partitions": [
                        {
                            "partition_index": index,
                            "error_code": self._write(marker, topic["name"], index, now_ms),
                        }
                        for index in topic["partition_indexes"]
                    ],
                }
                for topic in marker["topics"]
            ]
            if topics:
                rows.append({"producer_id": marker["producer_id"], "topics": topics})
        return {"markers": rows}

    def _write(self, marker: Value, name: str, index: int, now_ms: int) -> ErrorCode:
        topic = self._node.topics.named(name)
        leader = self._node.leader(topic, index)
        if isinstance(leader, ErrorCode):
            return leader
        if name == OFFSETS_TOPIC and not self.offsets.has_loaded(index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # the marker comes again
        commit = marker["transaction_result"]
        outcome = leader.write_marker(
            producer_id=marker["producer_id"],
            producer_epoch=marker["producer_epoch"],
            control_type=ControlType.COMMIT if commit else ControlType.ABORT,
            coordinator_epoch=marker["coordinator_epoch"],
            now_ms=now_ms,
            transaction_version=marker["transaction_version"],
        )
        leader.advance_high_watermark(leader.log_end_offset)
        if name == OFFSETS_TOPIC and not outcome.error:
            self.offsets.replay(index, leader.batches[-1].data)
        return outcome.error


def read_records(leader: PartitionLeader) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of a partition's log, oldest first; records without a key have b""."""
    return [
        (record.key or b"", record.value)
        for stored in leader.batches
        for record in decode_batch(stored.data).records
    ]


def _marker_row(sent: SendMarkers, places: list[TopicPartition]) -> Value:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    return {
        "producer_id": sent.producer.producer_id,
        "producer_epoch": sent.producer.producer_epoch,
        "transaction_result": sent.commit,
        "topics": [{"name": name, "partition_indexes": found} for name, found in by_topic.items()],
        "coordinator_epoch": sent.coordinator_epoch,
        "transaction_version": sent.transaction_version,
    }


def _errors(answer: Value | None, places: list[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """What each leader said; NETWORK_EXCEPTION of those that said nothing."""
    errors = dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)
    for marker in answer["markers"] if answer else ():
        for topic in marker["topics"]:
            for row in topic["partitions"]:
                place = TopicPartition(topic["name"], row["partition_index"])
                errors[place] = ErrorCode.of(row["error_code"])
    return errors
