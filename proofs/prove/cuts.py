"""The cuts: lemmas about a request that arrives, each proved before the clauses use it.

They say what a solver would otherwise have to find among many facts: which batch a sequence names,
where an append stands, what an answer is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove import in_turn
from proofs.prove.clauses import (
    ONE,
    Formula,
    end_offset,
    implies,
    known_now,
    mine,
    place_of,
    slots,
    within,
)
from proofs.prove.invariant import (
    ACCEPTED,
    ANSWERED,
    ARITHMETIC,
    BELOW,
    DERIVED,
    FOLLOWS,
    NAMED,
    NEAR,
    NEWEST,
    OFFSETS,
    SAME,
    SENT,
    TURN,
)
from proofs.prove.regimes import LIFETIME, NO_WRAP, Regime
from proofs.prove.state import (
    VARIANT,
    Builder,
    State,
    Stored,
    stored,
)


@dataclass(frozen=True, slots=True)
class Lemma:
    """What holds where a step is taken, and the clauses that it stands on."""

    name: str
    formula: Formula
    uses: tuple[str, ...]


class Cuts:
    """The lemmas, over any state of one model in one configuration and regime."""

    def __init__(self, model: Model, k: Any, regime: Regime = NO_WRAP) -> None:
        self.model = model
        self.k = k
        self.regime = regime
        self.builder = Builder(model, k, regime)
        self.before = self.builder.state()

    def remembered(self) -> list[tuple[Node, Mapping[str, Node], Stored]]:
        """Each slot of the window: whether it is used, its fields, and the batch in the log."""
        found = slots(self.before.window)
        return [(used, s, stored(self.before, place_of(self.before, s))) for used, s in found]

    def window_is_near(self) -> tuple[Lemma, ...]:
        """Where sequences wrap: what is remembered is near the end of its epoch's log."""
        if not self.regime.wraps:
            return ()
        newest = stored(self.before, place_of(self.before, known_now(self.before).newest))
        facts = dag.conjunction(
            implies(used, within(dag.sub(newest.end, at.begin), ZERO, const(LIFETIME)))
            for used, _, at in self.remembered()
        )
        uses = ("memory_is_sound", "window_is_log", "window_has_no_gap", "log_was_sent", *SENT)
        return (Lemma(NEAR, ((), facts), uses),)

    def first_sequences(self) -> list[tuple[Node, Node, Stored]]:
        """Each slot: whether it is used, the first sequence that is derived, and the batch."""
        evaluator = self.builder.evaluator()
        metadata = self.model.leader.BatchMetadata
        call = self.model.leader.first_sequence
        return [
            (used, evaluator.call(call, [self.k, Rec(metadata, slot)]), at)
            for used, slot, at in self.remembered()
        ]

    def first_sequence_is_derived(self) -> Lemma:
        """The first sequence of a remembered batch is that of its position."""
        facts = dag.conjunction(
            implies(used, dag.eq(first, self.regime.sequence(at.begin)))
            for used, first, at in self.first_sequences()
        )
        uses = ("memory_is_sound", "window_is_log", "nothing_stored_is_empty", "log_was_sent")
        numbered = ("window_is_numbered", "sent_is_numbered", ARITHMETIC)
        return Lemma(DERIVED, ((), facts), (*uses, *numbered))

    def sequence_names_batch(self, batch: Mapping[str, Node], begin: Node) -> Lemma:
        """A request with the first sequence of a remembered batch has its position."""
        same_epoch = dag.eq(batch["producer_epoch"], known_now(self.before).epoch)
        facts = dag.conjunction(
            implies(
                used, same_epoch, dag.eq(batch["base_sequence"], first), dag.eq(begin, at.begin)
            )
            for used, first, at in self.first_sequences()
        )
        return Lemma(NAMED, ((), facts), (NEAR, DERIVED, ARITHMETIC))

    def sequence_names_records(self, batch: Mapping[str, Node]) -> Lemma:
        """A request with the first sequence of a remembered batch has its records."""
        same_epoch = dag.eq(batch["producer_epoch"], known_now(self.before).epoch)
        facts = dag.conjunction(
            implies(
                used,
                same_epoch,
                dag.eq(batch["base_sequence"], first),
                dag.both(
                    dag.eq(batch["first_record"], at.first),
                    dag.eq(batch["record_count"], at.count),
                ),
            )
            for used, first, at in self.first_sequences()
        )
        uses = (NAMED, "memory_is_sound", "window_is_log", "log_was_sent", *SENT)
        return Lemma(SAME, ((), facts), uses)

    def accepted_follows(self, after: State, request: Rec, begin: Node) -> Lemma:
        """What is appended has a record, no older epoch, and in the same one follows the newest."""
        batch, call = request.fields, self.model.messages.last_sequence
        last = self.builder.evaluator().call(call, [self.k, request])
        end = dag.add(begin, batch["record_count"])
        known = known_now(self.before)
        appended = dag.lt(self.before.log.length, after.log.length)
        epoch = batch["producer_epoch"]
        same = dag.eq(epoch, known.epoch)
        newest = stored(self.before, place_of(self.before, known.newest))
        facts = dag.conjunction(
            (
                dag.le(ONE, batch["record_count"]),
                dag.le(ZERO, epoch),
                dag.le(ZERO, begin),
                dag.eq(last, self.regime.sequence(dag.sub(end, ONE))),
                implies(appended, dag.le(known.epoch, epoch)),
                implies(appended, same, dag.eq(begin, newest.end)),
                implies(appended, dag.negate(same), self.first_allowed(begin)),
            )
        )
        window = ("memory_is_sound", "window_is_log", "window_is_numbered")
        uses = (*window, "log_was_sent", "sent_is_numbered", ARITHMETIC)
        return Lemma(ACCEPTED, ((), facts), uses)

    def newest_is_appended(self, after: State, batch: Mapping[str, Node]) -> Lemma:
        """What is appended is what the leader remembers as the newest; else nothing is new."""
        length = self.before.log.length
        appended = dag.lt(length, after.log.length)
        known, now = known_now(self.before), known_now(after)
        place, new_place = (place_of(s, known_now(s).newest) for s in (self.before, after))
        some = dag.lt(ZERO, known.window.length)
        facts = dag.conjunction(
            (
                implies(appended, dag.eq(new_place, length)),
                implies(appended, dag.eq(now.epoch, batch["producer_epoch"])),
                dag.either(appended, dag.eq(now.epoch, known.epoch)),
                dag.either(appended, implies(some, dag.eq(new_place, place))),
                dag.either(appended, dag.eq(some, dag.lt(ZERO, now.window.length))),
            )
        )
        uses = ("memory_is_sound", "window_is_log", *OFFSETS, ACCEPTED)
        return Lemma(NEWEST, ((), facts), uses)

    def follows_in_sequence(self, batch: Mapping[str, Node], begin: Node) -> Lemma:
        """An epoch begins at sequence 0, and what begins where the newest ends is in sequence."""
        known, sequence = known_now(self.before), batch["base_sequence"]
        newest = stored(self.before, place_of(self.before, known.newest))
        last, call = known.newest["last_sequence"], self.model.leader.in_sequence
        follows = self.builder.evaluator().call(call, [self.k, last, sequence])
        some = dag.lt(ZERO, known.window.length)
        facts = dag.both(
            implies(dag.eq(begin, ZERO), dag.eq(sequence, ZERO)),
            implies(some, dag.eq(begin, newest.end), follows),
        )
        uses = ("memory_is_sound", "window_is_numbered", ARITHMETIC)
        return Lemma(FOLLOWS, ((), facts), uses)

    def first_allowed(self, begin: Node) -> Node:
        """A new epoch begins at 0; what the leader knows nothing of, see FirstSequence."""
        unknown = dag.lt(known_now(self.before).epoch, ZERO)
        any_first = dag.eq(
            VARIANT["first_sequence"], const(self.model.configuration.FirstSequence.ANY)
        )
        return dag.either(dag.eq(begin, ZERO), dag.both(unknown, any_first))

    def duplicate_is_the_same(
        self,
        after: State,
        batch: Mapping[str, Node],
        begin: Node,
        answer: Mapping[str, Node],
    ) -> Lemma:
        """A success without an append is about this very batch, where it stands."""
        before, known = self.before, known_now(self.before)
        appended = dag.lt(before.log.length, after.log.length)
        at = stored(before, self.answered_place(answer, batch, begin))
        no_offset = dag.lt(answer["base_offset"], ZERO)
        newest = stored(before, place_of(before, known.newest))
        below = dag.both(dag.eq(batch["producer_epoch"], known.epoch), dag.lt(begin, newest.end))
        success = dag.both(dag.eq(answer["error"], ZERO), dag.negate(appended))
        parts = (
            implies(no_offset, below),
            mine(before, self.answered_place(answer, batch, begin)),
            dag.eq(at.first, batch["first_record"]),
            dag.either(no_offset, dag.eq(at.offset, answer["base_offset"])),
            dag.le(at.end_offset, answer["required_offset"]),
        )
        facts = dag.conjunction(implies(success, part) for part in parts)
        numbered = ("window_is_numbered", "log_was_sent", "sent_is_numbered")
        uses = (SAME, BELOW, "memory_is_sound", "window_is_log", *OFFSETS, *numbered)
        return Lemma(ANSWERED, ((), facts), uses)

    def below_is_stored(self, batch: Mapping[str, Node], begin: Node) -> Lemma:
        """Where an epoch is whole, a request below its end is in the log, at its position."""
        before, known = self.before, known_now(self.before)
        newest = stored(before, place_of(before, known.newest))
        place = before.cover(batch["producer_epoch"], begin)
        at = stored(before, place)
        log_end = end_offset(before, before.log.length)
        fact = implies(
            dag.eq(batch["producer_epoch"], known.epoch),
            dag.lt(begin, newest.end),
            dag.conjunction(
                (
                    mine(before, place),
                    dag.eq(at.first, batch["first_record"]),
                    dag.le(at.end_offset, log_end),
                )
            ),
        )
        whole = ("log_is_whole", "memory_is_sound", "window_is_log", *OFFSETS)
        return Lemma(BELOW, ((), fact), (*whole, "log_was_sent", *SENT))

    def answered_place(
        self, answer: Mapping[str, Node], batch: Mapping[str, Node], begin: Node
    ) -> Node:
        """Where the batch of a success stands; without an offset, where its position is."""
        covered = self.before.cover(batch["producer_epoch"], begin)
        by_offset = self.before.where(answer["required_offset"])
        appended = dag.eq(
            dag.add(end_offset(self.before, self.before.log.length), batch["record_count"]),
            answer["required_offset"],
        )
        at = dag.ite(appended, self.before.log.length, by_offset)
        return dag.ite(dag.lt(answer["base_offset"], ZERO), covered, at)

    def in_its_turn(
        self,
        after: State,
        batch: Mapping[str, Node],
        begin: Node,
        answer: Mapping[str, Node],
    ) -> tuple[Lemma, ...]:
        """What is so of a request that is handled in its turn; see `in_turn`."""
        before = self.before
        found = (
            in_turn.head_is_stored(before),
            in_turn.begins_within(before, begin),
            in_turn.remembered_is_placed(before),
            in_turn.window_begins_epoch(before),
            in_turn.is_remembered(before, begin, batch),
            in_turn.is_answered(answer),
            in_turn.is_stored_then(before, after, begin, batch),
        )
        return tuple(
            Lemma(name, formula, uses)
            for (name, uses), formula in zip(TURN.items(), found, strict=True)
        )
