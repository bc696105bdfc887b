"""Clauses about every coordinator: its numbers are sound, and so are the images on their way to the
log."""

from __future__ import annotations

from model.transactions.configuration import Configuration
from model.transactions.coordinator import Coordinator
from model.transactions.coordinator import TransactionState as Txn
from proofs.prove.engine.induction import invariant
from proofs.prove.transactions.symbolic_state import (
    NONE,
    Image,
    Pair,
    ProducerIdPair,
    TransactionsState,
    pair,
)

PREPARED = (Txn.PREPARE_COMMIT, Txn.PREPARE_ABORT)
COMPLETE = (Txn.COMPLETE_COMMIT, Txn.COMPLETE_ABORT)
SOUND = ("appends_take_time", "ids_are_counted", "log_is_ahead", "epochs_are_many")

# Images


def is_prepared(image: Image) -> bool:
    """Whether the image is PREPARE, of either outcome."""
    return image.state in PREPARED


def is_complete(image: Image) -> bool:
    """Whether the image is CompleteCommit or CompleteAbort."""
    return image.state in COMPLETE


def is_ongoing(image: Image) -> bool:
    """Whether a transaction is open."""
    return image.state == Txn.ONGOING


def in_transaction(image: Image) -> bool:
    """Whether a transaction is open, or is being ended."""
    return is_ongoing(image) or is_prepared(image)


def is_same(a: Image, b: Image) -> bool:
    """Whether two images have the same state and the same pair."""
    return a.state == b.state and pair(a) == pair(b)


def is_not_after(a: ProducerIdPair, b: ProducerIdPair) -> bool:
    """Whether the epoch of a is not after that of b."""
    return a.producer_epoch <= b.producer_epoch


def is_before(a: Pair, b: Pair) -> bool:
    """Whether pair a is before pair b: producer ids are given in their order, and epochs under one
    id."""
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1])


def is_behind(image: Image, p: int, e: int) -> bool:
    """Whether a pair is not ahead of an image. Of the image's next producer id only the first epoch
    counts as not ahead."""
    return (p != image.producer_id or e <= image.producer_epoch) and (
        p != image.next_producer_id or e <= 0
    )


def is_past(s: TransactionsState, p: int, e: int) -> bool:
    """Whether a pair is not ahead of any image that is known or may become known."""
    return 0 <= p < s.coordinator.given_producer_ids and all(
        is_behind(image, p, e) for image in s.images
    )


def is_answer(c: Coordinator) -> bool:
    """Whether the answer that waits for an append contains a producer id."""
    return c.answer.error == 0 and c.answer.producer_id != NONE


# Assumptions


def epochs_are_many(k: Configuration) -> bool:
    """If epochs end, clients may use the epochs before the last, and more than one exists."""
    return not k.bounds.epochs_end or (
        k.bounds.exhausted_epoch == k.bounds.max_epoch - 1 and k.bounds.exhausted_epoch > 0
    )


# Clauses


def is_nameless(image: Image) -> bool:
    """Whether no epoch was ever given, and no transaction came before."""
    return (
        (image.state == Txn.EMPTY or image.state == Txn.ABSENT)
        and image.producer_epoch == NONE
        and image.last_producer_epoch == NONE
        and image.previous_producer_id == NONE
        and image.next_producer_id == NONE
    )


def is_unlogged(s: TransactionsState, image: Image) -> bool:
    """Whether the id is not logged yet: its producer id is in memory only, and no epoch was
    given."""
    return s.known.state == Txn.EMPTY and s.known.producer_epoch == NONE and is_absent(image)


def is_absent(image: Image) -> bool:
    """Whether the transactional id is unknown."""
    return image.state == Txn.ABSENT


@invariant(needs=SOUND)
def ids_are_counted(k: Configuration, s: TransactionsState) -> bool:
    """Every producer id was counted when it was taken; an id that is forgotten has none."""
    return s.coordinator.given_producer_ids >= 0 and all(
        is_counted(k, image, s.coordinator.given_producer_ids) for image in s.images
    )


def is_counted(k: Configuration, image: Image, count: int) -> bool:
    """Whether the numbers of an image are sound when `count` producer ids were given."""
    return (
        NONE <= image.producer_id < count
        and is_absent(image) == (image.producer_id == NONE)
        and (is_nameless(image) or image.producer_epoch >= 0)
        and (not is_absent(image) or is_nameless(image))
        and image.producer_epoch >= NONE
        and (not k.bounds.epochs_end or image.producer_epoch <= k.bounds.max_epoch)
        and NONE <= image.next_producer_id < count
        and (image.next_producer_id == NONE or is_prepared(image))
        and (image.next_producer_id == NONE or image.producer_id < image.next_producer_id)
    )


@invariant(needs=SOUND)
def log_is_ahead(s: TransactionsState) -> bool:
    """What is in the log, or on its way there, is not older than what is known; but where a fence
    has failed, its epoch is in memory."""
    return (
        all(is_unlogged(s, image) or is_ahead(s, image) for image in s.to_be_known)
        and all(can_follow(s, image) for image in s.on_its_way)
        and (not s.coordinator.unlogged_fence or is_ongoing(s.known))
        and all(goes_on(s, image) for image in s.on_its_way if s.coordinator.unlogged_fence)
        and (not is_absent(s.known) or is_absent(s.logged))
        and not (is_absent(s.known) and s.coordinator.is_appending)
    )


def is_ahead(s: TransactionsState, image: Image) -> bool:
    """Whether an image is not older than what is known."""
    coming = image.next_producer_id
    return (
        s.known.producer_id <= image.producer_id
        and (
            is_ongoing(s.known)
            or s.known.producer_id != image.producer_id
            or is_not_after(s.known, image)
        )
        and (
            coming == NONE
            or (
                s.known.producer_id < coming
                and (s.known.producer_id < coming or coming == s.known.next_producer_id)
            )
        )
    )


def can_follow(s: TransactionsState, image: Image) -> bool:
    """Whether an image on its way to the log may follow what is known. Its epoch is not older.
    PREPARE keeps the producer id; if the coordinator aborts by itself, a transaction is open."""
    same = image.producer_id == s.known.producer_id
    moves = s.coordinator.unlogged_fence or image.producer_epoch != s.known.producer_epoch
    fences = image.last_producer_epoch == NONE and moves
    return (not same or is_not_after(s.known, image)) and (
        not is_prepared(image) or (same and (not fences or is_ongoing(s.known)))
    )


def goes_on(s: TransactionsState, image: Image) -> bool:
    """Whether an image has the same producer id, and its transaction is open or prepared."""
    return s.known.producer_id == image.producer_id and in_transaction(image)


@invariant(needs=SOUND)
def appends_take_time(k: Configuration, s: TransactionsState) -> bool:
    """Only where appends take time is one on its way; where none is, nobody waits; and behind what
    is prepared only its completion is, once all markers are there."""
    busy = s.coordinator.is_appending
    completes = busy and is_prepared(s.known)
    return (
        (not busy or k.bounds.appends)
        and (busy or (s.awaited == 0 and not is_answer(s.coordinator)))
        and s.awaited >= 0
        and (not completes or (is_complete(s.appended) and s.awaited == 0))
        and all(not s.known.partitions[at] for at in range(k.bounds.partitions) if completes)
    )
