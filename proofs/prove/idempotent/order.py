"""Order over all epochs: a batch that a producer numbers again keeps its place.

Theory of operation. A batch is numbered when it is first sent. It is numbered again, in the same
order, when an epoch begins while it is in flight. Suppose a record was sent in an early epoch while
an earlier record was still in flight. The earlier record then had its place before it in that epoch
too; and if the log has the whole epoch, it has a copy of the earlier record before the later one.
These clauses are about `numbered`, a ghost that only grows, instead of about what was sent, because
a batch may be numbered again before it is sent.
"""

from __future__ import annotations

from proofs.prove.engine.induction import RULED, guarantee, invariant
from proofs.prove.idempotent import clauses
from proofs.prove.idempotent.clauses import APPENDS, CLIENT, CONSEQUENCE, OFFSETS
from proofs.prove.idempotent.proof_state import LogEntry, ProofState

NUMBERED = ("numbered_is_known", "in_flight_was_numbered", "numbered_stays_whole", *CLIENT)
KEPT = (*NUMBERED, "in_flight_keeps_its_place")
THERE = (*NUMBERED, "in_flight_was_there_before", "sent_is_numbered", "sent_was_numbered")


@invariant(needs=NUMBERED)
def numbered_is_known(s: ProofState) -> bool:
    """Of what was numbered no batch is empty, none is ahead of the client."""
    return all(
        b.count >= 1
        and b.begin >= 0
        and b.first >= 0
        and 0 <= b.epoch <= s.entry.producer_epoch
        and b.last <= s.entry.records_sent
        and (b.epoch != s.entry.producer_epoch or b.end <= s.next_position)
        for b in s.numbered
    )


@invariant(needs=CLIENT)
def in_flight_was_numbered(s: ProofState) -> bool:
    """A batch in flight was numbered in the partition's epoch."""
    return all(s.is_numbered(b.epoch, b.count, b.first) for b in s.in_flight)


@invariant(needs=("in_flight_was_numbered", *CLIENT))
def sent_was_numbered(s: ProofState) -> bool:
    """What was sent was numbered."""
    return all(s.is_numbered(b.epoch, b.count, b.first) for b in s.sent)


@invariant(needs=NUMBERED)
def numbered_stays_whole(s: ProofState) -> bool:
    """A batch in flight has the records that it had whenever it was numbered, or shares none."""
    return all(clauses.in_flight_is_whole(s, other) for other in s.numbered)


@invariant(needs=KEPT)
def in_flight_keeps_its_place(s: ProofState) -> bool:
    """A batch in flight and a numbered one of its epoch are the same, or one is wholly before."""
    return all(
        clauses.in_flight_is_placed(s, other)
        for other in s.numbered
        if other.epoch == s.entry.producer_epoch
    )


@invariant(needs=KEPT)
def numbered_once(s: ProofState) -> bool:
    """Under one epoch two numbered batches are the same, or one wholly before the other."""
    return all(
        clauses.is_placed(a, b) for a in s.numbered for b in s.numbered if a.epoch == b.epoch
    )


@invariant(needs=THERE)
def in_flight_was_there_before(s: ProofState) -> bool:
    """A batch in flight was numbered in each epoch in which a later record was sent."""
    return all(
        all(
            s.is_numbered(sent.epoch, b.count, b.first) for b in s.in_flight if b.first < sent.first
        )
        for sent in s.sent
    )


@invariant(needs=THERE)
def sent_was_there_before(s: ProofState) -> bool:
    """What was sent was numbered in each earlier epoch in which a later record was sent."""
    return all(
        s.is_numbered(early.epoch, late.count, late.first)
        for early in s.sent
        for late in s.sent
        if early.epoch < late.epoch and late.first < early.first
    )


# The log


@invariant(needs=("log_rises", *APPENDS, "accepted_follows", RULED, *OFFSETS))
def log_is_whole(s: ProofState) -> bool:
    """Of an epoch in the log each position before the end of any of its batches stands in the log,
    there or before. True where the first sequence of an epoch must be 0."""
    return all(
        covers(s, s.covers(at.epoch, position), at, i, position)
        for i, at in enumerate(s.log)
        for position in range(at.end)
        if at.is_ours
    )


def covers(s: ProofState, place: int, at: LogEntry, latest: int, position: int) -> bool:
    """Whether a position of an epoch stands at a place, not after the latest."""
    return (
        0 <= place <= latest
        and s.log[place].is_ours
        and s.log[place].epoch == at.epoch
        and s.log[place].begin <= position < s.log[place].end
    )


ACROSS = (
    "log_is_whole",
    "sent_was_numbered",
    "sent_was_there_before",
    "numbered_is_known",
    "numbered_once",
)


@guarantee(needs=(*CONSEQUENCE, *ACROSS), follows=True, in_words=("log_was_sent",))
def order_kept(s: ProofState) -> bool:
    """Records stand in the order of their sends: within an epoch each, over all epochs the first
    copy of each."""
    return all(
        a.epoch < b.epoch
        and s.covers(a.epoch, s.position(a.epoch, b.first)) < j
        and clauses.has_record(s, s.covers(a.epoch, s.position(a.epoch, b.first)), b.first)
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if a.is_ours and b.is_ours and i < j and b.first < a.first
    )
