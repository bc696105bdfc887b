"""What a coordinator tells of itself: to admins on the wire, and to whoever holds the object.

Source: `TransactionCoordinator.handleDescribeTransactions`, `listTransactionStates`; KIP-664,
KIP-994, KIP-1152.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from impl.coordinator.markers import Completions
from impl.coordinator.metadata import TopicPartition, TransactionImage
from impl.coordinator.state_manager import Entry, PendingAppend, TransactionStateManager
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode

_TITLES = {state.title: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class Described:
    """One id, or why there is none."""

    error: ErrorCode
    image: TransactionImage | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """What ListTransactions asks for; an empty filter lets everything pass. Duration in ms."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """The ids that pass, and the names of states that nobody knows."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[tuple[str, TransactionImage], ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionView:
    """One id: what is logged and remembered, what is pending, which markers are still missing.

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
    """Everything: epochs by partition, loaded or loading; ids in order; appends by token."""

    coordinator_epochs: Mapping[int, int]
    loading: Mapping[int, int]
    transactions: tuple[TransactionView, ...]
    pending_appends: tuple[PendingAppend, ...]


def describe(states: TransactionStateManager, transactional_id: str) -> Described:
    """DescribeTransactions of one id; what is pending does not show."""
    if not transactional_id:
        return Described(ErrorCode.INVALID_REQUEST)
    found = states.find(transactional_id)
    if found is None:
        return Described(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    if isinstance(found, ErrorCode):
        return Described(found)
    return Described(ErrorCode.NONE, found.metadata.current)


def list_transactions(states: TransactionStateManager, filters: Filters, now_ms: int) -> Listed:
    """ListTransactions; refused as a whole while any partition loads."""
    if states.loading:
        return Listed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = re.compile(filters.pattern) if filters.pattern else None
    except (re.error, OverflowError, RecursionError):
        return Listed(ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = tuple(sorted(filters.states - _TITLES.keys()))
    rows = tuple(
        (name, image)
        for name, image in _images(states)
        if _passes(image, filters, now_ms) and (pattern is None or pattern.fullmatch(name))
    )
    return Listed(ErrorCode.NONE, unknown, rows)


def _images(states: TransactionStateManager) -> Iterator[tuple[str, TransactionImage]]:
    for _, entry in states.entries():
        yield entry.metadata.transactional_id, entry.metadata.current


def _passes(image: TransactionImage, filters: Filters, now_ms: int) -> bool:
    lasts_ms = now_ms - image.start_timestamp_ms
    return (
        (not filters.states or image.state.title in filters.states)
        and (not filters.producer_ids or image.producer_id in filters.producer_ids)
        and (filters.duration_ms < 0 or lasts_ms > filters.duration_ms)
    )


def view(states: TransactionStateManager, completions: Completions) -> CoordinatorView:
    """All that is known, frozen."""
    rows = (_view(partition, entry, completions) for partition, entry in states.entries())
    return CoordinatorView(
        dict(states.coordinator_epochs),
        dict(states.loading),
        tuple(sorted(rows, key=lambda row: row.transactional_id)),
        tuple(states.pending_appends.values()),
    )


def _view(partition: int, entry: Entry, completions: Completions) -> TransactionView:
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
