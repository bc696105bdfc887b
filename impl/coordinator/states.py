"""The states of a transactional id, and their legal transitions. `TransactionState`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class TransactionState(IntEnum):
    """A state; its number is logged. `title` is its name in DescribeTransactions."""

    title: str

    def __new__(cls, number: int, title: str = "") -> TransactionState:
        """Attach the title to the number."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.title = title
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


_S = TransactionState

IDLE: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open; such an id may expire. `TransactionState.isExpirationAllowed`."""

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The outcome is decided and logged; markers are being written."""

ONLY_PENDING: Final = frozenset({_S.DEAD, _S.PREPARE_EPOCH_FENCE})
"""States that are only pending, and never logged."""

PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        _S.EMPTY: IDLE,
        _S.ONGOING: IDLE | {_S.ONGOING},
        _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
        _S.PREPARE_ABORT: IDLE | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
        _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
        _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
        _S.DEAD: IDLE,
        _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
    }
)
"""Each state to the states that it may follow. `TransactionState.validPreviousStates`."""


def prepare_state(*, commit: bool) -> TransactionState:
    """PrepareCommit or PrepareAbort."""
    return _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
