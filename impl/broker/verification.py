"""A partition leader verifies with the transaction's coordinator, or has the partition added.

Three rules:

1. The transactional id determines the coordinator; without a leader of its partition the answer is
   COORDINATOR_NOT_AVAILABLE. A coordinator on this node is called directly.
2. At most one request is in flight to each other node; requests that arrive meanwhile are sent
   together in the next one.
3. Only the newest request of a transactional id waits: one of a higher epoch fails the older one
   with INVALID_PRODUCER_EPOCH, one of the same epoch with NETWORK_EXCEPTION (retriable).

Source: `AddPartitionsToTxnManager`; KIP-890.
"""

from __future__ import annotations

from typing import Final

from impl.broker.coordinators import AddPartitionsRequest, Coordinators
from impl.broker.services import NodeServices
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.placement import TRANSACTION_STATE_TOPIC
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey

VERSION: Final = 5
"""AddPartitionsToTxn between brokers; 4 is the first version with several transactions."""


class AddPartitionsToTxnManager:
    """The requests of one node to transaction coordinators."""

    __slots__ = ("_coordinators", "_in_flight", "_node", "_waiting")

    def __init__(self, node: NodeServices, coordinators: Coordinators) -> None:
        self._node = node
        self._coordinators = coordinators
        self._waiting: dict[int, dict[str, AddPartitionsRequest]] = {}
        self._in_flight: set[int] = set()

    def add_or_verify(self, request: AddPartitionsRequest, now_ms: int) -> None:
        """May call back before this returns. `addOrVerifyTransaction`."""
        index = self._coordinators.partition_of(request.transactional_id)
        broker = self._node.cluster.leader_of(TRANSACTION_STATE_TOPIC, index)
        if broker is None:
            request.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
        elif broker.node_id == self._node.config.node_id:
            self._coordinators.add_or_verify(request, now_ms)
        elif self._queue(broker.node_id, request, now_ms):
            self._send(broker.node_id)

    def _queue(self, node_id: int, request: AddPartitionsRequest, now_ms: int) -> bool:
        waiting = self._waiting.setdefault(node_id, {})
        older = waiting.get(request.transactional_id)
        if older is not None:
            epoch, known = request.producer.producer_epoch, older.producer.producer_epoch
            if epoch < known:
                request.refuse(ErrorCode.INVALID_PRODUCER_EPOCH, now_ms)
                return False
            is_newer = epoch > known
            older.refuse(
                ErrorCode.INVALID_PRODUCER_EPOCH if is_newer else ErrorCode.NETWORK_EXCEPTION,
                now_ms,
            )
        waiting[request.transactional_id] = request
        return True

    def _send(self, node_id: int) -> None:
        waiting = self._waiting.get(node_id)
        if not waiting or node_id in self._in_flight:
            return
        batch = list(waiting.values())
        waiting.clear()
        self._in_flight.add(node_id)
        body = {"transactions": [_row(request) for request in batch]}

        def complete(answer: Value | None, now_ms: int) -> None:
            self._in_flight.discard(node_id)
            for request in batch:
                request.callback(_errors(request, answer), now_ms)
            self._send(node_id)

        self._node.ask(node_id, ApiKey.ADD_PARTITIONS_TO_TXN, VERSION, body, complete)


def _row(request: AddPartitionsRequest) -> Value:
    return {
        "transactional_id": request.transactional_id,
        "producer_id": request.producer.producer_id,
        "producer_epoch": request.producer.producer_epoch,
        "verify_only": request.verify_only,
        "topics": topic_rows(request.partitions),
    }


def _errors(request: AddPartitionsRequest, answer: Value | None) -> dict[TopicPartition, ErrorCode]:
    """The coordinator's answer for each partition. `AddPartitionsToTxnHandler.onComplete`."""
    if answer is None:
        return dict.fromkeys(request.partitions, ErrorCode.NETWORK_EXCEPTION)
    if answer["error_code"]:
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        error = ErrorCode.of(answer["error_code"])
        error = ErrorCode.INVALID_TXN_STATE if error is refused else error
        return dict.fromkeys(request.partitions, error)
    return {
        TopicPartition(topic["name"], row["partition_index"]): ErrorCode.of(
            row["partition_error_code"]
        )
        for result in answer["results_by_transaction"]
        if result["transactional_id"] == request.transactional_id
        for topic in result["topic_results"]
        for row in topic["results_by_partition"]
    }
