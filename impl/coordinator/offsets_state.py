"""The offsets of one partition of `__consumer_offsets`: committed ones, and pending ones.

Five rules:

1. The state follows from the log: live commits and loads go through the same `replay`.
2. An offset of a plain commit is committed at once.
3. A transactional offset is pending, by producer id, until that producer's marker. ABORT drops it;
   COMMIT commits it unless a plain commit has a later record.
4. A tombstone removes the committed offset and all pending ones of its key.
5. A group exists from its first commit on, even if that is aborted, or from its first record of
   members, until its tombstone. Consumer groups (KIP-848) are here as a whole.

Source: `OffsetMetadataManager.replay`, `replayEndTransactionMarker`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from impl.coordinator.consumer_group import ConsumerGroup, GroupRecord, RecordKind
from impl.coordinator.consumer_group_records import decode_consumer_group_record
from impl.coordinator.group_records import decode_group_key
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

    Read-only: `committed`, `pending` (by producer id), `groups`, `stored_groups` (the last record
    of members, by classic group), `consumer_groups`, `next_offset` (after the last replayed batch).
    """

    __slots__ = (
        "committed",
        "consumer_groups",
        "groups",
        "next_offset",
        "pending",
        "stored_groups",
    )

    def __init__(self) -> None:
        self.committed: dict[OffsetKey, CommittedOffset] = {}
        self.pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self.groups: set[str] = set()
        self.stored_groups: dict[str, bytes] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.next_offset = 0

    def view(self) -> OffsetsView:
        """A snapshot of these offsets."""
        pending = ((id_, _items(offsets)) for id_, offsets in sorted(self.pending.items()))
        return OffsetsView(_items(self.committed), tuple(pending), tuple(sorted(self.groups)))

    def has_pending(self, key: OffsetKey) -> bool:
        """Whether an open transaction commits an offset for `key`."""
        return any(key in offsets for offsets in self.pending.values())

    def keys(self, is_wanted: Callable[[OffsetKey], bool]) -> list[OffsetKey]:
        """The wanted keys with an offset, committed or pending, in order."""
        known = set(self.committed).union(*self.pending.values())
        return sorted(filter(is_wanted, known))

    def replay(self, batch: RecordBatch) -> None:
        """Apply the next batch of the log. Raises `DecodeError`."""
        for record in batch.records:
            offset = batch.base_offset + record.offset_delta
            if batch.is_control:
                self._apply_marker(batch.producer_id, control_type(record, offset))
            else:
                self._apply_record(batch.producer_id, record, offset)
        self.next_offset = batch.last_offset + 1

    def _apply_record(self, producer_id: int, record: Record, offset: int) -> None:
        key = decode_key(record.key)
        if key is None:
            self._apply_group(record)
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

    def _apply_group(self, record: Record) -> None:
        assert record.key is not None, "a record without a key is refused before"
        found = decode_consumer_group_record(record.key, record.value)
        if found is not None:
            self._apply_consumer_group(*found)
            return
        group_id = decode_group_key(record.key)
        if group_id is None:
            return
        if record.value is None:
            self.groups.discard(group_id)
            self.stored_groups.pop(group_id, None)
        else:
            self.groups.add(group_id)
            self.stored_groups[group_id] = record.value

    def _apply_consumer_group(self, group_id: str, record: GroupRecord) -> None:
        """A tombstone of a group that there is not is ignored."""
        group = self.consumer_groups.get(group_id)
        if record.value is not None and group is None:
            group = self.consumer_groups[group_id] = ConsumerGroup(group_id)
            self.groups.add(group_id)
        if group is not None and record == GroupRecord(RecordKind.GROUP):
            self.groups.discard(group_id)
            del self.consumer_groups[group_id]
        elif group is not None:
            group.apply(record)

    def _forget(self, key: OffsetKey) -> None:
        self.committed.pop(key, None)
        for offsets in self.pending.values():
            offsets.pop(key, None)

    def _apply_marker(self, producer_id: int, number: int) -> None:
        """Apply a marker; other control records have no effect."""
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
