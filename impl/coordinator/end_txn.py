"""EndTxn: what a coordinator says, as tables. Nothing here changes a state.

Two rules:

1. The request's version chooses the conversation: below 5 it is V1, from 5 on V2.
2. V2 bumps the epoch with each end, so the epoch alone tells a retry from the next transaction.

`PREPARE` in a table: the transaction ends now. Everything else is the answer.
Sources: `TransactionCoordinator.endTransactionWithTV1`, `endTransaction`; KIP-98, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from impl.coordinator.config import TransactionConfig
from impl.coordinator.metadata import (
    LAST_EPOCH,
    IllegalTransition,
    ProducerIdAndEpoch,
    TransactionImage,
    TransactionMetadata,
)
from impl.coordinator.states import TransactionState, prepared
from impl.protocol.errors import ErrorCode


class Verdict(Enum):
    """What is no answer."""

    PREPARE = "prepare"


class Epoch(Enum):
    """How the epoch of a V2 request stands to the one that is known."""

    RETRY = "retry"  # the one before the last end
    CURRENT = "current"
    OTHER = "other"


_PREPARE: Final = Verdict.PREPARE
_OK: Final = ErrorCode.NONE
_BUSY: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_INVALID: Final = ErrorCode.INVALID_TXN_STATE
_FENCED: Final = ErrorCode.PRODUCER_FENCED
_S = TransactionState

V1_ANSWERS: Final[Mapping[TransactionState, tuple[ErrorCode | Verdict, ErrorCode | Verdict]]] = (
    MappingProxyType(
        {  #                   COMMIT    ABORT
            _S.EMPTY: (_INVALID, _INVALID),
            _S.ONGOING: (_PREPARE, _PREPARE),
            _S.PREPARE_COMMIT: (_BUSY, _INVALID),
            _S.PREPARE_ABORT: (_INVALID, _BUSY),
            _S.COMPLETE_COMMIT: (_OK, _INVALID),
            _S.COMPLETE_ABORT: (_INVALID, _OK),
        }
    )
)

_Row = tuple[ErrorCode | Verdict, ErrorCode | Verdict, ErrorCode | Verdict, ErrorCode | Verdict]

V2_ANSWERS: Final[Mapping[TransactionState, _Row]] = MappingProxyType(
    {  #               COMMIT retry, current; ABORT retry, current
        _S.EMPTY: (_FENCED, _INVALID, _FENCED, _PREPARE),
        _S.ONGOING: (_FENCED, _PREPARE, _FENCED, _PREPARE),
        _S.PREPARE_COMMIT: (_BUSY, _FENCED, _INVALID, _FENCED),
        _S.PREPARE_ABORT: (_INVALID, _FENCED, _BUSY, _FENCED),
        _S.COMPLETE_COMMIT: (_OK, _INVALID, _INVALID, _PREPARE),
        _S.COMPLETE_ABORT: (_INVALID, _INVALID, _OK, _PREPARE),
    }
)
"""An abort of nothing is a real one: a V2 client cannot know what its broker added for it."""


def answer_v1(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    commit: bool,
    config: TransactionConfig,
) -> ErrorCode | Verdict:
    """What a client's EndTxn below version 5 gets."""
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


def answer_v2(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    commit: bool,
    config: TransactionConfig,
) -> ErrorCode | Verdict:
    """What a client's EndTxn from version 5 on gets."""
    now = metadata.current
    is_busy = metadata.pending_state is not None
    if is_busy and config.end_txn_pending_first:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    overflowed = _is_retry_of_overflow(now, producer)
    if producer.producer_id != now.producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    epoch = Epoch.RETRY if overflowed else classify_epoch(now, producer)
    row = _row(V2_ANSWERS, now)
    if epoch is Epoch.OTHER:
        return ErrorCode.PRODUCER_FENCED
    answer = row[(0 if commit else 2) + (epoch is Epoch.CURRENT)]
    if is_busy and answer is not ErrorCode.PRODUCER_FENCED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return answer


def classify_epoch(now: TransactionImage, producer: ProducerIdAndEpoch) -> Epoch:
    """Whether the request ends this transaction, or repeats the end of the last one."""
    if producer.producer_epoch == now.producer_epoch:
        return Epoch.CURRENT
    return Epoch.RETRY if producer.producer_epoch + 1 == now.producer_epoch else Epoch.OTHER


def _is_retry_of_overflow(now: TransactionImage, producer: ProducerIdAndEpoch) -> bool:
    """The end used up the epochs of the request's producer id, and the next id is in use."""
    return producer == (now.previous_producer_id, LAST_EPOCH - 1) and now.producer_epoch == 0


def _row(
    table: Mapping[TransactionState, tuple[ErrorCode | Verdict, ...]], now: TransactionImage
) -> tuple[ErrorCode | Verdict, ...]:
    if now.state not in table:
        raise IllegalTransition(f"EndTxn in {now.state.title}")
    return table[now.state]


def check_prepared(
    metadata: TransactionMetadata, producer: ProducerIdAndEpoch, commit: bool
) -> ErrorCode:
    """Whether the state is still the one that was just logged: much may happen meanwhile.

    `producer` is who asked for the end; from V2 on the log has the epoch after it.
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
    is_same = now.state is prepared(commit=commit)
    return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE
