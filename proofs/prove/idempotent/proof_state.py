"""The states that clauses are about: one producer at one partition, as a proof sees it.

The same clause is lifted over a state of unknowns (`proofs.prove.idempotent.symbolic_state`) and
evaluated, as plain Python, on each state of small scopes (`proofs.prove.idempotent.scope_state`).

A ghost is a part of the state that no rule reads. Ghosts name things that exist: they tell a solver
the place of a batch, so that the solver need not search for it.
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
    """Some records of an epoch: `begin` and `end` are positions, which are sequences without a
    limit."""

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
        """The record after its last one."""
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class FlyingBatch(PlacedBatch):
    """A batch in flight, placed in the partition's epoch."""

    batch: Batch
    outstanding: bool


@dataclass(frozen=True, slots=True)
class LogEntry(PlacedBatch):
    """The batch at a place of the log; `is_ours` says that producer id p wrote it."""

    is_ours: bool
    producer: int
    base_sequence: int
    offset: int

    @property
    def end_offset(self) -> int:
        """The offset after the batch's last one."""
        return self.offset + self.count


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A successful answer about the batch with this first record; an offset of -1 means that it has
    none."""

    first: int
    base_offset: int
    required_offset: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a leader about p after `length` batches of its log, the newest batch last."""

    epoch: int
    window: Sequence[BatchMetadata]
    length: int


class Sequences(Protocol):
    """Gives positions their sequences."""

    @property
    def wraps(self) -> bool:
        """Whether sequences are used again."""

    @property
    def max_sequence(self) -> int:
        """The last sequence."""

    @property
    def sequence(self) -> Callable[[int], int]:
        """Returns the sequence of a position."""


class ProofState(Protocol):
    """One state. Sets only grow, except that a failover removes answers that the old leader held
    back."""

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
        """Whether p has sent a batch with these records."""

    def is_numbered(self, epoch: int, count: int, first: int) -> bool:
        """Whether p has numbered a batch with these records, sent in this epoch or not."""

    def position(self, epoch: int, first: int) -> int:
        """Ghost: the position in its epoch at which the batch with this first record begins."""

    def ends_at(self, end_offset: int) -> int:
        """Ghost: the place in the log of the batch that ends at an offset."""

    def covers(self, epoch: int, position: int) -> int:
        """Ghost: the place in the log of the last batch of an epoch that has a position."""

    def answered_place(self, answer: StoredAnswer) -> int:
        """Ghost: the place in the log of a success's batch."""

    def copy_of(self, record: int) -> int:
        """Ghost: the place in the log of an acknowledged record."""

    def previous(self, place: int) -> int:
        """Ghost: the place of the batch that another one followed when it was appended."""

    def history(self, length: int) -> ProducerStateEntry:
        """Ghost: what a leader knows of p after a replay of the first `length` batches of the
        log."""

    def replayed_one_more(self, length: int) -> ProducerStateEntry:
        """Return the result of the model's replay for a history and the next batch."""

    def nothing_known(self) -> ProducerStateEntry:
        """Return what is known of a producer id that was never seen."""

    @property
    def sequences_follow(self) -> bool:
        """Return the guarantee of this name for the client at this partition alone."""


def memory(entry: ProducerStateEntry, length: int) -> Memory:
    """Return a producer state entry, with the length of the log that it is about."""
    return Memory(entry.producer_epoch, entry.batches, length)


def after_replay(s: ProofState, length: int) -> Memory:
    """Return what a leader knows after a replay of a prefix of the log."""
    return memory(s.history(length), length)
