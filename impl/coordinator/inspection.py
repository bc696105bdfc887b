"""Answers of DescribeTransactions and ListTransactions, and snapshots of a coordinator.

Source: `TransactionCoordinator.handleDescribeTransactions`, `listTransactionStates`; KIP-664,
KIP-994, KIP-1152.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from impl.coordinator.markers import Completions
from impl.coordinator.metadata import TopicPartition, TransactionImage
from impl.coordinator.regular_expressions import Expression, InvalidExpression
from impl.coordinator.state_manager import EpochAndMetadata, PendingAppend, TransactionStateManager
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode

_TITLES = {state.title: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class DescribeResult:
    """One id, or an error."""

    error: ErrorCode
    image: TransactionImage | None = None


@dataclass(frozen=True, slots=True)
class ListFilters:
    """Filters of ListTransactions; an empty one matches everything. Duration in ms."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ListResult:
    """The matching ids, and the unknown state names."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[tuple[str, TransactionImage], ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionView:
    """One id: its state, the pending one, and the missing markers.

    `markers_sent` await an answer, `markers_waiting` the next `retry`.
    """

    transactional_id: str
    partition: int
    coordinator_epoch: int
    image: TransactionImage
    pending_state: TransactionState | None
    has_failed_epoch_fence: bool
    markers_sent: frozenset[TopicPartition] = frozenset()
    markers_waiting: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class CoordinatorView:
    """Epochs by partition, loaded or loading; ids in order; pending appends."""

    coordinator_epochs: Mapping[int, int]
    loading: Mapping[int, int]
    transactions: tuple[TransactionView, ...]
    pending_appends: tuple[PendingAppend, ...]


def describe(states: TransactionStateManager, transactional_id: str) -> DescribeResult:
    """DescribeTransactions for one id; a pending state is not visible."""
    if not transactional_id:
        return DescribeResult(ErrorCode.INVALID_REQUEST)
    found = states.find(transactional_id)
    if found is None:
        return DescribeResult(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    if isinstance(found, ErrorCode):
        return DescribeResult(found)
    return DescribeResult(ErrorCode.NONE, found.metadata.current)


def list_transactions(
    states: TransactionStateManager, filters: ListFilters, now_ms: int
) -> ListResult:
    """ListTransactions; refused while any partition loads."""
    if states.loading:
        return ListResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = Expression(filters.pattern) if filters.pattern else None
    except InvalidExpression:
        return ListResult(ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = tuple(sorted(filters.states - _TITLES.keys()))
    rows = tuple(
        (name, image)
        for name, image in _images(states)
        if _matches(image, filters, now_ms) and (pattern is None or pattern.matches(name))
    )
    return ListResult(ErrorCode.NONE, unknown, rows)


def _images(states: TransactionStateManager) -> Iterator[tuple[str, TransactionImage]]:
    for _, entry in states.entries():
        yield entry.metadata.transactional_id, entry.metadata.current


def _matches(image: TransactionImage, filters: ListFilters, now_ms: int) -> bool:
    lasts_ms = now_ms - image.start_timestamp_ms
    return (
        (not filters.states or image.state.title in filters.states)
        and (not filters.producer_ids or image.producer_id in filters.producer_ids)
        and (filters.duration_ms < 0 or lasts_ms > filters.duration_ms)
    )


def view(states: TransactionStateManager, completions: Completions) -> CoordinatorView:
    """A snapshot of the coordinator."""
    rows = (_view(partition, entry, completions) for partition, entry in states.entries())
    return CoordinatorView(
        dict(states.coordinator_epochs),
        dict(states.loading),
        tuple(sorted(rows, key=lambda row: row.transactional_id)),
        tuple(states.pending_appends.values()),
    )


def _view(partition: int, entry: EpochAndMetadata, completions: Completions) -> TransactionView:
    metadata = entry.metadata
    completion = completions.find(metadata.transactional_id, entry.coordinator_epoch)
    return TransactionView(
        metadata.transactional_id,
        partition,
        entry.coordinator_epoch,
        metadata.current,
        metadata.pending_state,
        metadata.has_failed_epoch_fence,
        frozenset(completion.sent if completion else ()),
        frozenset(completion.waiting if completion else ()),
    )
