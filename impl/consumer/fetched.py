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

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from impl.consumer.consumer_record import PLAIN_DECODING, ConsumerRecord, Decoding
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
    Record,
    check_crc,
    read_end_offset,
    read_header,
    scan_rows,
    whole_batches,
)
from impl.protocol.records import RawRecord

_new: Final = tuple.__new__


class FetchedBatch:
    """A batch whose checksum fits; its records are decoded each time they are asked for.

    Read-only: `header`, and what `committed_batches` asks for.
    """

    __slots__ = ("_data", "_place", "header", "is_control", "is_transactional", "producer_id")

    def __init__(self, data: bytes, place: int, check_crcs: bool = True) -> None:
        """The batch that begins at byte `place`. Raises as `decode_batch`, of its header."""
        self._data = data
        self._place = place
        self.header: BatchHeader = read_header(data, place)
        if check_crcs:
            check_crc(data, self.header, place)
        attributes = self.header.attributes
        self.is_transactional = bool(attributes & TRANSACTIONAL)
        self.is_control = bool(attributes & CONTROL)
        self.producer_id: int = self.header.producer_id

    @property
    def base_offset(self) -> int:
        """As in the header."""
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        """As in the header."""
        return self.header.last_offset

    @property
    def rows(self) -> Sequence[RawRecord]:
        """The fields of its records. Raises `InvalidRecord`, `UnsupportedCompression`."""
        return scan_rows(self._data, self.header, self._place)

    @property
    def records(self) -> Sequence[Record]:
        """Its records. Raises as `rows`."""
        return [Record._make(row) for row in self.rows]


def _read_batches(
    data: bytes, places: Sequence[int], check_crcs: bool
) -> Iterator[FetchedBatch]:  # a function: compiled, a generator expression is a list
    for place in places:
        yield FetchedBatch(data, place, check_crcs)


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
        batches = _read_batches(data, places, decoding.check_crcs)
        self._batches = iter(committed_batches(batches, aborted) if aborted else batches)
        self._records: Sequence[ConsumerRecord] = ()
        self._at = 0
        self.is_empty = False
        self._advance()

    def take(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, at most so many of them."""
        taken: list[ConsumerRecord] = []
        left = sys.maxsize if max_records is None else max_records
        while not self.is_empty and left > 0:
            rows, begin = self._records, self._at
            if begin or len(rows) > left:
                rows = rows[begin : begin + left]
            left -= len(rows)
            self._at = begin + len(rows)
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
                if batch.is_control:
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
        header = batch.header
        base_offset = header.base_offset
        # Building tuples without the class's own `__new__` takes half the time.
        records = [
            _new(
                ConsumerRecord,
                (topic, partition, base_offset + delta, at, 0, key, value, headers),
            )
            for delta, at, key, value, headers in batch.rows
        ]
        if header.attributes & LOG_APPEND_TIME:
            at = header.max_timestamp
            records = [record._replace(timestamp=at, timestamp_type=1) for record in records]
        if base_offset < self._fetch_offset:
            records = [record for record in records if record.offset >= self._fetch_offset]
        return records


_EPOCH_AT: Final = 12


def read_leader_epoch(data: bytes, place: int) -> int:
    """The leader epoch of the batch at this byte; nothing is checked."""
    begin = place + _EPOCH_AT
    return int.from_bytes(data[begin : begin + 4], "big", signed=True)
