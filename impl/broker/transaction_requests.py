"""Handlers of transaction requests, and of FindCoordinator.

Two rules:

1. A client of version 0 or 1 does not know PRODUCER_FENCED and gets INVALID_PRODUCER_EPOCH.
2. AddPartitionsToTxn adds all partitions of a transaction, or none if one of them is unknown.

Sources: `KafkaApis.handleFindCoordinatorRequest`, `handleInitProducerIdRequest`,
`handleAddPartitionsToTxnRequest`, `handleAddOffsetsToTxnRequest`, `handleEndTxnRequest`,
`handleWriteTxnMarkersRequest`, `handleDescribeTransactionsRequest`,
`handleListTransactionsRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.coordinators import IMPLICIT_ADD, AddPartitionsRequest
from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DEFERRED, DecodedRequest, Deferred
from impl.broker.topic_refused import TopicRefused
from impl.coordinator.effects import SendAnswer
from impl.coordinator.inspection import ListFilters
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CoordinatorType, topic_rows
from impl.protocol.message_form import Value
from impl.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from impl.protocol.schemas import ApiKey

BATCHED_KEYS_FROM: Final = 4
_SHARE: Final = 2
"""A key type that is not served: the coordinator of a share group."""
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's own text of INVALID_REQUEST. `Errors`."""
BROKERS_FROM: Final = 4
"""The first AddPartitionsToTxn version for brokers only."""

END_TXN_V2_FROM: Final = 5

_PRODUCER_FENCED_FROM: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The first version of each request whose clients know PRODUCER_FENCED."""


def _error_for_version(request: DecodedRequest, error: ErrorCode) -> ErrorCode:
    is_old = request.version < _PRODUCER_FENCED_FROM[request.api_key]
    if error is ErrorCode.PRODUCER_FENCED and is_old:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _producer_of(body: Value) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(body["producer_id"], body["producer_epoch"])


# ---- FindCoordinator


def find_coordinator(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The coordinators of groups or transactional ids; their topic is created on first use."""
    body = request.body
    keys = body["coordinator_keys"] if request.version >= BATCHED_KEYS_FROM else [body["key"]]
    rows = [_coordinator_row(node, request, key) for key in keys]
    node.coordinators.follow_leadership(now_ms)
    return {"coordinators": rows} if request.version >= BATCHED_KEYS_FROM else rows[0]


