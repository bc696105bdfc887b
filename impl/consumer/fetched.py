"""Decodes what was fetched of a partition into the records that a consumer delivers.

1. Records that are not delivered, markers and aborted ones, still move the position.
2. Fetched bytes may begin before the requested offset. They may end inside a batch, even inside its
   header: a broker cuts them by size alone.
3. With LogAppendTime all records of a batch have the batch's timestamp.

Theory of operation: batches are decoded one by one, as records are taken. Control and aborted ones
are filtered by `impl.partition.consuming`; their checksums are checked, their records not read.
Source: `CompletedFetch`, `DefaultRecord.readFrom` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from impl.partition.consuming import committed_batches
from impl.protocol.errors import DecodeError
from impl.protocol.fields import TopicPartition
from impl.protocol.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
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


class ConsumerRecord(NamedTuple):
    """A delivered record; the timestamp in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class FetchedBatch:
    """A batch whose checksum fits; its records are decoded each time they are asked for."""

    __slots__ = ("_data", "_place", "header", "producer_id")

    def __init__(self, data: bytes, place: int) -> None:
        """The batch that begins at byte `place`. Raises as `decode_batch`, of its header."""
        self._data = data
        self._place = place
        self.header: BatchHeader = read_header(data, place)
        self.producer_id: int = self.header.producer_id
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

    Read-only: `place`; `end_offset`, after the last whole batch; `next_offset`, the position after
    the records that were taken; `is_empty`, when there are no more; `error`, why not: `DecodeError`
    of a batch that cannot be read.
    """

    __slots__ = (
        "_at",
        "_batches",
        "_fetch_offset",
        "_records",
        "end_offset",
        "error",
        "is_empty",
        "next_offset",
        "place",
    )

    def __init__(
        self,
        place: TopicPartition,
        data: bytes,
        fetch_offset: int,
        aborted: Iterable[tuple[int, int]] = (),
    ) -> None:
        """`aborted` has (producer id, first offset) of aborted transactions.

        It is empty for read_uncommitted.
        """
        self.place = place
        self.error: DecodeError | None = None
        self.next_offset = self._fetch_offset = fetch_offset
        places = whole_batches(data)
        self.end_offset = max(fetch_offset, read_end_offset(data, places[-1]) if places else 0)
        self._batches = committed_batches((FetchedBatch(data, at) for at in places), aborted)
        self._records: Sequence[ConsumerRecord] = ()
        self._at = 0
        self.is_empty = False
        self._advance()

    def take(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, at most so many of them."""
        taken: list[ConsumerRecord] = []
        while not self.is_empty and (max_records is None or len(taken) < max_records):
            end = None if max_records is None else self._at + max_records - len(taken)
            rows = self._records[self._at : end]
            taken += rows
            self._at += len(rows)
            self.next_offset = rows[-1].offset + 1
            if self._at == len(self._records):
                self._advance()
        return taken

    def _advance(self) -> None:
        """Go to the next batch with records to deliver."""
        try:
            for batch in self._batches:
                self._records = self._to_deliver(batch)
                self._at = 0
                if self._records:
                    return
            self.next_offset = self.end_offset
        except DecodeError as error:
            self.error = error
        self.is_empty = True

    def _to_deliver(self, batch: FetchedBatch) -> list[ConsumerRecord]:
        topic, partition = self.place
        base_offset = batch.header.base_offset
        # Building tuples without the class's own `__new__` takes half the time.
        records = [
            _new(ConsumerRecord, (topic, partition, base_offset + delta, at, key, value, headers))
            for delta, at, key, value, headers in batch.rows
        ]
        if batch.header.attributes & LOG_APPEND_TIME:
            at = batch.header.max_timestamp
            records = [record._replace(timestamp=at) for record in records]
        if base_offset < self._fetch_offset:
            records = [record for record in records if record.offset >= self._fetch_offset]
        return records
