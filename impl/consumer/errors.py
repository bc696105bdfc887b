"""What can go wrong in the consumer."""

from __future__ import annotations

import reprlib

from impl.protocol.errors import ErrorCode


class ConsumerError(Exception):
    """Any error of the consumer."""


class InvalidArgumentError(ConsumerError, ValueError):
    """An argument that the call cannot take; nothing has changed. Attributes: `argument`."""

    def __init__(self, argument: str, may_be: str, is_now: object) -> None:
        super().__init__(f"{argument} {may_be}, is {reprlib.repr(is_now)}")
        self.argument = argument


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
