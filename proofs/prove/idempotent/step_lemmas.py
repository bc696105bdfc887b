"""Lemmas about the step in which a request arrives, each proved before the clauses use it.

They state what a solver would otherwise have to find among many facts: the batch that a sequence
identifies, the place of an append, the batch that an answer is about. `begin` is the position of
the request's batch in its epoch.
"""

from __future__ import annotations

from model.idempotent import leader
from model.idempotent.configuration import Configuration, FirstSequence
from model.idempotent.messages import Batch, Error, ProduceResponse, last_sequence
from proofs.prove.engine.induction import lemma
from proofs.prove.idempotent import clauses
from proofs.prove.idempotent.clauses import OFFSETS, SENT
from proofs.prove.idempotent.fifo import newest_end
from proofs.prove.idempotent.proof_state import ProofState
from proofs.prove.idempotent.sequence_arithmetic import ARITHMETIC, LIFETIME


@lemma(needs=("memory_is_sound", "window_is_log", "window_has_no_gap", "log_was_sent", *SENT))
def window_is_near(s: ProofState) -> bool:
    """If sequences wrap, remembered batches are near the end of their epoch's log."""
    return all(
        0 <= newest_end(s) - s.log[clauses.place_of(s, m)].begin <= LIFETIME for m in s.known.window
    )


@lemma(
    needs=(
        "memory_is_sound",
        "window_is_log",
        "nothing_stored_is_empty",
        "log_was_sent",
        "window_is_numbered",
        "sent_is_numbered",
        ARITHMETIC,
    )
)
def first_sequence_is_derived(k: Configuration, s: ProofState) -> bool:
    """The first sequence of a remembered batch is that of its position."""
    return all(
        leader.first_sequence(k, m) == s.regime.sequence(s.log[clauses.place_of(s, m)].begin)
        for m in s.known.window
    )


@lemma(needs=("window_is_near", "first_sequence_is_derived", ARITHMETIC))
def sequence_names_batch(k: Configuration, s: ProofState, batch: Batch, begin: int) -> bool:
    """A request with the first sequence of a remembered batch has its position."""
    return all(
        begin == s.log[clauses.place_of(s, m)].begin
        for m in s.known.window
        if batch.producer_epoch == s.known.epoch
        and batch.base_sequence == leader.first_sequence(k, m)
    )


@lemma(needs=("sequence_names_batch", "memory_is_sound", "window_is_log", "log_was_sent", *SENT))
def sequence_names_records(k: Configuration, s: ProofState, batch: Batch) -> bool:
    """A request with the first sequence of a remembered batch has its records."""
    return all(
        batch.first_record == s.log[clauses.place_of(s, m)].first
        and batch.record_count == s.log[clauses.place_of(s, m)].count
        for m in s.known.window
        if batch.producer_epoch == s.known.epoch
        and batch.base_sequence == leader.first_sequence(k, m)
    )


def is_appended(before: ProofState, after: ProofState) -> bool:
    """Whether the log has grown."""
    return len(before.log) < len(after.log)


@lemma(
    needs=(
        "memory_is_sound",
        "window_is_log",
        "window_is_numbered",
        "log_was_sent",
        "sent_is_numbered",
        ARITHMETIC,
    )
)
def accepted_follows(
    k: Configuration, before: ProofState, after: ProofState, batch: Batch, begin: int
) -> bool:
    """An appended batch has a record and no older epoch, and in the same epoch it follows the
    newest batch."""
    appended = is_appended(before, after)
    same = batch.producer_epoch == before.known.epoch
    return (
        batch.record_count >= 1
        and batch.producer_epoch >= 0
        and begin >= 0
        and last_sequence(k, batch) == before.regime.sequence(begin + batch.record_count - 1)
        and (not appended or before.known.epoch <= batch.producer_epoch)
        and (not (appended and same) or begin == newest_end(before))
        and (not (appended and not same) or may_begin(k, before, begin))
    )


