"""The errors of the consumer alone."""

from __future__ import annotations

from impl.client.errors import Advice, ConsumerError
from impl.protocol.errors import ErrorCode


class NoOffsetForPartitionError(ConsumerError):
    """The partition has no committed offset, and auto_offset_reset is "none": use `seek`."""

    advice = Advice.ABORT


class OffsetOutOfRangeError(ConsumerError):
    """The log does not have this offset, and auto_offset_reset is "none": use `seek`."""

    advice = Advice.ABORT


class RefusedError(ConsumerError):
    """A broker refused a request with an error that is not retriable. Attributes: `error_code`."""

    advice = Advice.ABORT

    def __init__(self, error_code: ErrorCode, what: str) -> None:
        super().__init__(f"{what}: {error_code.name}")
        self.error_code = error_code


class CommitFailedError(ConsumerError):
    """The group has given the partitions to others meanwhile: their records are read again there.

    Nothing was committed; the next call for records joins the group again.
    """

    advice = Advice.ABORT
