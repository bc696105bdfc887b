"""The assumptions of theorems about messages that arrive, as contracts on the inputs of steps.

A contract takes the inputs that it is about by their names in the model's text. `s` is the state
before the step, `after` the state after it.
"""

from __future__ import annotations

from model.transactions.configuration import Configuration
from model.transactions.messages import Answer, Batch, Error, Marker, ProduceAnswer, Request
from proofs.prove.transactions.client import here, is_of_group, own_pair
from proofs.prove.transactions.coordinator import in_transaction, is_ongoing
from proofs.prove.transactions.partition import is_data
from proofs.prove.transactions.symbolic_state import NONE, InstanceState, TransactionsState, pair

# Messages of any sender


def shows_epoch(request: Request) -> bool:
    """Only InitProducerId may come without an epoch."""
    return request.producer_epoch >= 0


def is_batch(batch: Batch) -> bool:
    """Epochs and sequences of batches begin at 0."""
    return batch.producer_id >= 0 and batch.producer_epoch >= 0 and batch.base_sequence >= 0


def has_epoch(marker: Marker) -> bool:
    """A marker may be any marker with an epoch."""
    return marker.producer_epoch >= 0


def was_sent(s: TransactionsState, marker: Marker) -> bool:
    """Some coordinator has sent this marker to the partition here."""
    outcome = 1 if marker.committed else 0
    said = (marker.producer_id, marker.producer_epoch, outcome, marker.coordinator_epoch)
    return said in s.sent and marker.partition == s.here


def is_elsewhere(s: TransactionsState, partition: int) -> bool:
    """The step happens at another partition than the one here."""
    return partition != s.here


def is_told(s: TransactionsState, batch: Batch) -> bool:
    """The batch has a pair that some client was told."""
    return pair(batch) in s.given


# Messages on time


def ends_as_wanted(s: TransactionsState, request: Request) -> bool:
    """The assumption that V1 needs: EndTxn arrives before its sender begins the next transaction,
    so the open transaction is the one that its application wants to end in this way."""
    return request.committed == (s.wanted(s.senders) == 1) and (
        not is_ongoing(s.known) or s.senders == s.turn
    )


def is_of_present(s: TransactionsState) -> bool:
    """The message arrives before its sender begins the next transaction."""
    return not in_transaction(s.known) or s.senders == s.turn


def is_counted(s: TransactionsState) -> bool:
    """A record belongs to the turn in which it is appended to the log."""
    return s.senders == s.turn


# Messages of instances other than the watched one


def is_of_others(s: InstanceState, requester: int) -> bool:
    """The answer belongs to another instance than the watched one, or to nobody."""
    return requester != s.me


def others_hold_pair(s: InstanceState, request: Request) -> bool:
    """The request of another instance shows a pair that one of the others was told."""
    return pair(request) in s.others_hold


def others_hold_any(s: InstanceState, request: Request) -> bool:
    """The request of another instance shows a pair that one of the others was told, or asks for a
    first pair."""
    return pair(request) in s.others_hold or request.producer_id == NONE


def others_sent(s: InstanceState, batch: Batch) -> bool:
    """The batch is of another instance."""
    return batch.instance != s.me


def others_hold_batch(s: InstanceState, batch: Batch) -> bool:
    """The batch is of another instance, and has a pair that one of the others was told."""
    return batch.instance != s.me and pair(batch) in s.others_hold


def is_no_pair_of_mine(s: InstanceState, batch: Batch) -> bool:
    """The batch is of another instance, and has another pair than the watched one."""
    return batch.instance != s.me and pair(batch) != own_pair(s)


# Late messages of the watched instance


def its_end(s: InstanceState, request: Request, transaction: int) -> bool:
    """The instance has sent this EndTxn, in any of its transactions."""
    outcome = 1 if request.committed else 0
    return pair(request) == s.its_pair(transaction) and (transaction, outcome) in s.sent_end


def nobody_waits(requester: int) -> bool:
    """The sender has given the request up."""
    return requester == NONE


def its_batch(k: Configuration, s: InstanceState, batch: Batch) -> bool:
    """The instance has sent this batch, under its transaction's pair, with its number as
    sequence."""
    return (
        batch.instance == s.me
        and (batch.transaction, batch.number) in s.sent_batch
        and pair(batch) == s.its_pair(batch.transaction)
        and batch.base_sequence == (0 if is_of_group(k, s) else batch.number)
    )


def its_named_batch(s: InstanceState, batch: Batch) -> bool:
    """The instance has sent this batch, with the pair and the sequence that it had at first."""
    named = (batch.transaction, batch.number)
    return (
        batch.instance == s.me
        and named in s.sent_batch
        and pair(batch) == s.batch_pair(batch.transaction, batch.number)
        and batch.base_sequence == s.batch_sequence(batch.transaction, batch.number)
    )


# Answers to the watched instance


def is_of_request(answer: Answer) -> bool:
    """Only a request that asks whether a partition is in a transaction is answered
    TRANSACTION_ABORTABLE."""
    return answer.error != Error.TRANSACTION_ABORTABLE


def pair_is_new(s: InstanceState, answer: Answer, after: InstanceState) -> bool:
    """If an answer gives the instance a pair under which sequences begin again, no record here has
    it."""
    same = own_pair(after) == own_pair(s) and here(s).next_sequence == here(after).next_sequence
    return (
        answer.error != Error.NONE
        or same
        or all(pair(at) != own_pair(after) for at in s.log if is_data(at))
    )


def refused_is_absent(
    s: InstanceState, partition: int, batch: Batch, answer: ProduceAnswer
) -> bool:
    """A batch that is refused here is not in the log."""
    return (
        answer.error == Error.NONE
        or partition != s.here
        or all(
            not (pair(at) == pair(batch) and at.sequence == batch.base_sequence)
            for at in s.log
            if is_data(at)
        )
    )
