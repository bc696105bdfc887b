"""The Produce handler: it validates partitions, verifies transactions, then appends.

Seven rules:

1. A transactional batch needs a transactional id, and all those of a request one producer.
2. The first batch of a transaction in a partition waits for the transaction's coordinator, which
   below version 12 verifies that the partition was added, and from 12 on adds it (KIP-890).
3. A partition that the coordinator refuses is answered with its error; the others are appended.
4. From version 12 on CONCURRENT_TRANSACTIONS is retried every 20 ms, for 100 ms.
5. Checks run in Kafka's order: the partition exists, the batch's shape, verification, acks,
   internal topics, leadership.
6. QUIRK: whoever has the client id `__admin_client` may write to internal topics.
7. A partition that is repeated in a request is appended and answered once: its last valid records
   are appended, and its last refusal is answered, even if records were appended. A topic without
   partitions is not answered.

Sources: `KafkaApis.handleProduceRequest`, `ReplicaManager.handleProduceAppend`,
`maybeStartTransactionVerificationForPartition`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.coordinators import AddPartitionsRequest
from impl.broker.handler import Handler, HandlerContext
from impl.broker.leader_hints import LeaderHints
from impl.broker.outputs import DEFERRED, CloseConnection, DecodedRequest, Deferred
from impl.broker.topics import Topic
from impl.coordinator.metadata import TopicPartition
from impl.partition.leader import VALID_ACKS, PartitionLeader, ProduceOutcome
from impl.partition.validation import CORRUPT, first_batch, next_size
from impl.partition.verification import NO_GUARD
from impl.protocol.compression import Compression
from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.record_batch import (
    COMPRESSION_MASK,
    MAGIC,
    MAGIC_OFFSET,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    ProducerIdAndEpoch,
    read_header,
)
from impl.protocol.schemas import ApiKey

TOPIC_IDS_FROM: Final = 13
"""The first version of Produce that names topics by id."""

ZSTD_FROM: Final = 7
"""The first version that may carry zstd (KIP-110)."""

ABORTABLE_FROM: Final = 11
"""The first version whose clients understand TRANSACTION_ABORTABLE."""

LEADER_HINTS_FROM: Final = 10
"""The first version whose answer names the current leader."""

IMPLICIT_ADD_FROM: Final = 12
"""The first version that adds its partitions to the transaction: V2."""

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Clients that call themselves so may write to internal topics. `AdminUtils.ADMIN_CLIENT_ID`."""

_NOT_ADDED: Final = "Partition was not added to the transaction"
_ATTRIBUTES_OFFSET: Final = 22
_E = ErrorCode
_NONE: Final = ErrorCode.NONE
_new: Final = tuple.__new__

_UNAVAILABLE: Final = frozenset(
    {
        _E.CONCURRENT_TRANSACTIONS,
        _E.NETWORK_EXCEPTION,
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_COORDINATOR,
    }
)
"""SendAnswer as NOT_ENOUGH_REPLICAS, on which clients retry without a metadata request."""


class _PartitionData:
    """One partition of a request; `leader` is None if another node leads.

    `answered` is the refusal of other records for this partition.
    """

    __slots__ = (
        "answered",
        "guard",
        "header",
        "index",
        "is_internal",
        "leader",
        "outcome",
        "place",
        "records",
        "text",
    )

    def __init__(self, place: TopicPartition, records: bytes | None) -> None:
        self.place = place
        self.index = place.partition
        self.records = records
        self.leader: PartitionLeader | None = None
        self.is_internal = False
        self.header: BatchHeader | None = None
        self.guard = NO_GUARD
        self.outcome: ProduceOutcome | None = None
        self.answered: ProduceOutcome | None = None
        self.text: str | None = None

    def refuse(self, error: ErrorCode, text: str | None = None) -> None:
        self.outcome = ProduceOutcome.refuse(error)
        self.text = text

    def check_shape(self) -> None:
        """`ProduceRequest.validateRecords`."""
        shape = first_batch(self.records)
        if self.outcome is None and isinstance(shape, ErrorCode):
            self.refuse(shape)

    def replace(self, earlier: _PartitionData | None) -> _PartitionData:
        """The one of both to append. QUIRK: the other one's refusal is the answer."""
        if earlier is None:
            return self
        if self.outcome is None:
            self.answered = earlier.outcome or earlier.answered
        elif earlier.outcome is None:
            earlier.answered = self.outcome
            return earlier
        return self