def _coordinator_row(node: HandlerContext, request: DecodedRequest, key: str) -> Value:
    row: Value = {"key": key, "node_id": -1, "host": "", "port": -1}
    coordinators, key_type = node.coordinators, request.body["key_type"]
    if key_type == CoordinatorType.TRANSACTION:
        topic, partition = TRANSACTION_STATE_TOPIC, coordinators.partition_of(key)
    elif key_type == CoordinatorType.GROUP:
        topic, partition = OFFSETS_TOPIC, coordinators.offsets.partition_of(key)
    else:
        is_share = key_type == _SHARE and request.version >= BATCHED_KEYS_FROM
        text = "" if is_share else _MALFORMED
        return row | {"error_code": ErrorCode.INVALID_REQUEST, "error_message": text}
    try:
        coordinators.internal_topic(topic)
    except TopicRefused as refusal:
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return row | {"error_code": unavailable, "error_message": str(refusal)}
    broker = node.cluster.leader_of(topic, partition)
    if broker is None:
        return row | {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    text = "" if request.version >= BATCHED_KEYS_FROM else "NONE"
    found = {"error_code": ErrorCode.NONE, "error_message": text}
    return row | found | broker.address(request.session.listener)


# ---- requests of one producer


def _answer_with(
    node: HandlerContext, request: DecodedRequest, body: Callable[[SendAnswer], Value]
) -> int:
    """A number for the coordinator's request; its answer is sent as `body` makes it."""
    return node.coordinators.register_callback(
        lambda answer, now_ms: node.answer(request, body(answer))
    )


def init_producer_id(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value | Deferred:
    """Producer id and epoch are both given, or neither."""
    body = request.body
    expected = _producer_of(body)
    if (expected.producer_id == NO_PRODUCER_ID) != (expected.producer_epoch == NO_PRODUCER_EPOCH):
        return {"error_code": ErrorCode.INVALID_REQUEST}
    effects = node.coordinators.transactions.init_producer_id(
        _answer_with(node, request, lambda answer: _producer_row(request, answer)),
        body["transactional_id"],
        body["transaction_timeout_ms"],
        None if expected.producer_id == NO_PRODUCER_ID else expected,
        now_ms,
    )
    node.coordinators.perform(effects, now_ms)
    return DEFERRED


def _producer_row(request: DecodedRequest, answer: SendAnswer) -> Value:
    return {"error_code": _error_for_version(request, answer.error), **answer.producer._asdict()}


def end_txn(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Deferred:
    """From version 5 on the client speaks V2: the answer carries its next epoch (KIP-890)."""
    body = request.body
    effects = node.coordinators.transactions.end_txn(
        _answer_with(node, request, lambda answer: _producer_row(request, answer)),
        body["transactional_id"],
        _producer_of(body),
        body["committed"],
        IMPLICIT_ADD if request.version >= END_TXN_V2_FROM else 0,
        now_ms,
    )
    node.coordinators.perform(effects, now_ms)
    return DEFERRED


def add_offsets_to_txn(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value | Deferred:
    """Add the group's partition of `__consumer_offsets` to the transaction."""
    body = request.body
    coordinators = node.coordinators
    try:
        coordinators.internal_topic(OFFSETS_TOPIC)
    except TopicRefused:
        return {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    partition = coordinators.offsets.partition_of(body["group_id"])
    effects = coordinators.transactions.add_partitions(
        _answer_with(
            node, request, lambda answer: {"error_code": _error_for_version(request, answer.error)}
        ),
        body["transactional_id"],
        _producer_of(body),
        [TopicPartition(OFFSETS_TOPIC, partition)],
        0,
        now_ms,
    )
    coordinators.perform(effects, now_ms)
    return DEFERRED


# ---- AddPartitionsToTxn


class _AddPartitionsToTxn:
    """One AddPartitionsToTxn request; answered when all of its transactions are."""

    __slots__ = ("errors", "node", "request", "transactions", "unanswered")

    def __init__(self, node: HandlerContext, request: DecodedRequest) -> None:
        self.node = node
        self.request = request
        self.transactions: list[Value] = []
        self.errors: dict[tuple[str, TopicPartition], ErrorCode] = {}
        self.unanswered = 1  # this keeps the answer back until all transactions are begun

    def add_transaction(self, asked: Value, now_ms: int) -> None:
        transactional_id = asked["transactional_id"]
        partitions = [
            TopicPartition(topic["name"], index)
            for topic in asked["topics"]
            for index in topic["partitions"]
        ]
        self.transactions.append(asked)
        refused = {place: error for place in partitions if (error := self._refusal(place))}
        if refused:
            for place in partitions:
                error = refused.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED)
                self.errors[transactional_id, place] = error
            return
        self.unanswered += 1

        def complete(errors: Mapping[TopicPartition, ErrorCode], now: int) -> None:
            self.errors.update({(transactional_id, place): e for place, e in errors.items()})
            self.complete_one()

        is_client = self.request.version < BROKERS_FROM
        self.node.coordinators.add_or_verify(
            AddPartitionsRequest(
                transactional_id, _producer_of(asked), partitions, asked["verify_only"], complete
            ),
            now_ms,
            client_transaction_version=0 if is_client else IMPLICIT_ADD,
        )

    def _refusal(self, place: TopicPartition) -> ErrorCode:
        topic = self.node.topics.get(place.topic)
        if self.request.version < BROKERS_FROM and topic is not None and topic.is_internal:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic is None or topic.partition(place.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def complete_one(self) -> None:
        """Count one answer; after the last one, answer the request."""
        self.unanswered -= 1
        if self.unanswered:
            return
        results = [
            {"transactional_id": asked["transactional_id"], "topic_results": self._rows(asked)}
            for asked in self.transactions
        ]
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        if unsupported in self.errors.values():
            answer: Value = {"error_code": unsupported, "results_by_transaction": []}
        elif self.request.version >= BROKERS_FROM:
            answer = {"error_code": ErrorCode.NONE, "results_by_transaction": results}
        else:
            answer = {"results_by_topic_v3_and_below": results[0]["topic_results"]}
        self.node.answer(self.request, answer)

    def _rows(self, asked: Value) -> list[Value]:
        """A row for each that was asked for, repeated ones included."""
        return [
            {
                "name": topic["name"],
                "results_by_partition": [
                    self._row(asked["transactional_id"], TopicPartition(topic["name"], index))
                    for index in topic["partitions"]
                ],
            }
            for topic in asked["topics"]
        ]

    def _row(self, name: str, place: TopicPartition) -> Value:
        error = _error_for_version(self.request, self.errors[name, place])
        return {"partition_index": place.partition, "partition_error_code": error}


def add_partitions_to_txn(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Deferred:
    """A client sends one transaction; a broker sends several, to be added or only verified."""
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
    addition = _AddPartitionsToTxn(node, request)
    for asked in transactions:
        addition.add_transaction(asked, now_ms)
    addition.complete_one()
    return DEFERRED


# ---- markers, inspection


def write_txn_markers(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Sent by a coordinator, or by an admin client that aborts a hanging transaction."""
    return node.coordinators.write_markers(request.body, now_ms)


def describe_transactions(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The logged state of each id; a pending transition is not visible."""
    states = [_describe_transaction(node, name) for name in request.body["transactional_ids"]]
    return {"transaction_states": states}


def _describe_transaction(node: HandlerContext, name: str) -> Value:
    found = node.coordinators.transactions.describe(name)
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
        "topics": topic_rows(sorted(image.partitions), name="topic"),
    }


def list_transactions(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The ids of this broker that pass the filters."""
    body = request.body
    filters = ListFilters(
        frozenset(body["state_filters"]),
        frozenset(body["producer_id_filters"]),
        body["duration_filter"],
        body["transactional_id_pattern"],
    )
    listed = node.coordinators.transactions.list_transactions(filters, now_ms)
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
