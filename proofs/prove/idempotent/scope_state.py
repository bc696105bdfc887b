"""One producer at one partition in a world of a scope, as the clauses of the proofs read it.

The ghosts have concrete values here, read from the log; the history is a replay of each prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from model.language import Map
from proofs.lift.source import Model
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.scope_check import ScopeCheck, ScopeOfProof, TotalLog, check_clauses
from proofs.prove.idempotent.clause_groups import (
    GUARANTEED,
    HELPERS,
    IN_TURN,
    NEIGHBOURS,
    ORDERED,
    UNFENCED,
    WHOLE,
)
from proofs.prove.idempotent.proof_state import (
    FlyingBatch,
    LogEntry,
    Memory,
    PlacedBatch,
    StoredAnswer,
    memory,
)

NOWHERE = LogEntry(-7, -7, -7, -7, is_ours=False, producer=-7, base_sequence=-7, offset=-7)
"""The value outside the bounds of a log."""


@dataclass(frozen=True, slots=True)
class ScopeSequences:
    """The sequences of a scope; they wrap if the scope's first sequence is greater than 0."""

    k: Any

    @property
    def wraps(self) -> bool:
        """Whether sequences are used again."""
        return bool(self.k.bounds.first_sequence > 0)

    @property
    def max_sequence(self) -> int:
        """The last sequence."""
        return int(self.k.bounds.max_sequence)

    def sequence(self, position: int) -> int:
        """Return the sequence of a position."""
        return position % (self.max_sequence + 1) if self.wraps else position


