"""What is always true: the guarantees, and the helper clauses that make them inductive.

A clause is a formula over some numbers, for all of which it holds in every state. The guarantees
come first; the rest says what a reader would nod at: what was sent has its place in its epoch,
what is in flight is in order, what is remembered is in the log, and a leader that replays a
prefix of the log remembers as much of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from proofs.lift import containers
from proofs.lift.containers import FocusMap
from proofs.lift.dag import ZERO, Node, Operand, conjunction, const, ite
from proofs.lift.values import Rec, Scalars, Seq
from proofs.prove.induction import conjuncts
from proofs.prove.sequence_arithmetic import LARGEST_BATCH
from proofs.prove.smt import Formula
from proofs.prove.state import PRODUCER, LogEntry, P, ProofState, stored
from proofs.prove.unknowns import number

ONE = const(1)


AT, NEXT = number("i"), number("j")
R, F, B, POSITION, RECORD = (number(name) for name in ("r", "f", "b", "at", "record"))
E1, C1, F1 = (number(f"{name}1") for name in ("epoch", "count", "first"))
E2, C2, F2 = (number(f"{name}2") for name in ("epoch", "count", "first"))


def within(node: Node, lo: Operand, hi: Operand) -> Node:
    """lo <= node <= hi."""
    return (lo <= node) & (node <= hi)


def in_log(state: ProofState, place: Node) -> Node:
    """A place of the log."""
    return (place >= 0) & (place < state.log.length)


def mine(state: ProofState, place: Node) -> Node:
    """A place of the log with a batch of p."""
    return in_log(state, place) & stored(state, place).mine


def pair(state: ProofState) -> tuple[Node, LogEntry, LogEntry]:
    """Two places i < j of p, and what stands there."""
    both = mine(state, AT) & mine(state, NEXT) & (AT < NEXT)
    return both, stored(state, AT), stored(state, NEXT)


def slots(sequence: Any) -> list[tuple[Node, Any]]:
    """Each slot of a bounded tuple: whether it is used, and its fields."""
    return [(i < sequence.length, slot) for i, slot in enumerate(sequence.slots)]


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch of p as the clauses see it: `begin` and `end` are positions in its epoch."""

    epoch: Node
    begin: Node
    count: Node
    first: Node

    @property
    def end(self) -> Node:
        """The position after its last record."""
        return self.begin + self.count

    @property
    def last(self) -> Node:
        """The record after its last."""
        return self.first + self.count

    def same_as(self, other: SentBatch) -> Node:
        """Equal positions and equal records."""
        return self.begin.eq(other.begin) & self.count.eq(other.count) & self.first.eq(other.first)

    def before(self, other: SentBatch) -> Node:
        """Positions and records are all before the other's."""
        return (self.end <= other.begin) & (self.last <= other.first)

    def placed(self, other: SentBatch) -> Node:
        """The same, or one wholly before the other."""
        return self.same_as(other) | self.before(other) | other.before(self)


def batch_at(state: ProofState, epoch: Node, count: Node, first: Node) -> SentBatch:
    """The batch of an epoch that has these records."""
    return SentBatch(epoch, state.position(epoch, first), count, first)


def flying(state: ProofState) -> list[tuple[Node, SentBatch, Scalars]]:
    """Each in-flight slot: whether it is used, its batch, and the batch's fields."""
    found = []
    for used, fields in slots(state.in_flight):
        batch = fields.batch
        epoch = state.entry.producer_epoch
        sent = batch_at(state, epoch, batch.record_count, batch.first_record)
        found.append((used, sent, batch))
    return found


def sent_one(state: ProofState) -> tuple[Node, SentBatch]:
    """Any batch, and whether it was sent."""
    return state.sent(E1, C1, F1), batch_at(state, E1, C1, F1)


def apart(a: tuple[Node, Node], b: tuple[Node, Node]) -> Node:
    """Two intervals (begin, end) do not meet."""
    return (a[1] <= b[0]) | (b[1] <= a[0])


# Guarantees


def at_most_once(state: ProofState) -> Formula:
    """No record stands twice in the log under one epoch of p."""
    both, a, b = pair(state)
    disjoint = apart((a.first, a.last), (b.first, b.last))
    return (AT, NEXT), (both & a.epoch.eq(b.epoch)).implies(disjoint)


def order_within_epoch(state: ProofState) -> Formula:
    """Under one epoch records stand in the order of their sends."""
    both, a, b = pair(state)
    return (AT, NEXT), (both & a.epoch.eq(b.epoch)).implies(a.last <= b.first)


def has_record(state: ProofState, place: Node, record: Node) -> Node:
    """At this place stands a batch of p with this record."""
    at = stored(state, place)
    return mine(state, place) & (at.first <= record) & (record < at.last)


