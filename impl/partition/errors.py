"""What a replica refuses. What a client may see is an `ErrorCode` in an outcome instead.

Each message says what was wrong (`problem` first, where a class has one), where, and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class PartitionError(ValueError):
    """A call that a replica refuses; nothing has changed. `advice` says what to do."""

    problem: ClassVar[str] = ""
    advice: ClassVar[str] = "correct the call"

    def __str__(self) -> str:
        return f"{self.problem} {super().__str__()}; {self.advice}".lstrip()


class HighWatermarkOutOfRange(PartitionError):
    """The offset is behind the high watermark or past the end of the log."""

    advice = "look who sent it: a high watermark moves forward, within the log"


class OffsetsNotContiguous(PartitionError):
    """A batch does not begin where the one before it ended."""

    advice = "replay in order, without gaps"


class TransactionNotOngoing(PartitionError):
    """A marker ends a transaction that is not in the book: two snapshot rows share one offset."""

    problem = "no ongoing transaction"
    advice = "delete the snapshots of this log: they contradict it"


class PlainBatchInTransaction(PartitionError):
    """A replicated batch lies inside its producer's transaction, but is not of it."""

    problem = "a plain batch inside a transaction"
    advice = "look who wrote it: no leader accepts it"


class BatchTooLarge(PartitionError):
    """A replicated batch is larger than segment_bytes."""

    advice = "give both replicas the same settings"


class InvalidOffset(PartitionError):
    """An offset below zero, or a segment that the log does not have."""

    advice = "look who sent it"


class InvalidInSyncReplicas(PartitionError):
    """More replicas in sync than there are, or none: the leader itself always is."""

    advice = "give a count from 1 to the replication factor"
