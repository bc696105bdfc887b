"""What an error does to the client that hears it: the tables of protocol errors (7.8), as far as
coordinators and leaders answer them here."""

from __future__ import annotations

from enum import IntEnum

from model.transactions.messages import Error


class Effect(IntEnum):
    """What an error does."""

    RETRY = 0
    ABORT = 1
    """The transaction can only be aborted."""
    DIE = 2
    """The instance can do nothing more."""


def is_retriable(error: Error) -> bool:
    """RetriableException and its kind."""
    return (
        error == Error.CONCURRENT_TRANSACTIONS
        or error == Error.NOT_LEADER_OR_FOLLOWER
        or error == Error.COORDINATOR_LOAD_IN_PROGRESS
        or error == Error.COORDINATOR_NOT_AVAILABLE
        or error == Error.NOT_COORDINATOR
        or error == Error.NOT_ENOUGH_REPLICAS
    )


def effect_of(error: Error) -> Effect:
    """What an error does in an answer of the coordinator. The handlers' handleResponse."""
    if is_retriable(error):
        return Effect.RETRY
    return Effect.ABORT if error == Error.TRANSACTION_ABORTABLE else Effect.DIE


def produce_effect_of(error: Error) -> Effect:
    """What an error does in an answer of a leader. TransactionManager.canRetry,
    maybeTransitionToErrorState."""
    if is_retriable(error):
        return Effect.RETRY
    return Effect.DIE if error == Error.INVALID_PRODUCER_ID_MAPPING else Effect.ABORT
