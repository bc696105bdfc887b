"""A single instance whose requests are never delayed is never fenced.

Theory of operation. No request of the instance is late; markers may be late, and answers may be
lost. The coordinator's knowledge is then always what the instance expects (`in_step`). It is one
of: the instance's first pair, or the next pair that the instance asks for (`is_asking`); nothing
yet of the instance's transaction (`is_next`); this transaction, perhaps on its way to the log
(`is_coming`, `is_registered`); or the end of the transaction, of which the instance has not heard
(`is_ended`).
"""

from __future__ import annotations

from model.transactions.client_state import ClientState as State
from model.transactions.client_state import Membership, Write
from model.transactions.configuration import Configuration, Pending
from model.transactions.coordinator import TransactionState as Txn
from model.transactions.messages import speaks_v2
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.client import (
    ENDING_STATES,
    NEW_STATES,
    WRITING_STATES,
    has_begun,
    own_pair,
    some_is_asked,
    some_works,
    there,
)
from proofs.prove.transactions.coordinator import (
    is_absent,
    is_before,
    is_complete,
    is_ongoing,
    is_prepared,
    is_same,
    is_unlogged,
)
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.symbolic_state import (
    NONE,
    Image,
    InstanceState,
    Pair,
    TransactionsState,
    pair,
)

LONE = (
    "epochs_are_many",
    "ids_are_counted",
    "log_is_memory",
    "epochs_are_usable",
    "in_step",
    "client_has_batches",
    "ends_have_work",
    "ends_are_quiet",
    "acked_is_registered",
    "who_waits_is_answered",
    "markers_are_not_ahead",
    "written_is_not_ahead",
    "in_turn",
    "epochs_are_compared",
)

# Knowledge of the coordinator, as the instance expects it


def in_turn(k: Configuration) -> bool:
    """With V2, a busy coordinator answers so before it checks the producer (KAFKA-18660). With V1,
    epochs do not end, because two lost answers at the last epoch would fence the instance that asks
    again."""
    return k.variant.pending == Pending.BEFORE_PRODUCER if speaks_v2(k) else not k.bounds.epochs_end


def is_finished(image: Image) -> bool:
    """Whether no transaction is open, so that the next one can begin."""
    return image.state in (Txn.EMPTY, Txn.COMPLETE_COMMIT, Txn.COMPLETE_ABORT)


def next_pair(image: Image) -> Pair:
    """The pair of the next transaction; with V2, after the end of this one."""
    rotates = is_prepared(image) and image.next_producer_id != NONE
    return (
        image.next_producer_id if rotates else image.producer_id,
        0 if rotates else image.producer_epoch,
    )


def is_exhausted(k: Configuration, epoch: int) -> bool:
    """Whether the epoch is the last that clients may use."""
    return k.bounds.epochs_end and k.bounds.exhausted_epoch == epoch


def completes(s: InstanceState, image: Image) -> bool:
    """Whether the append under way completes what is prepared."""
    return is_prepared(s.known) and is_complete(image)


def is_ending(k: Configuration, s: InstanceState, image: Image, commit: Txn, abort: Txn) -> bool:
    """Whether an image is the end that the instance asks for, with one of these states."""
    return (
        (s.client.state == State.COMMITTING and image.state == commit)
        or (s.client.state == State.ABORTING and image.state == abort)
    ) and is_ahead(k, s, image)


