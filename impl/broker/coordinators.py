"""The coordinators of one node: they follow its leaderships, and their effects are carried out.

Four rules:

1. An internal topic is created when a client first looks for its coordinator. The leader of one of
   its partitions coordinates the ids or groups of that partition, under the leader's epoch.
2. Appends happen at once; markers in the next `advance`, or by a request to the leader, and after
   `marker_delay_ms`. A change of
   leadership takes effect at once, and logs load at once, unless `coordinator_lag_ms` and
   `coordinator_load_ms` say how long that takes. A log with a record that no coordinator writes
   stays unloaded, as in Kafka: its ids and groups are answered COORDINATOR_LOAD_IN_PROGRESS.
3. A marker for a deleted topic counts as written; one for an unknown leader is retried.
4. The coordinator knows each request by a number; its answer goes to the callback of that number.

Theory of operation: `perform` carries out effects until none is left. The node decides nothing
about transactions or offsets: that is done in `transactions` and `offsets`.
Sources: `TransactionStateManager.appendTransactionToLog`, `TransactionMarkerChannelManager`,
`BrokerMetadataPublisher`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from impl.broker.consumer_memberships import ConsumerMemberships
from impl.broker.memberships import Memberships
from impl.broker.releases import served_versions
from impl.broker.services import NodeServices
from impl.broker.topic_refused import TopicRefused
from impl.broker.topics import Topic
from impl.coordinator.config import TransactionConfig
from impl.coordinator.effects import AppendRecords, Effect, SendAnswer, SendMarkers
from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.offsets import OffsetsCoordinator
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, partition_for
from impl.coordinator.timers import Timers
from impl.coordinator.transactions import TransactionCoordinator
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import COMPACT, PRODUCER
from impl.partition.verification import NO_GUARD
from impl.protocol.control_records import ControlType
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    Record,
    RecordBatch,
    decode_batch,
    encode_batch,
)
from impl.protocol.schemas import ApiKey

_log = logging.getLogger(__name__)

AnswerCallback = Callable[[SendAnswer, int], None]
"""Receives a transaction coordinator's answer, and the time."""

INTERNAL_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        OFFSETS_TOPIC: {"cleanup.policy": COMPACT, "compression.type": PRODUCER},
        TRANSACTION_STATE_TOPIC: {
            "cleanup.policy": COMPACT,
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    }
)
"""Coordinators load their state from this log, the latest record of each key, so retention must not
delete any of it. `TransactionStateManager.transactionStateTopicConfigs`,
`GroupCoordinatorService.groupMetadataTopicConfigs`."""

IMPLICIT_ADD: Final = 2
"""The client's transaction version when a broker adds the partition on its behalf (KIP-890)."""


