"""What a partition checks and remembers of transactions: their batches and their markers.

Four rules:

1. A transaction begins with its first batch in the partition and ends with the next marker.
2. The batch that begins it must be verified with the coordinator (KIP-890); later ones need not.
3. A marker of the producer's epoch keeps its batches and sequences; one of another epoch drops
   them (V2 bumps the epoch at the end of each transaction).
4. A marker that ends no transaction is written as well: it may be a retry, and it may fence.

Theory of operation: pure functions of one producer's entry. The leader calls `check_verified`,
then the checks of `producer_state`, then `check_open`; for markers `check_marker`. Replication
only calls `with_marker`.
Sources: `UnifiedLog.analyzeAndValidateProducerState`, `ProducerAppendInfo`; release 4.3.1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from impl.partition.producer_state import (
    UNKNOWN_PRODUCER,
    ProducerStateEntry,
    check_producer_epoch,
)
from impl.partition.rules import TransactionRules
from impl.partition.verification import VerificationEntry, is_verified
from impl.protocol.control_records import EndTransactionMarker, read_marker
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import INVALID_OFFSET, LAST_EPOCH, Record, read_header, scan_records

_NONE: Final = ErrorCode.NONE

STRICT_MARKERS_FROM: Final = 2
"""From this transaction version on, a marker carries a bumped epoch."""


class CompletedTransaction(NamedTuple):
    """A transaction with its marker at `last_offset`. `CompletedTxn`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


def parse_marker(data: bytes) -> EndTransactionMarker | None:
    """The marker in a control batch; None if it was compacted, or is of another type.

    Raises `InvalidRecord`.
    """
    records = scan_records(data, read_header(data))
    return read_marker(Record(*records[0][:4])) if records else None


def is_open(entry: ProducerStateEntry) -> bool:
    """Whether the producer has an open transaction in the partition."""
    return entry.current_txn_first_offset != INVALID_OFFSET


def is_ongoing(entry: ProducerStateEntry, producer_epoch: int, rules: TransactionRules) -> bool:
    """Whether a batch of this epoch belongs to the open transaction. `hasOngoingTransaction`."""
    return is_open(entry) and (
        entry.producer_epoch == producer_epoch or not rules.ongoing_needs_epoch
    )


def check_verified(
    entry: ProducerStateEntry,
    producer_epoch: int,
    verification: VerificationEntry | None,
    guard: int,
    rules: TransactionRules,
) -> ErrorCode:
    """Check the guard of a transactional batch, if it begins a transaction."""
    if is_ongoing(entry, producer_epoch, rules):
        return _NONE
    if rules.checks_epoch_before_guard and entry != UNKNOWN_PRODUCER:
        error = check_producer_epoch(entry, producer_epoch)
        if error:
            return error
    if rules.verifies and not is_verified(verification, guard):
        return ErrorCode.INVALID_TXN_STATE
    return _NONE


def check_verified_sequence(
    entry: ProducerStateEntry,
    base_sequence: int,
    verification: VerificationEntry | None,
    rules: TransactionRules,
) -> ErrorCode:
    """No batch may overtake one that is being verified. `ProducerAppendInfo.checkSequence`."""
    if verification is None:
        return _NONE
    begins = verification.supports_epoch_bump and not entry.batches
    if begins and base_sequence != 0 and rules.first_sequence_is_zero:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if base_sequence > verification.lowest_sequence:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return _NONE


def check_open(entry: ProducerStateEntry, is_transactional: bool) -> ErrorCode:
    """A plain batch may not lie inside a transaction. `ProducerAppendInfo.appendDataBatch`."""
    if is_open(entry) and not is_transactional:
        return ErrorCode.INVALID_TXN_STATE
    return _NONE


def check_marker(
    entry: ProducerStateEntry,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    rules: TransactionRules,
) -> ErrorCode:
    """Check producer epoch, then coordinator epoch. `ProducerAppendInfo.appendEndTxnMarker`."""
    is_strict = rules.strict_marker_epoch and transaction_version >= STRICT_MARKERS_FROM
    is_equal = producer_epoch == entry.producer_epoch
    if producer_epoch < entry.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if is_strict and is_equal and not _allows_equal_epoch(entry, rules):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if coordinator_epoch < entry.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return _NONE


def _allows_equal_epoch(entry: ProducerStateEntry, rules: TransactionRules) -> bool:
    """Nothing is open for a retry (KAFKA-19999); the last epoch has no next one (KAFKA-20090)."""
    is_last = entry.producer_epoch == LAST_EPOCH
    return not is_open(entry) or (rules.accepts_last_epoch and is_last)


def with_marker(
    entry: ProducerStateEntry, producer_epoch: int, coordinator_epoch: int, timestamp: int
) -> ProducerStateEntry:
    """The entry after a marker. `ProducerStateEntry.update`."""
    kept = entry.batches if producer_epoch == entry.producer_epoch else ()
    return ProducerStateEntry(producer_epoch, coordinator_epoch, timestamp, INVALID_OFFSET, kept)
