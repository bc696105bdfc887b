"""What the answers to transactional requests mean to the producer.

1. `ANSWERS` has the action for each error code and API, a row a code and a column an API. Other
   errors are retried if they are retriable, and else get `OTHERWISE`.
2. An answer that omits a partition of its request, or names another, is malformed.
3. Of several errors in one answer, Kafka's client acts on one: these functions choose it.

Source: the `handleResponse` methods of `TransactionManager`, Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from impl.producer.errors import (
    AuthorizationError,
    DeliveryError,
    FatalProducerError,
    MalformedAnswerError,
    OffsetsRefusedError,
    ProducerFenced,
    TransactionAbortableError,
)
from impl.producer.transactional_requests import TxnRequest, offset_rows
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.schemas import ApiKey

Answer = Mapping[str, Any]
"""A response's body."""

BATCHED_KEYS_FROM: Final = 4
"""The first FindCoordinator version whose answers have a row for each key."""

ADD_PARTITIONS_RETRY_BACKOFF_MS: Final = 20
"""A shorter backoff: the first AddPartitionsToTxn waits only for the last transaction's markers."""


class Action(Enum):
    """What the producer does on an answer."""

    ACCEPT = "accept"
    RETRY = "retry after retry_backoff_ms"
    RETRY_SOON = "retry after 20 ms if nothing is in the transaction yet"
    LOOK_UP = "find the coordinator again, then retry"
    ABORT = "abortable error"
    ABORT_AND_BUMP = "abortable error and a new epoch if the coordinator can give one, else fatal"
    ABORT_UNLESS_ABORTING = "abortable error, fatal where the answer is to an abort"
    DEAUTHORIZE = "abortable error, then as before the first InitProducerId"
    LEAVE_GROUP = "abortable error: the consumer is no member of this generation"
    FENCE = "fatal: a newer producer has this transactional id"
    FAIL = "fatal error"


_COLUMNS: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.FIND_COORDINATOR,
)
_E = ErrorCode
_NO_COORDINATOR = (*[Action.LOOK_UP] * 5, Action.RETRY)
_FENCED = (*[Action.FENCE] * 5, Action.FAIL)
_FATAL = (Action.FAIL,) * 6
_NOT_A_MEMBER = (
    Action.FAIL,
    Action.ABORT,
    Action.FAIL,
    Action.LEAVE_GROUP,
    Action.FAIL,
    Action.FAIL,
)
_ROWS: Final[Mapping[ErrorCode, tuple[Action, ...]]] = {
    _E.NONE: (Action.ACCEPT,) * 6,
    _E.COORDINATOR_NOT_AVAILABLE: _NO_COORDINATOR,
    _E.NOT_COORDINATOR: _NO_COORDINATOR,
    _E.REQUEST_TIMED_OUT: (*[Action.RETRY] * 3, Action.LOOK_UP, Action.RETRY, Action.RETRY),
    _E.CONCURRENT_TRANSACTIONS: (Action.RETRY, Action.RETRY_SOON, *[Action.RETRY] * 4),
    _E.INVALID_PRODUCER_EPOCH: _FENCED,
    _E.PRODUCER_FENCED: _FENCED,
    _E.INVALID_PRODUCER_ID_MAPPING: _FATAL,
    _E.INVALID_TXN_STATE: _FATAL,
    _E.UNKNOWN_PRODUCER_ID: (
        Action.FAIL,
        Action.ABORT_AND_BUMP,
        Action.ABORT_AND_BUMP,
        Action.FAIL,
        Action.ABORT_AND_BUMP,
        Action.FAIL,
    ),
    _E.TRANSACTION_ABORTABLE: (*[Action.ABORT] * 4, Action.ABORT_UNLESS_ABORTING, Action.ABORT),
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (Action.DEAUTHORIZE, *[Action.FAIL] * 5),
    _E.CLUSTER_AUTHORIZATION_FAILED: (Action.DEAUTHORIZE, Action.ABORT, *[Action.FAIL] * 4),
    _E.GROUP_AUTHORIZATION_FAILED: (
        Action.FAIL,
        Action.ABORT,
        Action.ABORT,
        Action.ABORT,
        Action.FAIL,
        Action.ABORT,
    ),
    _E.FENCED_INSTANCE_ID: (
        Action.FAIL,
        Action.ABORT,
        Action.FAIL,
        Action.ABORT,
        Action.FAIL,
        Action.FAIL,
    ),
    _E.UNKNOWN_MEMBER_ID: _NOT_A_MEMBER,
    _E.ILLEGAL_GENERATION: _NOT_A_MEMBER,
}

ANSWERS: Final[Mapping[tuple[ApiKey, ErrorCode], Action]] = MappingProxyType(
    {
        (api_key, error): action
        for error, row in _ROWS.items()
        for api_key, action in zip(_COLUMNS, row, strict=True)
    }
)
"""(API, error) to action, as in the client of 4.x."""

OTHERWISE: Final[Mapping[ApiKey, Action]] = MappingProxyType(
    dict.fromkeys(_COLUMNS, Action.FAIL) | {ApiKey.ADD_PARTITIONS_TO_TXN: Action.ABORT}
)
"""The action on an error that has no row and is not retriable."""


