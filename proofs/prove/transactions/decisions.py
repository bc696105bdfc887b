"""Decisions are final: each marker's pair has one decision, and every marker carries it."""

from __future__ import annotations

from model.transactions.configuration import Configuration, IdMemory, Rotation
from model.transactions.coordinator import TransactionState as Txn
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.coordinator import (
    SOUND,
    is_not_after,
    is_ongoing,
    is_prepared,
    is_same,
)
from proofs.prove.transactions.symbolic_state import NONE, Image, TransactionsState

ENDS_KNOWN = ("ids_are_remembered", "epochs_rotate")
DECIDED = (*SOUND, *ENDS_KNOWN, "prepare_is_next")


def epochs_rotate(k: Configuration) -> bool:
    """If epochs end, every client takes the next producer id, and this id is logged."""
    return not k.bounds.epochs_end or (
        k.variant.rotation == Rotation.ANYONE
        and k.variant.id_memory == IdMemory.LOGGED
        and k.variant.level == 2
    )


@invariant(needs=DECIDED)
def ids_are_remembered(k: Configuration, s: TransactionsState) -> bool:
    """Where epochs end, whoever comes to the last takes the next producer id, and the log has
    it."""
    return all(
        image.next_producer_id != NONE
        for image in s.images
        if k.bounds.epochs_end and image.producer_epoch >= k.bounds.max_epoch
    )


@invariant(needs=DECIDED)
def prepare_is_next(s: TransactionsState) -> bool:
    """What is prepared on its way to the log, or there and not known, has the epoch after the
    present one, or after that of a failed fence the same; only what is open commits."""
    return all(is_prepared_next(s, image) for image in s.on_its_way) and (
        is_same(s.logged, s.known) or is_prepared_next(s, s.logged)
    )


def is_prepared_next(s: TransactionsState, image: Image) -> bool:
    """Whether a prepared image follows what is known, which is not prepared."""
    return not is_prepared(image) or (
        image.producer_id == s.known.producer_id
        and (
            image.producer_epoch == s.known.producer_epoch + 1
            or (s.coordinator.unlogged_fence and is_not_after(s.known, image))
        )
        and not is_prepared(s.known)
        and (image.state != Txn.PREPARE_COMMIT or is_ongoing(s.known))
    )


@invariant(needs=DECIDED)
def decided_is_past(s: TransactionsState) -> bool:
    """No pair ahead of the present one is decided; nor is that of a failed fence."""
    return all(
        0 <= p < s.coordinator.given_producer_ids
        and (not has_failed_fence(s, p) or e < s.known.producer_epoch)
        and all(can_be_decided(image, p, e) for image in s.images)
        for p, e in s.pairs
        if s.decision(p, e) != NONE
    )


def has_failed_fence(s: TransactionsState, p: int) -> bool:
    """Whether the present epoch of a producer id is that of a failed fence."""
    return s.coordinator.unlogged_fence and p == s.known.producer_id


def can_be_decided(image: Image, p: int, e: int) -> bool:
    """Whether a pair is ahead neither of an image nor of its next producer id."""
    return (p != image.producer_id or e <= image.producer_epoch) and p != image.next_producer_id


@invariant(needs=(*DECIDED, "decided_is_past"))
def prepared_is_decided(s: TransactionsState) -> bool:
    """What is prepared says what was decided."""
    outcome = 1 if s.known.state == Txn.PREPARE_COMMIT else 0
    return not is_prepared(s.known) or (
        s.decision(s.known.producer_id, s.known.producer_epoch) == outcome
    )


@invariant(needs=SOUND)
def outcomes_are_outcomes(s: TransactionsState) -> bool:
    """A marker commits or aborts, and has an epoch."""
    return all(0 <= outcome <= 1 and e >= 0 for _, e, outcome, _ in s.sent)


@invariant(needs=(*DECIDED, "decided_is_past", "prepared_is_decided", "outcomes_are_outcomes"))
def markers_say_decisions(s: TransactionsState) -> bool:
    """Every marker that was ever sent says what its pair was decided."""
    return all(s.decision(p, e) == outcome for p, e, outcome, _ in s.sent)


@guarantee(needs=(*DECIDED, "decided_is_past"))
def one_outcome(s: TransactionsState) -> bool:
    """PREPARE is never known with another outcome than its pair has."""
    return not s.contradicted
