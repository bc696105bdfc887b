"""The requests about transactions, and who coordinates: dicts in, dicts out.

Two rules:

1. A client of version 0 or 1 knows no PRODUCER_FENCED: it is told INVALID_PRODUCER_EPOCH.
2. Of partitions to add all are known, or none is added.

Sources: `KafkaApis.handleFindCoordinatorRequest`, `handleInitProducerIdRequest`,
`handleAddPartitionsToTxnRequest`, `handleAddOffsetsToTxnRequest`, `handleEndTxnRequest`,
`handleWriteTxnMarkersRequest`, `handleDescribeTransactionsRequest`,
`handleListTransactionsRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from impl.broker.coordinating import IMPLICIT_ADD
from impl.broker.outputs import LATER, Later, Request
from impl.broker.topics import TopicRefused
from impl.broker.verification import Question
from impl.coordinator.effects import Answered
from impl.coordinator.inspection import Filters
from impl.coordinator.log_records import by_topic
from impl.coordinator.metadata import ProducerIdAndEpoch, TopicPartition
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CoordinatorType
from impl.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from impl.protocol.schemas import ApiKey

if TYPE_CHECKING:
    from impl.broker.node import Handler, Node

BATCHED_KEYS_FROM: Final = 4
BROKERS_FROM: Final = 4
"""The first AddPartitionsToTxn version that is between brokers."""

END_TXN_V2_FROM: Final = 5

_FENCED_SINCE: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The first version whose clients know PRODUCER_FENCED."""


def _for_version(request: Request, error: ErrorCode) -> ErrorCode:
    is_old = request.version < _FENCED_SINCE[request.api_key]
    if error is ErrorCode.PRODUCER_FENCED and is_old:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _producer(body: Value) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(body["producer_id"], body["producer_epoch"])


# ---- FindCoordinator


def find_coordinator(node: Node, request: Request, now_ms: int) -> Value:
    """Groups and transactional ids; their topic is created if it was not there."""
    body = request.body
    keys = body["coordinator_keys"] if request.version >= BATCHED_KEYS_FROM else [body["key"]]
    rows = [_coordinator_row(node, body["key_type"], key) for key in keys]
    node.coordinating.follow_leadership(now_ms)
    return {"coordinators": rows} if request.version >= BATCHED_KEYS_FROM else rows[0]


