"""What a transaction coordinator wants done, as values.

- `Answered`: an answer to the request that was given.
- `AppendRecords`: write these to the log of `__transaction_state`, then call `on_appended` with the
  token and an error. Between the two steps everything is open: the write may fail, or succeed
  while its caller hears an error.
- `SendMarkers`: write a marker to each of these partitions, then call `on_markers_written`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from impl.coordinator.metadata import NO_PRODUCER, ProducerIdAndEpoch, TopicPartition
from impl.protocol.errors import ErrorCode

Request = Hashable
"""Whatever the caller knows its request by."""


class Answered(NamedTuple):
    """The answer to one request; `producer` of InitProducerId and of EndTxn V2."""

    request: Request
    error: ErrorCode
    producer: ProducerIdAndEpoch = NO_PRODUCER


class AppendRecords(NamedTuple):
    """Records for one partition of `__transaction_state`, with acks=all.

    `records` are pairs of key and value; no value is a tombstone. The write waits at most
    `timeout_ms` for its replicas. It fails with NOT_LEADER_OR_FOLLOWER where the partition is led
    by another, or under another `coordinator_epoch`.
    """

    token: int
    partition: int
    coordinator_epoch: int
    transactional_ids: tuple[str, ...]
    records: tuple[tuple[bytes, bytes | None], ...]
    timeout_ms: int


class SendMarkers(NamedTuple):
    """The end of one transaction, for these partitions. A partition that is gone counts as done.

    `token` is the same whenever markers of this end are sent.
    """

    token: int
    transactional_id: str
    coordinator_epoch: int
    producer: ProducerIdAndEpoch
    commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


Effect = Answered | AppendRecords | SendMarkers
