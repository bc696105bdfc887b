"""How a coordinator answers EndTxn, as tables. Nothing here changes a state.

Two rules:

1. The request's version selects the protocol: V1 below version 5, V2 from 5 on.
2. V2 bumps the epoch at the end of each transaction, so the epoch alone tells a retry from a new
   request.

`PREPARE` in a table: the transaction ends now. Everything else is the answer.
Sources: `TransactionCoordinator.endTransactionWithTV1`, `endTransaction`; KIP-98, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from impl.coordinator.config import TransactionConfig
from impl.coordinator.metadata import IllegalTransition, TransactionImage, TransactionMetadata
from impl.coordinator.states import TransactionState, prepare_state
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import LAST_EPOCH, ProducerIdAndEpoch


class EndTxnAction(Enum):
    """The decision to end the transaction."""

    PREPARE = "prepare"


class EpochMatch(Enum):
    """A V2 request's epoch, compared with the current one."""

    RETRY = "retry"  # the epoch before the last end
    CURRENT = "current"
    OTHER = "other"


_PREPARE: Final = EndTxnAction.PREPARE
_OK: Final = ErrorCode.NONE
_BUSY: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_INVALID: Final = ErrorCode.INVALID_TXN_STATE
_FENCED: Final = ErrorCode.PRODUCER_FENCED
_S = TransactionState

_Answer = ErrorCode | EndTxnAction

V1_ANSWERS: Final[Mapping[TransactionState, tuple[_Answer, ...]]] = MappingProxyType(
    {  #                   COMMIT    ABORT
        _S.EMPTY: (_INVALID, _INVALID),
        _S.ONGOING: (_PREPARE, _PREPARE),
        _S.PREPARE_COMMIT: (_BUSY, _INVALID),
        _S.PREPARE_ABORT: (_INVALID, _BUSY),
        _S.COMPLETE_COMMIT: (_OK, _INVALID),
        _S.COMPLETE_ABORT: (_INVALID, _OK),
    }
)

V2_ANSWERS: Final[Mapping[TransactionState, tuple[_Answer, ...]]] = MappingProxyType(
    {  #               COMMIT retry, current; ABORT retry, current
        _S.EMPTY: (_FENCED, _INVALID, _FENCED, _PREPARE),
        _S.ONGOING: (_FENCED, _PREPARE, _FENCED, _PREPARE),
        _S.PREPARE_COMMIT: (_BUSY, _FENCED, _INVALID, _FENCED),
        _S.PREPARE_ABORT: (_INVALID, _FENCED, _BUSY, _FENCED),
        _S.COMPLETE_COMMIT: (_OK, _INVALID, _INVALID, _PREPARE),
        _S.COMPLETE_ABORT: (_INVALID, _INVALID, _OK, _PREPARE),
    }
)
"""An abort without a transaction is performed: a V2 client cannot know what its broker added."""


def decide_v1(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    commit: bool,
    config: TransactionConfig,
) -> _Answer:
    """The decision on a client's EndTxn below version 5."""
    now = metadata.current
    if producer.producer_id != now.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_newer = producer.producer_epoch > now.producer_epoch
    if producer.producer_epoch != now.producer_epoch and (
        config.strict_end_txn_epoch or not is_newer
    ):
        return ErrorCode.PRODUCER_FENCED
    if metadata.pending_state is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _row(V1_ANSWERS, now)[0 if commit else 1]


def decide_v2(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    commit: bool,
    config: TransactionConfig,
) -> _Answer:
    """The decision on a client's EndTxn from version 5 on."""
    now = metadata.current
    is_busy = metadata.pending_state is not None
    if is_busy and config.end_txn_pending_first:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    overflowed = _is_retry_of_overflow(now, producer)
    if producer.producer_id != now.producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    epoch = EpochMatch.RETRY if overflowed else classify_epoch(now, producer)
    row = _row(V2_ANSWERS, now)
    if epoch is EpochMatch.OTHER:
        return ErrorCode.PRODUCER_FENCED
    answer = row[(0 if commit else 2) + (epoch is EpochMatch.CURRENT)]
    if is_busy and answer is not ErrorCode.PRODUCER_FENCED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return answer


def classify_epoch(now: TransactionImage, producer: ProducerIdAndEpoch) -> EpochMatch:
    """Whether the request is for the current transaction, or repeats the end of the last one."""
    if producer.producer_epoch == now.producer_epoch:
        return EpochMatch.CURRENT
    is_retry = producer.producer_epoch + 1 == now.producer_epoch
    return EpochMatch.RETRY if is_retry else EpochMatch.OTHER


def _is_retry_of_overflow(now: TransactionImage, producer: ProducerIdAndEpoch) -> bool:
    """Whether the end exhausted the request's producer id, and the next one is in use."""
    return producer == (now.previous_producer_id, LAST_EPOCH - 1) and now.producer_epoch == 0


def _row(
    table: Mapping[TransactionState, tuple[_Answer, ...]], now: TransactionImage
) -> tuple[_Answer, ...]:
    if now.state not in table:
        raise IllegalTransition(f"EndTxn in {now.state.title}")
    return table[now.state]


def check_still_prepared(
    metadata: TransactionMetadata, producer: ProducerIdAndEpoch, commit: bool
) -> ErrorCode:
    """Check that the state is still the one just logged.

    `producer` sent the request; in V2 the log has the epoch after it.
    """
    now = metadata.current
    epochs = {producer.producer_epoch}
    if now.bumps_epoch:
        epochs.add(producer.producer_epoch + 1)
    if now.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if now.producer_epoch not in epochs:
        return ErrorCode.PRODUCER_FENCED
    if metadata.pending_state is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_same = now.state is prepare_state(commit=commit)
    return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE
