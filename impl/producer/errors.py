"""The errors of the producer alone, and what the caller may do after each.

1. Every error has an `advice`: RETRY, ABORT or GIVE_UP. Nobody has to parse a message.
2. A call that raises leaves the producer as it was.
3. `may_be_written` of a record's error (`DeliveryHandle.error`) says whether the log may have the
   record: sending it again may then make a duplicate.
4. `legal_calls` of a transactional producer's error lists the calls that are legal next. A refused
   record fails its transaction, whatever its error: a commit contains all records that were sent,
   or none (KAFKA-9279).
"""

from __future__ import annotations

from impl.client.errors import Advice, CommitFailedError, ProducerError
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition


class ConfigError(ProducerError):
    """A setting is unknown, out of range, or contradicts another one.

    Attributes: `setting`, the name of the setting to change.
    """

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


class TopicRefusedError(ProducerError):
    """The cluster does not have the topic and does not create it, or denies access to it.

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
        problem = f"the record takes up to {size_bytes} bytes, {limit_name} is {limit_bytes}"
        super().__init__(f"{problem}: send a smaller record, or increase {limit_name}")
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
    """The producer already keeps the sequences of max_partitions partitions."""

    advice = Advice.ABORT

    def __init__(self, max_partitions: int) -> None:
        problem = f"the sequences of max_partitions = {max_partitions} partitions are in use"
        super().__init__(f"{problem}: increase it, or use another producer for the others")
        self.max_partitions = max_partitions


class ProducerClosedError(ProducerError):
    """The producer was closed: create another one. `KafkaProducer.throwIfProducerClosed`."""


class UnexpectedAnswerError(ProducerError):
    """Not the next answer of any connection; the one that it arrived on must be closed.

    A connection's answers arrive in the order of its requests.
    `NetworkClient.correlate`.
    """

    advice = Advice.ABORT


class MalformedAnswerError(ProducerError):
    """An answer that omits a partition of its request, or names another one."""

    advice = Advice.ABORT


class DeliveryError(ProducerError):
    """A record was not acknowledged.

    Attributes: `error_code`, the broker's or the client's own; `may_be_written`, whether the
    log may have a copy of the record, so that sending it again may make a duplicate.
    """

    advice = Advice.ABORT

    def __init__(self, error_code: ErrorCode, message: str, may_be_written: bool) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.may_be_written = may_be_written

    def restate(self, message: str, may_be_written: bool) -> DeliveryError:
        """The same error about another record."""
        return type(self)(self.error_code, message, may_be_written)


class DeliveryTimeoutError(DeliveryError):
    """delivery_timeout_ms has passed since the batch was created. `TimeoutException`."""


class AuthorizationError(DeliveryError):
    """The principal is not authorized now; the producer id is requested again. KAFKA-13668."""

    advice = Advice.RETRY


class AbortedError(DeliveryError):
    """The producer was closed before the record was acknowledged. `Sender.forceClose`."""

    advice = Advice.GIVE_UP


class FatalProducerError(DeliveryError):
    """The producer is in the state FATAL_ERROR: every later call fails with the same error."""

    advice = Advice.GIVE_UP


class ProducerFenced(FatalProducerError):
    """A newer producer with the same transactional id has taken over. `ProducerFencedException`."""


class TransactionAbortableError(DeliveryError):
    """The transaction cannot be committed any more: abort it and begin again.

    `TransactionAbortableException`, KIP-1050.
    """


class OffsetsRefusedError(TransactionAbortableError, CommitFailedError):
    """The consumer is no longer a member of its group's generation: its offsets are refused."""


class SkippedRecordsError(TransactionAbortableError):
    """Records were returned by the consumer before an abort, and would not be read again.

    An aborted transaction leaves its consumer behind its records, and these offsets pass over them.
    Attributes: `partition`, and the offsets `begin` and `end`: from the first such record to the
    one after the last. Abort, then `await consumer.seek_to_committed()` reads them again.
    """

    def __init__(self, partition: TopicPartition, begin: int, end: int) -> None:
        place = f"{partition[0]}-{partition[1]}"
        super().__init__(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"the consumer has read on since a transaction was aborted: records of {place} from"
            f" offset {begin} to {end - 1} would be skipped. After each abort call"
            " `await consumer.seek_to_committed()`, which reads them again",
            may_be_written=False,
        )
        self.partition = partition
        self.begin = begin
        self.end = end


class TransactionAbortedError(DeliveryError):
    """The record was not sent: its transaction is aborted. `TransactionAbortedException`."""
