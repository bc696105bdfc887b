"""How a coordinator answers InitProducerId for a known id: a table, in Kafka's order.

Source: `TransactionCoordinator.prepareInitProducerIdTransit`; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from impl.coordinator.metadata import IllegalTransition, TransactionMetadata, is_epoch_exhausted
from impl.coordinator.states import IDLE, PREPARED, TransactionState
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import NO_PRODUCER_EPOCH, ProducerIdAndEpoch


class InitAction(Enum):
    """What to do before there is an answer."""

    BUMP = "the next epoch, or the same one again for a retry"
    ROTATE = "a new producer id"
    FENCE = "abort the open transaction first"


_Expected = ProducerIdAndEpoch | None


class InitRule(NamedTuple):
    """A rule of the table: the first one whose guard holds decides."""

    name: str
    guard: Callable[[TransactionMetadata, _Expected], bool]
    outcome: ErrorCode | InitAction


def _is_pending(metadata: TransactionMetadata, expected: _Expected) -> bool:
    return metadata.pending_state is not None


def _is_stranger(metadata: TransactionMetadata, expected: _Expected) -> bool:
    """Neither the current producer id nor the exhausted one before it (a lost answer)."""
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
    is_current = expected is None or expected.producer_epoch == now.producer_epoch
    return now.state in IDLE and is_epoch_exhausted(now.producer_epoch) and is_current


def _is_idle(metadata: TransactionMetadata, expected: _Expected) -> bool:
    return metadata.current.state in IDLE


INIT_RULES: Final = (
    InitRule("a transition is pending", _is_pending, ErrorCode.CONCURRENT_TRANSACTIONS),
    InitRule("another producer id", _is_stranger, ErrorCode.PRODUCER_FENCED),
    InitRule("markers are being written", _is_prepared, ErrorCode.CONCURRENT_TRANSACTIONS),
    InitRule("a transaction is open", _is_open, InitAction.FENCE),
    InitRule("the epochs are exhausted", _is_exhausted, InitAction.ROTATE),
    InitRule("no transaction is open", _is_idle, InitAction.BUMP),
)


def decide(metadata: TransactionMetadata, expected: _Expected) -> ErrorCode | InitAction:
    """The outcome of the first matching rule. Raises `IllegalTransition` for an invalid state."""
    for rule in INIT_RULES:
        if rule.guard(metadata, expected):
            return rule.outcome
    raise IllegalTransition(f"InitProducerId in {metadata.current.state.title}")
