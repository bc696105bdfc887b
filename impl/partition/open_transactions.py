"""Transactions as the cleaner meets them on its way through a log.

Four rules:

1. A batch is aborted from the first offset of an aborted transaction of its producer to the marker.
2. A marker may go once no batch of its transaction was met: then all of them are gone.
3. An aborted transaction stays in the index for as long as a batch of it was met before its marker.
4. A marker without a record was cleaned before; one of an unknown type stays.

Source: `CleanedTransactionMetadata`, KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from impl.log.transaction_index import AbortedTransaction
from impl.partition.stored_batch import StoredBatch
from impl.partition.transactions import parse_marker
from impl.protocol.control_records import ControlType
from impl.protocol.record_batch import TRANSACTIONAL, read_header


class CleanedMarker(NamedTuple):
    """Whether a marker may go, and the entry of the index that its transaction keeps."""

    may_go: bool
    indexed: AbortedTransaction | None = None


class OpenTransactions:
    """See the rules above; batches must be met in the order of the log."""

    __slots__ = ("_aborted", "_ahead", "_committed", "_met")

    def __init__(self) -> None:
        self._ahead: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()

    def announce(self, aborted: Iterable[AbortedTransaction]) -> None:
        """These overlap the batches that follow. They may be announced again."""
        for entry in aborted:
            heappush(self._ahead, (entry.first_offset, entry))

    def _begin(self, last_offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= last_offset:
            entry = heappop(self._ahead)[1]
            self._aborted.setdefault(entry.producer_id, entry)

    def meet(self, stored: StoredBatch) -> bool:
        """A batch of data: whether it is aborted."""
        self._begin(stored.last_offset)
        if not stored.attributes & TRANSACTIONAL:
            return False
        is_aborted = stored.producer_id in self._aborted
        (self._met if is_aborted else self._committed).add(stored.producer_id)
        return is_aborted

    def meet_marker(self, stored: StoredBatch) -> CleanedMarker:
        """A control batch. Raises `InvalidRecord`."""
        self._begin(stored.last_offset)
        if not read_header(stored.data).records_count:
            return CleanedMarker(True)
        marker = parse_marker(stored.data)
        if marker is None:
            return CleanedMarker(False)
        if marker.control_type is ControlType.ABORT:
            return self._end_aborted(stored.producer_id)
        is_met = stored.producer_id in self._committed
        self._committed.discard(stored.producer_id)
        return CleanedMarker(not is_met)

    def _end_aborted(self, producer_id: int) -> CleanedMarker:
        entry = self._aborted.pop(producer_id, None)
        is_met = producer_id in self._met
        self._met.discard(producer_id)
        return CleanedMarker(not is_met, entry if is_met else None)
