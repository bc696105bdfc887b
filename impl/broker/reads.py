"""Handlers that read logs, or delete from them: Fetch, ListOffsets, OffsetForLeaderEpoch and
DeleteRecords.

Three rules:

1. Each partition is answered by itself; a refused one does not stop the others.
2. If the client names a leader epoch, it must be the leader's.
3. A Fetch that finds fewer than `min_bytes` waits for records, for at most `max_wait_ms`.

Theory of operation: a waiting Fetch is tried again whenever the node advances. That of a session
comes with all its partitions (`fetch_sessions`).
Sources: `KafkaApis.handleFetchRequest`, `handleListOffsetRequest`, `handleDeleteRecordsRequest`,
`Partition.checkCurrentLeaderEpoch`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.fetch_sessions import TOPIC_IDS_FROM, is_replica
from impl.broker.handler import Handler, HandlerContext
from impl.broker.leader_hints import LeaderHints
from impl.broker.outputs import DEFERRED, DecodedRequest, Deferred
from impl.broker.refusals import refuse_request
from impl.broker.topics import Topic
from impl.log.disk import StorageError
from impl.partition.leader import PartitionLeader
from impl.partition.reading import (
    NOT_FOUND,
    FoundOffset,
    fetch_bound,
    find_end_of_epoch,
    find_offset,
    read,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CONSUMER_REPLICA, Isolation, Timestamp, topic_rows
from impl.protocol.message_form import Value
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey

NO_LEADER_EPOCH: Final = -1
LEADER_HINTS_FROM: Final = 16
"""The first version of Fetch whose answer names the current leader."""
_HINTED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_NONE: Final = ErrorCode.NONE
_READ_COMMITTED: Final = int(Isolation.READ_COMMITTED)
_ISOLATION_LEVELS: Final = tuple(Isolation)

TIMESTAMP_SINCE: Final[Mapping[int, int]] = MappingProxyType(
    {
        Timestamp.LATEST: 1,
        Timestamp.EARLIEST: 1,
        Timestamp.MAX: 7,
        Timestamp.EARLIEST_LOCAL: 8,
        Timestamp.LATEST_TIERED: 9,
        Timestamp.EARLIEST_PENDING_UPLOAD: 11,
    }
)
"""The first ListOffsets version with each special timestamp."""


def check_leader_epoch(leader: PartitionLeader, current_leader_epoch: int) -> ErrorCode:
    """Refuse an epoch that is not this leader's."""
    if current_leader_epoch in (NO_LEADER_EPOCH, leader.leader_epoch):
        return _NONE
    if current_leader_epoch < leader.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


# ---- DeleteRecords


