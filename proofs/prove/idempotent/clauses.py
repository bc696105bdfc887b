"""Invariants of one producer at one partition: the helper clauses, and the guarantees that need
only them.

They say that each sent batch has its place in its epoch, batches in flight are in order, remembered
batches are in the log, and a leader that replays a prefix of the log remembers as much of it.
"""

from __future__ import annotations

from itertools import pairwise

from model.idempotent.leader import BatchMetadata
from proofs.prove.engine.induction import (
    RULED,
    guarantee,
    invariant,
)
from proofs.prove.idempotent.clause_forms import memory_invariant, prefix_invariant
from proofs.prove.idempotent.proof_state import (
    LogEntry,
    Memory,
    PlacedBatch,
    ProofState,
    StoredAnswer,
    after_replay,
)
from proofs.prove.idempotent.sequence_arithmetic import ARITHMETIC, LARGEST_BATCH

OFFSETS = ("offsets_rise", "nothing_stored_is_empty", "watermark_within_log")
CLIENT = ("epochs_rise", "in_flight_in_order", "in_flight_is_mine")
SENT = ("sent_is_numbered", "sent_once_numbered")
FLYING = (*CLIENT, *SENT, "batches_stay_whole", "in_flight_has_its_place")
APPENDS = ("memory_is_sound", "memory_has_last_epoch", "window_is_log", "newest_is_last")
"""The clauses that an append needs."""

# Places of the log


def is_ours(s: ProofState, place: int) -> bool:
    """Whether a batch of p is at this place of the log."""
    return 0 <= place < len(s.log) and s.log[place].is_ours


def has_record(s: ProofState, place: int, record: int) -> bool:
    """Whether the batch at this place is p's and has this record."""
    return is_ours(s, place) and s.log[place].first <= record < s.log[place].last


def end_offset(s: ProofState, length: int) -> int:
    """The offset after the first `length` batches of the log."""
    return s.log[length - 1].end_offset if length > 0 else 0


def place_of(s: ProofState, remembered: BatchMetadata) -> int:
    """The place of a remembered batch in the log."""
    return s.ends_at(remembered.last_offset + 1)


def newest(s: ProofState, m: Memory) -> int:
    """The place of the newest remembered batch in the log."""
    return place_of(s, m.window[-1])


# Batches


def share_no_record(a: PlacedBatch, b: PlacedBatch) -> bool:
    """Whether the two batches share no record."""
    return a.last <= b.first or b.last <= a.first


def is_before(a: PlacedBatch, b: PlacedBatch) -> bool:
    """Whether the positions and records of a are all before those of b."""
    return a.end <= b.begin and a.last <= b.first


def is_same(a: PlacedBatch, b: PlacedBatch) -> bool:
    """Whether the two batches have equal positions and equal records."""
    return a.begin == b.begin and a.count == b.count and a.first == b.first


def is_placed(a: PlacedBatch, b: PlacedBatch) -> bool:
    """Whether the two batches are the same, or one is wholly before the other."""
    return is_same(a, b) or is_before(a, b) or is_before(b, a)


def fits(s: ProofState, batch: PlacedBatch) -> bool:
    """Whether a batch is as small as the sequence arithmetic requires."""
    if s.regime.wraps:
        return batch.count <= LARGEST_BATCH
    return batch.end <= s.regime.max_sequence


# The client


@invariant(needs=CLIENT)
def epochs_rise(s: ProofState) -> bool:
    """The partition's epoch is of the producer's id, and not ahead of the producer's."""
    return (
        s.client.producer_id == s.producer_id
        and s.client.producer == s.producer
        and s.entry.producer_id == s.producer_id
        and 0 <= s.entry.producer_epoch <= s.client.producer_epoch
    )


def end_before(s: ProofState, slot: int) -> int:
    """The position after the batch in flight before this one."""
    return s.in_flight[slot - 1].end if slot > 0 else 0


def last_before(s: ProofState, slot: int) -> int:
    """The record after the batch in flight before this one."""
    return s.in_flight[slot - 1].last if slot > 0 else 0


