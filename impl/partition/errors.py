"""Errors of calls that a replica refuses. A client sees an `ErrorCode` in an outcome instead.

Each message says what was wrong (`problem` first, if the class has one), where, and what to do.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class PartitionError(ValueError):
    """A call that a replica refuses; nothing has changed. `advice` says what to do."""

    problem: ClassVar[str] = ""
    advice: ClassVar[str] = "correct the call"

    def __str__(self) -> str:
        return f"{self.problem} {super().__str__()}; {self.advice}".lstrip()


class HighWatermarkOutOfRange(PartitionError):
    """The offset is behind the high watermark or past the end of the log."""

    advice = "check the caller: a high watermark moves forward, within the log"


class OffsetsNotContiguous(PartitionError):
    """A batch does not begin where the one before it ended."""

    advice = "replay in order, without gaps"


class TransactionNotOngoing(PartitionError):
    """A marker ends a transaction that is not ongoing: two snapshot rows share one offset."""

    problem = "no ongoing transaction"
    advice = "delete the snapshots of this log: they contradict it"


class PlainBatchInTransaction(PartitionError):
    """A replicated batch lies inside its producer's transaction, but does not belong to it."""

    problem = "a plain batch inside a transaction"
    advice = "check its writer: no leader accepts such a batch"


class BatchTooLarge(PartitionError):
    """A replicated batch is larger than segment_bytes."""

    advice = "give both replicas the same settings"


class InvalidOffset(PartitionError):
    """An offset below zero, or a segment that the log does not have."""

    advice = "check the caller"


class InvalidInSyncReplicas(PartitionError):
    """More in-sync replicas than replicas, or none: the leader itself always is in sync."""

    advice = "give a count from 1 to the replication factor"


class RecordError(NamedTuple):
    """Why a record of a batch is refused; `{}` in the message stands for the partition."""

    batch_index: int
    message: str