def acked_is_replicated(state: ProofState) -> Formula:
    """An acknowledged record stands in the log, below the high watermark."""
    place = state.place(R)
    below = stored(state, place).end_offset <= state.high_watermark
    return (R,), state.acknowledged(R).implies(has_record(state, place, R) & below)


def acked_is_stored(state: ProofState) -> Formula:
    """An acknowledged record stands in the log, and a success says where its batch stands."""
    bound, told = answers_are_true(state)
    held = state.acknowledged(RECORD).implies(has_record(state, state.place(RECORD), RECORD))
    return (*bound, RECORD), held & told


def no_gap(state: ProofState) -> Formula:
    """Each batch begins where the one before it in its epoch ended; the first begins at 0."""
    before = state.previous(NEXT)
    a, b = stored(state, before), stored(state, NEXT)

    def is_earlier(place: Node) -> Node:
        same_epoch = stored(state, place).epoch.eq(b.epoch)
        return mine(state, place) & (place < NEXT) & same_epoch

    begins = b.begin.eq(0) & ~is_earlier(AT)
    is_last = is_earlier(AT).implies(before >= AT)
    follows = is_earlier(before) & a.end.eq(b.begin) & is_last
    return (AT, NEXT), mine(state, NEXT).implies(begins | follows)


# The client


def epochs_rise(state: ProofState) -> Formula:
    """The partition's epoch is of the producer's id, and not ahead of the producer's."""
    client, entry = state.client, state.entry
    return (), (
        client.producer_id.eq(P)
        & client.producer.eq(PRODUCER)
        & entry.producer_id.eq(P)
        & within(entry.producer_epoch, 0, client.producer_epoch)
    )


def in_flight_in_order(state: ProofState) -> Formula:
    """Batches in flight are of the partition's epoch, in order, none empty, all before the next."""
    facts = []
    entry = state.entry
    begin = (ZERO, ZERO)
    for used, sent, batch in flying(state):
        facts.append(used.implies(batch.producer_epoch.eq(entry.producer_epoch)))
        facts.append(used.implies(sent.count >= 1))
        facts.append(used.implies(begin[0] <= sent.begin))
        facts.append(used.implies(begin[1] <= sent.first))
        facts.append(used.implies(sent.end <= state.next_position))
        facts.append(used.implies(sent.last <= entry.records_sent))
        begin = (sent.end, sent.last)
    facts.append(state.next_position >= 0)
    facts.append(entry.records_sent >= 0)
    return (), conjunction(facts)


def fits(state: ProofState, sent: SentBatch) -> Node:
    """A batch is as small as the regime has it."""
    if state.regime.wraps:
        return sent.count <= LARGEST_BATCH
    return sent.end <= state.regime.max_sequence


def in_flight_is_numbered(state: ProofState) -> Formula:
    """Sequences are those of the positions, of batches in flight and of the next."""
    sequence = state.regime.sequence
    facts = [state.entry.next_sequence.eq(sequence(state.next_position))]
    for used, sent, batch in flying(state):
        facts.append(used.implies(batch.base_sequence.eq(sequence(sent.begin))))
        facts.append(used.implies(fits(state, sent)))
    return (), conjunction(facts)


def in_flight_is_mine(state: ProofState) -> Formula:
    """Batches in flight carry the producer and its id."""
    return (), conjunction(
        (
            used.implies(b.producer_id.eq(P) & b.producer.eq(PRODUCER))
            for used, _, b in flying(state)
        )
    )


# What was sent


def sent_is_numbered(state: ProofState) -> Formula:
    """Of what was sent no batch is empty, none is ahead of the client."""
    entry = state.entry
    was, sent = sent_one(state)
    facts = (
        (sent.count >= 1)
        & (sent.begin >= 0)
        & (sent.first >= 0)
        & within(sent.epoch, 0, entry.producer_epoch)
        & fits(state, sent)
        & (sent.last <= entry.records_sent)
        & sent.epoch.eq(entry.producer_epoch).implies(sent.end <= state.next_position)
    )
    return (E1, C1, F1), was.implies(facts)


def sent_once_numbered(state: ProofState) -> Formula:
    """Under one epoch two sent batches are the same, or one wholly before the other."""
    a, b = batch_at(state, E1, C1, F1), batch_at(state, E1, C2, F2)
    both = state.sent(E1, C1, F1) & state.sent(E1, C2, F2)
    return (E1, C1, F1, C2, F2), both.implies(a.placed(b))


def in_flight_is_whole(state: ProofState, other: SentBatch) -> Node:
    """A batch in flight has the records of the other, or shares none."""
    facts = []
    for used, sent, _ in flying(state):
        same = sent.first.eq(other.first) & sent.count.eq(other.count)
        disjoint = apart((sent.first, sent.last), (other.first, other.last))
        facts.append(used.implies(same | disjoint))
    return conjunction(facts)