class _ProduceRequest:
    """One Produce request in progress."""

    __slots__ = ("deadline_ms", "hints", "node", "parts", "request", "rows")

    def __init__(self, node: HandlerContext, request: DecodedRequest, now_ms: int) -> None:
        self.node = node
        self.request = request
        self.deadline_ms = now_ms + node.config.add_partitions_to_txn_retry_backoff_max_ms
        self.hints = LeaderHints(node, request, LEADER_HINTS_FROM)
        self.rows: list[tuple[Value, list[_PartitionData]]] = []
        whole = _refusal_of_whole_request(request.body)
        for asked in request.body["topics"]:
            self.rows.append((asked, self._parts_of(asked, whole)))
        self.parts = self._all_parts()
        if len(self.parts) > 1 and len({part.place for part in self.parts}) < len(self.parts):
            self._merge_repeated()

    def _all_parts(self) -> list[_PartitionData]:
        return [part for _, parts in self.rows for part in parts]

    def _merge_repeated(self) -> None:
        """Keep one row for each topic, and one for each of its partitions."""
        topics: dict[tuple[str, bytes], tuple[Value, dict[int, _PartitionData]]] = {}
        for asked, parts in self.rows:
            _, merged = topics.setdefault((asked["name"], asked["topic_id"]), (asked, {}))
            for part in parts:
                part.check_shape()
                merged[part.index] = part.replace(merged.get(part.index))
        self.rows = [(asked, list(merged.values())) for asked, merged in topics.values()]
        self.parts = self._all_parts()

    def _parts_of(self, asked: Value, whole: ErrorCode) -> list[_PartitionData]:
        by_id = self.request.version >= TOPIC_IDS_FROM
        topic = self.node.topics.find(asked["topic_id" if by_id else "name"])
        parts = []
        for row in asked["partitions"]:
            name = topic.name if isinstance(topic, Topic) else asked["name"]
            place = _new(TopicPartition, (name, row["index"]))
            part = _PartitionData(place, row["records"])
            error = whole or self._place(part, topic)
            if error:
                part.refuse(error)
            parts.append(part)
        return parts

    def _place(self, part: _PartitionData, topic: Topic | ErrorCode) -> ErrorCode:
        """Find the partition's leader and header. `ProduceRequest.validateRecords`."""
        if not isinstance(topic, Topic):
            return topic
        leader = self.node.leader(topic, part.index)
        if isinstance(leader, PartitionLeader):
            part.leader = leader
        elif leader is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return leader
        part.is_internal = topic.is_internal and self.request.client_id != ADMIN_CLIENT_ID
        part.header = _transactional_header(part.records)
        if part.leader is None or part.is_internal or part.header is not None:
            # For all others the leader validates the shape.
            shape = first_batch(part.records)
            if isinstance(shape, ErrorCode):
                return shape
        if self.request.version < ZSTD_FROM and _is_zstd(part.records):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return _NONE

    # ---- verification

    @property
    def is_v2(self) -> bool:
        return self.request.version >= IMPLICIT_ADD_FROM

    def begin(self, now_ms: int) -> Value | Deferred | None:
        headers = self._headers()
        if len(headers) > 1 and len({(h.producer_id, h.producer_epoch) for h in headers}) > 1:
            for part in self.parts:
                part.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        unverified = self._begin_verification(now_ms)
        if not unverified:
            return self._finish(now_ms)
        self._verify(unverified, now_ms)
        return DEFERRED

    def _headers(self) -> list[BatchHeader]:
        return [part.header for part in self.parts if part.header is not None]

    def _begin_verification(self, now_ms: int) -> list[_PartitionData]:
        """The parts whose transaction is not open in their partition yet."""
        waiting = []
        for part in self.parts:
            if part.outcome or part.header is None or not self._needs_verification(part):
                continue
            if part.leader is None:
                part.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            begun = part.leader.begin_verification(
                part.header.producer_id,
                part.header.producer_epoch,
                part.header.base_sequence,
                supports_epoch_bump=self.is_v2,
                now_ms=now_ms,
            )
            part.guard = begun.guard
            if begun.error:
                part.refuse(begun.error)
            elif begun.guard != NO_GUARD:
                waiting.append(part)
        return waiting

    def _needs_verification(self, part: _PartitionData) -> bool:
        return self.is_v2 or (part.leader is not None and part.leader.log.rules.verifies)

    def _verify(self, unverified: list[_PartitionData], now_ms: int) -> None:
        header = unverified[0].header
        assert header is not None
        request = AddPartitionsRequest(
            self.request.body["transactional_id"],
            ProducerIdAndEpoch(header.producer_id, header.producer_epoch),
            [part.place for part in unverified],
            verify_only=not self.is_v2,
            callback=lambda errors, now: self._on_verified(unverified, errors, now),
        )
        self.node.verification.add_or_verify(request, now_ms)

    def _on_verified(
        self,
        unverified: list[_PartitionData],
        errors: Mapping[TopicPartition, ErrorCode],
        now_ms: int,
    ) -> None:
        is_busy = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if self.is_v2 and is_busy and now_ms < self.deadline_ms:
            backoff_ms = self.node.config.add_partitions_to_txn_retry_backoff_ms
            self.node.schedule(now_ms + backoff_ms, self._retry)
            return
        for part in unverified:
            error = error_for_version(
                errors.get(part.place, ErrorCode.UNKNOWN_SERVER_ERROR), self.request.version
            )
            if error:
                part.refuse(error, _NOT_ADDED if error is _E.INVALID_TXN_STATE else None)
        self._answer(now_ms)

    def _retry(self, now_ms: int) -> None:
        unverified = self._begin_verification(now_ms)
        if unverified:
            self._verify(unverified, now_ms)
        else:
            self._answer(now_ms)

    # ---- append and answer

    def _answer(self, now_ms: int) -> None:
        try:
            self.node.answer(self.request, self._finish(now_ms))
        except CloseConnection as error:
            self.node.close(self.request, str(error))

    def _finish(self, now_ms: int) -> Value | None:
        acks = self.request.body["acks"]
        topics = []
        for asked, parts in self.rows:
            rows = [self._row(part, _outcome(part, acks, now_ms)) for part in parts]
            if rows:
                topics.append(
                    {"name": asked["name"], "topic_id": asked["topic_id"], "partitions": rows}
                )
        if acks:
            return {"topics": topics, "node_endpoints": list(self.hints.endpoints.values())}
        failed = [row for topic in topics for row in topic["partitions"] if row["error_code"]]
        if failed:
            raise CloseConnection(f"an acks=0 request failed: {failed[0]['error_code']!r}")
        return None

    def _row(self, part: _PartitionData, outcome: ProduceOutcome) -> Value:
        row = _row(part.index, outcome)
        if part.text:
            row["error_message"] = part.text
        if outcome.record_errors:
            row |= _record_errors(part, outcome)
        if outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            row |= self.hints.row(self.node.topics.get(part.place.topic), part.index)
        return row


