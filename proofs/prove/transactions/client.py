"""Clauses about an instance of the application: its state, what it was told, and what it sends."""

from __future__ import annotations

from model.transactions.client_state import ClientPartition, Membership, Outcome, Write
from model.transactions.client_state import ClientState as State
from model.transactions.configuration import Configuration
from proofs.prove.engine.induction import invariant
from proofs.prove.transactions.decisions import DECIDED
from proofs.prove.transactions.epochs import AWAITED
from proofs.prove.transactions.symbolic_state import NONE, InstanceState, Pair, pair

ITS = (
    "client_speaks_v2",
    "transactions_have_pairs",
    "later_pairs_are_later",
    "pairs_have_one_owner",
)
SENDS = (*ITS, "writes_are_numbered", "sent_is_counted", "outcomes_are_of_states")
ENDS = ("ends_are_asked", "ends_wait_for_batches")
ACTS = (*SENDS, *ENDS, "who_waits")
TOLD = (*AWAITED, *DECIDED, "no_fence_fails", "below_the_last", "next_id_is_nobodys")
OWNED = (*TOLD, *ITS, "before_is_known", "heirs_are_the_same", "who_waits")
SHOWN = ("below_the_last", "client_speaks_v2", "transactions_have_pairs", "pairs_have_one_owner")
"""The clauses which show that a pair sent by an instance has an epoch."""
ASKED = (*OWNED, *ACTS, "decided_is_past", "prepared_is_decided")

NEW_STATES = (State.UNINITIALIZED, State.INITIALIZING)
IDLE_STATES = (*NEW_STATES, State.READY)
BEGUN_STATES = (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR)
ENDING_STATES = (State.COMMITTING, State.ABORTING)
WRITING_STATES = (State.IN_TRANSACTION, State.COMMITTING)


def own_pair(s: InstanceState) -> Pair:
    """The pair that the instance holds."""
    return pair(s.client)


def present(s: InstanceState) -> int:
    """The number of the instance's present transaction."""
    return s.client.begun - 1


def has_begun(s: InstanceState) -> bool:
    """Whether the instance has begun a transaction and is not finished."""
    return s.client.state in BEGUN_STATES


def is_idle(s: InstanceState) -> bool:
    """Whether the instance is in no transaction and not finished."""
    return s.client.state in IDLE_STATES


def is_started(s: InstanceState, t: int) -> bool:
    """Whether something was sent in a transaction, so that it has its pair."""
    return s.its_pair(t)[0] != NONE


def has_ended(s: InstanceState) -> bool:
    """Whether EndTxn was sent for the present transaction."""
    return (present(s), 0) in s.sent_end or (present(s), 1) in s.sent_end


def is_of_group(k: Configuration, s: InstanceState) -> bool:
    """Whether the partition here holds the group's offsets; a batch there has no sequence."""
    return k.bounds.offsets and s.here == k.bounds.last_partition


def there(s: InstanceState, at: int) -> ClientPartition:
    """A partition as the instance sees it."""
    return s.client.partitions[at]


def here(s: InstanceState) -> ClientPartition:
    """The partition here as the instance sees it."""
    return there(s, s.here)


def works(s: InstanceState, at: int) -> bool:
    """Whether a partition is in the transaction, or is to be added."""
    return there(s, at).membership != Membership.OUT


def is_asked(s: InstanceState, at: int) -> bool:
    """Whether a request that adds the partition was sent and not answered."""
    return there(s, at).membership == Membership.ASKED


def is_quiet(s: InstanceState, at: int) -> bool:
    """Whether no batch for the partition is unfinished."""
    return there(s, at).write == Write.NONE


def some_works(k: Configuration, s: InstanceState) -> bool:
    """Whether `works_at` is a partition that is in the transaction, or is to be added."""
    return 0 <= s.works_at < k.bounds.partitions and works(s, s.works_at)


def some_is_asked(k: Configuration, s: InstanceState) -> bool:
    """Whether `asked_at` is a partition whose addition was asked for."""
    return 0 <= s.asked_at < k.bounds.partitions and is_asked(s, s.asked_at)


def works_at_works(k: Configuration, s: InstanceState) -> bool:
    """If any partition is in the transaction or to be added, `works_at` is such a partition."""
    return all(some_works(k, s) for at in range(k.bounds.partitions) if works(s, at))


def asked_at_is_asked(k: Configuration, s: InstanceState) -> bool:
    """If the addition of any partition was asked for, `asked_at` is such a partition."""
    return all(some_is_asked(k, s) for at in range(k.bounds.partitions) if is_asked(s, at))


# State of the client