class ScopeState:
    """One world, as the clauses read it: see `proofs.prove.idempotent.proof_state.ProofState`.

    `past` are the batches that were numbered on a path to this world, which the world alone does
    not show.
    """

    producer_id = producer = 0

    def __init__(
        self, model: Model, k: Any, world: Any, past: frozenset[Any] = frozenset()
    ) -> None:
        self.model, self.k, self.past = model, k, past
        self.regime = ScopeSequences(k)
        self.window_size: int = k.bounds.window
        self.client = world.clients[0]
        self.entry = self.client.partitions[0]
        self.leader = world.leaders[0]
        self.link = world.links[0][0]
        self.high_watermark: int = self.leader.high_watermark
        self.handled = len(self.link.answers)
        errors = [answer.error for answer in self.link.answers]
        self.refused = any(error != 0 for error in errors)
        self.fenced = model.messages.Error.INVALID_PRODUCER_EPOCH in errors

    @cached_property
    def known(self) -> Memory:
        """The memory of the leader."""
        return memory(self.leader.producers[0], len(self.log))

    @cached_property
    def acknowledged(self) -> frozenset[int]:
        """The records that are acknowledged."""
        return frozenset(r for r in range(self.k.bounds.records) if r in self.entry.acknowledged)

    @cached_property
    def failed(self) -> frozenset[int]:
        """The records that have failed."""
        return frozenset(r for r in range(self.k.bounds.records) if r in self.entry.failed)

    @property
    def begins_late(self) -> bool:
        """Whether the first epoch begins at a sequence greater than 0."""
        return self.regime.wraps

    @property
    def next_position(self) -> int:
        """The position in its epoch at which the partition's next batch begins."""
        if self.entry.producer_epoch == 0 and self.begins_late:
            return int(self.k.bounds.first_sequence + self.entry.records_sent)
        return int(self.entry.next_sequence)

    @property
    def epoch_in_turn(self) -> int:
        """The oldest epoch that the open connection still carries to the leader, or may carry."""
        epochs = (request.batch.producer_epoch for request in self.link.requests)
        return int(min(epochs, default=self.entry.producer_epoch))

    def placed(self, batch: Any) -> PlacedBatch:
        """Return a batch with its position in its epoch; if the scope begins late, its records give
        the position."""
        begin = int(batch.base_sequence)
        if batch.producer_epoch == 0 and self.begins_late:
            begin = int(self.k.bounds.first_sequence + batch.first_record)
        return PlacedBatch(batch.producer_epoch, begin, batch.record_count, batch.first_record)

    @cached_property
    def in_flight(self) -> tuple[FlyingBatch, ...]:
        """The batches in flight."""
        return tuple(
            FlyingBatch(
                self.entry.producer_epoch,
                self.position(self.entry.producer_epoch, b.batch.first_record),
                b.batch.record_count,
                b.batch.first_record,
                b.batch,
                b.outstanding,
            )
            for b in self.entry.in_flight
        )

    @cached_property
    def log(self) -> TotalLog[LogEntry]:
        """The log."""
        entries = (
            LogEntry(
                **{name: getattr(self.placed(s.batch), name) for name in PlacedBatch.__slots__},
                is_ours=s.batch.producer_id == 0,
                producer=s.batch.producer,
                base_sequence=s.batch.base_sequence,
                offset=s.base_offset,
            )
            for s in self.leader.log
        )
        return TotalLog(entries, NOWHERE)

    @cached_property
    def travelling(self) -> tuple[Any, ...]:
        """The batches that were sent, as far as this world shows them."""
        requests = [*self.link.requests, *(r for c in self.link.broken for r in c.requests)]
        stored = [s.batch for s in self.leader.log if s.batch.producer_id == 0]
        return (*(request.batch for request in requests), *stored)

    @cached_property
    def sent(self) -> frozenset[PlacedBatch]:
        """The batches that were sent."""
        return frozenset(map(self.placed, self.travelling))

    @cached_property
    def numbered(self) -> frozenset[PlacedBatch]:
        """The batches that were numbered."""
        flying = (b.batch for b in self.entry.in_flight)
        return frozenset(map(self.placed, (*self.past, *self.travelling, *flying)))

    @cached_property
    def answers(self) -> frozenset[StoredAnswer]:
        """The successes on their way."""
        return frozenset(
            StoredAnswer(a.first_record, a.base_offset, a.required_offset)
            for a in self.link.answers
            if a.error == 0
        )

    @cached_property
    def positions(self) -> Mapping[tuple[int, int], int]:
        """The positions of batches, by epoch and first record."""
        return {(b.epoch, b.first): b.begin for b in self.numbered}

    def position(self, epoch: int, first: int) -> int:
        """Return the position of a batch in its epoch."""
        return self.positions.get((epoch, first), 0)

    def is_sent(self, epoch: int, count: int, first: int) -> bool:
        """Whether a batch was sent."""
        return (epoch, count, first) in {(b.epoch, b.count, b.first) for b in self.sent}

    def is_numbered(self, epoch: int, count: int, first: int) -> bool:
        """Whether a batch was numbered."""
        return (epoch, count, first) in {(b.epoch, b.count, b.first) for b in self.numbered}

    def copy_of(self, record: int) -> int:
        """Return the place of a record's last copy, among the replicated copies if there are
        any."""
        copies = (
            (at.end_offset <= self.high_watermark, i)
            for i, at in enumerate(self.log)
            if at.first <= record < at.last
        )
        return max(copies, default=(False, -1))[1]

    def previous(self, place: int) -> int:
        """Return the place of the batch of the same epoch that ends where this one begins; -1 if
        there is none."""
        at = self.log[place]
        before = list(self.log)[:place]
        found = (i for i, a in enumerate(before) if (a.epoch, a.end) == (at.epoch, at.begin))
        return max(found, default=-1)

    def ends_at(self, end_offset: int) -> int:
        """Return the place of the batch that ends at an offset; -1 if there is none."""
        return next((i for i, at in enumerate(self.log) if at.end_offset == end_offset), -1)

    def covers(self, epoch: int, position: int) -> int:
        """Return the place of an epoch's last batch that has a position; -1 if there is none."""
        found = (
            i
            for i, at in enumerate(self.log)
            if at.epoch == epoch and at.begin <= position < at.end
        )
        return max(found, default=-1)

    def answered_place(self, answer: StoredAnswer) -> int:
        """Return the place of a success's batch."""
        return self.ends_at(answer.required_offset)

    @cached_property
    def replays(self) -> tuple[Any, ...]:
        """The knowledge about all producers after replays of the log's prefixes."""
        found = [self.model.leader.nobody(self.k)]
        for stored in self.leader.log:
            found.append(self.model.leader.replayed(self.k, found[-1], stored))
        return tuple(found)

    def history(self, length: int) -> Any:
        """Return what a replay of a prefix of the log knows of the producer."""
        return self.replays[length][0]

    def replayed_one_more(self, length: int) -> Any:
        """Return the result of the model's replay for a history and the next batch."""
        stored = self.leader.log[length]
        return self.model.leader.replayed(self.k, self.replays[length], stored)[0]

    def nothing_known(self) -> Any:
        """Return what is known of a producer id that was never seen."""
        return self.model.leader.UNKNOWN_PRODUCER

    @property
    def sequences_follow(self) -> bool:
        """The guarantee, in the model's text, of the client at this partition alone."""
        alone = replace(self.client, partitions=Map((self.entry,)))
        world = _World(clients=Map((alone,)))
        return bool(self.model.guarantees.sequences_follow(self.k, world))


