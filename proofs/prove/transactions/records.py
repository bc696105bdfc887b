"""No record is stored twice, and a record that was answered without error is stored, with V1 or V2:
a batch keeps the pair and the sequence with which it is sent first."""

from __future__ import annotations

from model.transactions.client_state import Membership, Write
from model.transactions.configuration import Configuration
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.acknowledgements import (
    holds,
    is_own_record,
    is_placed,
    remembers,
)
from proofs.prove.transactions.client import (
    has_begun,
    here,
    is_idle,
    is_of_group,
    own_pair,
    present,
    there,
)
from proofs.prove.transactions.partition import LOGGED, is_data
from proofs.prove.transactions.symbolic_state import InstanceState, pair

NAMED = ("client_has_batches", "batches_keep_their_names", *LOGGED)
ACKED = (*NAMED, "log_has_names", "held_is_there")
KNOWN_BATCH = ("own_sequences_are_counted", "known_batch_is_there")


def here_is_one(k: Configuration, s: InstanceState) -> bool:
    """The partition here exists."""
    return 0 <= s.here < k.bounds.partitions


@invariant()
def client_has_batches(k: Configuration, s: InstanceState) -> bool:
    """Where there is a batch, its partition is in the transaction, or will be; it is there once
    the batch is sent, and then the transaction is started. Between transactions there is none."""
    return (
        s.client.begun >= 0
        and (not has_begun(s) or s.client.begun > 0)
        and all(
            is_orderly(s, at) for at in range(k.bounds.partitions) if is_idle(s) or has_begun(s)
        )
    )


def is_orderly(s: InstanceState, place: int) -> bool:
    """Whether the instance has a batch for a partition only while the partition is in the
    transaction."""
    at = there(s, place)
    waits = at.write != Write.NONE
    return (
        (not is_idle(s) or (not waits and at.membership == Membership.OUT))
        and (not waits or at.membership != Membership.OUT)
        and (at.write != Write.SENT or at.membership == Membership.IN)
        and (not (at.membership == Membership.IN and has_begun(s)) or s.client.is_started)
        and Write.NONE <= at.write <= Write.SENT
        and at.written >= 0
        and (not is_idle(s) or at.written == 0)
        and (not (has_begun(s) and waits) or at.written > 0)
    )


@invariant(needs=NAMED)
def batches_keep_their_names(k: Configuration, s: InstanceState) -> bool:
    """A batch that was sent has the pair and the sequence that it had first; one that is queued was
    not sent yet."""
    last = here(s).written - 1
    newest = last - 1 if here(s).write == Write.QUEUED else last
    return (not (has_begun(s) and here(s).write == Write.SENT) or is_named(k, s, last)) and all(
        number >= 0 and t <= present(s) and (not is_present(s, t) or number <= newest)
        for t, number in s.sent_batch
    )


def is_present(s: InstanceState, t: int) -> bool:
    """Whether the instance is in this transaction."""
    return t == present(s) and has_begun(s)


def is_named(k: Configuration, s: InstanceState, number: int) -> bool:
    """Whether a batch of the present transaction was sent, with the sequence before the next
    one."""
    sequence = 0 if is_of_group(k, s) else here(s).next_sequence - 1
    return (
        (present(s), number) in s.sent_batch
        and s.batch_pair(present(s), number) == own_pair(s)
        and s.batch_sequence(present(s), number) == sequence
    )


@invariant(needs=NAMED)
def log_has_names(s: InstanceState) -> bool:
    """A record of the instance is one that it has sent, as it was."""
    return all(
        (at.transaction, at.number) in s.sent_batch
        and s.batch_pair(at.transaction, at.number) == pair(at)
        and s.batch_sequence(at.transaction, at.number) == at.sequence
        for at in s.log
        if is_own_record(s, at)
    )


@invariant(needs=NAMED)
def own_sequences_are_counted(k: Configuration, s: InstanceState) -> bool:
    """Under the pair that the instance holds, the log has no sequence but those that it has given;
    the last of them is that of the batch which waits for its answer."""
    return all(
        at.sequence < here(s).next_sequence
        and (
            not (waits_for_answer(s) and at.sequence == here(s).next_sequence - 1)
            or (
                is_own_record(s, at)
                and (at.transaction, at.number) == (present(s), here(s).written - 1)
            )
        )
        for at in s.log
        if is_data(at) and pair(at) == own_pair(s) and not is_of_group(k, s)
    )


def waits_for_answer(s: InstanceState) -> bool:
    """Whether a batch was sent here and not answered."""
    return has_begun(s) and here(s).write == Write.SENT


def next_sent(s: InstanceState) -> int:
    """The sequence that the instance sends now."""
    at = here(s)
    return at.next_sequence if at.write == Write.QUEUED else at.next_sequence - 1


def is_remembered(k: Configuration, s: InstanceState) -> bool:
    """Whether the leader remembers a batch of the sequence that the instance sends now."""
    return here(s).write != Write.NONE and not is_of_group(k, s) and remembers(s, next_sent(s))


@invariant(needs=("remembered_is_stored",), follows=True)
def known_batch_is_there(k: Configuration, s: InstanceState) -> bool:
    """If a leader remembers a batch of the sequence that the instance sends now, one of that
    sequence is in the log."""
    return not is_remembered(k, s) or is_placed(s, own_pair(s), next_sent(s))


@invariant(needs=(*KNOWN_BATCH, *ACKED, "here_is_one"), follows=True)
def known_batch_is_it(k: Configuration, s: InstanceState) -> bool:
    """And it is the batch that the instance sends again."""
    return not is_remembered(k, s) or (
        here(s).write == Write.SENT and holds(s, present(s), here(s).written - 1)
    )


@guarantee(needs=(*ACKED, *KNOWN_BATCH, "known_batch_is_it"))
def acked_is_stored(s: InstanceState) -> bool:
    """A record that was answered without error is in the log."""
    return all(holds(s, t, number) for t, number in s.acked)
