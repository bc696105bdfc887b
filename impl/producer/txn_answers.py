"""What the answers to transactional requests say.

1. An answer that leaves out a partition of its request, or names another, is no answer to it.
2. Of several errors in one answer, Kafka's client acts on one: these functions say on which.

Source: the `handleResponse` methods of `TransactionManager`, Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from impl.producer.batch import TopicPartition
from impl.producer.errors import (
    AuthorizationError,
    CommitFailedError,
    DeliveryError,
    FatalProducerError,
    MalformedAnswerError,
    ProducerFenced,
    TransactionAbortableError,
)
from impl.producer.txn_requests import Then, TxnRequest, offset_rows, then_for
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

Answer = Mapping[str, Any]
"""A response's body."""

BATCHED_KEYS_SINCE: Final = 4
"""The FindCoordinator version whose answers have a row a key."""

ENDS: Final[Mapping[Then, type[DeliveryError]]] = {
    Then.ABORT: TransactionAbortableError,
    Then.ABORT_AND_BUMP: TransactionAbortableError,
    Then.ABORT_UNLESS_ABORTING: TransactionAbortableError,
    Then.DEAUTHORIZE: AuthorizationError,
    Then.LEAVE_GROUP: CommitFailedError,
    Then.FENCE: ProducerFenced,
    Then.FAIL: FatalProducerError,
}
"""What ends a call, and with which error."""


def error_of(request: TxnRequest, answer: Answer) -> ErrorCode:
    """The error that decides what follows; acknowledged offsets leave the request."""
    return _ERROR_OF[request.api_key](request, answer)


def check_answer(request: TxnRequest, answer: Answer) -> None:
    """Raise `MalformedAnswerError` if this cannot be the answer to the request."""
    is_batched = request.looks_up is not None and request.api_version >= BATCHED_KEYS_SINCE
    if is_batched and len(answer["coordinators"]) != 1:
        raise MalformedAnswerError(f"{len(answer['coordinators'])} coordinators, not one")
    asked = sorted(_ASKED.get(request.api_key, _nothing)(request))
    answered = sorted(_ANSWERED.get(request.api_key, _nothing)(answer))
    if asked != answered:
        raise MalformedAnswerError(f"asked for {asked}, answered for {answered}")


def added_partitions(answer: Answer) -> list[TopicPartition]:
    """The partitions that an AddPartitionsToTxn answer is about."""
    return [topic_partition for topic_partition, _ in _added_rows(answer)]


def coordinator_of(answer: Answer) -> int:
    """The node that FindCoordinator names."""
    node_id: int = _coordinator_row(answer)["node_id"]
    return node_id


def _whole_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    return ErrorCode.of(answer["error_code"])


def _coordinator_row(answer: Answer) -> Answer:
    """From version 4 on there are several: one was asked for."""
    rows = answer.get("coordinators")
    return rows[0] if rows else answer


def _coordinator_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    return ErrorCode.of(_coordinator_row(answer)["error_code"])


def _added_rows(answer: Answer) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    for topic in answer["results_by_topic_v3_and_below"]:
        for row in topic["results_by_partition"]:
            yield (topic["name"], row["partition_index"]), ErrorCode.of(row["partition_error_code"])


def _added_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    """The first one that ends the handling; else what keeps a partition out, its siblings last.

    Source: `AddPartitionsToTxnHandler.handleResponse`.
    """
    kept_out = []
    for _, error in _added_rows(answer):
        then = then_for(request.api_key, error)
        if then is Then.ABORT and error is not ErrorCode.TRANSACTION_ABORTABLE:
            kept_out.append(error)
        elif error is not ErrorCode.NONE:
            return error
    kept_out.sort(key=lambda error: error is ErrorCode.OPERATION_NOT_ATTEMPTED)
    return kept_out[0] if kept_out else ErrorCode.NONE


def _committed_rows(answer: Answer) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            yield (topic["name"], row["partition_index"]), ErrorCode.of(row["error_code"])


def _committed_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    """The first that ends the call, else one that asks for another coordinator, else any.

    The next attempt leaves out what is acknowledged. `TxnOffsetCommitHandler.handleResponse`.
    """
    errors = []
    for topic_partition, error in _committed_rows(answer):
        if error is ErrorCode.NONE:
            del request.offsets[topic_partition]
        else:
            errors.append(error)
    request.body = request.body | {"topics": offset_rows(request.offsets)}
    thens = [then_for(request.api_key, error) for error in errors]
    for error, then in zip(errors, thens, strict=True):
        if then in ENDS:
            return error
    if Then.LOOK_UP in thens:
        return errors[thens.index(Then.LOOK_UP)]
    return errors[0] if errors else ErrorCode.NONE


def _asked_partitions(request: TxnRequest) -> list[TopicPartition]:
    return [
        (topic["name"], partition)
        for topic in request.body["v3_and_below_topics"]
        for partition in topic["partitions"]
    ]


def _nothing(_: object) -> list[TopicPartition]:
    return []


_ERROR_OF: Final[Mapping[ApiKey, Callable[[TxnRequest, Answer], ErrorCode]]] = {
    ApiKey.INIT_PRODUCER_ID: _whole_error,
    ApiKey.ADD_PARTITIONS_TO_TXN: _added_error,
    ApiKey.ADD_OFFSETS_TO_TXN: _whole_error,
    ApiKey.TXN_OFFSET_COMMIT: _committed_error,
    ApiKey.END_TXN: _whole_error,
    ApiKey.FIND_COORDINATOR: _coordinator_error,
}
_ASKED: Final[Mapping[ApiKey, Callable[[TxnRequest], list[TopicPartition]]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _asked_partitions,
    ApiKey.TXN_OFFSET_COMMIT: lambda request: list(request.offsets),
}
_ANSWERED: Final[Mapping[ApiKey, Callable[[Answer], list[TopicPartition]]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: added_partitions,
    ApiKey.TXN_OFFSET_COMMIT: lambda answer: [row for row, _ in _committed_rows(answer)],
}