def error_for_version(error: ErrorCode, version: int) -> ErrorCode:
    """A coordinator's error as this version of Produce answers it."""
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version >= IMPLICIT_ADD_FROM:
        return error
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _UNAVAILABLE else error


def produce(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value | Deferred | None:
    """`KafkaApis.handleProduceRequest`. Raises `CloseConnection` (acks=0)."""
    return _ProduceRequest(node, request, now_ms).begin(now_ms)


def _outcome(part: _PartitionData, acks: int, now_ms: int) -> ProduceOutcome:
    """What is answered; the records are appended first, unless they were refused."""
    outcome = part.outcome or _append(part, acks, now_ms)
    return part.answered or outcome


def _append(part: _PartitionData, acks: int, now_ms: int) -> ProduceOutcome:
    """Append. All replicas share the log: none that is in sync has yet to get the records."""
    leader = part.leader
    if leader is None or part.is_internal:
        return ProduceOutcome.refuse(_refusal_of_partition(part, acks))
    outcome = leader.produce(part.records, required_acks=acks, now_ms=now_ms, guard=part.guard)
    leader.advance_as_replicated()
    return outcome


def _refusal_of_partition(part: _PartitionData, acks: int) -> ErrorCode:
    """Why this partition accepts no append. `ReplicaManager.appendRecords`, `appendToLocalLog`."""
    if acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if part.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def _row(index: int, outcome: ProduceOutcome) -> Value:
    return {
        "index": index,
        "error_code": outcome.error,
        "base_offset": outcome.base_offset,
        "log_append_time_ms": outcome.log_append_time_ms,
        "log_start_offset": outcome.log_start_offset,
    }


def _record_errors(part: _PartitionData, outcome: ProduceOutcome) -> Value:
    """What a client is told of single records. `LogValidator.processRecordErrors`."""
    place = f"{part.place.topic}-{part.place.partition}"
    rows = [(index, text.format(place)) for index, text in outcome.record_errors]
    told = ", ".join(f"RecordError(batchIndex={i}, message='{text}')" for i, text in rows[:3])
    reason = (
        "invalid timestamp"
        if outcome.error is ErrorCode.INVALID_TIMESTAMP
        else f"{len(rows)} record errors in total, and only showing the first three errors at "
        f"most: [{told}]"
    )
    return {
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": text} for index, text in rows
        ],
        "error_message": f"One or more records have been rejected due to {reason}",
    }