@invariant(needs=CLIENT)
def in_flight_in_order(s: ProofState) -> bool:
    """Batches in flight are of the partition's epoch, in order, none empty, all before the next."""
    return (
        all(
            b.batch.producer_epoch == s.entry.producer_epoch
            and b.count >= 1
            and end_before(s, i) <= b.begin
            and last_before(s, i) <= b.first
            and b.end <= s.next_position
            and b.last <= s.entry.records_sent
            for i, b in enumerate(s.in_flight)
        )
        and s.next_position >= 0
        and s.entry.records_sent >= 0
    )


@invariant(needs=(*CLIENT, "sequences_suffice", "sequences_are_remainders"))
def in_flight_is_numbered(s: ProofState) -> bool:
    """Sequences are those of the positions, of batches in flight and of the next."""
    return s.entry.next_sequence == s.regime.sequence(s.next_position) and all(
        b.batch.base_sequence == s.regime.sequence(b.begin) and fits(s, b) for b in s.in_flight
    )


@invariant(needs=CLIENT)
def in_flight_is_mine(s: ProofState) -> bool:
    """Batches in flight carry the producer and its id."""
    return all(
        b.batch.producer_id == s.producer_id and b.batch.producer == s.producer for b in s.in_flight
    )


# Sent batches


@invariant(needs=(*CLIENT, "in_flight_is_numbered", "sequences_suffice"))
def sent_is_numbered(s: ProofState) -> bool:
    """Of what was sent no batch is empty, none is ahead of the client."""
    return all(
        b.count >= 1
        and b.begin >= 0
        and b.first >= 0
        and 0 <= b.epoch <= s.entry.producer_epoch
        and fits(s, b)
        and b.last <= s.entry.records_sent
        and (b.epoch != s.entry.producer_epoch or b.end <= s.next_position)
        for b in s.sent
    )


@invariant(needs=FLYING)
def sent_once_numbered(s: ProofState) -> bool:
    """Under one epoch two sent batches are the same, or one wholly before the other."""
    return all(is_placed(a, b) for a in s.sent for b in s.sent if a.epoch == b.epoch)


def in_flight_is_whole(s: ProofState, other: PlacedBatch) -> bool:
    """Whether each batch in flight has the records of the other batch, or shares none with it."""
    return all(
        (b.first == other.first and b.count == other.count) or share_no_record(b, other)
        for b in s.in_flight
    )


def in_flight_is_placed(s: ProofState, other: PlacedBatch) -> bool:
    """Whether each batch in flight is the other batch, or one is wholly before the other."""
    return all(is_placed(b, other) for b in s.in_flight)


@invariant(needs=FLYING)
def batches_stay_whole(s: ProofState) -> bool:
    """A batch in flight has the records that it had whenever it was sent, or shares none."""
    return all(in_flight_is_whole(s, other) for other in s.sent)


@invariant(needs=FLYING)
def in_flight_has_its_place(s: ProofState) -> bool:
    """A batch in flight and a sent one of its epoch are the same, or one is wholly before."""
    return all(
        in_flight_is_placed(s, other) for other in s.sent if other.epoch == s.entry.producer_epoch
    )


# The log


@invariant(needs=("sent_is_numbered", *CLIENT, "watermark_within_log"))
def log_was_sent(s: ProofState) -> bool:
    """What p has in the log, p sent."""
    return all(
        at.producer == s.producer
        and s.is_sent(at.epoch, at.count, at.first)
        and at.begin == s.position(at.epoch, at.first)
        for at in s.log
        if at.is_ours
    )


@invariant(needs=("watermark_within_log",))
def log_is_numbered(s: ProofState) -> bool:
    """What p has in the log has the sequence of its position."""
    return all(is_numbered(s, place) for place in range(len(s.log)))


def is_numbered(s: ProofState, place: int) -> bool:
    """Whether the batch of p at a place of the log has the sequence of its position."""
    at = s.log[place]
    return not is_ours(s, place) or at.base_sequence == s.regime.sequence(at.begin)


@invariant(needs=(*APPENDS, "accepted_follows", *OFFSETS))
def log_rises(s: ProofState) -> bool:
    """Epochs of p never fall along the log; within one, each batch is after the one before."""
    return all(
        a.epoch <= b.epoch and (a.epoch != b.epoch or a.end <= b.begin)
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if a.is_ours and b.is_ours and i < j
    )


@invariant(needs=OFFSETS)
def offsets_rise(s: ProofState) -> bool:
    """Offsets are given once."""
    return all(
        a.end_offset <= b.offset for i, a in enumerate(s.log) for j, b in enumerate(s.log) if i < j
    )