def in_flight_is_placed(state: ProofState, other: SentBatch) -> Node:
    """A batch in flight is the other, or one is wholly before."""
    return conjunction([used.implies(sent.placed(other)) for used, sent, _ in flying(state)])


def is_epoch_in_use(state: ProofState) -> Node:
    """The epoch is the one that the client writes the partition with."""
    return E1.eq(state.entry.producer_epoch)


def batches_stay_whole(state: ProofState) -> Formula:
    """A batch in flight has the records that it had whenever it was sent, or shares none."""
    was, other = sent_one(state)
    return (E1, C1, F1), was.implies(in_flight_is_whole(state, other))


def in_flight_has_its_place(state: ProofState) -> Formula:
    """A batch in flight and a sent one of its epoch are the same, or one is wholly before."""
    was, other = sent_one(state)
    return (E1, C1, F1), (was & is_epoch_in_use(state)).implies(in_flight_is_placed(state, other))


# The log


def log_is_whole(state: ProofState) -> Formula:
    """Of an epoch in the log each position before the end of any of its batches stands in the log,
    there or before."""
    at = stored(state, AT)
    place = state.cover(at.epoch, POSITION)
    found = stored(state, place)
    facts = (
        within(place, 0, AT)
        & found.mine
        & found.epoch.eq(at.epoch)
        & ((found.begin <= POSITION) & (found.end > POSITION))
    )
    inside = (POSITION >= 0) & (at.end > POSITION)
    return (AT, POSITION), (mine(state, AT) & inside).implies(facts)


def log_was_sent(state: ProofState) -> Formula:
    """What p has in the log, p sent."""
    at = stored(state, AT)
    facts = (
        at.producer.eq(PRODUCER),
        state.sent(at.epoch, at.count, at.first),
        at.begin.eq(state.position(at.epoch, at.first)),
    )
    return (AT,), mine(state, AT).implies(conjunction(facts))


def log_is_numbered(state: ProofState) -> Formula:
    """What p has in the log has the sequence of its position."""
    at = stored(state, AT)
    numbered = at.base_sequence.eq(state.regime.sequence(at.begin))
    return (AT,), mine(state, AT).implies(numbered)


def log_rises(state: ProofState) -> Formula:
    """Epochs of p never fall along the log; within one, each batch is after the one before."""
    both, a, b = pair(state)
    rises = a.epoch.eq(b.epoch).implies(a.end <= b.begin)
    return (AT, NEXT), both.implies((a.epoch <= b.epoch) & rises)


def offsets_rise(state: ProofState) -> Formula:
    """Offsets are given once."""
    a, b = stored(state, AT), stored(state, NEXT)
    places = in_log(state, AT) & in_log(state, NEXT) & (AT < NEXT)
    return (AT, NEXT), places.implies(a.end_offset <= b.offset)


def nothing_stored_is_empty(state: ProofState) -> Formula:
    """Each stored batch has a record and an offset."""
    at = stored(state, AT)
    return (AT,), in_log(state, AT).implies((at.count >= 1) & (at.offset >= 0))


def end_offset(state: ProofState, length: Node) -> Node:
    """The offset after so many batches of the log."""
    last = stored(state, length - 1).end_offset
    return ite(length > 0, last, 0)


def watermark_within_log(state: ProofState) -> Formula:
    """The high watermark does not pass the log's end, nor does either go below 0."""
    length = state.log.length
    log_end = end_offset(state, length)
    return (), (length >= 0) & within(state.high_watermark, 0, log_end)


