"""What a producer and the consumer whose offsets it commits tell each other.

1. Aborts of all producers of a process are numbered in one order. A consumer notes, with the
   records that it returns, how many there were: it knows what it returned before an abort.
2. `Consumer.group_metadata()` carries the consumer; a bare group id does not, and nothing is
   checked then.

Theory of operation: the producer keeps the offsets of the open transaction, and the numbers of its
aborts. With each `send_offsets_to_transaction` it asks the consumer whether one of these aborts has
lost records, and after a commit it says which offsets are committed.
Source: no counterpart in Kafka, whose clients skip these records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from impl.client.arguments import GroupMetadata, OffsetAndMetadata
from impl.protocol.fields import TopicPartition

MAX_ABORTS: Final = 64
"""How many aborts a producer remembers, the last ones."""


class AbortOrder:
    """How many transactions were aborted in this process. Read-only: `count`."""

    def __init__(self) -> None:
        self.count = 0

    def take_number(self) -> int:
        """The number of an abort that happens now."""
        self.count += 1
        return self.count


ABORTS: Final = AbortOrder()

Aborts = deque[int]
"""The numbers of the aborts of one producer."""


class SkippedRecords(NamedTuple):
    """Records from `begin` on, and before `end`, that a commit would pass over."""

    partition: TopicPartition
    begin: int
    end: int


class OffsetsReader(Protocol):
    """The consumer, as its producer sees it."""

    commits_by_itself: bool

    def find_skipped(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], aborts: Aborts
    ) -> SkippedRecords | None:
        """What these offsets would pass over: returned before one of the aborts, and not since.

        The aborts are remembered, and what is added to them later.
        """

    def settle(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets are committed."""


class MemberMetadata(GroupMetadata):
    """The metadata of a consumer of this process, the `reader`; without it in what is made of them.

    They are equal to those without it.
    """

    reader: OffsetsReader | None = None

    @classmethod
    def of(cls, metadata: GroupMetadata, reader: OffsetsReader) -> MemberMetadata:
        """These, with the consumer."""
        found = cls(*metadata)
        found.reader = reader
        return found

    def __reduce__(self) -> tuple[type[GroupMetadata], tuple[object, ...]]:
        """A copy, in another process too, is of no consumer."""
        return GroupMetadata, tuple(self)


class ConsumedOffsets:
    """The offsets of consumers in the transactions of one producer."""

    def __init__(self) -> None:
        self._aborts: Aborts = deque(maxlen=MAX_ABORTS)
        self._sent: list[tuple[OffsetsReader, Mapping[TopicPartition, OffsetAndMetadata]]] = []
        self._is_open = False

    def begin(self) -> None:
        """A transaction has begun."""
        self._is_open = True

    def add(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], reader: OffsetsReader
    ) -> SkippedRecords | None:
        """These are sent with the transaction, unless they pass over records: which ones."""
        skipped = reader.find_skipped(offsets, self._aborts)
        if skipped is None:
            self._sent.append((reader, offsets))
        return skipped

    def commit(self) -> None:
        """The transaction is committed."""
        for reader, offsets in self._sent:
            reader.settle(offsets)
        self._close()

    def abort(self) -> None:
        """The transaction, if one is open, will not be committed."""
        if self._is_open:
            self._aborts.append(ABORTS.take_number())
        self._close()

    def _close(self) -> None:
        self._sent.clear()
        self._is_open = False