def _coordinator_row(node: Node, key_type: int, key: str) -> Value:
    row: Value = {"key": key, "node_id": -1, "host": "", "port": -1}
    coordinating = node.coordinating
    if key_type == CoordinatorType.TRANSACTION:
        topic, partition = TRANSACTION_STATE_TOPIC, coordinating.partition_of(key)
    elif key_type == CoordinatorType.GROUP:
        topic, partition = OFFSETS_TOPIC, coordinating.offsets.partition_of(key)
    else:
        return row | {"error_code": ErrorCode.INVALID_REQUEST}
    try:
        coordinating.internal_topic(topic)
    except TopicRefused as refusal:
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return row | {"error_code": unavailable, "error_message": str(refusal)}
    broker = node.cluster.leader_of(topic, partition)
    if broker is None:
        return row | {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    return row | {"error_code": ErrorCode.NONE, **broker._asdict()}


# ---- requests of one producer


def _ask(node: Node, request: Request, answer: Callable[[Answered], Value]) -> int:
    """A name for the coordinator, whose answer then goes out."""
    return node.coordinating.asking(lambda given, now_ms: node.answer(request, answer(given)))


def init_producer_id(node: Node, request: Request, now_ms: int) -> Value | Later:
    """Half an identity is refused before anything else."""
    body = request.body
    expected = _producer(body)
    if (expected.producer_id == NO_PRODUCER_ID) != (expected.producer_epoch == NO_PRODUCER_EPOCH):
        return {"error_code": ErrorCode.INVALID_REQUEST}
    effects = node.coordinating.core.init_producer_id(
        _ask(node, request, lambda answer: _identity(request, answer)),
        body["transactional_id"],
        body["transaction_timeout_ms"],
        None if expected.producer_id == NO_PRODUCER_ID else expected,
        now_ms,
    )
    node.coordinating.perform(effects, now_ms)
    return LATER


def _identity(request: Request, answer: Answered) -> Value:
    return {"error_code": _for_version(request, answer.error), **answer.producer._asdict()}


def end_txn(node: Node, request: Request, now_ms: int) -> Later:
    """The request's version chooses the conversation."""
    body = request.body
    effects = node.coordinating.core.end_txn(
        _ask(node, request, lambda answer: _identity(request, answer)),
        body["transactional_id"],
        _producer(body),
        body["committed"],
        IMPLICIT_ADD if request.version >= END_TXN_V2_FROM else 0,
        now_ms,
    )
    node.coordinating.perform(effects, now_ms)
    return LATER


def add_offsets_to_txn(node: Node, request: Request, now_ms: int) -> Value | Later:
    """The group's partition of `__consumer_offsets` becomes part of the transaction."""
    body = request.body
    coordinating = node.coordinating
    try:
        coordinating.internal_topic(OFFSETS_TOPIC)
    except TopicRefused:
        return {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    partition = coordinating.offsets.partition_of(body["group_id"])
    effects = coordinating.core.add_partitions(
        _ask(node, request, lambda answer: {"error_code": _for_version(request, answer.error)}),
        body["transactional_id"],
        _producer(body),
        [TopicPartition(OFFSETS_TOPIC, partition)],
        0,
        now_ms,
    )
    coordinating.perform(effects, now_ms)
    return LATER


# ---- AddPartitionsToTxn


class _Addition:
    """One AddPartitionsToTxn request while it is served."""

    __slots__ = ("errors", "node", "order", "request", "waiting")

    def __init__(self, node: Node, request: Request) -> None:
        self.node = node
        self.request = request
        self.order: list[tuple[str, list[TopicPartition]]] = []
        self.errors: dict[tuple[str, TopicPartition], ErrorCode] = {}
        self.waiting = 1

    def take(self, asked: Value, now_ms: int) -> None:
        """One transaction of the request."""
        name = asked["transactional_id"]
        places = [
            TopicPartition(topic["name"], index)
            for topic in asked["topics"]
            for index in topic["partitions"]
        ]
        self.order.append((name, places))
        refused = {place: error for place in places if (error := self._refusal(place))}
        for place in places if refused else ():
            error = refused.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED)
            self.errors[name, place] = error
        if refused:
            return
        self.waiting += 1

        def then(errors: Mapping[TopicPartition, ErrorCode], now: int) -> None:
            self.errors.update({(name, place): error for place, error in errors.items()})
            self.done()

        question = Question(name, _producer(asked), places, asked["verify_only"], then)
        is_client = self.request.version < BROKERS_FROM
        self.node.coordinating.add_or_verify(
            question, now_ms, client_transaction_version=0 if is_client else IMPLICIT_ADD
        )

    def _refusal(self, place: TopicPartition) -> ErrorCode:
        topic = self.node.topics.named(place.topic)
        if self.request.version < BROKERS_FROM and topic is not None and topic.is_internal:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic is None or topic.partition(place.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def done(self) -> None:
        """One transaction is answered; after the last one, the request."""
        self.waiting -= 1
        if self.waiting:
            return
        results = [
            {"transactional_id": name, "topic_results": self._rows(name, places)}
            for name, places in self.order
        ]
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        if unsupported in self.errors.values():
            answer: Value = {"error_code": unsupported, "results_by_transaction": []}
        elif self.request.version >= BROKERS_FROM:
            answer = {"error_code": ErrorCode.NONE, "results_by_transaction": results}
        else:
            answer = {"results_by_topic_v3_and_below": results[0]["topic_results"]}
        self.node.answer(self.request, answer)

    def _rows(self, name: str, places: list[TopicPartition]) -> list[Value]:
        topics: dict[str, list[Value]] = {}
        for place in places:
            error = _for_version(self.request, self.errors[name, place])
            row = {"partition_index": place.partition, "partition_error_code": error}
            topics.setdefault(place.topic, []).append(row)
        return [{"name": topic, "results_by_partition": rows} for topic, rows in topics.items()]


def add_partitions_to_txn(node: Node, request: Request, now_ms: int) -> Later:
    """From a client one transaction, from a broker many, each to add or only to verify."""
    body = request.body
    transactions = body["transactions"]
    if request.version < BROKERS_FROM:
        transactions = [
            {
                "transactional_id": body["v3_and_below_transactional_id"],
                "producer_id": body["v3_and_below_producer_id"],
                "producer_epoch": body["v3_and_below_producer_epoch"],
                "verify_only": False,
                "topics": body["v3_and_below_topics"],
            }
        ]
    addition = _Addition(node, request)
    for asked in transactions:
        addition.take(asked, now_ms)
    addition.done()
    return LATER


# ---- markers, inspection


def write_txn_markers(node: Node, request: Request, now_ms: int) -> Value:
    """From a coordinator, or from an admin who ends a hanging transaction."""
    return node.coordinating.write_markers(request.body, now_ms)


def describe_transactions(node: Node, request: Request, now_ms: int) -> Value:
    """What is logged of each id; what is pending does not show."""
    states = [_described(node, name) for name in request.body["transactional_ids"]]
    return {"transaction_states": states}


def _described(node: Node, name: str) -> Value:
    found = node.coordinating.core.describe(name)
    image = found.image
    if image is None:
        return {
            "error_code": found.error,
            "transactional_id": name,
            "transaction_state": "",
            "transaction_timeout_ms": 0,
            "transaction_start_time_ms": 0,
            "producer_id": 0,
            "producer_epoch": 0,
            "topics": [],
        }
    return {
        "error_code": ErrorCode.NONE,
        "transactional_id": name,
        "transaction_state": image.state.title,
        "transaction_timeout_ms": image.transaction_timeout_ms,
        "transaction_start_time_ms": image.start_timestamp_ms,
        "producer_id": image.producer_id,
        "producer_epoch": image.producer_epoch,
        "topics": [
            {"topic": row["topic"], "partitions": row["partition_ids"]}
            for row in by_topic(image.partitions)
        ],
    }


def list_transactions(node: Node, request: Request, now_ms: int) -> Value:
    """The ids of this broker that pass the filters."""
    body = request.body
    filters = Filters(
        frozenset(body["state_filters"]),
        frozenset(body["producer_id_filters"]),
        body["duration_filter"],
        body["transactional_id_pattern"],
    )
    listed = node.coordinating.core.list_transactions(filters, now_ms)
    return {
        "error_code": listed.error,
        "unknown_state_filters": list(listed.unknown_states),
        "transaction_states": [
            {
                "transactional_id": name,
                "producer_id": image.producer_id,
                "transaction_state": image.state.title,
            }
            for name, image in listed.transactions
        ],
    }


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.FIND_COORDINATOR: find_coordinator,
        ApiKey.INIT_PRODUCER_ID: init_producer_id,
        ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
        ApiKey.END_TXN: end_txn,
        ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
        ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
        ApiKey.LIST_TRANSACTIONS: list_transactions,
    }
)