# What a leader knows: the leader now, and any that would replay a prefix of its log


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of p after the first `length` batches of the log."""

    epoch: Node
    window: Seq
    length: Node

    @property
    def newest(self) -> Rec:
        """The batch remembered last."""
        chosen = self.window.length - 1
        newest: Rec = self.window.slots[0]
        rest = self.window.slots[1:]
        for i, slot in enumerate(rest, 1):
            here, rec = chosen.eq(i), newest.fields
            newest = Rec(slot.cls, {f: ite(here, slot.fields[f], rec[f]) for f in rec})
        return newest


def memory(entry: Rec, length: Node) -> Memory:
    """A producer state entry, with the length of the log that it is about."""
    return Memory(entry.producer_epoch, entry.batches, length)


def place_of(state: ProofState, slot: Scalars) -> Node:
    """Where in the log a remembered batch stands."""
    return state.where(slot.last_offset + 1)


def before_end(state: ProofState, known: Memory, place: Node) -> Node:
    """A place of p among those that are known."""
    at = stored(state, place)
    return (place >= 0) & (place < known.length) & at.mine


def memory_has_last_epoch(state: ProofState, known: Memory) -> Formula:
    """No batch of p in the log has a later epoch than the one known."""
    at = stored(state, AT)
    return (AT,), before_end(state, known, AT).implies(within(at.epoch, 0, known.epoch))


def memory_is_sound(state: ProofState, known: Memory) -> Formula:
    """A known epoch comes with a remembered batch, an unknown one (-1) with none."""
    some = known.window.length > 0
    return (), (
        (known.epoch >= -1)
        & within(known.window.length, 0, len(known.window.slots))
        & (known.epoch >= 0).eq(some)
    )


def window_is_log(state: ProofState, known: Memory) -> Formula:
    """Each remembered batch stands in the log."""
    facts = []
    for used, slot in slots(known.window):
        place = place_of(state, slot)
        at = stored(state, place)
        facts += [
            used.implies(before_end(state, known, place)),
            used.implies(at.epoch.eq(known.epoch)),
            used.implies((at.end_offset - 1).eq(slot.last_offset)),
            used.implies((at.count - 1).eq(slot.offset_delta)),
        ]
    return (), conjunction(facts)


def window_is_numbered(state: ProofState, known: Memory) -> Formula:
    """Of each remembered batch the sequence of its last position is remembered."""
    facts = []
    for used, slot in slots(known.window):
        at = stored(state, place_of(state, slot))
        last = state.regime.sequence(at.end - 1)
        facts.append(used.implies(last.eq(slot.last_sequence)))
    return (), conjunction(facts)


def window_has_no_gap(state: ProofState, known: Memory) -> Formula:
    """Remembered batches follow each other, in the log and in their epoch."""
    facts = []
    remembered = slots(known.window)
    for (_, before), (used, slot) in pairwise(remembered):
        a, b = place_of(state, before), place_of(state, slot)
        facts.append(used.implies(a < b))
        facts.append(used.implies(stored(state, a).end.eq(stored(state, b).begin)))
    return (), conjunction(facts)


def newest_is_last(state: ProofState, known: Memory) -> Formula:
    """No batch of p in the log stands behind the newest remembered."""
    newest = place_of(state, known.newest)
    return (AT,), before_end(state, known, AT).implies(newest >= AT)


def remembers_all(state: ProofState, known: Memory) -> Formula:
    """Of the known epoch five batches are remembered, or all that the log has."""
    oldest = place_of(state, known.window.slots[0])
    whole = known.window.length.eq(len(known.window.slots)) | (oldest <= AT)
    same = stored(state, AT).epoch.eq(known.epoch)
    return (AT,), (before_end(state, known, AT) & same).implies(whole)


MemoryFormula = Callable[[ProofState, Memory], Formula]


def known_now(state: ProofState) -> Memory:
    """What the leader knows."""
    return memory(state.known, state.log.length)


def of_leader(function: MemoryFormula) -> Callable[[ProofState], Formula]:
    """The formula, of what the leader knows."""
    return lambda state: function(state, known_now(state))


def of_replay(function: MemoryFormula) -> Callable[[ProofState, Node], Formula]:
    """The formula, of what a replay of the prefix of a length gives."""

    def formula(state: ProofState, length: Node) -> Formula:
        bound, body = function(state, memory(state.history(length), length))
        prefix = within(length, 0, state.log.length)
        return bound, conjunction(prefix.implies(part) for part in conjuncts(body))

    return formula


def remembers_five(state: ProofState) -> Formula:
    """Of the producer's epoch the leader remembers five batches, or all of them."""
    return remembers_all(state, known_now(state))


def replayed_once(state: ProofState, places: Node) -> tuple[Rec, Rec]:
    """The history after one more batch, and what the model's own replay makes of it."""
    others = state.leader.producers.elsewhere
    producers = FocusMap(P, state.history(places), others)
    following = state.text.replayed(producers, state.log.at(places))
    return state.history(places + 1), following.value


def history_is_replay(state: ProofState, length: Node) -> Formula:
    """One batch more in the log is one replayed more; before the first nothing is known."""
    history, replay = replayed_once(state, length)
    more = (length >= 0) & (length < state.log.length)
    begins = containers.equal(state.history(ZERO), state.text.nothing)
    return (), begins & more.implies(containers.equal(history, replay))


def history_agrees(state: ProofState) -> Formula:
    """The leader's epoch and newest batch are those that a replay of its whole log gives."""
    known, history = known_now(state), memory(state.history(state.log.length), state.log.length)
    some = known.window.length > 0
    newest = containers.equal(known.newest, history.newest)
    same = known.epoch.eq(history.epoch) & some.eq(history.window.length > 0)
    return (), same & some.implies(newest)


# Answers


def answers_are_true(state: ProofState) -> Formula:
    """A success says where the batch stands, if it says it (-1 is no offset)."""
    place = state.told(F, B, R)
    at = stored(state, place)
    facts = mine(state, place) & at.first.eq(F) & ((B < 0) | at.offset.eq(B)) & (at.end_offset <= R)
    return (F, B, R), state.answers(F, B, R).implies(facts)