def delete_records(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """`KafkaApis.handleDeleteRecordsRequest`. Of a repeated partition the last row counts."""
    asked = {
        (topic["name"], row["partition_index"]): row
        for topic in request.body["topics"]
        for row in topic["partitions"]
    }
    answered = (
        (name, _delete_records(node, node.topics.get(name), row))
        for (name, _), row in asked.items()
    )
    return {"topics": topic_rows(answered)}


def _delete_records(node: HandlerContext, topic: Topic | None, asked: Value) -> Value:
    leader = node.leader(topic, asked["partition_index"])
    is_known = leader is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_known and topic is not None and topic.is_internal:
        error, low_watermark = ErrorCode.INVALID_TOPIC_EXCEPTION, INVALID_OFFSET
    elif isinstance(leader, ErrorCode):
        error, low_watermark = leader, INVALID_OFFSET
    else:
        error, low_watermark = leader.delete_records(asked["offset"])
    return {
        "partition_index": asked["partition_index"],
        "low_watermark": low_watermark,
        "error_code": error,
    }


# ---- ListOffsets


def list_offsets(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """`KafkaApis.handleListOffsetRequest`. A repeated partition is refused, and answered once."""
    if request.body["isolation_level"] not in _ISOLATION_LEVELS:
        return _refuse_list_offsets(request.body["topics"])
    asked: dict[str, dict[int, Value | None]] = {}
    for row in request.body["topics"]:
        partitions = asked.setdefault(row["name"], {})
        for partition in row["partitions"]:
            index = partition["partition_index"]
            partitions[index] = None if index in partitions else partition
    topics = []
    for name, partitions in ((name, rows) for name, rows in asked.items() if rows):
        topic = node.topics.get(name)
        answered = [
            _REPEATED | {"partition_index": index}
            if partition is None
            else _find_offset(node, request, topic, partition)
            for index, partition in partitions.items()
        ]
        topics.append({"name": name, "partitions": answered})
    return {"topics": topics}


def _find_offset(
    node: HandlerContext, request: DecodedRequest, topic: Topic | None, asked: Value
) -> Value:
    version, timestamp = request.version, asked["timestamp"]
    leader = node.leader(topic, asked["partition_index"])
    found = NOT_FOUND
    if timestamp < 0 and version < TIMESTAMP_SINCE.get(timestamp, version + 1):
        error = ErrorCode.UNSUPPORTED_VERSION
    elif isinstance(leader, ErrorCode):
        error = leader
    else:
        error = check_leader_epoch(leader, asked["current_leader_epoch"])
        if not error:
            upper_bound = _upper_bound(leader, request.body)
            try:
                found = find_offset(leader.log, timestamp, upper_bound, leader.leader_epoch)
            except StorageError:
                error = ErrorCode.KAFKA_STORAGE_ERROR
    return {"partition_index": asked["partition_index"], **_found_row(error, found)}


def _refuse_list_offsets(topics: list[Value]) -> Value:
    """QUIRK: an isolation level that does not exist is an error of the server."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": row["partition_index"]}
                    | _found_row(ErrorCode.UNKNOWN_SERVER_ERROR, NOT_FOUND)
                    for row in topic["partitions"]
                ],
            }
            for topic in topics
        ]
    }


def _found_row(error: ErrorCode, found: FoundOffset) -> Value:
    return {
        "error_code": error,
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


_REPEATED: Final = _found_row(ErrorCode.INVALID_REQUEST, NOT_FOUND)
"""The answer for a partition that a request asks for twice."""


def _upper_bound(leader: PartitionLeader, body: Value) -> int:
    """A replica reads to the end of the log, a consumer as far as its isolation level allows."""
    if body["replica_id"] != CONSUMER_REPLICA:
        return leader.log_end_offset
    return fetch_bound(leader.log, body["isolation_level"])


# ---- OffsetForLeaderEpoch


def offset_for_leader_epoch(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value:
    """Where records of an epoch end. `KafkaApis.handleOffsetForLeaderEpochRequest`, KIP-320."""
    topics = []
    for asked in request.body["topics"]:
        topic = node.topics.get(asked["topic"])
        rows = [_end_of_epoch(node, topic, row) for row in asked["partitions"]]
        topics.append({"topic": asked["topic"], "partitions": rows})
    return {"topics": topics}


def _end_of_epoch(node: HandlerContext, topic: Topic | None, asked: Value) -> Value:
    row = {"partition": asked["partition"]}
    leader = node.leader(topic, asked["partition"])
    if isinstance(leader, ErrorCode):
        return row | {"error_code": leader}
    error = check_leader_epoch(leader, asked["current_leader_epoch"])
    if error:
        return row | {"error_code": error}
    found = find_end_of_epoch(leader.log, asked["leader_epoch"], leader.leader_epoch)
    return row | {"error_code": error, **found._asdict()}


# ---- Fetch


def fetch(node: HandlerContext, request: DecodedRequest, now_ms: int) -> Value | Deferred:
    """`KafkaApis.handleFetchRequest`, `DelayedFetch`."""
    body = request.body
    if body["isolation_level"] not in _ISOLATION_LEVELS and _finds_any(node, request):
        return _refuse_fetch(request)
    answer, is_enough = _fetch_all(node, request)
    if is_enough or body["max_wait_ms"] <= 0:
        return answer
    node.answer_when(
        request,
        now_ms + body["max_wait_ms"],
        lambda is_overdue: _fetch_again(node, request, is_overdue),
    )
    return DEFERRED


def _find_topic(node: HandlerContext, asked: Value, by_id: bool) -> Topic | ErrorCode:
    """The topic of a Fetch's row; a fetch session knows which name its id had."""
    found = node.topics.find(asked["topic_id" if by_id else "topic"])
    if isinstance(found, Topic) or not (by_id and asked["topic"]):
        return found
    is_gone = node.topics.get(asked["topic"]) is None
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else ErrorCode.INCONSISTENT_TOPIC_ID


_MISSING: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


def _refuse_fetch(request: DecodedRequest) -> Value:
    """QUIRK: what Kafka does not expect of a client is an error of the server."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return refuse_request(request.api_key, request.version, request.body, error)


def _finds_any(node: HandlerContext, request: DecodedRequest) -> bool:
    """Whether a partition of the request exists: only then its isolation level is looked at."""
    by_id = request.version >= TOPIC_IDS_FROM
    return any(
        node.leader(_find_topic(node, topic, by_id), row["partition"]) not in _MISSING
        for topic in request.body["topics"]
        for row in topic["partitions"]
    )


def _fetch_again(node: HandlerContext, request: DecodedRequest, is_overdue: bool) -> Value | None:
    answer, is_enough = _fetch_all(node, request)
    return answer if is_enough or is_overdue else None


def _fetch_all(node: HandlerContext, request: DecodedRequest) -> tuple[Value, bool]:
    """The answer as of now, and whether it is final: enough bytes, or an error."""
    body, by_id = request.body, request.version >= TOPIC_IDS_FROM
    max_bytes = min(body["max_bytes"], node.config.fetch_max_bytes)
    budget = Budget(max_bytes, body["isolation_level"])
    hints = LeaderHints(node, request, LEADER_HINTS_FROM)
    rows, is_refused = [], False
    for asked in (topic for topic in body["topics"] if topic["partitions"]):
        topic = _find_topic(node, asked, by_id)
        answered = [
            _fetch(_leader_for(node, request, topic, row["partition"]), row, budget)
            for row in asked["partitions"]
        ]
        for row in answered:
            if row["error_code"] in _HINTED and isinstance(topic, Topic):
                row |= hints.row(topic, row["partition_index"])
        is_refused = is_refused or any(map(_is_final, answered))
        rows.append(
            {"topic": asked["topic"], "topic_id": asked["topic_id"], "partitions": answered}
        )
    is_enough = is_refused or not rows or budget.taken_bytes >= body["min_bytes"]
    endpoints = [] if is_replica(request) else list(hints.endpoints.values())
    return {"error_code": _NONE, "responses": rows, "node_endpoints": endpoints}, is_enough


def _is_final(row: Value) -> bool:
    """Whether a partition's row is not worth waiting for records."""
    return bool(row["error_code"]) or "diverging_epoch" in row


def _leader_for(
    node: HandlerContext, request: DecodedRequest, topic: Topic | ErrorCode, partition: int
) -> PartitionLeader | ErrorCode:
    """The leader, for a consumer: whoever says that it is a replica is none of this partition.

    `Partition.fetchRecords`.
    """
    leader = node.leader(topic, partition)
    if isinstance(leader, PartitionLeader) and is_replica(request):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return leader


def _fetch(leader: PartitionLeader | ErrorCode, asked: Value, budget: Budget) -> Value:
    if not isinstance(leader, PartitionLeader):
        is_unknown = leader is not ErrorCode.NOT_LEADER_OR_FOLLOWER
        refusal = _refuse_partition(asked, leader)
        return refusal | {"aborted_transactions": [] if is_unknown else None}
    # Fetch alone takes any epoch below 0 for none: `FetchRequest.optionalEpoch`.
    error = check_leader_epoch(leader, max(NO_LEADER_EPOCH, asked["current_leader_epoch"]))
    if error:
        return _refuse_partition(asked, error)
    diverging = _diverging_epoch(leader, asked)
    if diverging is not None:
        return diverging
    is_committed = budget.isolation_level == _READ_COMMITTED
    found = read(
        leader.log,
        asked["fetch_offset"],
        min(asked["partition_max_bytes"], budget.left_bytes),
        at_least_one=not budget.taken_bytes,
        isolation=budget.isolation_level,
    )
    if found.error:
        return _refuse_partition(asked, found.error)
    budget.take(len(found.records))
    aborted = [
        {"producer_id": entry.producer_id, "first_offset": entry.first_offset}
        for entry in found.aborted_transactions
    ]
    return {
        "partition_index": asked["partition"],
        "error_code": _NONE,
        "high_watermark": leader.high_watermark,
        "last_stable_offset": leader.last_stable_offset,
        "log_start_offset": leader.log_start_offset,
        "aborted_transactions": aborted if is_committed else None,
        "records": found.records,
    }


def _diverging_epoch(leader: PartitionLeader, asked: Value) -> Value | None:
    """The answer to a reader whose last records this log does not have. `Partition.readRecords`."""
    if asked["last_fetched_epoch"] <= NO_LEADER_EPOCH:
        return None
    found = find_end_of_epoch(leader.log, asked["last_fetched_epoch"], leader.leader_epoch)
    if found.end_offset == INVALID_OFFSET:
        return _refuse_partition(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    is_behind = found.leader_epoch < asked["last_fetched_epoch"]
    if not is_behind and found.end_offset >= asked["fetch_offset"]:
        return None
    return {
        "partition_index": asked["partition"],
        "error_code": _NONE,
        "high_watermark": leader.high_watermark,
        "last_stable_offset": leader.last_stable_offset,
        "log_start_offset": leader.log_start_offset,
        "diverging_epoch": {"epoch": found.leader_epoch, "end_offset": found.end_offset},
        "records": b"",
    }


def _refuse_partition(asked: Value, error: ErrorCode) -> Value:
    return {
        "partition_index": asked["partition"],
        "error_code": error,
        "high_watermark": INVALID_OFFSET,
        "records": b"",
    }


class Budget:
    """The bytes left of one Fetch answer. Its first records may exceed them (KIP-74)."""

    __slots__ = ("isolation_level", "left_bytes", "taken_bytes")

    def __init__(self, max_bytes: int, isolation_level: int) -> None:
        self.left_bytes = max_bytes
        self.isolation_level = isolation_level
        self.taken_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Count bytes of records."""
        self.left_bytes = max(0, self.left_bytes - size_bytes)
        self.taken_bytes += size_bytes


HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.FETCH: fetch,
        ApiKey.LIST_OFFSETS: list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
        ApiKey.DELETE_RECORDS: delete_records,
    }
)
