"""Decodes what was fetched of a partition into the records that a consumer delivers.

1. Records that are not delivered, markers and aborted ones, still move the position.
2. Fetched bytes may begin before the requested offset. They may end inside a batch, even inside its
   header: a broker cuts them by size alone.
3. With LogAppendTime all records of a batch have the batch's timestamp.
4. A record that cannot be deserialized ends what is delivered: the position stays there.

Theory of operation: batches are decoded one by one, as records are taken. If there are aborted ones
`impl.partition.consuming` filters them; their checksums are checked, their records not read.
Source: `CompletedFetch`, `DefaultRecord.readFrom` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from impl.consumer.errors import RecordDeserializationError
from impl.partition.consuming import committed_batches
from impl.protocol.errors import DecodeError
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    NO_PARTITION_LEADER_EPOCH,
    TRANSACTIONAL,
    BatchHeader,
    Header,
    Record,
    check_crc,
    read_end_offset,
    read_header,
    scan_rows,
    whole_batches,
)
from impl.protocol.records import RawRecord

_new: Final = tuple.__new__

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


class FetchedBatch:
    """A batch whose checksum fits; its records are decoded each time they are asked for."""

    __slots__ = ("_data", "_place", "header", "producer_id")

    def __init__(self, data: bytes, place: int, check_crcs: bool = True) -> None:
        """The batch that begins at byte `place`. Raises as `decode_batch`, of its header."""
        self._data = data
        self._place = place
        self.header: BatchHeader = read_header(data, place)
        self.producer_id: int = self.header.producer_id
        if check_crcs:
            check_crc(data, self.header, place)

    @property
    def base_offset(self) -> int:
        """As in the header."""
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        """As in the header."""
        return self.header.last_offset

    @property
    def is_transactional(self) -> bool:
        """Bit 4."""
        return bool(self.header.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Bit 5."""
        return bool(self.header.attributes & CONTROL)

    @property
    def rows(self) -> Sequence[RawRecord]:
        """The fields of its records. Raises `InvalidRecord`, `UnsupportedCompression`."""
        return scan_rows(self._data, self.header, self._place)

    @property
    def records(self) -> Sequence[Record]:
        """Its records. Raises as `rows`."""
        return [Record._make(row) for row in self.rows]


class FetchedPartition:
    """A partition's part of one Fetch answer.

    Read-only: `place`; `end_offset`, after the last whole batch, and that batch's leader epoch,
    `end_epoch`; `next_offset`, the position after the records that were taken, and the leader epoch
    of the last of them, `next_epoch`, -1 for none yet; `is_empty`, when there are no more; `error`,
    why not: `DecodeError` of a batch that cannot be read, `RecordDeserializationError`.
    """

    __slots__ = (
        "_at",
        "_batch_epoch",
        "_batches",
        "_decoding",
        "_fetch_offset",
        "_records",
        "end_epoch",
        "end_offset",
        "error",
        "is_empty",
        "next_epoch",
        "next_offset",
        "place",
    )

    def __init__(
        self,
        place: TopicPartition,
        data: bytes,
        fetch_offset: int,
        aborted: Sequence[tuple[int, int]] = (),
        decoding: Decoding = PLAIN_DECODING,
    ) -> None:
        """`aborted` has (producer id, first offset) of aborted transactions.

        It is empty for read_uncommitted.
        """
        self.place = place
        self.error: DecodeError | RecordDeserializationError | None = None
        self.next_offset = self._fetch_offset = fetch_offset
        self.next_epoch = self._batch_epoch = self.end_epoch = NO_PARTITION_LEADER_EPOCH
        self.end_offset = fetch_offset
        places = whole_batches(data)
        if places:
            self.end_offset = max(fetch_offset, read_end_offset(data, places[-1]))
            self.end_epoch = read_leader_epoch(data, places[-1])
        self._decoding = decoding
        check_crcs = decoding.check_crcs
        batches = (FetchedBatch(data, at, check_crcs) for at in places)
        self._batches = iter(committed_batches(batches, aborted) if aborted else batches)
        self._records: Sequence[ConsumerRecord] = ()
        self._at = 0
        self.is_empty = False
        self._advance()

    def take(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, at most so many of them."""
        taken: list[ConsumerRecord] = []
        while not self.is_empty and (max_records is None or len(taken) < max_records):
            end = None if max_records is None else self._at + max_records - len(taken)
            rows: Sequence[ConsumerRecord] = self._records[self._at : end]
            self._at += len(rows)
            self.next_offset = rows[-1].offset + 1
            self.next_epoch = self._batch_epoch
            if self._decoding.has_deserializers:
                rows = self._deserialize(rows)
            taken += rows
            if self._at == len(self._records) and self.error is None:
                self._advance()
        return taken

    def _deserialize(self, rows: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """Those before the first that cannot be deserialized."""
        done: list[ConsumerRecord] = []
        for record in rows:
            try:
                done.append(self._decoding.deserialize(record))
            except Exception as error:
                self.error = RecordDeserializationError(self.place, record.offset, error)
                self.next_offset = record.offset
                self.is_empty = True
                break
        return done

    def _advance(self) -> None:
        """Go to the next batch with records to deliver."""
        try:
            for batch in self._batches:
                if batch.header.attributes & CONTROL:
                    continue
                self._records = self._to_deliver(batch)
                self._at = 0
                if self._records:
                    self._batch_epoch = batch.header.partition_leader_epoch
                    return
            self.next_offset, self.next_epoch = self.end_offset, self.end_epoch
        except DecodeError as error:
            self.error = error
        self.is_empty = True

    def _to_deliver(self, batch: FetchedBatch) -> list[ConsumerRecord]:
        topic, partition = self.place
        base_offset = batch.header.base_offset
        # Building tuples without the class's own `__new__` takes half the time.
        records = [
            _new(
                ConsumerRecord,
                (
                    topic,
                    partition,
                    base_offset + delta,
                    at,
                    0,
                    key,
                    value,
                    headers,
                ),
            )
            for delta, at, key, value, headers in batch.rows
        ]
        if batch.header.attributes & LOG_APPEND_TIME:
            at = batch.header.max_timestamp
            records = [record._replace(timestamp=at, timestamp_type=1) for record in records]
        if base_offset < self._fetch_offset:
            records = [record for record in records if record.offset >= self._fetch_offset]
        return records


_EPOCH_AT: Final = 12


def read_leader_epoch(data: bytes, place: int) -> int:
    """The leader epoch of the batch at this byte; nothing is checked."""
    begin = place + _EPOCH_AT
    return int.from_bytes(data[begin : begin + 4], "big", signed=True)