def may_begin(k: Configuration, s: ProofState, begin: int) -> bool:
    """Whether a batch may begin an epoch: at 0, or anywhere if the leader knows nothing of the
    producer (FirstSequence.ANY)."""
    return begin == 0 or (s.known.epoch < 0 and k.variant.first_sequence == FirstSequence.ANY)


@lemma(needs=("memory_is_sound", "window_is_log", *OFFSETS, "accepted_follows"))
def newest_is_appended(before: ProofState, after: ProofState, batch: Batch) -> bool:
    """An appended batch is the newest that the leader remembers; without an append the newest is
    unchanged."""
    appended = is_appended(before, after)
    place = clauses.newest(before, before.known)
    now = clauses.newest(after, after.known)
    knows = len(before.known.window) > 0
    return (
        (not appended or now == len(before.log))
        and (not appended or after.known.epoch == batch.producer_epoch)
        and (appended or after.known.epoch == before.known.epoch)
        and (appended or not knows or now == place)
        and (appended or knows == (len(after.known.window) > 0))
    )


@lemma(needs=("memory_is_sound", "window_is_numbered", ARITHMETIC))
def follows_in_sequence(k: Configuration, s: ProofState, batch: Batch, begin: int) -> bool:
    """An epoch begins at sequence 0, and a batch that begins where the newest ends is in
    sequence."""
    last = s.known.window[-1].last_sequence
    return (begin != 0 or batch.base_sequence == 0) and (
        not (len(s.known.window) > 0 and begin == newest_end(s))
        or leader.in_sequence(k, last, batch.base_sequence)
    )


def is_below(s: ProofState, batch: Batch, begin: int) -> bool:
    """Whether a request has the known epoch, and begins below the end of its log."""
    return batch.producer_epoch == s.known.epoch and begin < newest_end(s)


@lemma(
    needs=(
        "sequence_names_records",
        "below_is_stored",
        "memory_is_sound",
        "window_is_log",
        *OFFSETS,
        "window_is_numbered",
        "log_was_sent",
        "sent_is_numbered",
    )
)
def duplicate_is_the_same(
    before: ProofState, after: ProofState, batch: Batch, begin: int, answer: ProduceResponse
) -> bool:
    """A success without an append is about this very batch, at its place in the log."""
    other = answer.error != Error.NONE or is_appended(before, after)
    no_offset = answer.base_offset < 0
    place = place_answered(before, answer, batch, begin)
    return (
        (other or not no_offset or is_below(before, batch, begin))
        and (other or clauses.is_ours(before, place))
        and (other or before.log[place].first == batch.first_record)
        and (other or no_offset or before.log[place].offset == answer.base_offset)
        and (other or before.log[place].end_offset <= answer.required_offset)
    )


def place_answered(s: ProofState, answer: ProduceResponse, batch: Batch, begin: int) -> int:
    """The place of a success's batch; for an answer without an offset, the place of its
    position."""
    end = clauses.end_offset(s, len(s.log)) + batch.record_count
    if answer.base_offset < 0:
        return s.covers(batch.producer_epoch, begin)
    return len(s.log) if end == answer.required_offset else s.ends_at(answer.required_offset)


@lemma(needs=("log_is_whole", "memory_is_sound", "window_is_log", *OFFSETS, "log_was_sent", *SENT))
def below_is_stored(s: ProofState, batch: Batch, begin: int) -> bool:
    """If an epoch is whole, a request below its end is in the log, at its position."""
    place = s.covers(batch.producer_epoch, begin)
    return not is_below(s, batch, begin) or (
        clauses.is_ours(s, place)
        and s.log[place].first == batch.first_record
        and s.log[place].end_offset <= clauses.end_offset(s, len(s.log))
    )


# Assumptions about requests


def is_near(s: ProofState, batch: Batch, begin: int) -> bool:
    """A request is near its log's end, so that its sequence identifies it. The end is that of the
    request's epoch, or 0 if the log has no batch of this epoch."""
    end = newest_end(s) if batch.producer_epoch == s.known.epoch else 0
    return -LIFETIME < begin - end < LIFETIME
