"""What one partition of `__consumer_offsets` says: offsets that are visible, and pending ones.

Five rules:

1. All of it follows from the log: a live commit and a load go through the same `replay`.
2. An offset of a plain commit is visible at once, whatever was there.
3. One of a transaction is pending, per producer id, until that producer's marker. ABORT drops it;
   COMMIT makes it visible if its record lies behind the visible one's: a plain commit that came
   later stays.
4. A tombstone takes the visible offset and all pending ones of its key.
5. A group exists from its first commit on, also if that was aborted.

Source: `OffsetMetadataManager.replay`, `replayEndTransactionMarker`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from impl.coordinator.offsets_records import (
    CommittedOffset,
    OffsetKey,
    decode_key,
    decode_value,
)
from impl.protocol.control_records import ControlType, control_type
from impl.protocol.record_batch import NO_PRODUCER_ID, Record, RecordBatch


class OffsetsView(NamedTuple):
    """A partition's offsets as a value; comparable, hashable."""

    committed: tuple[tuple[OffsetKey, CommittedOffset], ...]
    pending: tuple[tuple[int, tuple[tuple[OffsetKey, CommittedOffset], ...]], ...]
    groups: tuple[str, ...]


class GroupOffsets:
    """The offsets of all groups of one partition: see the rules above.

    To be read: `committed`, `pending` (producer id to its offsets), `groups`, `next_offset` (behind
    the last batch that was taken in).
    """

    __slots__ = ("committed", "groups", "next_offset", "pending")

    def __init__(self) -> None:
        self.committed: dict[OffsetKey, CommittedOffset] = {}
        self.pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self.groups: set[str] = set()
        self.next_offset = 0

    def view(self) -> OffsetsView:
        """These offsets as a value."""
        pending = ((id_, _items(offsets)) for id_, offsets in sorted(self.pending.items()))
        return OffsetsView(_items(self.committed), tuple(pending), tuple(sorted(self.groups)))

    def has_pending(self, key: OffsetKey) -> bool:
        """Whether some open transaction commits an offset for `key`."""
        return any(key in offsets for offsets in self.pending.values())

    def keys_of(self, topics: Collection[str]) -> list[OffsetKey]:
        """The keys of these topics that have an offset, visible or pending, in order."""
        known = set(self.committed).union(*self.pending.values())
        return sorted(key for key in known if key.topic in topics)

    def replay(self, batch: RecordBatch) -> None:
        """Take in the next batch of the log. Raises `DecodeError`."""
        for record in batch.records:
            offset = batch.base_offset + record.offset_delta
            if batch.is_control:
                self._end(batch.producer_id, control_type(record, offset))
            else:
                self._take(batch.producer_id, record, offset)
        self.next_offset = batch.last_offset + 1

    def _take(self, producer_id: int, record: Record, offset: int) -> None:
        key = decode_key(record.key)
        if key is None:
            return
        if record.value is None:
            self._forget(key)
            return
        self.groups.add(key.group_id)
        committed = decode_value(record.value, offset)
        if producer_id == NO_PRODUCER_ID:
            self.committed[key] = committed
        else:
            self.pending.setdefault(producer_id, {})[key] = committed

    def _forget(self, key: OffsetKey) -> None:
        self.committed.pop(key, None)
        for offsets in self.pending.values():
            offsets.pop(key, None)

    def _end(self, producer_id: int, number: int) -> None:
        """A marker; control records of other types mean nothing here."""
        if number not in (ControlType.ABORT, ControlType.COMMIT):
            return
        ended = self.pending.pop(producer_id, {})
        if number == ControlType.ABORT:
            return
        for key, committed in ended.items():
            visible = self.committed.get(key)
            if visible is None or committed.record_offset > visible.record_offset:
                self.committed[key] = committed


def _items(
    offsets: Mapping[OffsetKey, CommittedOffset],
) -> tuple[tuple[OffsetKey, CommittedOffset], ...]:
    return tuple(sorted(offsets.items()))
