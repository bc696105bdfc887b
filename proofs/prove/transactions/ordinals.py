"""Transaction ordinals: with V1 an instance reuses one (producer id, epoch) for many transactions,
so transactions are counted. The outcome that an instance is answered is the decision of its own
transaction, and is what readers see.

Theory of operation. Coordinators count transactions as they complete (`turn`). `its_turn` is the
turn in which a transaction of the instance was open, that is, in which the instance was answered
that a partition is in it. No message of the instance is late: its request arrives while the
instance waits for the answer, or never (`requests_on_time`, `batches_on_time`). No marker is late
either (`markers_on_time`). Other clients may send anything at any time, except with a pair that
only somebody else was told. If a transaction must be ended, `works_at` is a partition that is in
it or is to be added, and `asked_at` is a partition whose addition was asked for.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from model.transactions.client_state import ClientState as State
from model.transactions.client_state import Membership, Outcome, Write
from model.transactions.configuration import Configuration
from model.transactions.coordinator import TransactionState as Txn
from model.transactions.messages import Error
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.acknowledgements import (
    is_committed,
    is_own_record,
    is_visible_as,
)
from proofs.prove.transactions.client import (
    ENDING_STATES,
    has_begun,
    has_ended,
    is_idle,
    is_started,
    own_pair,
    present,
    some_is_asked,
    some_works,
    there,
)
from proofs.prove.transactions.coordinator import (
    in_transaction,
    is_absent,
    is_answer,
    is_complete,
    is_ongoing,
    is_prepared,
)
from proofs.prove.transactions.epochs import AWAITED
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.single_instance import is_to_be_added
from proofs.prove.transactions.symbolic_state import (
    NONE,
    Image,
    InstanceState,
    Pair,
    TransactionsState,
    pair,
)
from proofs.prove.transactions.writes import KNOWN, OUTSIDE

PAIRS = ("given_is_not_ahead", "pairs_have_one_owner", "pairs_are_told_again", "waits_for_its_own")
WORK = ("client_has_batches", "transactions_have_turns", "work_is_ended", "ends_are_quiet")
COUNTED = (
    "fences_are_untold",
    "log_comes_next",
    "pairs_come_next",
    "turns_are_prepared_once",
    "complete_says_its_turn",
)
MY_TURN = ("nothing_is_prepared_early", "its_turn_is_now", "turns_have_pairs", *COUNTED)
SHOWS = ("given_is_not_ahead", "pairs_have_one_owner", "transactions_have_turns")
HEARD = (*AWAITED, *PAIRS, *WORK, *MY_TURN)
ENDED = (*HEARD, "ends_are_asked")

# Knowledge of the coordinator


def open_pair(s: TransactionsState) -> Pair:
    """The known pair, with the epoch of the open transaction. If the append of a fence has not
    succeeded, the epoch in memory is one ahead of it."""
    epoch = s.known.producer_epoch
    return (s.known.producer_id, epoch - 1 if s.coordinator.unlogged_fence else epoch)


def is_own(s: InstanceState, of: Pair) -> bool:
    """Whether a pair is the one that the instance holds."""
    return of == own_pair(s) and own_pair(s)[0] != NONE


def works_now(s: InstanceState) -> bool:
    """Whether the instance knows that its transaction is open at the coordinator."""
    return s.client.is_started and has_begun(s)


def ends_as_asked(s: InstanceState, image: Image, t: int) -> bool:
    """Whether the instance has asked for the end of a transaction, if an image prepares this
    end."""
    return (image.state != Txn.PREPARE_COMMIT or (t, 1) in s.sent_end) and (
        image.state != Txn.PREPARE_ABORT or (t, 0) in s.sent_end
    )


def ended_as_asked(s: InstanceState, image: Image, t: int) -> bool:
    """Whether the instance has asked for the end of a transaction, if an image completes this
    end."""
    return (image.state != Txn.COMPLETE_COMMIT or (t, 1) in s.sent_end) and (
        image.state != Txn.COMPLETE_ABORT or (t, 0) in s.sent_end
    )


# Pairs


@invariant(needs=AWAITED)
def given_is_not_ahead(s: TransactionsState) -> bool:
    """A pair that was told has an epoch, and no producer id after the present one; who waits for a
    pair waits for that of the image."""
    c = s.coordinator
    return all(
        e >= 0 and all(is_absent(image) or image.producer_id >= p for image in s.images)
        for p, e in s.given
    ) and (
        not (c.is_appending and is_answer(c))
        or (pair(c.answer) == pair(s.appended) and s.appended.producer_epoch >= 0)
    )


@invariant(needs=HEARD)
def pairs_are_told_again(k: Configuration, s: InstanceState) -> bool:
    """Who showed the pair before may be told the present one again, and nobody else has it. Where
    that was of another producer id, this one is at its first epoch, or at the next, which nobody
    is told: the coordinator has aborted of itself."""
    tells = is_answer(s.coordinator)
    return (
        is_told_again(k, s, s.known)
        and is_first(k, s, s.known, not is_ongoing(s.known) or s.coordinator.unlogged_fence)
        and all(
            is_told_again(k, s, image)
            and is_first(k, s, image, not is_ongoing(image) and not tells)
            for image in s.on_its_way
        )
        and is_told_again(k, s, s.logged)
        and is_first(k, s, s.logged, not is_ongoing(s.logged))
    )


def is_told_again(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether the image's previous pair and this pair belong to the same owner: the instance, or
    the others."""
    now = pair(image)
    return (
        (not has_shown(k, s.others_hold, image) or now not in s.holds_pair)
        and (not has_shown(k, s.holds_pair, image) or now not in s.others_hold)
        and (image.next_producer_id == NONE or k.bounds.epochs_end)
    )


