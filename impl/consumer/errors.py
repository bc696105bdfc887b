"""The errors of the consumer alone."""

from __future__ import annotations

from impl.client.errors import Advice, ConsumerError, IllegalStateError
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition


class NoOffsetForPartitionError(ConsumerError):
    """The partition has no committed offset, and auto_offset_reset is "none": use `seek`."""

    advice = Advice.ABORT


class OffsetOutOfRangeError(ConsumerError):
    """The log does not have this offset, and auto_offset_reset is "none": use `seek`."""

    advice = Advice.ABORT


class LogTruncationError(ConsumerError):
    """Records that were read are not in the log any more, and auto_offset_reset is "none".

    A leader without them was elected. Attributes: `partition`; `position`, the next offset to read;
    `divergent_offset`, the first offset whose record may be another one now, None if nobody knows:
    `seek` it, or another one. KIP-320, `LogTruncationException`.
    """

    advice = Advice.ABORT

    def __init__(
        self, partition: TopicPartition, position: int, divergent_offset: int | None
    ) -> None:
        known = divergent_offset is not None
        since = f"diverges at {divergent_offset}" if known else "has another history"
        advice = f"seek {divergent_offset}, or another offset" if known else "seek an offset"
        place = f"{partition[0]}-{partition[1]}"
        super().__init__(f"{place} was read to offset {position}, and its log {since}: {advice}")
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset


class RecordDeserializationError(ConsumerError):
    """A deserializer raised an error, which is the cause of this one.

    The records before it were returned. Attributes: `partition`, and the record's `offset`: `seek`
    the one after it to go on without it. KIP-334, `RecordDeserializationException`.
    """

    advice = Advice.ABORT

    def __init__(self, partition: TopicPartition, offset: int, reason: Exception) -> None:
        place = f"{partition[0]}-{partition[1]}"
        why = f"{type(reason).__name__}: {reason}"
        super().__init__(
            f"the record at offset {offset} of {place} is not deserialized ({why}): "
            f"seek {offset + 1} to go on without it"
        )
        self.partition = partition
        self.offset = offset
        self.__cause__ = reason


class ConsumerStoppedError(IllegalStateError):
    """The consumer is stopped: create another one."""


class RefusedError(ConsumerError):
    """A broker refused a request with an error that is not retriable. Attributes: `error_code`."""

    advice = Advice.ABORT

    def __init__(self, error_code: ErrorCode, what: str) -> None:
        super().__init__(f"{what}: {error_code.name}")
        self.error_code = error_code
