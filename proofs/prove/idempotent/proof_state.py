"""What the clauses speak of: one producer at one partition, as a proof sees a state.

The same clause is lifted over a state of unknowns (`proofs.prove.idempotent.symbolic_state`) and
evaluated, as plain Python, on each state of small scopes (`proofs.prove.idempotent.scope_state`).

What a rule never reads is a ghost. Ghosts name what exists: a solver is told where a batch stands,
and need not search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from model.idempotent.client import Client, PartitionEntry
from model.idempotent.leader import BatchMetadata, ProducerStateEntry
from model.idempotent.messages import Batch


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """Some records of an epoch: `begin` and `end` are positions there, a sequence without end."""

    epoch: int
    begin: int
    count: int
    first: int

    @property
    def end(self) -> int:
        """The position after its last record."""
        return self.begin + self.count

    @property
    def last(self) -> int:
        """The record after its last."""
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class FlyingBatch(PlacedBatch):
    """A batch in flight, placed in the partition's epoch."""

    batch: Batch
    outstanding: bool


@dataclass(frozen=True, slots=True)
class LogEntry(PlacedBatch):
    """What stands at a place of the log; `is_ours` if producer id p wrote it."""

    is_ours: bool
    producer: int
    base_sequence: int
    offset: int

    @property
    def end_offset(self) -> int:
        """The offset after the batch's last."""
        return self.offset + self.count


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A success: of the batch with this first record; an offset of -1 says nothing."""

    first: int
    base_offset: int
    required_offset: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader knows of p that has `length` batches in its log; the newest is last."""

    epoch: int
    window: Sequence[BatchMetadata]
    length: int


class Sequences(Protocol):
    """How positions become sequences."""

    @property
    def wraps(self) -> bool:
        """Whether sequences are used again."""

    @property
    def max_sequence(self) -> int:
        """The last one."""

    @property
    def sequence(self) -> Callable[[int], int]:
        """The sequence of a position."""


class ProofState(Protocol):
    """One state. Sets only grow, but for answers that an old leader held back."""

    producer_id: int
    producer: int
    window_size: int
    regime: Sequences
    client: Client
    entry: PartitionEntry
    in_flight: Sequence[FlyingBatch]
    acknowledged: AbstractSet[int]
    failed: AbstractSet[int]
    next_position: int
    handled: int
    refused: bool
    fenced: bool
    epoch_in_turn: int
    sent: AbstractSet[PlacedBatch]
    numbered: AbstractSet[PlacedBatch]
    answers: AbstractSet[StoredAnswer]
    log: Sequence[LogEntry]
    high_watermark: int
    known: Memory

    def is_sent(self, epoch: int, count: int, first: int) -> bool:
        """p has sent a batch with these records."""

    def is_numbered(self, epoch: int, count: int, first: int) -> bool:
        """p has numbered a batch with these records, whether it was sent there or not."""

    def position(self, epoch: int, first: int) -> int:
        """Ghost: where the batch with this first record begins in its epoch."""

    def ends_at(self, end_offset: int) -> int:
        """Ghost: the place in the log of the batch that ends at an offset."""

    def covers(self, epoch: int, position: int) -> int:
        """Ghost: the place in the log of the last batch of an epoch that has a position."""

    def answered_place(self, answer: StoredAnswer) -> int:
        """Ghost: the place in the log that a success speaks of."""

    def copy_of(self, record: int) -> int:
        """Ghost: the place in the log of an acknowledged record."""

    def previous(self, place: int) -> int:
        """Ghost: the place of the batch that another followed when it was appended."""

    def history(self, length: int) -> ProducerStateEntry:
        """Ghost: what a leader that replays so many batches of the log knows of p."""

    def replayed_one_more(self, length: int) -> ProducerStateEntry:
        """What the model's replay makes of a history and the next batch."""

    def nothing_known(self) -> ProducerStateEntry:
        """What is known of a producer id that was never seen."""

    @property
    def sequences_follow(self) -> bool:
        """What the guarantee of that name says of the client at this partition alone."""


def memory(entry: ProducerStateEntry, length: int) -> Memory:
    """A producer state entry, with the length of the log that it is about."""
    return Memory(entry.producer_epoch, entry.batches, length)


def after_replay(s: ProofState, length: int) -> Memory:
    """What a leader that replays a prefix of the log knows."""
    return memory(s.history(length), length)