def action_for(api_key: ApiKey, error: ErrorCode) -> Action:
    """The action on this answer."""
    found = ANSWERS.get((api_key, error))
    if found is not None:
        return found
    return Action.RETRY if error.is_retriable else OTHERWISE[api_key]


FAILURES: Final[Mapping[Action, type[DeliveryError]]] = {
    Action.ABORT: TransactionAbortableError,
    Action.ABORT_AND_BUMP: TransactionAbortableError,
    Action.ABORT_UNLESS_ABORTING: TransactionAbortableError,
    Action.DEAUTHORIZE: AuthorizationError,
    Action.LEAVE_GROUP: OffsetsRefusedError,
    Action.FENCE: ProducerFenced,
    Action.FAIL: FatalProducerError,
}
"""The actions that fail a call, and with which error."""


def decide_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    """The error that decides what follows; removes acknowledged offsets from the request."""
    return _DECIDE_ERROR[request.api_key](request, answer)


def check_answer(request: TxnRequest, answer: Answer) -> None:
    """Raise `MalformedAnswerError` if this cannot answer the request."""
    is_batched = request.looks_up is not None and request.api_version >= BATCHED_KEYS_FROM
    if is_batched and len(answer["coordinators"]) != 1:
        raise MalformedAnswerError(f"{len(answer['coordinators'])} coordinators, not one")
    asked = sorted(_ASKED.get(request.api_key, _nothing)(request))
    answered = sorted(_ANSWERED.get(request.api_key, _nothing)(answer))
    if asked != answered:
        raise MalformedAnswerError(f"asked for {asked}, answered for {answered}")


def added_partitions(answer: Answer) -> list[TopicPartition]:
    """The partitions of an AddPartitionsToTxn answer."""
    return [topic_partition for topic_partition, _ in _added_rows(answer)]


def coordinator_of(answer: Answer) -> int:
    """The node that an answer to FindCoordinator names."""
    node_id: int = _coordinator_row(answer)["node_id"]
    return node_id


def _top_level_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    return ErrorCode.of(answer["error_code"])


def _coordinator_row(answer: Answer) -> Answer:
    """From version 4 on answers have a list, with one row for this producer."""
    rows = answer.get("coordinators")
    return rows[0] if rows else answer


def _coordinator_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    return ErrorCode.of(_coordinator_row(answer)["error_code"])


def _added_rows(answer: Answer) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    for topic in answer["results_by_topic_v3_and_below"]:
        for row in topic["results_by_partition"]:
            yield (topic["name"], row["partition_index"]), ErrorCode.of(row["partition_error_code"])


def _added_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    """The first error that ends processing; else the first abortable one, the cause before those
    of partitions that were not attempted because of it.

    Source: `AddPartitionsToTxnHandler.handleResponse`.
    """
    abortable = []
    for _, error in _added_rows(answer):
        action = action_for(request.api_key, error)
        if action is Action.ABORT and error is not ErrorCode.TRANSACTION_ABORTABLE:
            abortable.append(error)
        elif error is not ErrorCode.NONE:
            return error
    abortable.sort(key=lambda found: found is ErrorCode.OPERATION_NOT_ATTEMPTED)
    return abortable[0] if abortable else ErrorCode.NONE


def _committed_rows(answer: Answer) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            yield (topic["name"], row["partition_index"]), ErrorCode.of(row["error_code"])


def _committed_error(request: TxnRequest, answer: Answer) -> ErrorCode:
    """The first error that fails the call, else one that needs a lookup, else the first.

    The next attempt omits acknowledged offsets. `TxnOffsetCommitHandler.handleResponse`.
    """
    errors = []
    for topic_partition, error in _committed_rows(answer):
        if error is ErrorCode.NONE:
            del request.offsets[topic_partition]
        else:
            errors.append(error)
    request.body = request.body | {"topics": offset_rows(request.offsets)}
    actions = [action_for(request.api_key, error) for error in errors]
    for error, action in zip(errors, actions, strict=True):
        if action in FAILURES:
            return error
    if Action.LOOK_UP in actions:
        return errors[actions.index(Action.LOOK_UP)]
    return errors[0] if errors else ErrorCode.NONE


def _asked_partitions(request: TxnRequest) -> list[TopicPartition]:
    return [
        (topic["name"], partition)
        for topic in request.body["v3_and_below_topics"]
        for partition in topic["partitions"]
    ]


def _nothing(_: object) -> list[TopicPartition]:
    return []


_DECIDE_ERROR: Final[Mapping[ApiKey, Callable[[TxnRequest, Answer], ErrorCode]]] = {
    ApiKey.INIT_PRODUCER_ID: _top_level_error,
    ApiKey.ADD_PARTITIONS_TO_TXN: _added_error,
    ApiKey.ADD_OFFSETS_TO_TXN: _top_level_error,
    ApiKey.TXN_OFFSET_COMMIT: _committed_error,
    ApiKey.END_TXN: _top_level_error,
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
