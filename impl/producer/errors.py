"""What can go wrong in the producer, and what the caller may do about it.

1. Every error names its `advice`: RETRY, ABORT or GIVE_UP. Nobody has to parse a message.
2. An error raised by a call leaves the producer as it was before the call.
3. An error of a record (`DeliveryHandle.error`) says with `may_be_written` whether a copy of it
   can be in the log: sending it again is then a possible duplicate.
4. An error of a transactional producer names in `legal_calls` the calls that are legal next. A
   record that is refused makes its transaction fail, whatever its error: a commit holds all that
   was sent, or nothing (KAFKA-9279).
"""

from __future__ import annotations

import reprlib
from enum import Enum
from typing import Any

from impl.protocol.errors import ErrorCode


class Advice(Enum):
    """What is legal after an error. KIP-1050 groups errors by the same question."""

    RETRY = "retry"  # nothing was written: the same call may succeed later
    ABORT = "abort"  # this record (or this call) is lost, the producer goes on
    GIVE_UP = "give up"  # this producer instance is finished: close it


class ProducerError(Exception):
    """Any error of the producer. `advice` says what to do next.

    Attributes: `legal_calls`, the calls of a transactional producer that are legal after it; of
    another producer all are, unless the advice is to give up.
    """

    advice = Advice.GIVE_UP
    legal_calls: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied as it is: `Exception` would call the class with the message alone."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__


class ConfigError(ProducerError):
    """A setting is unknown, has a value out of range, or contradicts another one.

    Attributes: `setting`, the name of the setting to change.
    """

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


class InvalidArgumentError(ProducerError):
    """An argument that the call cannot take; nothing has changed. `IllegalArgumentException`.

    Attributes: `argument`, its name.
    """

    advice = Advice.ABORT

    def __init__(self, argument: str, may_be: str, is_now: object) -> None:
        super().__init__(f"{argument} {may_be}, is {reprlib.repr(is_now)}")
        self.argument = argument


class TopicRefusedError(ProducerError):
    """The cluster has no such topic and makes none: another name, or another right, is needed.

    Attributes: `topic`, `error_code`. `InvalidTopicException`, `TopicAuthorizationException`.
    """

    advice = Advice.ABORT

    def __init__(self, topic: str, error_code: ErrorCode) -> None:
        super().__init__(f"topic {topic!r} was refused by the cluster: {error_code.name}")
        self.topic = topic
        self.error_code = error_code


class RecordTooLargeError(ProducerError):
    """A record exceeds max_request_size or buffer_memory. `KafkaProducer.ensureValidRecordSize`.

    Attributes: `size_bytes`, `limit_bytes`.
    """

    advice = Advice.ABORT

    def __init__(self, size_bytes: int, limit_name: str, limit_bytes: int) -> None:
        problem = f"the record may take {size_bytes} bytes, {limit_name} is {limit_bytes}"
        super().__init__(f"{problem}: send less at once, or raise {limit_name}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class BufferExhaustedError(ProducerError):
    """No buffer_memory is left: wait until batches have completed. `BufferPool.allocate`.

    Attributes: `needed_bytes`, `free_bytes`.
    """

    advice = Advice.RETRY

    def __init__(self, needed_bytes: int, free_bytes: int) -> None:
        problem = f"a new batch needs {needed_bytes} bytes of buffer_memory, {free_bytes} are free"
        super().__init__(f"{problem}: wait until batches have completed")
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


class TooManyPartitionsError(ProducerError):
    """The sequences of max_partitions partitions are kept already; none can be forgotten."""

    advice = Advice.ABORT

    def __init__(self, max_partitions: int) -> None:
        problem = f"the sequences of max_partitions = {max_partitions} partitions are kept already"
        super().__init__(f"{problem}: raise it, or use another producer for the others")
        self.max_partitions = max_partitions


class ProducerClosedError(ProducerError):
    """The producer was closed: make another one. `KafkaProducer.throwIfProducerClosed`."""


class IllegalStateError(ProducerError):
    """The call is not legal now, and nothing has changed. `IllegalStateException`.

    Attributes: `legal_calls`.
    """

    advice = Advice.ABORT

    def __init__(self, message: str, legal_calls: tuple[str, ...]) -> None:
        super().__init__(f"{message}; legal now: {', '.join(legal_calls)}")
        self.legal_calls = legal_calls


class KafkaTimeoutError(ProducerError):
    """A call took longer than max_block_ms.

    A record was not queued then; any other call goes on: repeat it to hear of its end.
    `TimeoutException`.
    """

    advice = Advice.RETRY


class UnexpectedAnswerError(ProducerError):
    """An answer that no open connection waits for next; the connection it came on must be closed.

    Answers of a connection arrive in the order of its requests, and die with it.
    `NetworkClient.correlate`.
    """

    advice = Advice.ABORT


class MalformedAnswerError(ProducerError):
    """An answer that leaves out a partition of its request, or names one that was not asked."""

    advice = Advice.ABORT


class DeliveryError(ProducerError):
    """A record was not acknowledged.

    Attributes: `error_code`, the broker's or the client's own; `may_be_written`, true when a
    copy of the record can be in the log, so that sending it again can make a duplicate.
    """

    advice = Advice.ABORT

    def __init__(self, error_code: ErrorCode, message: str, may_be_written: bool) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.may_be_written = may_be_written

    def restated(self, message: str, may_be_written: bool) -> DeliveryError:
        """The same error about another record."""
        return type(self)(self.error_code, message, may_be_written)


class DeliveryTimeoutError(DeliveryError):
    """delivery_timeout_ms has passed since the batch was created. `TimeoutException`."""


class AuthorizationError(DeliveryError):
    """The principal may not do this now; the producer asks again for a producer id. KAFKA-13668."""

    advice = Advice.RETRY


class AbortedError(DeliveryError):
    """The producer was closed before the record was acknowledged. `Sender.forceClose`."""

    advice = Advice.GIVE_UP


class FatalProducerError(DeliveryError):
    """The producer is in the state FATAL_ERROR: every later call fails like this one."""

    advice = Advice.GIVE_UP


class ProducerFenced(FatalProducerError):
    """A newer producer with the same transactional id has taken over. `ProducerFencedException`."""


class TransactionAbortableError(DeliveryError):
    """The transaction cannot be committed any more: abort it and begin anew.

    `TransactionAbortableException`, KIP-1050.
    """


class CommitFailedError(TransactionAbortableError):
    """The consumer is not a member of its group's generation any more: its offsets are refused.

    `CommitFailedException`, KIP-447.
    """


class TransactionAbortedError(DeliveryError):
    """The record was not sent: its transaction is aborted. `TransactionAbortedException`."""
