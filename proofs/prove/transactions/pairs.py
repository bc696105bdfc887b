"""The owners of pairs: with V2 a pair belongs to one instance, and to one of its transactions."""

from __future__ import annotations

from model.transactions.client_state import ClientState as State
from model.transactions.configuration import Configuration
from proofs.prove.engine.induction import invariant
from proofs.prove.transactions.client import (
    ACTS,
    OWNED,
    SHOWN,
    TOLD,
    has_begun,
    is_started,
    own_pair,
    present,
)
from proofs.prove.transactions.coordinator import (
    is_absent,
    is_answer,
    is_before,
    is_complete,
    is_ongoing,
    is_prepared,
)
from proofs.prove.transactions.symbolic_state import (
    NONE,
    Image,
    InstanceState,
    Pair,
    TransactionsState,
    pair,
)


def ends(image: Image) -> bool:
    """Whether a transaction is being ended, or is over."""
    return is_prepared(image) or is_complete(image)


def ended_pair(k: Configuration, image: Image) -> Pair:
    """The pair of the transaction that an image ends; after a change of the producer id, the last
    pair of the previous id."""
    return (
        image.previous_producer_id if image.producer_epoch == 0 else image.producer_id,
        k.bounds.max_epoch - 1 if image.producer_epoch == 0 else image.producer_epoch - 1,
    )


@invariant(needs=TOLD)
def below_the_last(k: Configuration, s: TransactionsState) -> bool:
    """Nobody was told the last epoch, where epochs end; nor does the id rest there."""
    waits = s.coordinator.is_appending and is_answer(s.coordinator)
    answer = s.coordinator.answer.producer_epoch
    return (
        all(e >= 0 and (not k.bounds.epochs_end or e < k.bounds.max_epoch) for _, e in s.given)
        and (not waits or answer >= 0)
        and (not (waits and k.bounds.epochs_end) or answer < k.bounds.max_epoch)
        and all(
            is_prepared(image) or image.producer_epoch < k.bounds.max_epoch
            for image in s.images
            if k.bounds.epochs_end
        )
    )


@invariant(needs=(*TOLD, *SHOWN))
def next_id_is_nobodys(k: Configuration, s: TransactionsState) -> bool:
    """A producer id that is not known yet was told to nobody; the id before is in the log too, and
    not after the present one; the epoch before is not in the log."""
    return (
        all(p == NONE or has_id(s.known, p) or not any_has_id(s, p) for p, _ in s.given)
        and s.logged.last_producer_epoch == NONE
        and all(
            image.previous_producer_id == s.known.previous_producer_id
            for image in s.images
            if k.bounds.epochs_end and is_complete_too(s, image)
        )
        and all(is_absent(image) or turns_soundly(k, image) for image in s.images)
    )


def has_id(image: Image, p: int) -> bool:
    """Whether a producer id is an image's, or the image's next one."""
    return p in (image.producer_id, image.next_producer_id)


def any_has_id(s: TransactionsState, p: int) -> bool:
    """Whether a producer id is that of any image, or its next one."""
    return not all(not has_id(image, p) for image in s.images)


def is_complete_too(s: TransactionsState, image: Image) -> bool:
    """Whether an image has the pair of what is known, and both are complete."""
    return pair(image) == pair(s.known) and is_complete(image) and is_complete(s.known)


def turns_soundly(k: Configuration, image: Image) -> bool:
    """Whether a producer id follows another only after the last epoch of that one."""
    turned = is_complete(image) and image.producer_epoch <= 0
    last = k.bounds.epochs_end and image.producer_epoch == k.bounds.max_epoch
    return (
        image.previous_producer_id <= image.producer_id
        and (not is_prepared(image) or image.producer_epoch > 0)
        and (image.next_producer_id == NONE or last)
        and (not turned or image.previous_producer_id < image.producer_id)
        and (not turned or k.bounds.epochs_end)
    )


@invariant(needs=TOLD)
def before_is_known(k: Configuration, s: TransactionsState) -> bool:
    """What ends a transaction remembers the pair that it ends, or has forgotten it."""
    return all(
        image.last_producer_epoch in (NONE, ended_pair(k, image)[1])
        and (image.producer_epoch == 0 or image.previous_producer_id in (NONE, image.producer_id))
        for image in s.images
        if ends(image)
    )


@invariant(needs=OWNED)
def pairs_have_one_owner(s: InstanceState) -> bool:
    """A pair that the instance holds, or held, was told to no other; it holds the latest."""
    return all(
        (
            (p, e) not in s.holds_pair
            or (
                (p, e) in s.given
                and (p, e) not in s.others_hold
                and not is_before(own_pair(s), (p, e))
                and own_pair(s)[0] != NONE
            )
        )
        and ((p, e) not in s.others_hold or (p, e) in s.given)
        for p, e in s.pairs
    ) and (own_pair(s)[0] == NONE or own_pair(s) in s.holds_pair)


@invariant(needs=OWNED)
def heirs_are_the_same(k: Configuration, s: InstanceState) -> bool:
    """Who ended a transaction, and nobody else, may have been told what its end makes known; and
    who showed the pair before, what it may be told again."""
    return all(not ends(image) or have_same_owner(k, s, image) for image in s.images) and all(
        is_ongoing(image) or is_told_again(s, image) for image in s.images
    )


def have_same_owner(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether the pair that is ended, and the pairs that its end makes known, have one owner."""
    before = ended_pair(k, image)
    now = pair(image)
    coming = (image.next_producer_id, 0)
    return not (
        (before in s.holds_pair and (now in s.others_hold or coming in s.others_hold))
        or (before in s.others_hold and (now in s.holds_pair or coming in s.holds_pair))
    )


def is_told_again(s: InstanceState, image: Image) -> bool:
    """Whether the instance was not told the present pair, if others have shown the pair before
    it."""
    last = image.last_producer_epoch
    return not (
        (image.producer_id, last) in s.others_hold
        or (image.previous_producer_id, last) in s.others_hold
    ) or not (pair(image) in s.holds_pair or (image.next_producer_id, 0) in s.holds_pair)


@invariant(needs=(*OWNED, *ACTS))
def transactions_have_pairs(s: InstanceState) -> bool:
    """A transaction in which something was sent has the pair that the client held."""
    now = present(s)
    return (
        all(
            0 <= t <= now
            and (
                not (t < now or s.client.state == State.READY)
                or is_before(s.its_pair(t), own_pair(s))
            )
            and s.its_pair(t) in s.holds_pair
            for t in s.transactions
            if is_started(s, t)
        )
        and (not has_begun(s) or is_started(s, now) == s.client.is_started)
        and (not (has_begun(s) and s.client.is_started) or s.its_pair(now) == own_pair(s))
    )


@invariant(needs=OWNED)
def later_pairs_are_later(s: InstanceState) -> bool:
    """No two transactions have one pair: a later one has a later pair."""
    return all(
        is_before(s.its_pair(t), s.its_pair(u))
        for t in s.transactions
        for u in s.transactions
        if is_started(s, t) and is_started(s, u) and t < u
    )
