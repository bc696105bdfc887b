"""What a partition's leader asks a transaction's coordinator: is this partition in, or add it.

Three rules:

1. The coordinator is found by the transactional id; if nobody leads its partition, it is
   COORDINATOR_NOT_AVAILABLE. Where it is this node, nothing travels.
2. To each other node at most one request is under way; what is asked meanwhile goes together in
   the next one.
3. Of one transactional id only the newest question waits: one of a higher epoch makes the older
   one INVALID_PRODUCER_EPOCH, one of the same epoch makes it NETWORK_EXCEPTION (retriable).

Source: `AddPartitionsToTxnManager`; KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from impl.coordinator.metadata import ProducerIdAndEpoch, TopicPartition
from impl.coordinator.placement import TRANSACTION_STATE_TOPIC
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

if TYPE_CHECKING:
    from impl.broker.node import Node

VERSION: Final = 5
"""Of AddPartitionsToTxn between brokers: 4 is the first that has many transactions."""

Verified = Callable[[Mapping[TopicPartition, ErrorCode], int], None]
"""Gets the coordinator's word on each partition, and the time."""


@dataclass(frozen=True, slots=True)
class Question:
    """One transaction's partitions."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]
    verify_only: bool
    then: Verified

    def refuse(self, error: ErrorCode, now_ms: int) -> None:
        """Answer all of its partitions alike."""
        self.then(dict.fromkeys(self.partitions, error), now_ms)


class AddPartitionsToTxnManager:
    """The questions of one node."""

    __slots__ = ("_node", "_under_way", "_waiting")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[int, dict[str, Question]] = {}
        self._under_way: set[int] = set()

    def ask(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        then: Verified,
        now_ms: int,
    ) -> None:
        """`then` is called once, perhaps before this returns. `addOrVerifyTransaction`."""
        question = Question(transactional_id, producer, partitions, verify_only, then)
        index = self._node.coordinating.partition_of(transactional_id)
        broker = self._node.cluster.leader_of(TRANSACTION_STATE_TOPIC, index)
        if broker is None:
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
        elif broker.node_id == self._node.config.node_id:
            self._node.coordinating.add_or_verify(question, now_ms)
        elif self._queue(broker.node_id, question, now_ms):
            self._send(broker.node_id)

    def _queue(self, node_id: int, question: Question, now_ms: int) -> bool:
        waiting = self._waiting.setdefault(node_id, {})
        older = waiting.get(question.transactional_id)
        if older is not None:
            epoch, known = question.producer.producer_epoch, older.producer.producer_epoch
            if epoch < known:
                question.refuse(ErrorCode.INVALID_PRODUCER_EPOCH, now_ms)
                return False
            is_newer = epoch > known
            older.refuse(
                ErrorCode.INVALID_PRODUCER_EPOCH if is_newer else ErrorCode.NETWORK_EXCEPTION,
                now_ms,
            )
        waiting[question.transactional_id] = question
        return True

    def _send(self, node_id: int) -> None:
        waiting = self._waiting.get(node_id)
        if not waiting or node_id in self._under_way:
            return
        asked = list(waiting.values())
        waiting.clear()
        self._under_way.add(node_id)
        body = {"transactions": [_row(question) for question in asked]}

        def answered(answer: Value | None, now_ms: int) -> None:
            self._under_way.discard(node_id)
            for question in asked:
                question.then(_errors(question, answer), now_ms)
            self._send(node_id)

        self._node.ask(node_id, ApiKey.ADD_PARTITIONS_TO_TXN, VERSION, body, answered)


def _row(question: Question) -> Value:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in question.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {
        "transactional_id": question.transactional_id,
        "producer_id": question.producer.producer_id,
        "producer_epoch": question.producer.producer_epoch,
        "verify_only": question.verify_only,
        "topics": [{"name": name, "partitions": found} for name, found in by_topic.items()],
    }


def _errors(question: Question, answer: Value | None) -> dict[TopicPartition, ErrorCode]:
    """The coordinator's word on each partition. `AddPartitionsToTxnHandler.onComplete`."""
    if answer is None:
        return dict.fromkeys(question.partitions, ErrorCode.NETWORK_EXCEPTION)
    if answer["error_code"]:
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        error = ErrorCode.of(answer["error_code"])
        error = ErrorCode.INVALID_TXN_STATE if error is refused else error
        return dict.fromkeys(question.partitions, error)
    return {
        TopicPartition(topic["name"], row["partition_index"]): ErrorCode.of(
            row["partition_error_code"]
        )
        for result in answer["results_by_transaction"]
        if result["transactional_id"] == question.transactional_id
        for topic in result["topic_results"]
        for row in topic["results_by_partition"]
    }
