"""FIFO: if responses arrive in the order of their batches, no batch is refused.

Theory of operation. Three facts about one open connection matter. The batches in flight that await
an answer are its requests, in order. The first `handled` of these requests were handled, and their
answers are on their way. The next request to be handled is the one after them. So when a request is
handled in turn, all batches before it are stored: its own batch is the next one, or is already
stored; and the batches stored after it are in flight with it, so they are fewer than a leader
remembers. No request is refused, and no producer begins an epoch. In the single epoch, a record's
number is its position. Late requests, from broken connections, may carry anything that was sent.

A step at another partition is also such a step. It changes nothing at this partition, and in the
client only `bump_for`, to which it adds nothing by the same theorem.
"""

from __future__ import annotations

from itertools import pairwise

from model.idempotent.messages import NO_SEQUENCE, Batch, Error, ProduceResponse
from proofs.prove.engine.induction import guarantee, invariant, lemma
from proofs.prove.idempotent import clauses
from proofs.prove.idempotent.clauses import CLIENT, OFFSETS, SENT
from proofs.prove.idempotent.proof_state import FlyingBatch, LogEntry, ProofState

CALM = (
    "nothing_to_recover",
    "first_epoch",
    "no_false_error",
    "answers_in_order",
    "nothing_times_out",
    "nothing_is_rejected",
)
PLACED = ("positions_are_records", "sent_in_first_epoch", *CLIENT, *CALM)

# Clauses


@invariant(needs=CALM)
def nothing_to_recover(s: ProofState) -> bool:
    """No partition asks for a new epoch, or has a batch of unknown outcome; none is given up."""
    return (
        s.client.bump_for.is_empty()
        and len(s.entry.given_up) == 0
        and all(e.unresolved_sequence == NO_SEQUENCE for e in s.client.partitions.values())
    )


@invariant(needs=CALM)
def first_epoch(s: ProofState) -> bool:
    """The producer is in its first epoch."""
    return s.client.producer_epoch == 0


@invariant(needs=(*PLACED, "requests_in_order"))
def positions_are_records(s: ProofState) -> bool:
    """In flight, a batch begins where the one before ended; positions are numbers of records."""
    return (
        s.next_position == s.entry.records_sent
        and all(
            b.begin == b.first and (len(s.in_flight) != i + 1 or b.end == s.next_position)
            for i, b in enumerate(s.in_flight)
        )
        and all(b.begin == a.end for a, b in pairwise(s.in_flight))
    )


@invariant(needs=PLACED)
def sent_in_first_epoch(s: ProofState) -> bool:
    """What was sent was sent in the first epoch, each record at its number."""
    return all(b.epoch == 0 and b.begin == b.first for b in s.sent)


def head(s: ProofState) -> int:
    """The first record that is not finished."""
    return s.in_flight[0].first if len(s.in_flight) > 0 else s.entry.records_sent


@invariant(needs=(*PLACED, "requests_in_order"))
def acknowledged_in_order(s: ProofState) -> bool:
    """All records before the first unfinished one are acknowledged."""
    return all(record in s.acknowledged for record in range(head(s)))


@invariant(needs=PLACED)
def requests_in_order(s: ProofState) -> bool:
    """Those in flight that await an answer come first; the first of them were handled."""
    return (
        0 <= s.handled <= len(s.in_flight)
        and all(b.outstanding for i, b in enumerate(s.in_flight) if i < s.handled)
        and all(a.outstanding for a, b in pairwise(s.in_flight) if b.outstanding)
    )


def reaches(s: ProofState, position: int) -> bool:
    """Whether the log has all records of the producer's epoch before a position."""
    return len(s.known.window) > 0 and s.known.epoch == 0 and position <= newest_end(s)


def newest_end(s: ProofState) -> int:
    """The position after the newest remembered batch."""
    return s.log[clauses.newest(s, s.known)].end


@invariant(
    needs=(
        *PLACED,
        "requests_in_order",
        "memory_is_sound",
        "window_is_log",
        *OFFSETS,
        "is_stored_then",
    )
)
def handled_is_stored(s: ProofState) -> bool:
    """What was handled and not yet answered is stored."""
    return all(reaches(s, s.in_flight[i].end) for i in range(s.window_size) if i < s.handled)


# Guarantees


@guarantee(needs=(*CALM, "is_answered"))
def no_false_error(s: ProofState) -> bool:
    """No request is refused in its turn, and no partition asks for a new epoch."""
    return not s.refused and s.client.bump_for.is_empty()


@guarantee(needs=("first_epoch", "no_false_error"), follows=True)
def bumps_have_causes(s: ProofState) -> bool:
    """No producer begins an epoch, or asks for one."""
    return first_epoch(s) and s.client.bump_for.is_empty()


@guarantee(
    needs=("acked_is_replicated", "at_most_once", "log_was_sent", "sent_in_first_epoch"),
    follows=True,
)
def acked_once(s: ProofState) -> bool:
    """What was acknowledged is in the log once, over all epochs."""
    return all(
        place == s.copy_of(record)
        for record in s.acknowledged
        for place in range(len(s.log))
        if clauses.has_record(s, place, record)
    )


# Assumptions about the network