def is_first(k: Configuration, s: InstanceState, image: Image, is_fence: bool) -> bool:
    """Whether a producer id that follows another is at its first epoch, or at the epoch of a fence,
    which nobody was told."""
    now = pair(image)
    return image.previous_producer_id in (NONE, image.producer_id) or (
        k.bounds.epochs_end
        and (
            image.producer_epoch <= 0
            or (
                image.producer_epoch == 1
                and not (now in s.holds_pair or now in s.others_hold)
                and is_fence
            )
        )
    )


def has_shown(k: Configuration, told: AbstractSet[Pair], image: Image) -> bool:
    """Whether the previous pair of an image is among `told`: its holder may ask again."""
    last = image.last_producer_epoch
    return (image.producer_id, last) in told or (
        (image.previous_producer_id, last) in told
        and k.bounds.epochs_end
        and last >= k.bounds.exhausted_epoch
    )


@invariant(needs=(*AWAITED, *SHOWS))
def fences_are_untold(s: TransactionsState) -> bool:
    """Nobody was told the epoch of a fence whose append has not succeeded; it is of what is
    open."""
    return all(
        e < s.known.producer_epoch
        for p, e in s.given
        if s.coordinator.unlogged_fence and p == s.known.producer_id
    ) and (not s.coordinator.unlogged_fence or is_ongoing(s.known))


@invariant(needs=(*KNOWN, *PAIRS, "log_comes_next", "fences_are_untold"))
def pairs_come_next(s: TransactionsState) -> bool:
    """What is on its way to the log, or there and not known, has the present pair; the next epoch,
    if the coordinator aborts of itself; or the next producer id, if it is complete."""
    return (
        Txn.EMPTY <= s.known.state <= Txn.ABSENT
        and all(comes_next(s, image) for image in s.on_its_way)
        and (
            (s.logged.state == s.known.state and pair(s.logged) == open_pair(s))
            or comes_next(s, s.logged)
        )
    )


def comes_next(s: TransactionsState, image: Image) -> bool:
    """Whether an image has a pair that follows what is known."""
    same = pair(image) == open_pair(s)
    fences = pair(image) == (open_pair(s)[0], open_pair(s)[1] + 1)
    turns = pair(image) == (s.known.next_producer_id, 0)
    return (
        Txn.EMPTY <= image.state <= Txn.ABSENT
        and (image.state not in (Txn.ONGOING, Txn.PREPARE_COMMIT) or same)
        and (image.state != Txn.PREPARE_ABORT or same or fences)
        and (not is_complete(image) or same or turns)
        and (image.state not in (Txn.EMPTY, Txn.ABSENT) or not in_transaction(s.known))
    )


@invariant(needs=HEARD)
def transactions_have_turns(s: InstanceState) -> bool:
    """A transaction that has begun at the coordinator has the pair that the instance held."""
    now = present(s)
    return (
        s.client.begun >= 0
        and (not is_idle(s) or not s.client.is_started)
        and (not has_begun(s) or s.client.begun > 0)
        and (not has_begun(s) or is_started(s, now) == s.client.is_started)
        and (not works_now(s) or s.its_pair(now) == own_pair(s))
        and all(
            0 <= t <= now and s.its_pair(t) in s.holds_pair
            for t in s.transactions
            if is_started(s, t)
        )
        and (not has_begun(s) or own_pair(s)[0] != NONE)
        and (s.client.state != State.READY or own_pair(s)[0] != NONE)
    )


