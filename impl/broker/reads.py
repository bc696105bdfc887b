"""What a node answers about its logs: Fetch, ListOffsets, DeleteRecords, partition by partition.

Two rules:

1. Each partition has its own answer; one that is refused does not stop the others.
2. A leader epoch that the client names must be the leader's own.

Theory of operation: each function takes the topic that was asked for (None if there is none), the
row of the request and what else it needs, and returns the row of the answer.
Sources: `KafkaApis.handleFetchRequest`, `handleListOffsetRequest`, `handleDeleteRecordsRequest`,
`Partition.checkCurrentLeaderEpoch`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from impl.broker.topics import Topic
from impl.partition.leader import PartitionLeader
from impl.partition.reading import NOT_FOUND, Timestamp, find_offset, read
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import INVALID_OFFSET

CONSUMER_REPLICA: Final = -1
"""The replica id of a consumer; a broker has its own, a tool for debugging -2."""

NO_LEADER_EPOCH: Final = -1

READ_COMMITTED: Final = 1

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
"""The first ListOffsets version that may ask for it."""


def leader_of(topic: Topic | None, index: int) -> PartitionLeader | ErrorCode:
    """The partition's leader, or UNKNOWN_TOPIC_OR_PARTITION."""
    leader = None if topic is None else topic.partition(index)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if leader is None else leader


def check_leader_epoch(leader: PartitionLeader, current_leader_epoch: int) -> ErrorCode:
    """Whether the client means this leader; without an epoch it means any."""
    if current_leader_epoch in (NO_LEADER_EPOCH, leader.leader_epoch):
        return ErrorCode.NONE
    if current_leader_epoch < leader.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def delete_records(topic: Topic | None, asked: Value) -> Value:
    """One row of DeleteRecords."""
    leader = leader_of(topic, asked["partition_index"])
    if isinstance(leader, ErrorCode):
        error, low_watermark = leader, INVALID_OFFSET
    else:
        error, low_watermark = leader.delete_records(asked["offset"])
    return {
        "partition_index": asked["partition_index"],
        "low_watermark": low_watermark,
        "error_code": error,
    }


def list_offsets(topic: Topic | None, asked: Value, version: int, replica_id: int) -> Value:
    """One row of ListOffsets."""
    leader = leader_of(topic, asked["partition_index"])
    timestamp = asked["timestamp"]
    found = NOT_FOUND
    if timestamp < 0 and version < TIMESTAMP_SINCE.get(timestamp, version + 1):
        error = ErrorCode.UNSUPPORTED_VERSION
    elif isinstance(leader, ErrorCode):
        error = leader
    else:
        error = check_leader_epoch(leader, asked["current_leader_epoch"])
        if not error:
            is_consumer = replica_id == CONSUMER_REPLICA
            upper_bound = leader.high_watermark if is_consumer else leader.log_end_offset
            found = find_offset(leader.log, timestamp, upper_bound, leader.leader_epoch)
    return {
        "partition_index": asked["partition_index"],
        "error_code": error,
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


def fetch(topic: Topic | None, asked: Value, unknown: ErrorCode, budget: Budget) -> Value:
    """One row of Fetch. `unknown` is the answer where there is no such topic."""
    leader = unknown if topic is None else leader_of(topic, asked["partition"])
    row: Value = {
        "partition_index": asked["partition"],
        "high_watermark": INVALID_OFFSET,
        "records": b"",
    }
    if isinstance(leader, ErrorCode):
        return row | {"error_code": leader}
    error = check_leader_epoch(leader, asked["current_leader_epoch"])
    if error:
        return row | {"error_code": error}
    max_bytes = min(asked["partition_max_bytes"], budget.left_bytes)
    found = read(leader.log, asked["fetch_offset"], max_bytes, at_least_one=not budget.has_records)
    if found.error:
        return row | {"error_code": found.error}
    budget.take(len(found.records))
    return row | {
        "error_code": ErrorCode.NONE,
        "high_watermark": leader.high_watermark,
        "last_stable_offset": leader.high_watermark,
        "log_start_offset": leader.log_start_offset,
        "aborted_transactions": [] if budget.isolation_level == READ_COMMITTED else None,
        "records": found.records,
    }


class Budget:
    """What one Fetch answer may still take. Its first records come whatever their size (KIP-74)."""

    __slots__ = ("has_records", "isolation_level", "left_bytes")

    def __init__(self, max_bytes: int, isolation_level: int) -> None:
        self.left_bytes = max_bytes
        self.isolation_level = isolation_level
        self.has_records = False

    def take(self, size_bytes: int) -> None:
        """So much was given."""
        self.left_bytes = max(0, self.left_bytes - size_bytes)
        self.has_records = self.has_records or size_bytes > 0
