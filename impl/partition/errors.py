"""What a replica refuses. What a client may see is an `ErrorCode` in an outcome instead."""

from __future__ import annotations


class PartitionError(ValueError):
    """A call that a replica refuses; nothing has changed."""


class HighWatermarkOutOfRange(PartitionError):
    """The offset is behind the high watermark or past the end of the log: look who sent it."""


class OffsetsNotContiguous(PartitionError):
    """A batch does not begin where the one before it ended: replay in order, without gaps."""


class TransactionNotOngoing(PartitionError):
    """A marker ends a transaction that is not in the book: two snapshot rows share one offset."""


class PlainBatchInTransaction(PartitionError):
    """A replicated batch lies inside its producer's transaction, but is not of it: who wrote it?"""


class BatchTooLarge(PartitionError):
    """A replicated batch is larger than segment_bytes: give both replicas the same settings."""


class InvalidOffset(PartitionError):
    """An offset below zero, or a segment that the log does not have: look who sent it."""
