"""What can go wrong in the consumer."""

from __future__ import annotations

from impl.protocol.errors import ErrorCode


class ConsumerError(Exception):
    """Any error of the consumer."""


class KafkaTimeoutError(ConsumerError):
    """No answer came within the time of the call: it may be repeated."""


class IllegalStateError(ConsumerError):
    """The call is not legal now: the message says what must come first."""


class NoOffsetForPartitionError(ConsumerError):
    """Nothing is committed for the partition, and auto_offset_reset is "none": use `seek`."""


class OffsetOutOfRangeError(ConsumerError):
    """The log does not have this offset, and auto_offset_reset is "none": use `seek`."""


class RefusedError(ConsumerError):
    """A broker refused for good. Attributes: `error_code`."""

    def __init__(self, error_code: ErrorCode, what: str) -> None:
        super().__init__(f"{what}: {error_code.name}")
        self.error_code = error_code
