"""What the story of the stale coordinator writes to: a partition, or the offsets of a group.

Both are led by one broker, both ask the coordinator about each write, and both show what became of
it: in their log, and to their readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from conformance.transactions.ground import FAR, Ground
from conformance.transactions.names import Names
from conformance.transactions.observed import see_offset_log, see_partition
from conformance.transactions.reading import OffsetRecord, fetch_offsets
from conformance.transactions.wire import Call, Conversation, Group, Producer
from impl.protocol.errors import ErrorCode

LEADER: Final = FAR
"""Who leads the partition, and coordinates the group."""

FIRST, LATE, NEXT = "first", "late", "next"
"""What is written: in time, late, and by the next transaction."""
OFFSETS: Final = {FIRST: 5, LATE: 7, NEXT: 9}
"""The same as offsets."""


@dataclass(frozen=True, slots=True)
class Look:
    """A log, whether its readers are past all of it, what they are told, and what they are shown.

    `log` has an entry for each write and marker of the story's producer: `P:0=first`, `P:0!ABORT`.
    """

    log: tuple[str, ...]
    is_stable: bool
    told: str
    committed: tuple[str, ...]


class Target(Protocol):
    """What is written to."""

    def register(self, producer: Producer) -> tuple[str, Call[Any]]:
        """What V1 asks the coordinator before the first write, and its name."""

    def write(self, producer: Producer, sequence: int, value: str) -> tuple[str, Call[Any]]:
        """What is asked of LEADER, and its name."""

    def look(self, names: Names) -> Look:
        """What is there now. Raises what a `Wire` raises."""


class Records:
    """A new partition."""

    def __init__(self, ground: Ground, conversation: Conversation) -> None:
        self._ground, self._c = ground, conversation
        [self._partition] = ground.topic(on=LEADER)

    def register(self, producer: Producer) -> tuple[str, Call[Any]]:
        """The partition."""
        return "AddPartitionsToTxn", self._c.add_partitions(producer, [self._partition])

    def write(self, producer: Producer, sequence: int, value: str) -> tuple[str, Call[Any]]:
        """One record."""
        call = self._c.produce(producer, self._partition, sequence, value)
        return f"Produce {value!r}", call

    def look(self, names: Names) -> Look:
        """The partition at its leader."""
        here = see_partition(self._ground, self._partition)
        log = [
            _entry(
                names.identity(batch.producer_id, batch.producer_epoch), batch.marker, batch.values
            )
            for batch in here.batches
        ]
        stable, end = here.last_stable_offset, here.high_watermark
        told = f"last stable offset {stable} of {end}"
        return Look(tuple(log), stable == end, told, here.committed)


class Offsets:
    """A new group's offsets of two partitions; the next transaction commits that of the other."""

    def __init__(self, ground: Ground, conversation: Conversation) -> None:
        self._ground, self._c = ground, conversation
        self._one, self._other = ground.topic(2, on=LEADER)
        self._group = Group(ground.fresh("group"))

    def register(self, producer: Producer) -> tuple[str, Call[Any]]:
        """The group."""
        return "AddOffsetsToTxn", self._c.add_offsets(producer, self._group.group_id)

    def write(self, producer: Producer, sequence: int, value: str) -> tuple[str, Call[Any]]:
        """One offset; offsets have no sequences."""
        partition = self._other if value == NEXT else self._one
        call = self._c.txn_offset_commit(producer, self._group, partition, OFFSETS[value])
        return f"TxnOffsetCommit {value!r}", call

    def look(self, names: Names) -> Look:
        """The group at its coordinator."""
        group_id, both = self._group.group_id, (self._one, self._other)
        values = {offset: value for value, offset in OFFSETS.items()}
        log = [
            _entry(
                names.identity(row.producer_id, row.producer_epoch),
                None if isinstance(row, OffsetRecord) else row.marker,
                [values[row.committed_offset or 0]] if isinstance(row, OffsetRecord) else [],
            )
            for row in see_offset_log(self._ground, [group_id])
        ]
        wire = self._ground.group_coordinator()
        stable = wire.ask(fetch_offsets(group_id, both, require_stable=True))[self._one].error
        seen = wire.ask(fetch_offsets(group_id, both, require_stable=False))
        offsets = [seen[partition].committed_offset for partition in both]
        shown = tuple(values[offset] for offset in offsets if offset >= 0)
        return Look(tuple(log), stable is ErrorCode.NONE, f"stable offsets {stable.name}", shown)


def _entry(who: str, marker: str | None, values: Sequence[str]) -> str:
    return f"{who}!{marker}" if marker else f"{who}={','.join(values)}"
