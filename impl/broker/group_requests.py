"""Handlers of group offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch.

Three rules:

1. An unknown topic or partition is answered with its own error; the other rows are committed.
2. A transactional commit is verified, from version 5 on added, as a transactional batch is: the
   partition concerned is the group's own in `__consumer_offsets` (KIP-890).
3. A commit is appended, replicated, applied to the state, and then answered.

Sources: `KafkaApis.handleOffsetCommitRequest`, `handleTxnOffsetCommitRequest`,
`handleOffsetFetchRequest`, `GroupCoordinatorService.commitTransactionalOffsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from impl.broker.coordinators import AddPartitionsRequest
from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DEFERRED, DecodedRequest, Deferred
from impl.broker.topics import Topic
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.offsets import (
    ANY_VERSION,
    CommitDecision,
    FetchedOffset,
    OffsetToCommit,
    RowError,
)
from impl.coordinator.offsets_groups import Committer
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.partition.leader import PartitionLeader
from impl.partition.verification import NO_GUARD
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import topic_rows
from impl.protocol.message_form import Value
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import NO_SEQUENCE, ProducerIdAndEpoch
from impl.protocol.schemas import ApiKey

ABORTABLE_FROM: Final = 4
"""The first TxnOffsetCommit version whose clients understand TRANSACTION_ABORTABLE."""

IMPLICIT_ADD_FROM: Final = 5
"""The first TxnOffsetCommit version that adds its partition to the transaction: V2."""

COMMIT_TOPIC_IDS_FROM: Final = 10
FETCH_TOPIC_IDS_FROM: Final = 10
MANY_GROUPS_FROM: Final = 8
GROUP_ERROR_FROM: Final = 2
"""The first OffsetFetch version with an error for the group as a whole."""


class _CommitRows:
    """The rows of a commit: those to be committed, and the errors of the others."""

    __slots__ = ("by_id", "errors", "request", "rows")

    def __init__(self, node: HandlerContext, request: DecodedRequest) -> None:
        self.request = request
        is_plain = request.api_key is ApiKey.OFFSET_COMMIT
        self.by_id = is_plain and request.version >= COMMIT_TOPIC_IDS_FROM
        self.rows: list[OffsetToCommit] = []
        self.errors: dict[tuple[str | bytes, int], ErrorCode] = {}
        for asked in request.body["topics"]:
            key = self._key(asked)
            topic = node.topics.find(key)
            for row in asked["partitions"]:
                index = row["partition_index"]
                if isinstance(topic, ErrorCode):
                    self.errors[key, index] = topic
                elif topic.partition(index) is None:
                    self.errors[key, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    self.rows.append(_offset(topic, row))

    def _key(self, asked: Value) -> str | bytes:
        """The topic's id or name, whichever this version uses."""
        key: str | bytes = asked["topic_id" if self.by_id else "name"]
        return key

    def rows_with(self, error: ErrorCode) -> tuple[RowError, ...]:
        """All rows to be committed, with the same error."""
        return tuple(RowError(row.topic, row.partition, error) for row in self.rows)

    def answer(self, node: HandlerContext, committed: Sequence[RowError]) -> Value:
        """The answer, in the order of the request; a topic without partitions has no row."""
        errors: dict[tuple[str | bytes, int], ErrorCode]
        errors = {(row.topic, row.partition): row.error for row in committed}
        topics = []
        for asked in (row for row in self.request.body["topics"] if row["partitions"]):
            key = self._key(asked)
            topic = node.topics.find(key)
            name = key if isinstance(topic, ErrorCode) else topic.name
            rows = []
            for index in (row["partition_index"] for row in asked["partitions"]):
                error = self.errors.get((key, index)) or errors[name, index]
                rows.append({"partition_index": index, "error_code": error})
            topic_id = asked.get("topic_id", ZERO_UUID)
            topics.append({"name": asked["name"], "topic_id": topic_id, "partitions": rows})
        return {"topics": topics}


def _offset(topic: Topic, row: Value) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        row["partition_index"],
        row["committed_offset"],
        row["committed_leader_epoch"],
        row["committed_metadata"],
        topic_id=topic.topic_id,
    )


