"""The requests of transactions, typed, and a pipelining client for one connection.

Three rules:

1. A `WireCall` is a request with the reader of its answer; callers decide who sends it, and when.
2. A `Conversation` has the versions that one client uses; V1 and V2 differ only in these.
3. An error is an answer here, never an exception: tests look for what a broker refuses.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Generic, Literal, TypeVar

from conformance.adapters.brokers.kafka.admin import Supported, TopicPartition
from conformance.adapters.brokers.kafka.connection import (
    USUAL_IN_FLIGHT,
    BrokerConnection,
    WireRequest,
)
from conformance.adapters.brokers.kafka.errors import RequestRefused
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

A = TypeVar("A", covariant=True)
B = TypeVar("B")

ALL_REPLICAS: Final = -1
BUSY_TIMEOUT_S: Final = 15.0
"""How long requests to a busy server are repeated."""
PRODUCE_TIMEOUT_MS: Final = 4_000
TRANSACTION_TIMEOUT_MS: Final = 60_000

_BUSY_PAUSE_S: Final = 0.005
_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIND_COORDINATOR_VERSION: Final = 3

BUSY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,  # Produce up to 11 says so for CONCURRENT_TRANSACTIONS
    }
)
"""Errors after which a client retries by itself."""


@dataclass(frozen=True, slots=True)
class WireCall(Generic[A]):
    """A request, and the reader of its answer."""

    request: WireRequest
    read: Callable[[Value], A]


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The sender of a request: a transactional id, with the producer id and epoch that it believes
    it has."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def at(self, producer_epoch: int) -> ClientIdentity:
        """The same with another epoch."""
        return replace(self, producer_epoch=producer_epoch)


@dataclass(frozen=True, slots=True)
class Identified:
    """The answer of InitProducerId and EndTxn; -1 if it names no producer (EndTxn below 5)."""

    error: ErrorCode
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Produced:
    """The answer for the one partition of a Produce; the offset is -1 with an error."""

    error: ErrorCode
    base_offset: int


@dataclass(frozen=True, slots=True)
class PerPartition:
    """An answer with an error for the whole (NONE if it has none) and one for each partition."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode]

    @property
    def only(self) -> ErrorCode:
        """The error of the whole, else that of the one partition."""
        if self.error is not ErrorCode.NONE:
            return self.error
        [error] = self.partitions.values()
        return error


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The address of a coordinator."""

    error: ErrorCode
    node_id: int
    address: tuple[str, int]


@dataclass(frozen=True, slots=True)
class TxnMarker:
    """The end of a transaction at some partitions, as its coordinator writes it to their leaders.

    `transaction_version` is sent from version 2 of the request on (KIP-1228).
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Sequence[TopicPartition]
    coordinator_epoch: int = 0
    transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """The member that commits offsets; the defaults are those of a client without group
    management."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""


class CoordinatorConnection:
    """One connection on which calls are sent one by one, or ahead of their answers."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.connection = connection
        self._sent: deque[WireCall[Any]] = deque()

    def ask(self, call: WireCall[A]) -> A:
        """Send one call and read its answer. Raises what `Connection.ask` raises,
        RequestRefused."""
        request = call.request
        return call.read(self.connection.ask(request.api_key, request.api_version, request.body))

    def send(self, call: WireCall[Any]) -> None:
        """Send one call; `receive` returns the answers in order. Raises as `Connection.send`."""
        request = call.request
        self.connection.send(request.api_key, request.api_version, request.body)
        self._sent.append(call)

    def receive(self, timeout_ms: int | None = None) -> Any:
        """The answer to the oldest call that was sent. Raises as `Connection.receive`."""
        answer = self.connection.receive(timeout_ms)
        return self._sent.popleft().read(answer.body)

    def pipeline(self, calls: Sequence[WireCall[A]], in_flight: int = USUAL_IN_FLIGHT) -> list[A]:
        """Send all, `in_flight` ahead of their answers. Raises as `Connection.pipeline`."""
        answers = self.connection.pipeline((call.request for call in calls), in_flight)
        return [call.read(answer.body) for call, answer in zip(calls, answers, strict=True)]

    def retry(self, call: WireCall[A], timeout_s: float = BUSY_TIMEOUT_S) -> A:
        """Repeat a call until its answer is no longer in BUSY; the last answer after
        `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while (answer := self.ask(call)) and error_in(answer) in BUSY:
            if time.monotonic() > deadline:
                break
            time.sleep(_BUSY_PAUSE_S)
        return answer

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The versions that a client speaks, and its requests in them.

    V1: partitions are registered (AddPartitionsToTxn 3), Produce up to 11, EndTxn and
    TxnOffsetCommit up to 4. V2 (KIP-890): Produce 12, EndTxn 5, TxnOffsetCommit 5.
    """

    init_producer_id_version: int
    add_partitions_version: int
    produce_version: int
    add_offsets_version: int
    txn_offset_commit_version: int
    end_txn_version: int
    write_txn_markers_version: int

    @property
    def transaction_version(self) -> int:
        """The version that coordinators write to leaders for a transaction that was ended in this
        way (KIP-1228)."""
        return 2 if self.end_txn_version >= 5 else 0

    def init_producer_id(
        self,
        transactional_id: str | None,
        expected: tuple[int, int] = (-1, -1),
        *,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> WireCall[Identified]:
        """Ask for an identity; `expected` is the producer id and epoch that the client has."""
        body = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "producer_id": expected[0],
            "producer_epoch": expected[1],
        }
        request = WireRequest(ApiKey.INIT_PRODUCER_ID, self.init_producer_id_version, body)
        return WireCall(request, _identified)

    def add_partitions(
        self,
        producer: ClientIdentity,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool = False,
    ) -> WireCall[PerPartition]:
        """Register partitions: a client's form up to version 3, between brokers from 4 on."""
        version = self.add_partitions_version
        topics = _topics(partitions, "partitions")
        if version <= 3:
            body = {f"v3_and_below_{k}": v for k, v in _who(producer).items()}
            body |= {"v3_and_below_topics": topics}
        else:
            one = {**_who(producer), "verify_only": verify_only, "topics": topics}
            body = {"transactions": [one]}
        return WireCall(WireRequest(ApiKey.ADD_PARTITIONS_TO_TXN, version, body), _added)

    def produce(
        self,
        producer: ClientIdentity,
        partition: TopicPartition,
        base_sequence: int,
        *values: str,
        is_transactional: bool = True,
        acks: int = ALL_REPLICAS,
        age_ms: int = 0,
    ) -> WireCall[Produced]:
        """Write one batch; the request names the transactional id if the batch is transactional.
        Its records were made `age_ms` ago."""
        batch = _batch(producer, base_sequence, values, is_transactional, age_ms)
        name, index = partition
        body = {
            "transactional_id": producer.transactional_id if is_transactional else None,
            "acks": acks,
            "timeout_ms": PRODUCE_TIMEOUT_MS,
            "topics": [{"name": name, "partitions": [{"index": index, "records": batch}]}],
        }
        return WireCall(WireRequest(ApiKey.PRODUCE, self.produce_version, body), _produced)

    def add_offsets(self, producer: ClientIdentity, group_id: str) -> WireCall[ErrorCode]:
        """Register the offsets of a group."""
        body = {**_who(producer), "group_id": group_id}
        return WireCall(
            WireRequest(ApiKey.ADD_OFFSETS_TO_TXN, self.add_offsets_version, body), _error
        )

    def txn_offset_commit(
        self,
        producer: ClientIdentity,
        group: GroupMembership,
        partition: TopicPartition,
        offset: int,
    ) -> WireCall[PerPartition]:
        """Commit one offset of a group in the transaction."""
        one: Value = {"partition_index": partition[1], "committed_offset": offset}
        one |= {"committed_metadata": ""}
        body = {
            **_who(producer),
            "group_id": group.group_id,
            "generation_id": group.generation_id,
            "member_id": group.member_id,
            "topics": [{"name": partition[0], "partitions": [one]}],
        }
        request = WireRequest(ApiKey.TXN_OFFSET_COMMIT, self.txn_offset_commit_version, body)
        return WireCall(request, _flat)

    def end_txn(self, producer: ClientIdentity, committed: bool) -> WireCall[Identified]:
        """Commit or abort."""
        body = {**_who(producer), "committed": committed}
        return WireCall(WireRequest(ApiKey.END_TXN, self.end_txn_version, body), _identified)

    def write_txn_markers(self, marker: TxnMarker) -> WireCall[PerPartition]:
        """A coordinator's request to a leader when a transaction ends."""
        one = {
            "producer_id": marker.producer_id,
            "producer_epoch": marker.producer_epoch,
            "transaction_result": marker.committed,
            "topics": _topics(marker.partitions, "partition_indexes"),
            "coordinator_epoch": marker.coordinator_epoch,
            "transaction_version": marker.transaction_version,
        }
        version = self.write_txn_markers_version
        return WireCall(WireRequest(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [one]}), _marked)