@invariant(needs=(*TOLD, *ACTS))
def client_speaks_v2(k: Configuration, s: InstanceState) -> bool:
    """A client of V2 has its pair from InitProducerId on, adds no partitions, and bumps nothing;
    where nothing was sent in a transaction, none is in it."""
    is_new = s.client.state in NEW_STATES
    return (
        not s.client.must_bump
        and s.client.begun >= 0
        and (not is_new or s.client.begun == 0)
        and (not is_new or own_pair(s) == (NONE, NONE))
        and (not (s.client.state == State.READY or has_begun(s)) or own_pair(s)[0] != NONE)
        and (not has_begun(s) or s.client.begun > 0)
        and (not is_idle(s) or not s.client.is_started)
        and (s.client.state not in ENDING_STATES or s.client.is_started)
        and all(
            there(s, at).membership in (Membership.OUT, Membership.IN)
            and (s.client.is_started or rests(there(s, at)))
            for at in range(k.bounds.partitions)
            if is_idle(s) or has_begun(s)
        )
    )


def rests(at: ClientPartition) -> bool:
    """Whether nothing was sent to a partition."""
    return (
        at.membership == Membership.OUT
        and at.write == Write.NONE
        and at.written == 0
        and at.next_sequence == 0
    )


@invariant(needs=ACTS)
def writes_are_numbered(k: Configuration, s: InstanceState) -> bool:
    """Here a batch has its number for its sequence, also when it is sent again; a queued one will
    have. The group's offsets have none."""
    return (
        here(s).written >= 0
        and Write.NONE <= here(s).write <= Write.SENT
        and (not has_begun(s) or here(s).write == Write.NONE or here(s).written > 0)
        and (not (has_begun(s) and not is_of_group(k, s)) or is_numbered(s))
    )


def is_numbered(s: InstanceState) -> bool:
    """Whether the next sequence here is that of the batch, or the one after it."""
    at = here(s)
    return (
        (at.write != Write.SENT or at.next_sequence == at.written)
        and (at.write != Write.QUEUED or at.next_sequence == at.written - 1)
        and (
            not (at.write == Write.NONE and s.client.state in WRITING_STATES)
            or at.next_sequence == at.written
        )
    )


@invariant()
def sent_is_counted(s: InstanceState) -> bool:
    """What the application has sent in the present transaction is what is written in it; nothing
    in those to come."""
    return (not has_begun(s) or here(s).sent[present(s)] == here(s).written) and all(
        (t <= present(s) or here(s).sent[t] == 0) and here(s).sent[t] >= 0 for t in s.transactions
    )


@invariant()
def outcomes_are_of_states(s: InstanceState) -> bool:
    """The present transaction's outcome is what its state says; those to come are open."""
    now = s.client.outcomes[max(present(s), 0)]
    return (
        (s.client.state != State.IN_TRANSACTION or now == Outcome.OPEN)
        and (s.client.state != State.COMMITTING or now == Outcome.COMMIT_ASKED)
        and (s.client.state != State.ABORTING or now == Outcome.ABORT_ASKED)
        and (s.client.state != State.ABORTABLE_ERROR or now in (Outcome.OPEN, Outcome.COMMIT_ASKED))
        and all(s.client.outcomes[t] == Outcome.OPEN for t in s.transactions if present(s) < t)
    )


# Messages of the client


@invariant(needs=ASKED)
def ends_are_asked(s: InstanceState) -> bool:
    """EndTxn says what the application asked for, and nothing else is asked after it."""
    return all(
        0 <= outcome <= 1
        and 0 <= t <= present(s)
        and is_wanted(s, t, outcome)
        and (
            not (t == present(s) and has_begun(s))
            or s.client.state == (State.COMMITTING if outcome == 1 else State.ABORTING)
        )
        for t, outcome in s.sent_end
    )


def is_wanted(s: InstanceState, t: int, outcome: int) -> bool:
    """Whether the application asked for this outcome of a transaction; 1 is to commit."""
    asked = s.client.outcomes[t]
    return (
        asked in (Outcome.COMMIT_ASKED, Outcome.COMMITTED)
        if outcome == 1
        else asked in (Outcome.ABORT_ASKED, Outcome.ABORTED)
    )


@invariant(needs=ASKED)
def ends_wait_for_batches(k: Configuration, s: InstanceState) -> bool:
    """Once EndTxn is sent, no batch is unfinished."""
    return all(
        is_quiet(s, at) for at in range(k.bounds.partitions) if has_ended(s) and has_begun(s)
    )


@invariant(needs=SENDS)
def batches_are_sent(s: InstanceState) -> bool:
    """A batch that was sent is one of its transaction's records."""
    return all(
        is_started(s, t) and present(s) >= t and 0 <= number < here(s).sent[t]
        for t, number in s.sent_batch
    )
