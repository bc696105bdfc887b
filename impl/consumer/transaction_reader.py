"""The consumer as the producer sees it that commits its offsets in transactions.

Theory of operation: `impl.client.consumed`, `impl.consumer.returned_records`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from itertools import chain
from typing import Final

from impl.client.arguments import OffsetAndMetadata
from impl.client.consumed import Aborts, SkippedRecords
from impl.consumer.fetcher import Fetcher
from impl.protocol.fields import TopicPartition

_log = logging.getLogger(__name__)

MAX_PRODUCERS: Final = 16
"""How many producers a consumer remembers, the last ones."""


class TransactionReader:
    """An `OffsetsReader`."""

    def __init__(self, fetcher: Fetcher, commits_by_itself: bool) -> None:
        self._fetcher = fetcher
        self._producers: deque[Aborts] = deque(maxlen=MAX_PRODUCERS)
        self.commits_by_itself = commits_by_itself

    def find_skipped(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], aborts: Aborts
    ) -> SkippedRecords | None:
        """See `OffsetsReader`."""
        if not any(known is aborts for known in self._producers):
            self._producers.append(aborts)
        numbers = set(chain.from_iterable(self._producers))
        for place, committed in offsets.items():
            part = self._fetcher.assigned.get(place)
            found = part and part.returned.find_skipped(committed.offset, numbers)
            if found:
                return SkippedRecords(place, *found)
        return None

    def keep_known(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Those of them that are not of a topic that was deleted."""
        assigned = self._fetcher.assigned
        known = {
            place: committed
            for place, committed in offsets.items()
            if place not in assigned or not assigned[place].returned.is_unread
        }
        if len(known) < len(offsets):
            dropped = ", ".join(f"{t}-{n}" for t, n in sorted(offsets.keys() - known.keys()))
            _log.warning("offsets of %s are not committed: their topic was created again", dropped)
        return known

    def settle(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See `OffsetsReader`."""
        for place, committed in offsets.items():
            part = self._fetcher.assigned.get(place)
            if part is not None:
                part.returned.settle(committed.offset)