Requests = Literal["v1", "v2"]
"""V1 and V2 are conversations of a client; clusters have levels."""

_NEWEST: Final[Mapping[Requests, Mapping[ApiKey, int]]] = {
    "v1": {
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.PRODUCE: 11,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
        ApiKey.END_TXN: 4,
        ApiKey.WRITE_TXN_MARKERS: 2,
    },
    "v2": {
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.PRODUCE: 12,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 5,
        ApiKey.END_TXN: 5,
        ApiKey.WRITE_TXN_MARKERS: 2,
    },
}
_V2_WANTS: Final = (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)


def speaks(supported: Supported, requests: Requests) -> bool:
    """Whether a broker serves the requests at all: V2 begins with 4.0."""
    newest = _NEWEST[requests]
    return requests == "v1" or all(newest[api] <= supported.versions[api][1] for api in _V2_WANTS)


def conversation(supported: Supported, requests: Requests) -> Conversation:
    """The newest versions of the kind that a broker serves. Raises RequestRefused."""
    if not speaks(supported, requests):
        raise RequestRefused(f"the broker does not serve {requests} requests")
    newest = _NEWEST[requests]
    return Conversation(
        *(min(newest[api], supported.versions.get(api, (0, 0))[1]) for api in newest)
    )


def find_coordinator(key: str, *, of_group: bool = False) -> WireCall[Coordinator]:
    """Ask for the coordinator of a transactional id, or of a group."""
    body = {"key": key, "key_type": _GROUP if of_group else _TRANSACTION}
    request = WireRequest(ApiKey.FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, body)
    return WireCall(request, _coordinator)