# Acts of the instance


@invariant(needs=HEARD)
def work_is_ended(k: Configuration, s: InstanceState) -> bool:
    """What is to be ended is known to be open, or is still to be added; before that, only what a
    batch waits for is added."""
    started = s.client.is_started
    return (
        (s.client.state != State.COMMITTING or started or some_works(k, s))
        and (s.client.state != State.ABORTING or started or some_is_asked(k, s))
        and all(
            Membership.OUT <= there(s, at).membership <= Membership.IN
            and (
                s.client.state != State.IN_TRANSACTION
                or not is_to_be_added(s, at)
                or there(s, at).write == Write.QUEUED
            )
            for at in range(k.bounds.partitions)
            if has_begun(s)
        )
    )


@invariant(needs=ENDED)
def ends_are_quiet(k: Configuration, s: InstanceState) -> bool:
    """Once EndTxn is sent, its transaction is started, no batch is unfinished, and nothing is to be
    added."""
    return all(
        there(s, at).write == Write.NONE and not is_to_be_added(s, at)
        for at in range(k.bounds.partitions)
        if has_ended(s) and has_begun(s)
    ) and all(is_started(s, t) for t, _ in s.sent_end)


@invariant(needs=(*ENDED, "outcomes_are_of_states"))
def waits_for_its_own(k: Configuration, s: InstanceState) -> bool:
    """Where an append is the instance's own, it waits for just that: a pair, a partition, the end
    that it has asked for, or to ask again. What another waits for the instance was not told."""
    c = s.coordinator
    mine = c.is_appending and c.requester == s.me
    another = c.is_appending and not (mine or c.requester == NONE) and is_answer(c)
    good = c.answer.error == 0 and (waits_to_begin(k, s) or waits_to_add(k, s) or waits_to_end(s))
    asks_again = (
        c.answer.error == Error.CONCURRENT_TRANSACTIONS and s.client.state == State.INITIALIZING
    )
    return (
        ((c.is_appending and not is_complete(s.appended)) or c.requester == NONE)
        and (not mine or good or asks_again)
        and (
            not another
            or not (pair(c.answer) in s.holds_pair or has_shown(k, s.holds_pair, s.appended))
        )
    )


def waits_to_begin(k: Configuration, s: InstanceState) -> bool:
    """Whether the append under way gives the instance a pair."""
    answer = s.coordinator.answer
    return (
        s.client.state == State.INITIALIZING
        and answer.producer_id != NONE
        and pair(answer) not in s.others_hold
        and not in_transaction(s.appended)
        and not has_shown(k, s.others_hold, s.appended)
    )


def waits_to_add(k: Configuration, s: InstanceState) -> bool:
    """Whether the append under way is the transaction to which the instance adds, or added,
    partitions."""
    acts = s.client.state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING)
    return (
        (works_now(s) or s.client.state == State.FATAL_ERROR or (acts and some_is_asked(k, s)))
        and s.coordinator.answer.producer_id == NONE
        and is_own(s, pair(s.appended))
        and is_ongoing(s.appended)
        and s.client.begun > 0
        and is_started(s, present(s)) == s.client.is_started
        and s.client.outcomes[present(s)] != Outcome.COMMITTED
    )


def waits_to_end(s: InstanceState) -> bool:
    """Whether the append under way is the end that the instance has asked for."""
    commits = s.client.state == State.COMMITTING
    return (
        works_now(s)
        and s.coordinator.answer.producer_id == NONE
        and is_own(s, pair(s.appended))
        and is_own(s, open_pair(s))
        and s.client.state in ENDING_STATES
        and s.appended.state == (Txn.PREPARE_COMMIT if commits else Txn.PREPARE_ABORT)
        and (present(s), 1 if commits else 0) in s.sent_end
    )


# Turns


@invariant(needs=ENDED)
def nothing_is_prepared_early(s: InstanceState) -> bool:
    """While the instance has not heard that its transaction is open, nobody has ended it."""
    waits = (has_begun(s) or is_idle(s)) and not s.client.is_started
    return not (waits and is_ongoing(s.known) and is_own(s, open_pair(s))) or all(
        not (is_prepared(image) and is_own(s, pair(image))) for image in s.to_be_known
    )


