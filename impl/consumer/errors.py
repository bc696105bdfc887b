"""The errors of the consumer."""

from __future__ import annotations

import reprlib

from impl.protocol.errors import ErrorCode


class ConsumerError(Exception):
    """Any error of the consumer."""


class InvalidArgumentError(ConsumerError, ValueError):
    """An invalid argument; nothing has changed. Attributes: `argument`."""

    def __init__(self, argument: str, may_be: str, is_now: object) -> None:
        super().__init__(f"{argument} {may_be}, is {reprlib.repr(is_now)}")
        self.argument = argument


class KafkaTimeoutError(ConsumerError):
    """A call got no answer in time: it may be repeated."""


class IllegalStateError(ConsumerError):
    """The call is not legal now: the message says what to do first."""


class NoOffsetForPartitionError(ConsumerError):
    """The partition has no committed offset, and auto_offset_reset is "none": use `seek`."""


class OffsetOutOfRangeError(ConsumerError):
    """The log does not have this offset, and auto_offset_reset is "none": use `seek`."""


class RefusedError(ConsumerError):
    """A broker refused a request with an error that is not retriable. Attributes: `error_code`."""

    def __init__(self, error_code: ErrorCode, what: str) -> None:
        super().__init__(f"{what}: {error_code.name}")
        self.error_code = error_code