def _attributes(records: bytes | None) -> int:
    """The low byte of the first batch's attributes; 0 if there is no whole batch of magic 2."""
    if records is None or len(records) <= _ATTRIBUTES_OFFSET or records[MAGIC_OFFSET] != MAGIC:
        return 0
    attributes = records[_ATTRIBUTES_OFFSET]
    return attributes if attributes and (next_size(records, 0) or 0) > 0 else 0


def _is_transactional(records: bytes | None) -> bool:
    return bool(_attributes(records) & TRANSACTIONAL)


def _is_zstd(records: bytes | None) -> bool:
    return _attributes(records) & COMPRESSION_MASK == Compression.ZSTD


def _transactional_header(records: bytes | None) -> BatchHeader | None:
    """The header of a transactional batch; None for others, and for bytes the leader will refuse.

    QUIRK: without a producer id it belongs to no transaction. `ReplicaManager.handleProduceAppend`.
    """
    if records is None or not _is_transactional(records):
        return None
    try:
        header = read_header(records)
    except DecodeError:
        return None
    return header if header.producer_id > NO_PRODUCER_ID else None


def _refusal_of_whole_request(body: Value) -> ErrorCode:
    """A transactional batch needs a transactional id.

    QUIRK: a corrupt batch before it is an error of all partitions.
    """
    for records in _all_records(body):
        if records is not None and next_size(records, 0) == CORRUPT:
            return ErrorCode.CORRUPT_MESSAGE
        if _is_transactional(records):
            is_named = body["transactional_id"] is not None
            return _NONE if is_named else _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return _NONE


def is_transactional_request(body: Value) -> bool:
    """Whether a batch of the request is transactional."""
    return any(map(_is_transactional, _all_records(body)))


def _all_records(body: Value) -> Iterator[bytes | None]:
    for topic in body["topics"]:
        for partition in topic["partitions"]:
            yield partition["records"]


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType({ApiKey.PRODUCE: produce})
