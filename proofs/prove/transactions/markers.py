"""No partition refuses the marker of the coordinator that leads, so every prepared transaction
completes.

Theory of operation. A leader refuses a marker whose producer epoch or coordinator epoch is older
than one it knows. With KIP-1228 it also refuses a marker that is not newer than the transaction it
would close. The clauses therefore say that the epochs known to a leader are past: each was once the
coordinator's. The partition here is arbitrary, so what holds of its leader holds of every leader.
The leaders of other partitions, which answer too, are therefore assumed to be like it.
"""

from __future__ import annotations

from model.transactions.configuration import Configuration, Fence, MarkerEpoch, Ongoing
from model.transactions.messages import speaks_v2
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.coordinator import (
    SOUND,
    is_answer,
    is_ongoing,
    is_past,
    is_prepared,
)
from proofs.prove.transactions.decisions import epochs_rotate, ids_are_remembered
from proofs.prove.transactions.epochs import GIVEN
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.symbolic_state import NONE, Image, TransactionsState

PAST = (*GIVEN, "terms_are_past", "markers_are_past", "written_is_past")
ROTATED = (*GIVEN, "retries_are_taken", "nobody_rests_at_the_last", "told_is_before_its_marker")
CLOSED = (*PAST, *ROTATED, "epochs_are_compared", "open_is_before_its_marker")

# Assumptions


def retries_are_taken(k: Configuration) -> bool:
    """A marker need not be newer than the transaction it closes; or the coordinator's own aborts
    also take the next epoch, and where epochs end every client takes the next producer id, which is
    logged."""
    return (
        not speaks_v2(k)
        or k.variant.marker_epoch == MarkerEpoch.NOT_OLDER
        or (
            k.variant.marker_epoch == MarkerEpoch.NEWER
            and k.variant.fence == Fence.NEXT_EPOCH
            and epochs_rotate(k)
        )
    )


def epochs_are_compared(k: Configuration) -> bool:
    """With V2, a transaction that is open in another epoch does not count as open for a batch."""
    return not speaks_v2(k) or k.variant.ongoing == Ongoing.OF_EPOCH


def must_be_newer(k: Configuration) -> bool:
    """Whether a marker must be newer than the transaction it closes."""
    return k.variant.marker_epoch != MarkerEpoch.NOT_OLDER and speaks_v2(k)


# Clauses


@invariant()
def terms_are_past(s: TransactionsState) -> bool:
    """No coordinator's epoch at a leader, or in a marker, is ahead of the coordinator's."""
    return all(
        entry(s, p).coordinator_epoch <= s.coordinator.coordinator_epoch for p in s.producer_ids
    ) and all(term <= s.coordinator.coordinator_epoch for _, _, _, term in s.sent)


@invariant(needs=PAST)
def markers_are_past(s: TransactionsState) -> bool:
    """No marker that was ever sent is ahead of what is known."""
    return all(is_past(s, p, e) for p, e, _, _ in s.sent)


@invariant(needs=PAST)
def written_is_past(s: TransactionsState) -> bool:
    """No epoch that a leader knows is ahead of what is known."""
    return all(
        entry(s, p).producer_epoch == NONE or is_past(s, p, entry(s, p).producer_epoch)
        for p in s.producer_ids
    )


@invariant(needs=(*SOUND, "retries_are_taken"))
def nobody_rests_at_the_last(k: Configuration, s: TransactionsState) -> bool:
    """Where a marker must be newer, nobody comes to the last epoch but with the next producer
    id."""
    return not must_be_newer(k) or ids_are_remembered(k, s)


@invariant(needs=ROTATED)
def told_is_before_its_marker(k: Configuration, s: TransactionsState) -> bool:
    """Where a marker must be newer, nobody was told an epoch that a marker will have before PREPARE
    is known; nor that of a failed fence."""
    return all(
        all(
            is_prepared(s.known) or is_before_marker(s, image, p, e)
            for image in s.images
            if must_be_newer(k) and is_prepared(image)
        )
        and (not (must_be_newer(k) and (p, e) in s.given) or is_before_fence(s, p, e))
        and (not appends_transaction(s) or not is_answer(s.coordinator))
        for p, e in s.pairs
    )


def is_before_marker(s: TransactionsState, image: Image, p: int, e: int) -> bool:
    """Whether a pair that was told, and the known pair unless its transaction is open, are before
    the epoch of a prepared image."""
    return ((p, e) not in s.given or p != image.producer_id or e < image.producer_epoch) and (
        is_ongoing(s.known)
        or s.known.producer_id != image.producer_id
        or s.known.producer_epoch < image.producer_epoch
    )


def is_before_fence(s: TransactionsState, p: int, e: int) -> bool:
    """Whether an epoch is before that of a failed fence, if there is one."""
    return (
        not (s.coordinator.unlogged_fence and p == s.known.producer_id)
        or e < s.known.producer_epoch
    )


def appends_transaction(s: TransactionsState) -> bool:
    """Whether an open transaction is on its way to the log."""
    return s.coordinator.is_appending and is_ongoing(s.appended)


@invariant(needs=CLOSED)
def open_is_before_its_marker(k: Configuration, s: TransactionsState) -> bool:
    """Where a marker must be newer, what is open here is of an epoch before the marker's."""
    return all(
        all(
            entry(s, p).producer_epoch < image.producer_epoch
            for image in s.images
            if p == image.producer_id and is_prepared(image)
        )
        and is_before_fence(s, p, entry(s, p).producer_epoch)
        for p in s.producer_ids
        if must_be_newer(k) and is_open(s, p)
    )


@guarantee(needs=CLOSED)
def markers_are_taken(s: TransactionsState) -> bool:
    """No partition has refused a marker of the coordinator that leads."""
    return not s.coordinator.is_stopped


OF_LEADERS = (terms_are_past, written_is_past, open_is_before_its_marker)
"""The clauses that are assumed of each leader."""