@invariant(needs=ENDED)
def its_turn_is_now(s: InstanceState) -> bool:
    """What the coordinator knows under the instance's pair, while its transaction is open: that, in
    this turn; or its end as it has asked for it, in this turn or in the one before."""
    return not works_now(s) or (
        (not is_own(s, open_pair(s)) or is_in_turn(s, s.its_turn(present(s))))
        and all(
            ends_as_asked(s, image, present(s))
            and (not is_complete(s.known) or image.state == s.known.state)
            for image in s.to_be_known
            if is_own(s, pair(image))
        )
    )


def is_in_turn(s: InstanceState, turn: int) -> bool:
    """Whether what is known is open in this turn, or was, and ends as the instance has asked
    for."""
    return (
        (in_transaction(s.known) or is_complete(s.known))
        and (not in_transaction(s.known) or turn == s.turn)
        and (not is_complete(s.known) or turn == s.turn - 1)
        and ends_as_asked(s, s.known, present(s))
        and ended_as_asked(s, s.known, present(s))
    )


@invariant(needs=ENDED)
def turns_have_pairs(s: InstanceState) -> bool:
    """A transaction of the instance whose turn it is has the coordinator's pair, and is over for
    the instance only if it is prepared; its commit is decided, or about to be, only if the
    instance has sent it."""
    return all(
        s.its_turn(t) <= s.turn
        and (s.its_turn(t) != s.turn or has_turn(s, t))
        and (s.outcome_of(s.its_turn(t)) != 1 or (t, 1) in s.sent_end)
        for t in s.transactions
        if is_started(s, t)
    )


def has_turn(s: InstanceState, t: int) -> bool:
    """Whether a transaction is the one that the coordinator knows."""
    is_over = present(s) > t or is_idle(s)
    return (
        in_transaction(s.known)
        and (not is_ongoing(s.known) or (open_pair(s) == s.its_pair(t) and not is_over))
        and all((t, 1) in s.sent_end for image in s.images if image.state == Txn.PREPARE_COMMIT)
    )


@invariant(needs=(*KNOWN, "log_comes_next", "turns_are_prepared_once"))
def complete_says_its_turn(s: TransactionsState) -> bool:
    """What is complete says what was decided in the turn before."""
    before = s.outcome_of(s.turn - 1)
    return (s.known.state != Txn.COMPLETE_COMMIT or before == 1) and (
        s.known.state != Txn.COMPLETE_ABORT or before == 0
    )


@invariant(needs=(*HEARD, *OUTSIDE, "log_has_epochs"))
def open_is_of_its_turn(s: InstanceState) -> bool:
    """What is open here under the instance's pair, or an older one of its producer id, while its
    transaction is, is of this turn."""
    p = own_pair(s)[0]
    return (
        not (works_now(s) and is_open(s, p) and entry(s, p).producer_epoch <= own_pair(s)[1])
        or s.its_turn(present(s)) == s.turn
    )


@invariant(needs=(*HEARD, *OUTSIDE, "open_is_of_its_turn"))
def log_says_its_turn(s: InstanceState) -> bool:
    """A record of the instance is of a transaction that was open then, and of its turn."""
    return all(
        is_started(s, at.transaction)
        and at.transaction <= present(s)
        and s.turn_of(i) == s.its_turn(at.transaction)
        for i, at in enumerate(s.log)
        if is_own_record(s, at)
    )


@invariant(needs=(*ENDED, "outcomes_are_of_states"))
def told_was_decided(s: InstanceState) -> bool:
    """What the application was told is committed was decided so, in its turn."""
    return all(
        s.outcome_of(s.its_turn(t)) == 1
        for t in s.transactions
        if is_committed(s, t) and is_started(s, t)
    )


@guarantee(
    needs=(
        "log_says_its_turn",
        "visible_as_wanted",
        "turns_have_pairs",
        "ends_are_asked",
        "told_was_decided",
    ),
    follows=True,
)
def visible_as_told(s: InstanceState) -> bool:
    """A record of the instance becomes visible, wherever it stands, if and only if its own
    transaction was decided to commit, which its application asked for; it is so once that was
    told."""
    return all(
        is_visible_as(s, i, s.outcome_of(s.its_turn(at.transaction)), at.transaction)
        for i, at in enumerate(s.log)
        if is_own_record(s, at) and s.ended(i) != NONE
    )