@dataclass(frozen=True, slots=True)
class AddPartitionsRequest:
    """Partitions to be added to one transaction, or only verified. `callback` is called once."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]
    verify_only: bool
    callback: Callable[[Mapping[TopicPartition, ErrorCode], int], None]

    def refuse(self, error: ErrorCode, now_ms: int) -> None:
        """Answer with one error for all partitions."""
        self.callback(dict.fromkeys(self.partitions, error), now_ms)


class Coordinators:
    """Public state: `transactions`, `offsets`, `memberships`, `consumer_groups`.

    Read-only: `group_timers` of both kinds of group.
    """

    __slots__ = (
        "_callbacks",
        "_led_epochs",
        "_node",
        "_refused",
        "_request_numbers",
        "_topic_ids",
        "_topics_version",
        "consumer_groups",
        "group_timers",
        "memberships",
        "offsets",
        "transactions",
    )

    def __init__(
        self, node: NodeServices, generate_producer_id: Callable[[int], tuple[ErrorCode, int]]
    ) -> None:
        self._node = node
        self._request_numbers = count(1)
        self._callbacks: dict[int, AnswerCallback] = {}
        self._topics_version = -1
        self._led_epochs: dict[str, dict[int, int]] = {
            TRANSACTION_STATE_TOPIC: {},
            OFFSETS_TOPIC: {},
        }
        self._topic_ids: dict[str, bytes] = {}
        self._refused: set[str] = set()
        self.transactions = TransactionCoordinator(generate_producer_id, node.config.transactions)
        self.transactions.set_transaction_version(node.transaction_version)
        self.offsets = OffsetsCoordinator(node.config.offsets)
        self.memberships = Memberships(node, self.offsets, self.append_offsets)
        self.consumer_groups = ConsumerMemberships(node, self.offsets, self.memberships)
        groups = self.memberships.groups, self.consumer_groups.groups
        self.group_timers: tuple[Timers[Any], ...] = tuple(each.timers for each in groups)

    # ---- who coordinates what

    def partition_of(self, transactional_id: str) -> int:
        """The id's partition of `__transaction_state`."""
        return partition_for(transactional_id, self.transactions.config.num_partitions)

    def internal_topic(self, name: str) -> Topic:
        """The topic, created on first use.

        Raises `TopicRefused` beyond the limit on partitions, and for more replicas than nodes.
        """
        topic = self._node.topics.get(name)
        return self._create_internal(name) if topic is None else topic

    def _create_internal(self, name: str) -> Topic:
        config: OffsetsConfig | TransactionConfig = self.offsets.config
        configs = dict(INTERNAL_CONFIGS[name])
        if name == TRANSACTION_STATE_TOPIC:
            config = self.transactions.config
            configs["min.insync.replicas"] = str(config.min_insync_replicas)
        configs["segment.bytes"] = str(config.segment_bytes)
        factor = config.replication_factor
        try:
            return self._node.topics.create(
                name, config.num_partitions, configs, replication_factor=factor
            )
        except TopicRefused as refusal:
            if name not in self._refused:
                _log.warning("%s is not created: %s", name, refusal)
            self._refused.add(name)
            raise

    @property
    def is_behind(self) -> bool:
        """Whether there are changes of leadership to follow."""
        return self._node.topics.version != self._topics_version

    def follow_leadership(self, now_ms: int) -> None:
        """Apply changes of leadership, if any. `BrokerMetadataPublisher.onMetadataUpdate`."""
        if self.is_behind:
            self._topics_version = self._node.topics.version
            self._run_after(self._node.config.coordinator_lag_ms, self._apply_leadership, now_ms)

    def _apply_leadership(self, now_ms: int) -> None:
        """Resign from partitions that this node lost; load those that it leads now.

        Until a partition is loaded, its requests are refused.
        """
        self.transactions.set_transaction_version(self._node.transaction_version)
        load_ms = self._node.config.coordinator_load_ms
        lost, won = self._update_led(TRANSACTION_STATE_TOPIC)
        for partition in lost:
            self.transactions.resign(partition)
        for partition, leader in won.items():
            self.transactions.elect(partition, leader.leader_epoch)
            self._run_after(load_ms, partial(self._load_transactions, partition, leader), now_ms)
        lost, won = self._update_led(OFFSETS_TOPIC)
        for partition in lost:
            self.offsets.resign(partition)
            self.memberships.resign(partition, now_ms)
        for partition, leader in won.items():
            self.offsets.begin_loading(partition)
            self._run_after(load_ms, partial(self._load_offsets, partition, leader), now_ms)
        self._forget_deleted_topics(now_ms)
        self.consumer_groups.follow_topics()

    def _update_led(self, name: str) -> tuple[set[int], dict[int, PartitionLeader]]:
        """The topic's partitions that this node lost, and those that it leads in a new epoch."""
        led = dict(self._led_partitions(name))
        before = self._led_epochs[name]
        now = {partition: leader.leader_epoch for partition, leader in led.items()}
        self._led_epochs[name] = now
        won = {p: leader for p, leader in led.items() if before.get(p) != leader.leader_epoch}
        return before.keys() - now.keys(), won

    def _run_after(self, delay_ms: int, action: Callable[[int], None], now_ms: int) -> None:
        if delay_ms:
            self._node.schedule(now_ms + delay_ms, action)
        else:
            action(now_ms)

    def _load_transactions(self, partition: int, leader: PartitionLeader, now_ms: int) -> None:
        epoch = leader.leader_epoch
        with _named_failure(TRANSACTION_STATE_TOPIC, partition):
            effects = self.transactions.load(partition, epoch, read_records(leader), now_ms)
            self.perform(effects, now_ms)

    def _load_offsets(self, partition: int, leader: PartitionLeader, now_ms: int) -> None:
        """Load a partition's offsets, unless its leadership changed while the load was pending."""
        if self._led_epochs[OFFSETS_TOPIC].get(partition) != leader.leader_epoch:
            return
        with _named_failure(OFFSETS_TOPIC, partition):
            self.offsets.load(partition, (stored.data for stored in leader.batches))
            self.memberships.load(partition, now_ms)
            self.consumer_groups.load(partition, now_ms)

    def _forget_deleted_topics(self, now_ms: int) -> None:
        """A topic that is created again starts without offsets. `onPartitionsDeleted`."""
        now = {topic.name: topic.topic_id for topic in self._node.topics}
        gone = {name for name, topic_id in self._topic_ids.items() if now.get(name) != topic_id}
        self._topic_ids = now
        for partition, batch in self.offsets.forget_topics(gone, now_ms=now_ms) if gone else ():
            leader = self._node.leader(self._node.topics.get(OFFSETS_TOPIC), partition)
            assert isinstance(leader, PartitionLeader)
            self.append_offsets(leader, partition, batch, now_ms)

    def append_offsets(
        self,
        leader: PartitionLeader,
        partition: int,
        batch: bytes,
        now_ms: int,
        guard: int = NO_GUARD,
    ) -> ErrorCode:
        """Append to a partition of `__consumer_offsets`, replicate, and take it into the state."""
        outcome = leader.append_as_coordinator(batch, now_ms=now_ms, guard=guard)
        leader.advance_as_replicated()
        if not outcome.error:
            self.offsets.replay(partition, leader.batches[-1].data)
        return outcome.error

    def _led_partitions(self, name: str) -> Iterator[tuple[int, PartitionLeader]]:
        topic = self._node.topics.get(name)
        for index in range(len(topic.partitions) if topic else 0):
            leader = self._node.leader(topic, index)
            if isinstance(leader, PartitionLeader):
                yield index, leader

    def run_periodic_checks(
        self, now_ms: int, *, expires: bool, retries: bool, aborts: bool, removes: bool
    ) -> None:
        """Retry what failed, abort timed-out transactions, remove what has expired, when due."""
        self.memberships.advance(now_ms)
        self.consumer_groups.advance(now_ms)
        if expires:
            self.memberships.remove_expired(now_ms)
        if retries:
            self.perform(self.transactions.retry(), now_ms)
        if aborts:
            self.perform(self.transactions.abort_timed_out(now_ms), now_ms)
        if removes:
            self.perform(self.transactions.remove_expired(now_ms), now_ms)

    # ---- effects

    def register_callback(self, callback: AnswerCallback) -> int:
        """A number for a request to `transactions`; its answer goes to `callback`."""
        number = next(self._request_numbers)
        self._callbacks[number] = callback
        return number

    def perform(self, effects: Iterable[Effect], now_ms: int) -> None:
        """Carry out effects of `transactions`, and those that follow from them."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, SendAnswer):
                assert isinstance(effect.request, int)
                self._callbacks.pop(effect.request)(effect, now_ms)
            elif isinstance(effect, AppendRecords):
                error = self._append(effect, now_ms)
                todo.extend(self.transactions.on_appended(effect.token, error, now_ms))
            else:
                send = partial(self._send_markers, effect)
                self._run_after(self._node.config.marker_delay_ms, send, now_ms)

    def _append(self, effect: AppendRecords, now_ms: int) -> ErrorCode:
        topic = self._node.topics.get(TRANSACTION_STATE_TOPIC)
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
        leader.advance_as_replicated()
        return outcome.error

    def add_or_verify(
        self,
        request: AddPartitionsRequest,
        now_ms: int,
        *,
        client_transaction_version: int = IMPLICIT_ADD,
    ) -> None:
        """Serve a request for a transaction that this node coordinates."""
        if request.verify_only:
            errors = self.transactions.verify_partitions(
                request.transactional_id, request.producer, request.partitions
            )
            request.callback(errors, now_ms)
            return
        effects = self.transactions.add_partitions(
            self.register_callback(lambda answer, now: request.refuse(answer.error, now)),
            request.transactional_id,
            request.producer,
            request.partitions,
            client_transaction_version,
            now_ms,
        )
        self.perform(effects, now_ms)

    # ---- markers

    def _send_markers(self, markers: SendMarkers, now_ms: int) -> None:
        """Send each leader the markers of its partitions. `addTxnMarkersToBrokerQueue`."""
        by_node: dict[int, list[TopicPartition]] = {}
        errors: dict[TopicPartition, ErrorCode] = {}
        for place in sorted(markers.partitions):
            topic = self._node.topics.get(place.topic)
            broker = self._node.cluster.leader_of(*place)
            if topic is None or topic.partition(place.partition) is None:
                errors[place] = ErrorCode.NONE
            elif broker is None:
                errors[place] = ErrorCode.NETWORK_EXCEPTION
            else:
                by_node.setdefault(broker.node_id, []).append(place)
        if errors:
            self._node.defer(partial(self._complete_markers, markers, errors))
        for node_id, places in by_node.items():
            self._send_to(node_id, markers, places)

    def _send_to(self, node_id: int, markers: SendMarkers, places: list[TopicPartition]) -> None:
        body = {"markers": [_marker_row(markers, places)]}
        if node_id == self._node.config.node_id:
            self._node.defer(
                lambda now: self._complete_markers(
                    markers, _errors_by_partition(self.write_markers(body, now), places), now
                )
            )
            return

        def complete(answer: Value | None, now_ms: int) -> None:
            self._complete_markers(markers, _errors_by_partition(answer, places), now_ms)

        newest = served_versions(self._node.config.release)[ApiKey.WRITE_TXN_MARKERS][-1]
        self._node.ask(node_id, ApiKey.WRITE_TXN_MARKERS, newest, body, complete)

    def _complete_markers(
        self, markers: SendMarkers, errors: dict[TopicPartition, ErrorCode], now_ms: int
    ) -> None:
        self.perform(self.transactions.on_markers_written(markers, errors), now_ms)

    def write_markers(self, body: Value, now_ms: int) -> Value:
        """Write markers to partitions that this node leads. `handleWriteTxnMarkersRequest`.

        QUIRK: a marker without partitions has no row in the answer; markers of one producer have
        one row, with what became of the last of them.
        """
        rows: dict[int, dict[TopicPartition, Value]] = {}
        for marker in body["markers"]:
            for topic in marker["topics"]:
                for index in topic["partition_indexes"]:
                    place = TopicPartition(topic["name"], index)
                    error = self._write_marker(marker, *place, now_ms)
                    row = {"partition_index": index, "error_code": error}
                    rows.setdefault(marker["producer_id"], {})[place] = row
        return {
            "markers": [
                {
                    "producer_id": producer_id,
                    "topics": topic_rows((place.topic, row) for place, row in places.items()),
                }
                for producer_id, places in rows.items()
            ]
        }

    def _write_marker(self, marker: Value, name: str, index: int, now_ms: int) -> ErrorCode:
        topic = self._node.topics.get(name)
        leader = self._node.leader(topic, index)
        if isinstance(leader, ErrorCode):
            return leader
        if marker["producer_id"] == NO_PRODUCER_ID or marker["producer_epoch"] == NO_PRODUCER_EPOCH:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # QUIRK: an exception while it is built
        if name == OFFSETS_TOPIC and not self.offsets.has_loaded(index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # the coordinator retries
        commit = marker["transaction_result"]
        outcome = leader.write_marker(
            producer_id=marker["producer_id"],
            producer_epoch=marker["producer_epoch"],
            control_type=ControlType.COMMIT if commit else ControlType.ABORT,
            coordinator_epoch=marker["coordinator_epoch"],
            now_ms=now_ms,
            transaction_version=marker["transaction_version"],
        )
        leader.advance_as_replicated()
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


def _marker_row(markers: SendMarkers, places: list[TopicPartition]) -> Value:
    return {
        "producer_id": markers.producer.producer_id,
        "producer_epoch": markers.producer.producer_epoch,
        "transaction_result": markers.commit,
        "topics": topic_rows(places, partitions="partition_indexes"),
        "coordinator_epoch": markers.coordinator_epoch,
        "transaction_version": markers.transaction_version,
    }


def _errors_by_partition(
    answer: Value | None, places: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Each leader's answer; NETWORK_EXCEPTION for a partition that got none."""
    errors = dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)
    for marker in answer["markers"] if answer else ():
        for topic in marker["topics"]:
            for row in topic["partitions"]:
                place = TopicPartition(topic["name"], row["partition_index"])
                errors[place] = ErrorCode.of(row["error_code"])
    return errors


@contextmanager
def _named_failure(topic: str, partition: int) -> Iterator[None]:
    """A record that cannot be read ends the load, not the node."""
    try:
        yield
    except DecodeError as error:
        _log.error(
            "%s-%d cannot be loaded, and its coordinator stays away: %s", topic, partition, error
        )