def _append(
    node: HandlerContext,
    partition: int,
    decision: CommitDecision,
    guard: int,
    version: int,
    now_ms: int,
) -> Sequence[RowError]:
    """Append a decision's batch, if it has one; the error of each row."""
    if decision.batch is None:
        return decision.rows
    offsets = node.coordinators.offsets
    leader = _leader(node, partition)
    if isinstance(leader, ErrorCode):
        return offsets.on_append_error(decision.rows, leader, txn_version=version)
    error = node.coordinators.append_offsets(leader, partition, decision.batch, now_ms, guard)
    if error:
        return offsets.on_append_error(decision.rows, error, txn_version=version)
    return decision.rows


def _leader(node: HandlerContext, partition: int) -> PartitionLeader | ErrorCode:
    return node.leader(node.topics.get(OFFSETS_TOPIC), partition)


# ---- OffsetCommit


def offset_commit(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Commit outside a transaction."""
    body, offsets = request.body, node.coordinators.offsets
    commit = _CommitRows(node, request)
    committer = Committer(
        body["generation_id_or_member_epoch"], body["member_id"], body["group_instance_id"]
    )
    decision = offsets.commit(
        body["group_id"],
        committer,
        commit.rows,
        now_ms=now_ms,
        api_version=request.version,
        retention_time_ms=body["retention_time_ms"],
    )
    if decision.batch is not None:
        node.coordinators.memberships.groups.restart_session(
            body["group_id"], committer.member_id, now_ms
        )
    partition = offsets.partition_of(body["group_id"])
    committed = _append(node, partition, decision, NO_GUARD, ANY_VERSION, now_ms)
    return commit.answer(node, committed)


# ---- TxnOffsetCommit


class _TransactionalCommit:
    """One TxnOffsetCommit in progress."""

    __slots__ = ("commit", "node", "partition", "producer", "request")

    def __init__(self, node: HandlerContext, request: DecodedRequest) -> None:
        body = request.body
        self.node = node
        self.request = request
        self.commit = _CommitRows(node, request)
        self.producer = ProducerIdAndEpoch(body["producer_id"], body["producer_epoch"])
        self.partition = node.coordinators.offsets.partition_of(body["group_id"])

    def begin(self, now_ms: int) -> Value | Deferred:
        offsets = self.node.coordinators.offsets
        found = offsets.find(self.request.body["group_id"], may_be_empty=False)
        leader = found if isinstance(found, ErrorCode) else _leader(self.node, self.partition)
        if isinstance(leader, ErrorCode):
            return self._refuse(leader)
        if not self.commit.rows:
            return self.commit.answer(self.node, ())
        is_v2 = self.request.version >= IMPLICIT_ADD_FROM
        if not is_v2 and not leader.log.rules.verifies:
            return self._commit(NO_GUARD, now_ms)
        begun = leader.begin_verification(
            *self.producer, NO_SEQUENCE, supports_epoch_bump=is_v2, now_ms=now_ms
        )
        if begun.error:
            return self._refuse(begun.error)
        if begun.guard == NO_GUARD:
            return self._commit(NO_GUARD, now_ms)
        request = AddPartitionsRequest(
            self.request.body["transactional_id"],
            self.producer,
            [self._place],
            verify_only=not is_v2,
            callback=lambda errors, now: self._on_verified(begun.guard, errors, now),
        )
        self.node.verification.add_or_verify(request, now_ms)
        return DEFERRED

    @property
    def _place(self) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self.partition)

    def _on_verified(
        self, guard: int, errors: Mapping[TopicPartition, ErrorCode], now_ms: int
    ) -> None:
        found = errors.get(self._place, ErrorCode.UNKNOWN_SERVER_ERROR)
        error = error_for_version(found, self.request.version)
        answer = self._refuse(error) if error else self._commit(guard, now_ms)
        self.node.answer(self.request, answer)

    def _refuse(self, error: ErrorCode) -> Value:
        rows = self.commit.rows_with(error)
        offsets = self.node.coordinators.offsets
        refused = offsets.on_append_error(rows, error, txn_version=self.request.version)
        return self.commit.answer(self.node, refused)

    def _commit(self, guard: int, now_ms: int) -> Value:
        body = self.request.body
        decision = self.node.coordinators.offsets.commit_in_transaction(
            body["group_id"],
            Committer(body["generation_id"], body["member_id"], body["group_instance_id"]),
            self.commit.rows,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            now_ms=now_ms,
            api_version=self.request.version,
        )
        version = self.request.version
        committed = _append(self.node, self.partition, decision, guard, version, now_ms)
        return self.commit.answer(self.node, committed)


def error_for_version(error: ErrorCode, version: int) -> ErrorCode:
    """A coordinator's error as this version of TxnOffsetCommit answers it."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error


def txn_offset_commit(
    node: HandlerContext, request: DecodedRequest, now_ms: int
) -> Value | Deferred:
    """Commit offsets that take effect when their transaction commits."""
    return _TransactionalCommit(node, request).begin(now_ms)


# ---- OffsetFetch


def offset_fetch(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """The offsets of one group; from version 8 on of several."""
    body = request.body
    stable = body["require_stable"]
    if request.version >= MANY_GROUPS_FROM:
        return {"groups": [_fetch_group(node, request, group, stable) for group in body["groups"]]}
    answer = _fetch_group(node, request, body, stable)
    if request.version < GROUP_ERROR_FROM and answer["error_code"]:
        answer["topics"] = _error_rows(body["topics"], answer["error_code"])
    return answer


def _fetch_group(
    node: HandlerContext, request: DecodedRequest, asked: Value, require_stable: bool
) -> Value:
    """One group's rows, as they are asked for, repeated and empty ones included.

    Topic ids without a topic are answered with UNKNOWN_TOPIC_ID.
    """
    by_id = request.version >= FETCH_TOPIC_IDS_FROM
    topics, unknown, known = asked["topics"], [], []
    for row in topics or ():
        name = _topic_name(node, row, by_id=by_id)
        if name is None:
            unknown.append(row)
        else:
            known.append((name, row["partition_indexes"]))
    wanted = [(name, index) for name, indexes in known for index in indexes]
    fetched = node.coordinators.offsets.fetch(
        asked["group_id"],
        None if topics is None else wanted,
        require_stable=require_stable,
        member_id=asked.get("member_id"),
        member_epoch=asked.get("member_epoch", -1),
    )
    if topics is None:
        rows = topic_rows((row.topic, _offset_row(row)) for row in fetched.rows)
    elif fetched.error:
        rows = []
    else:
        found = {(row.topic, row.partition): _offset_row(row) for row in fetched.rows}
        rows = [
            {"name": name, "partitions": [found[name, index] for index in indexes]}
            for name, indexes in known
        ]
    rows = [row | {"topic_id": _topic_id(node, row["name"])} for row in rows]
    return {
        "group_id": asked["group_id"],
        "error_code": fetched.error,
        "topics": rows
        if fetched.error
        else rows + _error_rows(unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    }


def _topic_name(node: HandlerContext, row: Value, *, by_id: bool) -> str | None:
    if not by_id:
        return str(row["name"])
    topic = node.topics.find(row["topic_id"])
    return None if isinstance(topic, ErrorCode) else topic.name


def _topic_id(node: HandlerContext, name: str) -> bytes:
    topic = node.topics.get(name)
    return ZERO_UUID if topic is None else topic.topic_id


def _offset_row(row: FetchedOffset) -> Value:
    return {
        "partition_index": row.partition,
        "committed_offset": row.offset,
        "committed_leader_epoch": row.leader_epoch,
        "metadata": row.metadata,
        "error_code": row.error,
    }


def _error_rows(topics: Iterable[Value], error: ErrorCode) -> list[Value]:
    return [
        {
            "name": topic.get("name", ""),
            "topic_id": topic.get("topic_id", ZERO_UUID),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": -1,
                    "metadata": "",
                    "error_code": error,
                }
                for index in topic["partition_indexes"]
            ],
        }
        for topic in topics
    ]


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.OFFSET_COMMIT: offset_commit,
        ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
        ApiKey.OFFSET_FETCH: offset_fetch,
    }
)
