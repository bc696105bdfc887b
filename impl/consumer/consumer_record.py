"""A record as it is delivered, and what makes it of the bytes of its key and value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from impl.protocol.records import Header

NO_SIZE: Final = -1
"""The size of a key or value that is null."""

Deserializer = Callable[[Any], Any]
"""From the bytes of a key or value, or None, to what the application wants."""


class ConsumerRecord(NamedTuple):
    """A delivered record; the timestamp in ms, sizes in bytes, -1 for null.

    `timestamp_type` is 0 for the producer's time, 1 for the broker's. Key and value are bytes or
    None, or what the deserializers made of them.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[Header, ...]

    @property
    def serialized_key_size(self) -> int:
        """Of the key before it was deserialized."""
        return NO_SIZE if self.key is None else len(self.key)

    @property
    def serialized_value_size(self) -> int:
        """Of the value before it was deserialized."""
        return NO_SIZE if self.value is None else len(self.value)

    @property
    def checksum(self) -> None:
        """Records have none since Kafka 0.11: their batch has it."""


class DeserializedRecord(ConsumerRecord):
    """A record whose key and value are no bytes any more: it remembers how many they were.

    Most consumers have no deserializers, and need no such fields, which take time in each record.
    """

    serialized_key_size = NO_SIZE
    serialized_value_size = NO_SIZE

    @classmethod
    def of(cls, record: ConsumerRecord, key: Any, value: Any) -> DeserializedRecord:
        """The record with this key and value instead of its bytes."""
        new = cls(*record._replace(key=key, value=value))
        new.serialized_key_size = record.serialized_key_size
        new.serialized_value_size = record.serialized_value_size
        return new


class Decoding(NamedTuple):
    """How records are decoded: whether checksums are checked, and the deserializers."""

    check_crcs: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    @property
    def has_deserializers(self) -> bool:
        """Whether keys or values are to be deserialized."""
        return self.key_deserializer is not None or self.value_deserializer is not None

    def deserialize(self, record: ConsumerRecord) -> ConsumerRecord:
        """The record as the application wants it. Raises what a deserializer raises."""
        key, value = record.key, record.value
        if self.key_deserializer is not None:
            key = self.key_deserializer(key)
        if self.value_deserializer is not None:
            value = self.value_deserializer(value)
        return DeserializedRecord.of(record, key, value)


PLAIN_DECODING: Final = Decoding()