def error_of(number: int) -> ErrorCode:
    """The error with this number. Raises RequestRefused if the table of errors lacks it."""
    try:
        return ErrorCode(number)
    except ValueError as unknown:
        raise RequestRefused(f"error {number} is not in the table of errors") from unknown


def error_in(answer: object) -> ErrorCode:
    """The error that stands for an answer: that of its one partition if it has several errors."""
    if isinstance(answer, ErrorCode):
        return answer
    if isinstance(answer, PerPartition):
        errors = {answer.error, *answer.partitions.values()} - {ErrorCode.NONE}
        return min(errors, default=ErrorCode.NONE)
    assert isinstance(answer, Identified | Produced | Coordinator)
    return answer.error


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions by the name of their topic."""
    grouped = groupby(sorted(partitions), key=lambda pair: pair[0])
    return {name: [index for _, index in group] for name, group in grouped}


def _topics(partitions: Iterable[TopicPartition], field: str) -> list[Value]:
    return [{"name": name, field: indexes} for name, indexes in by_topic(partitions).items()]


def _who(producer: ClientIdentity) -> dict[str, Any]:
    return {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }


def _batch(
    producer: ClientIdentity,
    base_sequence: int,
    values: Sequence[str],
    is_transactional: bool,
    age_ms: int,
) -> bytes:
    made_ms = time.time_ns() // 1_000_000 - age_ms
    records = [Record(i, made_ms, None, value.encode()) for i, value in enumerate(values)]
    batch = client_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    return encode_batch(batch)


def _error(body: Value) -> ErrorCode:
    return error_of(body["error_code"])


def _identified(body: Value) -> Identified:
    return Identified(_error(body), body["producer_id"], body["producer_epoch"])


def _produced(body: Value) -> Produced:
    [topic] = body["topics"]
    [partition] = topic["partitions"]
    return Produced(error_of(partition["error_code"]), partition["base_offset"])


def _flat(body: Value) -> PerPartition:
    return PerPartition(ErrorCode.NONE, _errors(body["topics"], "partitions", "partition_index"))


def _added(body: Value) -> PerPartition:
    rows = body["results_by_topic_v3_and_below"] or [
        topic for one in body["results_by_transaction"] or [] for topic in one["topic_results"]
    ]
    found = {
        (topic["name"], row["partition_index"]): error_of(row["partition_error_code"])
        for topic in rows
        for row in topic["results_by_partition"]
    }
    return PerPartition(error_of(body["error_code"] or 0), found)


def _marked(body: Value) -> PerPartition:
    [marker] = body["markers"]
    errors = _errors(marker["topics"], "partitions", "partition_index")
    return PerPartition(ErrorCode.NONE, errors)


def _errors(topics: Sequence[Value], rows: str, index: str) -> dict[TopicPartition, ErrorCode]:
    return {
        (topic["name"], row[index]): error_of(row["error_code"])
        for topic in topics
        for row in topic[rows]
    }


def _coordinator(body: Value) -> Coordinator:
    return Coordinator(_error(body), body["node_id"], (body["host"], body["port"]))