@dataclass(frozen=True, slots=True)
class _World:
    """A world of which only the clients are read."""

    clients: Map[Any, Any]


def clauses_for(k: Any) -> tuple[Clause, ...]:
    """Return the clauses that are proved under the configuration's variant."""
    kept = dict(GUARANTEED)
    if k.variant.first_sequence == 0 or k.bounds.first_sequence > 0:
        del kept["no_gap"]
    if not remembers(k):
        del kept["remembers_five"]
    if k.budgets.losses > 0:
        del kept["acked_is_stored"], kept["acked_is_replicated"]
    if k.budgets.timeouts > 0 or k.budgets.rejections > 0:
        del kept["nothing_fails"]
    strict = k.variant.first_sequence != 0 and k.bounds.first_sequence == 0
    if not strict:
        del kept["order_kept"]
    calm = strict and is_calm(k)
    if not calm:
        for clause in ("no_false_error", "acked_once", "bumps_have_causes"):
            del kept[clause]
    extra = (*(WHOLE if strict else ()), *(IN_TURN if calm else ()))
    return (*HELPERS, *ORDERED, *NEIGHBOURS, *UNFENCED, *extra, *kept.values())


def is_calm(k: Any) -> bool:
    """Whether leaders remember everything, no answer refuses a stored batch, and no batch is given
    up."""
    b = k.budgets
    troubles = (b.refusals, b.late_errors, b.rejections, b.timeouts, b.losses)
    return remembers(k) and not any(troubles)


def remembers(k: Any) -> bool:
    """Whether restarted leaders know all that they knew before, or no leader restarts."""
    return bool(k.variant.restart_window == 1 or k.budgets.restarts == 0)


def in_flight(world: Any) -> Iterator[Any]:
    """Yield the batches in flight."""
    return (b.batch for b in world.clients[0].partitions[0].in_flight)


def pasts(worlds: Sequence[Any], edges: Iterable[tuple[int, int, int]]) -> list[frozenset[Any]]:
    """Return for each world the batches that were in flight on the path by which it was first
    found."""
    found: dict[int, frozenset[Any]] = {0: frozenset(in_flight(worlds[0]))}
    for before, _, after in edges:
        if after not in found:
            found[after] = found[before].union(in_flight(worlds[after]))
    return [found[i] for i in range(len(worlds))]


def states_of(scope: ScopeOfProof) -> Iterator[ScopeState]:
    """Yield the states of a scope, each with a past."""
    found = scope.graph
    for world, past in zip(found.worlds, pasts(found.worlds, found.edges), strict=True):
        yield ScopeState(scope.model, scope.k, world, past)


def check_scope(scope: ScopeOfProof) -> ScopeCheck:
    """Check each clause in each state of a scope."""
    return check_clauses(clauses_for(scope.k), scope, states_of(scope))
