"""Lemmas about the step in which a request arrives, each proved before the clauses use it.

They state what a solver would otherwise have to find among many facts: which batch a sequence
identifies, where an append stands, which batch an answer is about.
"""

from __future__ import annotations

from typing import Any

from proofs.lift.dag import Node, conjunction, ite
from proofs.lift.source import Model
from proofs.lift.values import Rec, Scalars
from proofs.prove import fifo
from proofs.prove.clauses import end_offset, known_now, mine, place_of, slots, within
from proofs.prove.induction import ARITHMETIC, Lemma
from proofs.prove.invariant import (
    ACCEPTED,
    ANSWERED,
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
from proofs.prove.sequence_arithmetic import LIFETIME, NO_WRAP, SequenceArithmetic
from proofs.prove.state import VARIANT, Builder, LogEntry, ProofState, stored


class StepLemmas:
    """The lemmas, over any state of one model in one configuration and regime."""

    def __init__(self, model: Model, k: Any, regime: SequenceArithmetic = NO_WRAP) -> None:
        self.model = model
        self.k = k
        self.regime = regime
        self.builder = Builder(model, k, regime)
        self.before = self.builder.state()

    def remembered(self) -> list[tuple[Node, Scalars, LogEntry]]:
        """Each slot of the window: whether it is used, its fields, and the batch in the log."""
        found = slots(self.before.window)
        return [(used, s, stored(self.before, place_of(self.before, s))) for used, s in found]

    def window_is_near(self) -> tuple[Lemma, ...]:
        """Where sequences wrap: what is remembered is near the end of its epoch's log."""
        if not self.regime.wraps:
            return ()
        newest = stored(self.before, place_of(self.before, known_now(self.before).newest))
        facts = conjunction(
            (
                used.implies(within(newest.end - at.begin, 0, LIFETIME))
                for used, _, at in self.remembered()
            )
        )
        uses = ("memory_is_sound", "window_is_log", "window_has_no_gap", "log_was_sent", *SENT)
        return (Lemma(NEAR, ((), facts), uses),)

    def first_sequences(self) -> list[tuple[Node, Node, LogEntry]]:
        """Each slot: whether it is used, the first sequence that is derived, and the batch."""
        evaluator = self.builder.evaluator()
        call = self.model.leader.first_sequence
        return [
            (used, evaluator.call(call, [self.k, slot]), at) for used, slot, at in self.remembered()
        ]

    def first_sequence_is_derived(self) -> Lemma:
        """The first sequence of a remembered batch is that of its position."""
        facts = conjunction(
            (
                used.implies(first.eq(self.regime.sequence(at.begin)))
                for used, first, at in self.first_sequences()
            )
        )
        uses = ("memory_is_sound", "window_is_log", "nothing_stored_is_empty", "log_was_sent")
        numbered = ("window_is_numbered", "sent_is_numbered", ARITHMETIC)
        return Lemma(DERIVED, ((), facts), (*uses, *numbered))

    def sequence_names_batch(self, batch: Scalars, begin: Node) -> Lemma:
        """A request with the first sequence of a remembered batch has its position."""
        same_epoch = batch.producer_epoch.eq(known_now(self.before).epoch)
        facts = conjunction(
            (
                (used & same_epoch & batch.base_sequence.eq(first)).implies(begin.eq(at.begin))
                for used, first, at in self.first_sequences()
            )
        )
        return Lemma(NAMED, ((), facts), (NEAR, DERIVED, ARITHMETIC))

    def sequence_names_records(self, batch: Scalars) -> Lemma:
        """A request with the first sequence of a remembered batch has its records."""
        same_epoch = batch.producer_epoch.eq(known_now(self.before).epoch)
        facts = conjunction(
            (
                (used & same_epoch & batch.base_sequence.eq(first)).implies(
                    batch.first_record.eq(at.first) & batch.record_count.eq(at.count)
                )
                for used, first, at in self.first_sequences()
            )
        )
        uses = (NAMED, "memory_is_sound", "window_is_log", "log_was_sent", *SENT)
        return Lemma(SAME, ((), facts), uses)

    def accepted_follows(self, after: ProofState, request: Rec, begin: Node) -> Lemma:
        """What is appended has a record, no older epoch, and in the same one follows the newest."""
        batch, call = request, self.model.messages.last_sequence
        last = self.builder.evaluator().call(call, [self.k, request])
        end = begin + batch.record_count
        known = known_now(self.before)
        appended = self.before.log.length < after.log.length
        epoch = batch.producer_epoch
        same = epoch.eq(known.epoch)
        newest = stored(self.before, place_of(self.before, known.newest))
        facts = (
            (batch.record_count >= 1)
            & (epoch >= 0)
            & (begin >= 0)
            & last.eq(self.regime.sequence(end - 1))
            & appended.implies(known.epoch <= epoch)
            & (appended & same).implies(begin.eq(newest.end))
            & (appended & ~same).implies(self.first_allowed(begin))
        )
        window = ("memory_is_sound", "window_is_log", "window_is_numbered")
        uses = (*window, "log_was_sent", "sent_is_numbered", ARITHMETIC)
        return Lemma(ACCEPTED, ((), facts), uses)

    def newest_is_appended(self, after: ProofState, batch: Scalars) -> Lemma:
        """What is appended is what the leader remembers as the newest; else nothing is new."""
        length = self.before.log.length
        appended = length < after.log.length
        known, now = known_now(self.before), known_now(after)
        place, new_place = (place_of(s, known_now(s).newest) for s in (self.before, after))
        some = known.window.length > 0
        facts = (
            appended.implies(new_place.eq(length))
            & appended.implies(now.epoch.eq(batch.producer_epoch))
            & (appended | now.epoch.eq(known.epoch))
            & (appended | some.implies(new_place.eq(place)))
            & (appended | some.eq(now.window.length > 0))
        )
        uses = ("memory_is_sound", "window_is_log", *OFFSETS, ACCEPTED)
        return Lemma(NEWEST, ((), facts), uses)

    def follows_in_sequence(self, batch: Scalars, begin: Node) -> Lemma:
        """An epoch begins at sequence 0, and what begins where the newest ends is in sequence."""
        known, sequence = known_now(self.before), batch.base_sequence
        newest = stored(self.before, place_of(self.before, known.newest))
        last, call = known.newest.last_sequence, self.model.leader.in_sequence
        follows = self.builder.evaluator().call(call, [self.k, last, sequence])
        some = known.window.length > 0
        facts = begin.eq(0).implies(sequence.eq(0)) & (some & begin.eq(newest.end)).implies(follows)
        uses = ("memory_is_sound", "window_is_numbered", ARITHMETIC)
        return Lemma(FOLLOWS, ((), facts), uses)

    def first_allowed(self, begin: Node) -> Node:
        """A new epoch begins at 0; what the leader knows nothing of, see FirstSequence."""
        unknown = known_now(self.before).epoch < 0
        any_first = VARIANT["first_sequence"].eq(self.model.configuration.FirstSequence.ANY)
        return begin.eq(0) | unknown & any_first

    def duplicate_is_the_same(
        self, after: ProofState, batch: Scalars, begin: Node, answer: Scalars
    ) -> Lemma:
        """A success without an append is about this very batch, where it stands."""
        before, known = self.before, known_now(self.before)
        appended = before.log.length < after.log.length
        at = stored(before, self.answered_place(answer, batch, begin))
        no_offset = answer.base_offset < 0
        newest = stored(before, place_of(before, known.newest))
        below = batch.producer_epoch.eq(known.epoch) & (begin < newest.end)
        success = answer.error.eq(0) & ~appended
        parts = (
            no_offset.implies(below),
            mine(before, self.answered_place(answer, batch, begin)),
            at.first.eq(batch.first_record),
            no_offset | at.offset.eq(answer.base_offset),
            at.end_offset <= answer.required_offset,
        )
        facts = conjunction(success.implies(part) for part in parts)
        numbered = ("window_is_numbered", "log_was_sent", "sent_is_numbered")
        uses = (SAME, BELOW, "memory_is_sound", "window_is_log", *OFFSETS, *numbered)
        return Lemma(ANSWERED, ((), facts), uses)

    def below_is_stored(self, batch: Scalars, begin: Node) -> Lemma:
        """Where an epoch is whole, a request below its end is in the log, at its position."""
        before, known = self.before, known_now(self.before)
        newest = stored(before, place_of(before, known.newest))
        place = before.cover(batch.producer_epoch, begin)
        at = stored(before, place)
        log_end = end_offset(before, before.log.length)
        fact = (batch.producer_epoch.eq(known.epoch) & (begin < newest.end)).implies(
            mine(before, place) & at.first.eq(batch.first_record) & (at.end_offset <= log_end)
        )
        whole = ("log_is_whole", "memory_is_sound", "window_is_log", *OFFSETS)
        return Lemma(BELOW, ((), fact), (*whole, "log_was_sent", *SENT))

    def answered_place(self, answer: Scalars, batch: Scalars, begin: Node) -> Node:
        """Where the batch of a success stands; without an offset, where its position is."""
        covered = self.before.cover(batch.producer_epoch, begin)
        by_offset = self.before.where(answer.required_offset)
        appended = (end_offset(self.before, self.before.log.length) + batch.record_count).eq(
            answer.required_offset
        )
        at = ite(appended, self.before.log.length, by_offset)
        return ite(answer.base_offset < 0, covered, at)

    def in_its_turn(
        self, after: ProofState, batch: Scalars, begin: Node, answer: Scalars
    ) -> tuple[Lemma, ...]:
        """What is so of a request that is handled in its turn; see `in_turn`."""
        before = self.before
        found = (
            fifo.head_is_stored(before),
            fifo.begins_within(before, begin),
            fifo.remembered_is_placed(before),
            fifo.window_begins_epoch(before),
            fifo.is_remembered(before, begin, batch),
            fifo.is_answered(answer),
            fifo.is_stored_then(before, after, begin, batch),
        )
        return tuple(
            Lemma(name, formula, uses)
            for (name, uses), formula in zip(TURN.items(), found, strict=True)
        )