def is_ahead(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether an image has the pair of an end: with V2 one epoch ahead, or after the last epoch the
    next producer id's."""
    last = is_exhausted(k, own_pair(s)[1])
    return (
        (
            image.producer_id == own_pair(s)[0]
            and image.producer_epoch == own_pair(s)[1] + 1
            and (not is_prepared(image) or (image.next_producer_id != NONE) == last)
        )
        or (
            is_complete(image)
            and last
            and image.previous_producer_id == own_pair(s)[0]
            and image.producer_epoch == 0
        )
        if speaks_v2(k)
        else pair(image) == own_pair(s)
    )


def is_preparing(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether an image prepares the end that the instance asks for."""
    return is_ending(k, s, image, Txn.PREPARE_COMMIT, Txn.PREPARE_ABORT)


def is_completing(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether an image completes the end that the instance asks for."""
    return is_ending(k, s, image, Txn.COMPLETE_COMMIT, Txn.COMPLETE_ABORT)


def is_next(s: InstanceState) -> bool:
    """Whether the coordinator does not yet know what the instance does next."""
    return (
        (is_finished(s.known) or is_prepared(s.known))
        and next_pair(s.known) == own_pair(s)
        and all(completes(s, image) and next_pair(image) == own_pair(s) for image in s.on_its_way)
    )


def is_coming(k: Configuration, s: InstanceState) -> bool:
    """Whether what the instance does next is on its way to the log: a partition, or an abort of an
    empty transaction."""
    aborts = s.appended.state == Txn.PREPARE_ABORT and is_preparing(k, s, s.appended)
    return (
        s.coordinator.is_appending
        and is_finished(s.known)
        and pair(s.known) == own_pair(s)
        and (is_own_ongoing(s, s.appended) or (speaks_v2(k) and aborts))
    )


def is_own_ongoing(s: InstanceState, image: Image) -> bool:
    """Whether the instance's transaction is open in an image."""
    return is_ongoing(image) and pair(image) == own_pair(s)


def is_registered(k: Configuration, s: InstanceState) -> bool:
    """Whether the instance's transaction is open at the coordinator, or its end is on its way."""
    return is_own_ongoing(s, s.known) and all(
        is_own_ongoing(s, image) or is_preparing(k, s, image) for image in s.on_its_way
    )


def is_ended(k: Configuration, s: InstanceState) -> bool:
    """Whether the end that the instance asks for is known as prepared or complete."""
    return (is_preparing(k, s, s.known) or is_completing(k, s, s.known)) and all(
        completes(s, image) and is_completing(k, s, image) for image in s.on_its_way
    )


def is_bumped(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether an image is the next epoch, or the next producer id, that the instance has asked
    for."""
    before = image.previous_producer_id == own_pair(s)[0]
    return (
        image.state == Txn.EMPTY
        and image.last_producer_epoch == own_pair(s)[1]
        and (image.producer_id == own_pair(s)[0] or (before and is_exhausted(k, own_pair(s)[1])))
    )


def is_asking(k: Configuration, s: InstanceState) -> bool:
    """Whether the coordinator knows what it may while the instance asks for its first pair, or the
    next."""
    empty = s.known.state == Txn.EMPTY and all(image.state == Txn.EMPTY for image in s.on_its_way)
    return (own_pair(s)[0] == NONE and (is_unknown(s) or empty)) or (
        own_pair(s)[0] != NONE and not speaks_v2(k) and (bumps(k, s) or has_bumped(k, s))
    )


def is_unknown(s: InstanceState) -> bool:
    """Whether the coordinator does not know the id, and appends nothing."""
    return is_absent(s.known) and not s.coordinator.is_appending


def bumps(k: Configuration, s: InstanceState) -> bool:
    """Whether the coordinator knows the instance's pair; the next pair may be on its way."""
    return (
        (is_finished(s.known) or is_prepared(s.known))
        and pair(s.known) == own_pair(s)
        and all(
            (completes(s, image) and pair(image) == own_pair(s))
            or (is_finished(s.known) and is_bumped(k, s, image))
            for image in s.on_its_way
        )
    )


def has_bumped(k: Configuration, s: InstanceState) -> bool:
    """Whether the coordinator knows the pair after the instance's."""
    return is_bumped(k, s, s.known) and all(is_bumped(k, s, image) for image in s.on_its_way)


# Clauses


@invariant(needs=LONE)
def in_step(k: Configuration, s: InstanceState) -> bool:
    """The coordinator knows what the instance expects."""
    ready = s.client.state == State.READY
    return (
        (s.client.state != State.UNINITIALIZED or (is_unknown(s) and own_pair(s)[0] == NONE))
        and (s.client.state != State.INITIALIZING or is_asking(k, s))
        and (not ready or is_next(s))
        and (not has_begun(s) or expects(k, s))
        and (not (ready or has_begun(s)) or (own_pair(s)[0] != NONE and own_pair(s)[1] >= 0))
        and own_pair(s)[0] >= NONE
    )


def expects(k: Configuration, s: InstanceState) -> bool:
    """Whether the coordinator knows the instance's transaction as the instance expects."""
    return (
        is_registered(k, s) or is_ended(k, s) or (speaks_v2(k) and (is_next(s) or is_coming(k, s)))
        if s.client.is_started
        else is_next(s)
        or (not speaks_v2(k) and some_is_asked(k, s) and (is_coming(k, s) or is_registered(k, s)))
    )


@invariant(needs=LONE)
def ends_are_quiet(k: Configuration, s: InstanceState) -> bool:
    """Once the end of a transaction is on its way, no batch is unfinished, and no partition is to
    be added."""
    ends = s.coordinator.is_appending and is_prepared(s.appended)
    return all(
        there(s, at).write == Write.NONE
        and there(s, at).membership in (Membership.OUT, Membership.IN)
        for at in range(k.bounds.partitions)
        if has_begun(s) and s.client.is_started and (ends or is_ended(k, s))
    )


@invariant(needs=LONE)
def acked_is_registered(k: Configuration, s: InstanceState) -> bool:
    """With V2, once a batch has its answer, the coordinator knows of the transaction."""
    return all(
        is_registered(k, s) or is_ended(k, s)
        for at in range(k.bounds.partitions)
        if speaks_v2(k)
        and s.client.state in WRITING_STATES
        and s.client.is_started
        and there(s, at).membership == Membership.IN
        and there(s, at).write == Write.NONE
    )


@invariant(needs=LONE)
def ends_have_work(k: Configuration, s: InstanceState) -> bool:
    """A transaction that is ended by a request has a partition; with V2, once it has begun; and
    nothing is added there by a request."""
    started = s.client.is_started
    ends = s.client.state in ENDING_STATES and not started
    lives = has_begun(s) or s.client.state == State.READY
    return (
        (not ends or (some_works(k, s) and not speaks_v2(k)))
        and (not (has_begun(s) and started and speaks_v2(k)) or some_works(k, s))
        and (s.client.state != State.ABORTABLE_ERROR or started)
        and (not speaks_v2(k) or not s.client.must_bump)
        and (s.client.state != State.READY or not started)
        and (s.client.state not in NEW_STATES or not started)
        and all(is_member(k, s, at) for at in range(k.bounds.partitions) if lives)
    )


def is_member(k: Configuration, s: InstanceState, place: int) -> bool:
    """Whether a partition's membership is sound: it is in the transaction, or is added for a batch;
    with V2 no request adds it."""
    at = there(s, place)
    return (
        (not speaks_v2(k) or at.membership in (Membership.OUT, Membership.IN))
        and Membership.OUT <= at.membership <= Membership.IN
        and (
            not (s.client.state == State.IN_TRANSACTION and is_to_be_added(s, place))
            or at.write == Write.QUEUED
        )
    )


def is_to_be_added(s: InstanceState, at: int) -> bool:
    """Whether a partition is to be added to the transaction, or its addition was asked for."""
    return there(s, at).membership in (Membership.NEW, Membership.ASKED)


@invariant(needs=LONE)
def who_waits_is_answered(k: Configuration, s: InstanceState) -> bool:
    """Where the instance waits for an append, the answer is of what it asks for, or has asked for
    before it aborts."""
    c = s.coordinator
    return c.requester == NONE or (
        c.is_appending
        and c.requester == s.me
        and c.answer.error == 0
        and (begins(s) or (adds(k, s) and not speaks_v2(k)) or ends(k, s))
    )


def begins(s: InstanceState) -> bool:
    """Whether the append under way gives the instance its pair."""
    return (
        s.client.state == State.INITIALIZING
        and s.appended.state == Txn.EMPTY
        and pair(s.coordinator.answer) == pair(s.appended)
    )


def adds(k: Configuration, s: InstanceState) -> bool:
    """Whether the append under way is the transaction to which the instance adds, or added,
    partitions."""
    has_asked = s.client.state == State.ABORTING and s.client.is_started
    return has_begun(s) and is_ongoing(s.appended) and (some_is_asked(k, s) or has_asked)


def ends(k: Configuration, s: InstanceState) -> bool:
    """Whether the append under way is the end that the instance has asked for."""
    return (
        s.client.state in ENDING_STATES
        and s.client.is_started
        and is_prepared(s.appended)
        and (not speaks_v2(k) or pair(s.coordinator.answer) == next_pair(s.appended))
    )


@invariant(needs=LONE)
def log_is_memory(s: TransactionsState) -> bool:
    """What is known is in the log."""
    return is_unlogged(s, s.logged) or (
        is_same(s.known, s.logged) and s.logged.next_producer_id in (NONE, s.known.next_producer_id)
    )


@invariant(needs=LONE)
def epochs_are_usable(k: Configuration, s: TransactionsState) -> bool:
    """Only what is prepared with V2 has the last epoch, and then it names the producer id that is
    to come; what is on its way is not behind what is known, and with V2 an end is ahead."""
    return is_usable(k, s.known) and all(
        is_usable(k, image)
        and not is_before(next_pair(image), next_pair(s.known))
        and (
            not (is_ongoing(s.known) and speaks_v2(k) and not is_ongoing(image))
            or is_before(next_pair(s.known), next_pair(image))
        )
        and image.producer_epoch >= 0
        and k.bounds.appends
        for image in s.on_its_way
    )


def is_usable(k: Configuration, image: Image) -> bool:
    """Whether a client may use the epoch of an image, or the image ends a transaction."""
    few = not k.bounds.epochs_end or image.producer_epoch <= k.bounds.exhausted_epoch
    turns = few or image.next_producer_id != NONE
    return (is_prepared(image) and speaks_v2(k) and image.producer_epoch > 0 and turns) or (
        few and image.next_producer_id == NONE
    )


@invariant(needs=LONE)
def markers_are_not_ahead(s: TransactionsState) -> bool:
    """No marker that was ever sent is ahead of what comes next."""
    return all(not is_before(next_pair(s.known), (p, e)) for p, e, _, _ in s.sent)


@invariant(needs=LONE)
def written_is_not_ahead(k: Configuration, s: TransactionsState) -> bool:
    """No epoch that a leader knows is ahead of what comes next; and with V2 what is open is open at
    the coordinator, or behind that."""
    return all(
        (entry(s, p).producer_epoch == NONE and not is_open(s, p))
        or (
            not is_before(next_pair(s.known), (p, entry(s, p).producer_epoch))
            and (
                not (speaks_v2(k) and is_open(s, p))
                or is_known_there(s, (p, entry(s, p).producer_epoch))
            )
        )
        for p in s.producer_ids
        if p >= 0
    )


def is_known_there(s: TransactionsState, of: Pair) -> bool:
    """Whether a pair is that of the open transaction, or before the next transaction's pair."""
    return is_before(of, next_pair(s.known)) or (is_ongoing(s.known) and of == pair(s.known))


@guarantee(needs=LONE)
def no_false_fencing(s: InstanceState) -> bool:
    """The instance is never told that it is fenced."""
    return s.client.state != State.FATAL_ERROR


OF_LEADERS = (written_is_not_ahead,)
"""The clauses that are assumed of each leader."""
