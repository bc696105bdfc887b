"""The effect of an error on the client that receives it.

Models the handlers' handleResponse, `TransactionManager.canRetry` and
`maybeTransitionToErrorState`, for the errors that coordinators and leaders answer in this
composition.
"""

from __future__ import annotations

from enum import IntEnum

from model.transactions.messages import Error


class Effect(IntEnum):
    """The effect of an error."""

    RETRY = 0
    ABORT = 1
    """The transaction can only be aborted."""
    DIE = 2
    """The instance can do nothing more."""


def is_retriable(error: Error) -> bool:
    """Whether the error is a RetriableException."""
    return (
        error == Error.CONCURRENT_TRANSACTIONS
        or error == Error.NOT_LEADER_OR_FOLLOWER
        or error == Error.COORDINATOR_LOAD_IN_PROGRESS
        or error == Error.COORDINATOR_NOT_AVAILABLE
        or error == Error.NOT_COORDINATOR
        or error == Error.NOT_ENOUGH_REPLICAS
    )


def effect_of(error: Error) -> Effect:
    """The effect of an error that the coordinator answers. The handlers' handleResponse."""
    if is_retriable(error):
        return Effect.RETRY
    return Effect.ABORT if error == Error.TRANSACTION_ABORTABLE else Effect.DIE


def produce_effect_of(error: Error) -> Effect:
    """The effect of an error that a leader answers. TransactionManager.canRetry,
    maybeTransitionToErrorState."""
    if is_retriable(error):
        return Effect.RETRY
    return Effect.DIE if error == Error.INVALID_PRODUCER_ID_MAPPING else Effect.ABORT
