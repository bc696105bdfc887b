"""Which records of a partition a consumer has returned, so that no commit passes over them unseen.

An abort takes back what was written, and leaves the consumer where it stands: behind records of
which nothing is left. A program that reads on loses them with the next offset that it commits. So
a partition remembers how far it was read at an abort, if anything is returned after it: until that
offset is committed, or the application seeks.

Theory of operation: `impl.client.consumed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from impl.client.consumed import ABORTS, MAX_ABORTS


class _ReadPast(NamedTuple):
    """Of the aborts from number `first` to `last` each happened when `end` was the next record."""

    first: int
    last: int
    end: int


class ReturnedRecords:
    """Those of one partition since its position was assigned or sought.

    Read-only: `begin`, the first position, None while it is unknown; `is_of_new_topic`, whether
    what was returned before was of a topic that was deleted.
    """

    __slots__ = ("_aborts", "_end", "_read_past", "_settled", "begin", "is_of_new_topic")

    def __init__(self, begin: int | None, is_of_new_topic: bool = False) -> None:
        self.begin = begin
        self.is_of_new_topic = is_of_new_topic
        self._end: int | None = None
        self._settled = -1
        self._aborts = ABORTS.count
        self._read_past: deque[_ReadPast] = deque(maxlen=MAX_ABORTS)

    @property
    def is_unread(self) -> bool:
        """Whether the topic is new, and nothing of it was returned: no offset of it is known."""
        return self.is_of_new_topic and self._end is None

    def return_to(self, end: int) -> None:
        """Records before this offset are returned."""
        if self._aborts != ABORTS.count:
            self._read_past_aborts()
        self._end = end

    def _read_past_aborts(self) -> None:
        first, self._aborts = self._aborts + 1, ABORTS.count
        if self._end is not None and self._end > self._settled:
            self._read_past.append(_ReadPast(first, self._aborts, self._end))

    def settle(self, offset: int) -> None:
        """This offset is committed: what was returned before it is not needed again."""
        self._settled = max(self._settled, offset)
        while self._read_past and self._read_past[0].end <= offset:
            self._read_past.popleft()

    def find_skipped(self, offset: int, aborts: Collection[int]) -> tuple[int, int] | None:
        """From where to where this offset passes over records that one of these aborts concerns, or
        of a topic that is new.
        """
        if self.is_unread:
            return 0, offset
        for past in self._read_past:
            if past.end < offset and any(past.first <= number <= past.last for number in aborts):
                return max(self._settled, self.begin or 0), past.end
        return None
