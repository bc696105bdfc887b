"""InitProducerId on an id that is known: the guards in Kafka's order, as a table.

Source: `TransactionCoordinator.prepareInitProducerIdTransit`; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from impl.coordinator.metadata import (
    IllegalTransition,
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_epoch_exhausted,
)
from impl.coordinator.states import IDLE, PREPARED, TransactionState
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER_EPOCH


class Step(Enum):
    """What is to be done where there is no answer yet."""

    BUMP = "the next epoch, or the same one again for a retry"
    ROTATE = "a new producer id"
    FENCE = "abort the open transaction first"


_Expected = ProducerIdAndEpoch | None


class Row(NamedTuple):
    """The first row whose guard holds decides."""

    name: str
    guard: Callable[[TransactionMetadata, _Expected], bool]
    outcome: ErrorCode | Step


def _is_pending(metadata: TransactionMetadata, expected: _Expected) -> bool:
    return metadata.pending_state is not None


def _is_stranger(metadata: TransactionMetadata, expected: _Expected) -> bool:
    """The producer id is not the known one, nor the one before it, used up: a lost answer."""
    now = metadata.current
    if expected is None or now.producer_epoch == NO_PRODUCER_EPOCH:
        return False
    is_previous = expected.producer_id == now.previous_producer_id
    return expected.producer_id != now.producer_id and not (
        is_previous and is_epoch_exhausted(expected.producer_epoch)
    )


def _is_prepared(metadata: TransactionMetadata, expected: _Expected) -> bool:
    return metadata.current.state in PREPARED


def _is_open(metadata: TransactionMetadata, expected: _Expected) -> bool:
    return metadata.current.state is TransactionState.ONGOING


def _is_exhausted(metadata: TransactionMetadata, expected: _Expected) -> bool:
    now = metadata.current
    is_its_own = expected is None or expected.producer_epoch == now.producer_epoch
    return now.state in IDLE and is_epoch_exhausted(now.producer_epoch) and is_its_own


def _is_idle(metadata: TransactionMetadata, expected: _Expected) -> bool:
    return metadata.current.state in IDLE


ROWS: Final = (
    Row("a transition is pending", _is_pending, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("another producer id", _is_stranger, ErrorCode.PRODUCER_FENCED),
    Row("markers are on their way", _is_prepared, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("a transaction is open", _is_open, Step.FENCE),
    Row("the epochs are used up", _is_exhausted, Step.ROTATE),
    Row("no transaction is open", _is_idle, Step.BUMP),
)


def decide(metadata: TransactionMetadata, expected: _Expected) -> ErrorCode | Step:
    """The first row that holds. Raises `IllegalTransition` for a state that no id is ever in."""
    for row in ROWS:
        if row.guard(metadata, expected):
            return row.outcome
    raise IllegalTransition(f"InitProducerId in {metadata.current.state.title}")
