"""Effects of the transaction coordinator.

- `SendAnswer`: answer a request.
- `AppendRecords`: append to a partition of `__transaction_state`, then call `on_appended` with the
  token and an error. The append may fail, or succeed although its caller gets an error.
- `SendMarkers`: write a marker to each of these partitions, then call `on_markers_written`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from impl.coordinator.metadata import TopicPartition
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER, ProducerIdAndEpoch

RequestReference = Hashable
"""The caller's reference to a request."""


class SendAnswer(NamedTuple):
    """The answer to one request; `producer` of InitProducerId and of EndTxn V2."""

    request: RequestReference
    error: ErrorCode
    producer: ProducerIdAndEpoch = NO_PRODUCER


class AppendRecords(NamedTuple):
    """Records for one partition of `__transaction_state`, with acks=all.

    `records` are pairs of key and value; no value is a tombstone. The write waits at most
    `timeout_ms` for its replicas. It fails with NOT_LEADER_OR_FOLLOWER if another broker
    leads the partition, or under another `coordinator_epoch`.
    """

    token: int
    partition: int
    coordinator_epoch: int
    transactional_ids: tuple[str, ...]
    records: tuple[tuple[bytes, bytes | None], ...]
    timeout_ms: int


class SendMarkers(NamedTuple):
    """Markers of one transaction's end. A deleted partition counts as written.

    `token` is the same for all markers of this end.
    """

    token: int
    transactional_id: str
    coordinator_epoch: int
    producer: ProducerIdAndEpoch
    commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


Effect = SendAnswer | AppendRecords | SendMarkers