@invariant(needs=(*OFFSETS, "sent_is_numbered"))
def nothing_stored_is_empty(s: ProofState) -> bool:
    """Each stored batch has a record and an offset."""
    return all(at.count >= 1 and at.offset >= 0 for at in s.log)


@invariant(needs=(*OFFSETS, "sent_is_numbered"))
def watermark_within_log(s: ProofState) -> bool:
    """The high watermark does not pass the log's end, nor does either go below 0."""
    return len(s.log) >= 0 and 0 <= s.high_watermark <= end_offset(s, len(s.log))


# Answers


@invariant(needs=(*OFFSETS, "accepted_follows", "duplicate_is_the_same"))
def answers_are_true(s: ProofState) -> bool:
    """A success says where the batch stands, if it says it (-1 is no offset)."""
    return all(is_true_of(s, answer, s.answered_place(answer)) for answer in s.answers)


def is_true_of(s: ProofState, answer: StoredAnswer, place: int) -> bool:
    """Whether a success is about the batch at a place."""
    return (
        is_ours(s, place)
        and s.log[place].first == answer.first
        and (answer.base_offset < 0 or s.log[place].offset == answer.base_offset)
        and s.log[place].end_offset <= answer.required_offset
    )


# Knowledge of leaders: the present one, and any that would replay a prefix of its log


@prefix_invariant(needs=("watermark_within_log",))
def history_is_replay(s: ProofState, length: int) -> bool:
    """One batch more in the log is one replayed more; before the first nothing is known."""
    return s.history(0) == s.nothing_known() and (
        not 0 <= length < len(s.log) or s.history(length + 1) == s.replayed_one_more(length)
    )


@invariant(needs=("watermark_within_log", "memory_is_sound", "history/memory_is_sound"))
def history_agrees(s: ProofState) -> bool:
    """The leader's epoch and newest batch are those that a replay of its whole log gives."""
    knows = len(s.known.window) > 0
    replay = after_replay(s, len(s.log))
    return (
        s.known.epoch == replay.epoch
        and knows == (len(replay.window) > 0)
        and (not knows or s.known.window[-1] == replay.window[-1])
    )


def is_known(s: ProofState, m: Memory, place: int) -> bool:
    """Whether the place has a batch of p, among the places that the memory is about."""
    return 0 <= place < m.length and s.log[place].is_ours


@memory_invariant()
def memory_has_last_epoch(s: ProofState, m: Memory) -> bool:
    """No batch of p in the log has a later epoch than the one known."""
    return all(0 <= s.log[i].epoch <= m.epoch for i in range(m.length) if s.log[i].is_ours)


@memory_invariant()
def memory_is_sound(s: ProofState, m: Memory) -> bool:
    """A known epoch comes with a remembered batch, an unknown one (-1) with none."""
    return (
        m.epoch >= -1
        and 0 <= len(m.window) <= s.window_size
        and (m.epoch >= 0) == (len(m.window) > 0)
    )


@memory_invariant(needs=("memory_is_sound",))
def window_is_log(s: ProofState, m: Memory) -> bool:
    """Each remembered batch stands in the log."""
    return all(is_remembered_as(s, m, b, s.log[place_of(s, b)]) for b in m.window)


def is_remembered_as(s: ProofState, m: Memory, remembered: BatchMetadata, at: LogEntry) -> bool:
    """Whether a remembered batch equals the batch at its place in the log."""
    return (
        is_known(s, m, place_of(s, remembered))
        and at.epoch == m.epoch
        and at.end_offset - 1 == remembered.last_offset
        and at.count - 1 == remembered.offset_delta
    )


@memory_invariant(needs=("memory_is_sound", "window_is_log"))
def window_is_numbered(s: ProofState, m: Memory) -> bool:
    """Of each remembered batch the sequence of its last position is remembered."""
    return all(
        s.regime.sequence(s.log[place_of(s, b)].end - 1) == b.last_sequence for b in m.window
    )


@memory_invariant(needs=("memory_is_sound", "window_is_log"))
def window_has_no_gap(s: ProofState, m: Memory) -> bool:
    """Remembered batches follow each other, in the log and in their epoch."""
    return all(
        place_of(s, a) < place_of(s, b) and s.log[place_of(s, a)].end == s.log[place_of(s, b)].begin
        for a, b in pairwise(m.window)
    )