def is_next_in_turn(s: ProofState, in_turn: bool, batch: Batch) -> bool:
    """A request that is handled in turn carries the first batch that was not handled."""
    return not in_turn or (
        0 <= s.handled < s.window_size
        and all(
            s.handled != i or (i < len(s.in_flight) and is_request_of(s.in_flight[i], batch))
            for i in range(s.window_size)
        )
    )


def is_request_of(flying: FlyingBatch, batch: Batch) -> bool:
    """Whether a request carries a batch in flight that awaits an answer."""
    return (
        flying.outstanding
        and batch.producer_epoch == flying.batch.producer_epoch
        and batch.record_count == flying.count
        and batch.first_record == flying.first
    )


def overtakes_nothing(s: ProofState, begin: int) -> bool:
    """A batch arrives after all batches that its producer numbered before it are stored."""
    return begin == 0 or reaches(s, begin)


def answers_the_first(s: ProofState, first_record: int) -> bool:
    """An answer that arrives is about the first batch in flight, which was handled."""
    return s.handled >= 1 and s.in_flight[0].first == first_record


# Cuts: lemmas about a request that is handled in its turn

MEMORY_NOW = ("memory_is_sound", "window_is_log", "log_was_sent", "sent_in_first_epoch", *SENT)
BEGUN = (*CLIENT, "first_epoch", "positions_are_records", "answers_in_order")


@lemma(
    needs=(
        *MEMORY_NOW,
        *OFFSETS,
        "acknowledged_in_order",
        "acked_is_replicated",
        "newest_is_last",
        "memory_has_last_epoch",
        "log_rises",
    )
)
def head_is_stored(s: ProofState) -> bool:
    """Everything before the first unfinished record is stored."""
    return not head(s) > 0 or (head(s) - 1 in s.acknowledged and reaches(s, head(s)))


@lemma(needs=(*MEMORY_NOW, *BEGUN, "head_is_stored", "handled_is_stored"))
def begins_within(s: ProofState, in_turn: bool, begin: int) -> bool:
    """Everything before the request is stored."""
    return not in_turn or (begin == 0 and len(s.known.window) == 0) or reaches(s, begin)


@lemma(needs=(*MEMORY_NOW, *CLIENT, "first_epoch", "in_flight_has_its_place"))
def remembered_is_placed(s: ProofState) -> bool:
    """A batch in flight and a remembered one are the same, or one is wholly before the other."""
    return all(
        are_placed(s, s.log[clauses.place_of(s, m)], b) for m in s.known.window for b in s.in_flight
    )


def are_placed(s: ProofState, at: LogEntry, b: FlyingBatch) -> bool:
    """Whether a stored batch and one in flight have the same positions, or one is wholly before the
    other; the positions of the stored batch must be numbers of records that were sent."""
    return (
        ((at.begin == b.begin and at.count == b.count) or at.end <= b.begin or b.end <= at.begin)
        and at.begin == at.first
        and at.count >= 1
        and at.end <= s.next_position
    )


@lemma(needs=(*MEMORY_NOW, *OFFSETS, "remembers_five", "log_is_whole"))
def window_begins_epoch(s: ProofState) -> bool:
    """The remembered batches begin with the epoch, or the leader remembers as many as it can."""
    oldest = clauses.place_of(s, s.known.window[0])
    return not 1 <= len(s.known.window) < s.window_size or (
        s.covers(s.known.epoch, 0) == oldest and s.log[oldest].begin <= 0
    )


@lemma(
    needs=(
        *BEGUN,
        "memory_is_sound",
        "window_has_no_gap",
        "remembered_is_placed",
        "window_begins_epoch",
        "begins_within",
    )
)
def is_remembered(s: ProofState, in_turn: bool, begin: int, batch: Batch) -> bool:
    """A request in turn whose batch is already stored is remembered."""
    return all(
        any(
            s.log[clauses.place_of(s, m)].begin == begin
            and s.log[clauses.place_of(s, m)].count == batch.record_count
            for m in s.known.window
        )
        for i in range(s.window_size)
        if in_turn and s.handled == i and len(s.known.window) > 0 and begin < newest_end(s)
    )


@lemma(
    needs=(
        *MEMORY_NOW,
        *BEGUN,
        "window_is_numbered",
        "begins_within",
        "is_remembered",
        "first_sequence_is_derived",
        "accepted_follows",
        "follows_in_sequence",
    )
)
def is_answered(in_turn: bool, answer: ProduceResponse) -> bool:
    """A request in turn is answered without error."""
    return not in_turn or answer.error == Error.NONE


@lemma(
    needs=(
        *MEMORY_NOW,
        *OFFSETS,
        *BEGUN,
        "newest_is_last",
        "log_rises",
        "is_answered",
        "duplicate_is_the_same",
        "accepted_follows",
        "newest_is_appended",
    )
)
def is_stored_then(
    before: ProofState, after: ProofState, in_turn: bool, begin: int, batch: Batch
) -> bool:
    """After a request in turn, its batch is stored; no request removes anything."""
    kept = not reaches(before, newest_end(before)) or reaches(after, newest_end(before))
    return kept and (not in_turn or reaches(after, begin + batch.record_count))
