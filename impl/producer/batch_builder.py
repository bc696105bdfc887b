"""A batch that the application fills itself: `Producer.create_batch`, `send_batch`.

1. Records get their offsets in the batch in the order of `append`; a full batch takes none.
2. It is sent once and as it is: no other record joins it, and it is not split.

Names are aiokafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from impl.client.errors import IllegalStateError, InvalidArgumentError
from impl.producer.arguments import check_timestamp_ms
from impl.producer.batch import ProducerBatch, size_upper_bound_bytes
from impl.producer.interceptors import Headers
from impl.protocol.fields import TopicPartition

Serializer = Callable[[Any], bytes | None]
"""From a key or value of the application to bytes."""

_NOWHERE: TopicPartition = ("", -1)


class AppendedRecord(NamedTuple):
    """A record of a batch: its offset in it, its size in bytes, its timestamp in milliseconds.

    `crc` is None: batches of format v2 have one checksum for all records.
    """

    offset: int
    crc: None
    size: int
    timestamp: int


class BatchBuilder:
    """A batch of at most `limit_bytes` before compression; its first record always fits."""

    def __init__(
        self,
        limit_bytes: int,
        compression: int,
        clock_ms: Callable[[], int],
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._compression = compression
        self._clock_ms = clock_ms
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._batch: ProducerBatch | None = None
        self._is_closed = self._is_sent = False

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Headers | None = None
    ) -> AppendedRecord | None:
        """Add a record; None if the batch is closed, or full: then it is closed from now on.

        `timestamp` in milliseconds; None for now. Raises `InvalidArgumentError`.
        """
        if self._is_closed:
            return None
        timestamp = self._clock_ms() if timestamp is None else timestamp
        check_timestamp_ms(timestamp)
        key = self._key_serializer(key) if self._key_serializer else key
        value = self._value_serializer(value) if self._value_serializer else value
        least_bytes = size_upper_bound_bytes(key, value, headers or ())
        if self._batch is None:
            limit_bytes = max(self._limit_bytes, least_bytes)
            self._batch = ProducerBatch(
                _NOWHERE, 0, limit_bytes, timestamp, is_whole=True, compression=self._compression
            )
        before_bytes = self._batch.size_bytes
        if not self._batch.add(timestamp, key, value, headers or ()):
            self.close()
            return None
        size_bytes = self._batch.size_bytes - before_bytes
        return AppendedRecord(self.record_count() - 1, None, size_bytes, timestamp)

    def close(self) -> None:
        """Take no more records."""
        self._is_closed = True

    def closed(self) -> bool:
        """Whether it takes no more records."""
        return self._is_closed

    def size(self) -> int:
        """The size of the batch in bytes, before compression."""
        return self._batch.size_bytes if self._batch else 0

    def record_count(self) -> int:
        """How many records it has."""
        return self._batch.record_count if self._batch else 0

    def take(self) -> ProducerBatch:
        """The batch, to be sent: once. Raises `IllegalStateError`, `InvalidArgumentError`."""
        if self._is_sent:
            raise IllegalStateError("the batch was sent before: create another one")
        if self._batch is None:
            raise InvalidArgumentError("batch", "must have a record", self)
        self._is_sent = self._is_closed = True
        return self._batch