@memory_invariant(needs=("memory_is_sound", "window_is_log"))
def newest_is_last(s: ProofState, m: Memory) -> bool:
    """No batch of p in the log stands behind the newest remembered."""
    return all(newest(s, m) >= i for i in range(m.length) if s.log[i].is_ours)


@memory_invariant(
    needs=(
        "memory_is_sound",
        "window_is_log",
        "window_has_no_gap",
        "newest_is_last",
        "memory_has_last_epoch",
    ),
    of_now=False,
)
def remembers_all(s: ProofState, m: Memory) -> bool:
    """Of the known epoch five batches are remembered, or all that the log has."""
    return all(
        len(m.window) == s.window_size or place_of(s, m.window[0]) <= i
        for i in range(m.length)
        if s.log[i].is_ours and s.log[i].epoch == m.epoch
    )


# Guarantees

CONSEQUENCE = ("log_was_sent", "log_rises", *SENT)


@guarantee(needs=CONSEQUENCE, follows=True, in_words=("log_was_sent",))
def at_most_once(s: ProofState) -> bool:
    """No record stands twice in the log under one epoch of p."""
    return all(
        share_no_record(a, b)
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if a.is_ours and b.is_ours and i < j and a.epoch == b.epoch
    )


@guarantee(needs=CONSEQUENCE, follows=True)
def order_within_epoch(s: ProofState) -> bool:
    """Under one epoch records stand in the order of their sends."""
    return all(
        a.last <= b.first
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if a.is_ours and b.is_ours and i < j and a.epoch == b.epoch
    )


@guarantee(
    needs=(
        *OFFSETS,
        "accepted_follows",
        "log_was_sent",
        "answers_are_true",
        "in_flight_in_order",
        "batches_stay_whole",
        "high_watermark_survives",
    ),
    in_words=("log_was_sent",),
)
def acked_is_replicated(s: ProofState) -> bool:
    """An acknowledged record stands in the log, below the high watermark."""
    return all(
        has_record(s, s.copy_of(record), record)
        and s.log[s.copy_of(record)].end_offset <= s.high_watermark
        for record in s.acknowledged
    )


@guarantee(needs=("acked_is_replicated", "answers_are_true"), follows=True)
def acked_is_stored(s: ProofState) -> bool:
    """An acknowledged record stands in the log, and a success says where its batch stands."""
    return answers_are_true(s) and all(
        has_record(s, s.copy_of(record), record) for record in s.acknowledged
    )


def is_earlier(s: ProofState, place: int, later: int) -> bool:
    """Whether a place has a batch of p that is before a later batch of the same epoch."""
    return is_ours(s, place) and place < later and s.log[place].epoch == s.log[later].epoch


@guarantee(
    needs=(*OFFSETS, *APPENDS, "accepted_follows", RULED),
    in_words=("log_was_sent", "log_is_numbered", "sent_is_numbered", ARITHMETIC),
)
def no_gap(s: ProofState) -> bool:
    """Each batch begins where the one before it in its epoch ended; the first begins at 0."""
    return all(
        begins_epoch(s, i, j) or follows_previous(s, i, j)
        for i in range(len(s.log))
        for j in range(len(s.log))
        if s.log[j].is_ours
    )


def begins_epoch(s: ProofState, other: int, place: int) -> bool:
    """Whether a batch begins at 0, and the other batch is not earlier in its epoch."""
    return s.log[place].begin == 0 and not is_earlier(s, other, place)


def follows_previous(s: ProofState, other: int, place: int) -> bool:
    """Whether a batch begins where the previous one ends, and the other batch, if it is earlier, is
    not after the previous one."""
    return (
        is_earlier(s, s.previous(place), place)
        and s.log[s.previous(place)].end == s.log[place].begin
        and (not is_earlier(s, other, place) or s.previous(place) >= other)
    )


@guarantee(
    needs=(
        *OFFSETS,
        "memory_is_sound",
        "window_is_log",
        "window_has_no_gap",
        "newest_is_last",
        "memory_has_last_epoch",
        "accepted_follows",
        RULED,
    )
)
def remembers_five(s: ProofState) -> bool:
    """Of the producer's epoch the leader remembers five batches, or all of them."""
    return remembers_all(s, s.known)
